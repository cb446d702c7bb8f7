"""What makes a comparison unfair: each rule has a name, and breaking it is refused."""

from collections.abc import Mapping, Sequence
from typing import Any

from repro import schemas
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


def check(manifest: Mapping[str, Any], runs: Sequence[Mapping[str, Any]]) -> None:
    """Refuse a set of runs that is not complete, matched and equal in what each arm could use.

    runs: one an arm and seed, fields as in evidence/schema/comparison.json.
    Raises Refused with the first rule that is broken, ReproError for a malformed run, NaN included.
    """
    from repro.compare import manifest as frozen

    frozen.check(dict(manifest))
    schemas.check("comparison", {"manifest": manifest, "runs": list(runs)}, "Comparison")
    name = frozen.digest(manifest)
    for run in runs:
        if run["manifest"] != name:
            raise Refused("same_manifest", f"{_of(run)} carries {run['manifest'][:12]}")
    wanted = sorted((arm, seed) for arm in manifest["arms"] for seed in manifest["seeds"])
    there = sorted((run["arm"], run["seed"]) for run in runs)
    if there != wanted:
        odd = sorted(set(wanted) ^ set(there)) or sorted({p for p in there if there.count(p) > 1})
        raise Refused("all_runs", "missing, twice or unknown: " + _listed(odd))
    _equal(manifest, runs)
    for seed in manifest["seeds"]:
        _matched(manifest, [run for run in runs if run["seed"] == seed])
    opened = {run["test"] is not None for run in runs}
    if len(opened) > 1:
        raise Refused("missing_pair", "some runs have test outcomes and some have none")
    for run in runs:
        for split in ("validation", *(["test"] if opened == {True} else [])):
            _complete(manifest, run, split)
    _zero(manifest, runs)


def _equal(manifest: Mapping[str, Any], runs: Sequence[Mapping[str, Any]]) -> None:
    for run in runs:
        if run["caps"] != manifest["caps"]:
            raise Refused("equal_caps", f"{_of(run)} has {run['caps']}, not {manifest['caps']}")
        if run["settings"] != manifest["settings"]:
            raise Refused("equal_effort", f"{_of(run)} tried {run['settings']} settings")
    trained = [run for run in runs if manifest["arms"][run["arm"]] != "untouched"]
    if len({run["looks"] for run in trained}) > 1:
        looks = {_of(run): run["looks"] for run in trained}
        raise Refused("equal_effort", f"looks at validation differ: {looks}")


def _matched(manifest: Mapping[str, Any], runs: Sequence[Mapping[str, Any]]) -> None:
    """One seed. An untouched start trains on nothing; another data seed has another order."""
    for field, rule, exempt in (
        ("start", "matched_start", ()),
        ("order", "matched_order", ("untouched", "other_data_seed")),
        ("first_rollout", "matched_first_rollout", ("untouched", "other_data_seed")),
    ):
        found = {run[field] for run in runs if manifest["arms"][run["arm"]] not in exempt}
        if len(found - {None}) > 1:  # an arm without rollouts has none to match
            raise Refused(rule, f"seed {runs[0]['seed']} has {len(found)} different ones")


def _complete(manifest: Mapping[str, Any], run: Mapping[str, Any], split: str) -> None:
    wanted, there = set(manifest["splits"][split]["ids"]), run[split]["scores"].keys()
    if odd := sorted(wanted ^ set(there)):
        raise Refused("missing_pair", f"{_of(run)}, {split}: {len(odd)} items, first {odd[0]!r}")
    if strange := sorted(run[split]["unfinished"].keys() - wanted):
        raise Refused("missing_pair", f"{_of(run)}, {split}: no item {strange[0]!r}")


def _zero(manifest: Mapping[str, Any], runs: Sequence[Mapping[str, Any]]) -> None:
    by_role = {
        (manifest["arms"][run["arm"]], run["seed"]): [run["validation"], run["test"]]
        for run in runs
    }
    for seed in manifest["seeds"]:
        still, start = (by_role.get((r, seed)) for r in ("zero_learning_rate", "untouched"))
        if still and start and still != start:
            raise Refused("zero_learning_rate", f"seed {seed} differs from the untouched start")


def _of(run: Mapping[str, Any]) -> str:
    return f"{run['arm']}, seed {run['seed']}"


def _listed(pairs: Sequence[tuple[str, int]]) -> str:
    return "; ".join(f"{arm}, seed {seed}" for arm, seed in pairs[:5])
