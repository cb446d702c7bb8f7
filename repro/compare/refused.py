"""The rules of a fair comparison by name, and the error that names the broken one."""

from repro.errors import ReproError

RULES = {
    "one_baseline": "exactly one arm is the baseline",
    "two_arms": "at least one candidate stands against the baseline",
    "three_seeds": "at least three different seeds",
    "known_constraint": "the constraint under test is one of the caps",
    "disjoint_splits": "no item, by id or by text, is in two splits or twice in one",
    "revision_checked": "the files on disk are those that the manifest names",
    "same_manifest": "every run was made under the same manifest",
    "all_runs": "every arm has one run for every seed, and no other",
    "equal_caps": "all arms have the caps of the manifest",
    "equal_effort": "every arm tried as many settings, and looked as often at validation",
    "matched_start": "in a seed all arms start from the same weights",
    "matched_order": "in a seed all arms see the training items in the same order",
    "matched_first_rollout": "in a seed all arms write the same tokens before the first update",
    "missing_pair": "every run has an outcome for every item of the split",
    "unfinished_is_worst": "an item without an answer has the score that the manifest gives it",
    "zero_learning_rate": "a zero learning rate leaves every outcome as the start's",
    "test_before_selection": "no test outcome is there before the choice is sealed",
    "selected_by_validation": "the sealed choice is the one that validation alone makes",
    "test_opened_once": "one sealed choice a manifest opens the test",
    "sealed_checkpoints": "what is tested are the sealed checkpoints",
}


class Refused(ReproError):
    """A set of runs that cannot be compared. rule: a name of `RULES`."""

    def __init__(self, rule: str, found: str):
        self.rule = rule
        super().__init__(f"Refused by the rule {rule} ({RULES[rule]}): {found}.")
