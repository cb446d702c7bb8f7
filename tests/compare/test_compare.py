"""The paired protocol: verdicts on known cases, and every unfair set refused by its rule."""

import json
from copy import deepcopy

import numpy as np
import pytest
from click.testing import CliRunner
from compare_cases import ARMS, ITEMS, finished, frozen, run, runs, sha

from repro.cli import main
from repro.compare import Refused, budget, choice, manifest, paired, report, rules
from repro.compare.refused import RULES
from repro.errors import BadParameter, ReproError

SANE = ARMS | {"start": "untouched", "zero": "zero_learning_rate", "shuffled": "placebo"}


def verdict(right, arms=ARMS, **changed):
    made = frozen(arms, **changed)
    done, sealed = finished(made, right)
    return report.report(made, done, sealed).arms["new"]


# Known cases ------------------------------------------------------------------------------------


def test_a_real_gain_is_better():
    arm = verdict({"plain": 0.5, "new": 0.7})
    assert arm.verdict == "better" and arm.p_holm < 0.01
    for split in ("validation", "test"):
        d = arm.differences[split]
        assert d.interval[0] > 0.1 and 0.15 < d.mean < 0.25 and max(d.mcnemar) < 0.01
    assert len(arm.differences["test"].by_seed) == 3


def test_a_real_loss_is_worse_and_the_baseline_is_chosen():
    made = frozen()
    done, sealed = finished(made, {"plain": 0.7, "new": 0.5})
    found = report.report(made, done, sealed)
    assert found.chosen == "plain" and found.arms["new"].verdict == "worse"
    assert found.arms["new"].scores["test"]  # the losing arm is reported too


def test_identical_arms_are_uninformative_and_not_negative():
    made = frozen()
    done = [r | {"arm": a} for r in runs(made, {"plain": 0.5, "new": 0.5}) if r["arm"] == "plain"
            for a in ("plain", "new")]  # fmt: skip
    arm = report.report(made, done).arms["new"]
    assert arm.verdict == "uninformative" and "identical" in arm.reasons[0]


def test_a_small_difference_is_not_distinguished_when_the_margin_would_have_been_seen():
    arm = verdict({"plain": 0.5, "new": 0.503})
    assert arm.verdict == "not distinguished"
    assert arm.differences["test"].detectable < 0.08


def test_a_test_too_small_for_its_margin_is_uninformative():
    arm = verdict({"plain": 0.5, "new": 0.62}, items=ITEMS | {"test": 12}, margin=0.02)
    assert arm.verdict == "uninformative" and "margin" in arm.reasons[0]


def test_a_policy_that_never_moved_is_uninformative():
    made = frozen()
    done = [r | {"moved": 0.0} for r in runs(made, {"plain": 0.5, "new": 0.7})]
    assert report.report(made, done).arms["new"].reasons == (
        "the policy never moved from its start",
    )


def test_a_constraint_that_never_binds_is_uninformative():
    made = frozen(constraint="tokens")
    done = [r | {"bound": {"tokens": 0.0}} for r in runs(made, {"plain": 0.5, "new": 0.7})]
    arm = report.report(made, done).arms["new"]
    assert arm.verdict == "uninformative" and "never binds" in arm.reasons[0]


def test_a_gain_that_the_placebo_shows_is_not_the_method_s():
    right = {"plain": 0.5, "new": 0.7, "start": 0.5, "zero": 0.5, "shuffled": 0.7}
    arm = verdict(right, SANE)
    assert arm.verdict == "not distinguished" and "placebo" in arm.reasons[0]
    assert verdict(right | {"shuffled": 0.5}, SANE).verdict == "better"


def test_lower_can_be_better():
    made = frozen(direction="lower")
    done, sealed = finished(made, {"plain": 0.7, "new": 0.5})
    found = report.report(made, done, sealed)
    assert found.chosen == "new" and found.arms["new"].verdict == "better"


def test_holm_over_two_candidates():
    arms = ARMS | {"other": "candidate"}
    done, sealed = finished(frozen(arms), {"plain": 0.5, "new": 0.7, "other": 0.5})
    found = report.report(frozen(arms), done, sealed).arms
    p = found["new"].differences["test"].p
    assert found["new"].p_holm == pytest.approx(2 * p)
    assert found["other"].verdict == "not distinguished"


# Invariants -------------------------------------------------------------------------------------


def test_order_of_runs_and_a_constant_change_nothing():
    made = frozen()
    done, sealed = finished(made, {"plain": 0.5, "new": 0.7})
    found = report.report(made, done, sealed)
    assert report.report(made, done[::-1], sealed) == found
    higher = deepcopy(runs(made, {"plain": 0.5, "new": 0.7}))
    for r in higher:
        scores = r["validation"]["scores"]
        r["validation"]["scores"] = {i: v + 3 for i, v in scores.items()}
    before, after = found.arms["new"], report.report(made, higher).arms["new"]
    assert after.differences["validation"].mean == pytest.approx(
        before.differences["validation"].mean
    )


def test_a_new_name_changes_no_number():
    right = {"plain": 0.5, "new": 0.7}
    old = report.report(frozen(), runs(frozen(), right)).arms["new"].differences
    made = frozen({"plain": "baseline", "zzz": "candidate"})
    named = [r | {"arm": {"new": "zzz"}.get(r["arm"], r["arm"]), "manifest": manifest.digest(made)}
             for r in runs(frozen(), right)]  # fmt: skip
    assert report.report(made, named).arms["zzz"].differences == old


def test_the_test_never_chooses():
    made = frozen(ARMS | {"other": "candidate"})
    right = {"plain": 0.5, "new": 0.7, "other": 0.6}
    done, sealed = finished(made, right)
    by = {(r["arm"], r["seed"]): r["test"] for r in done}
    swap = {"new": "other", "other": "new"}
    swapped = [r | {"test": by[swap.get(r["arm"], r["arm"]), r["seed"]]} for r in done]
    assert report.report(made, swapped, sealed).chosen == "new"


def test_ties_keep_the_baseline_within_the_tolerance():
    made = frozen(tolerance=0.01)
    ids = made["splits"]["validation"]["ids"]
    done = runs(made, {"plain": 0.5, "new": 0.5})
    for r in done:
        r["validation"]["scores"] = dict.fromkeys(ids, 0.5 + 0.005 * (r["arm"] == "new"))
    assert choice.select(made, done) == "plain"


# What is refused --------------------------------------------------------------------------------


def change(at, **fields):
    def broken(done):
        done[at] |= fields

    return broken


def drop(done):
    del done[0]


def twice(done):
    done.append(deepcopy(done[0]))


def lost_item(done):
    ids = [*done[1]["validation"]["scores"]]
    del done[1]["validation"]["scores"][ids[0]]


def unfinished_yet_right(done):
    right = next(i for i, score in done[2]["validation"]["scores"].items() if score)
    done[2]["validation"]["unfinished"] = {right: "truncated"}


REFUSED = {
    "same_manifest": change(0, manifest=sha("another")),
    "all_runs": drop,
    "equal_caps": change(4, caps={"updates": 11.0, "tokens": 96.0}),
    "equal_effort": change(3, settings=5),
    "matched_start": change(0, start=sha("elsewhere")),
    "matched_order": change(5, order=sha("shuffled")),
    "matched_first_rollout": change(2, first_rollout=sha("warm")),
    "missing_pair": lost_item,
    "unfinished_is_worst": unfinished_yet_right,
}


@pytest.mark.parametrize("rule", REFUSED)
def test_an_unfair_set_is_refused_by_its_rule(rule):
    made = frozen()
    done = runs(made, {"plain": 0.5, "new": 0.7})
    rules.check(made, done)
    REFUSED[rule](done)
    with pytest.raises(Refused) as refused:
        choice.seal(made, done)
    assert refused.value.rule == rule and RULES[rule] in str(refused.value)


def test_test_outcomes_before_the_choice_are_refused():
    made = frozen()
    with pytest.raises(Refused, match="test_before_selection"):
        choice.seal(made, runs(made, {"plain": 0.5, "new": 0.7}, test=True))


def test_a_run_twice_and_more_looks_are_refused():
    made = frozen()
    done = runs(made, {"plain": 0.5, "new": 0.7})
    twice(done)
    with pytest.raises(Refused, match="all_runs"):
        rules.check(made, done)
    done = runs(made, {"plain": 0.5, "new": 0.7})
    done[3]["looks"] = 9
    with pytest.raises(Refused, match="equal_effort"):
        rules.check(made, done)


def test_test_outcomes_without_or_against_the_sealed_choice_are_refused():
    made = frozen()
    done, sealed = finished(made, {"plain": 0.5, "new": 0.7})
    for given, rule in (
        (None, "test_before_selection"),
        (sealed | {"arm": "plain"}, "selected_by_validation"),
        (sealed | {"manifest": sha("x")}, "same_manifest"),
        (sealed | {"checkpoints": sealed["checkpoints"] | {"new/42": sha("later")}},
         "sealed_checkpoints"),
        (sealed | {"id": sha("x")}, "selected_by_validation"),
    ):  # fmt: skip
        with pytest.raises(Refused) as refused:
            report.report(made, done, given)
        assert refused.value.rule == rule
    with pytest.raises(Refused, match="test_opened_once"):
        report.report(made, [r | {"sealed": sha("first")} for r in done], sealed)
    later = [r | {"checkpoint": sha("later")} for r in done]
    with pytest.raises(Refused, match="sealed_checkpoints"):
        report.report(made, later, sealed)


def test_validation_changed_after_the_choice_is_refused():
    made = frozen()
    done, sealed = finished(made, {"plain": 0.5, "new": 0.7})
    first = next(iter(done[0]["validation"]["scores"]))
    done[0]["validation"]["scores"][first] = 1 - done[0]["validation"]["scores"][first]
    with pytest.raises(Refused, match="selected_by_validation"):
        report.report(made, done, sealed)


def test_the_test_opens_once(tmp_path):
    made = frozen()
    sealed = choice.seal(made, runs(made, {"plain": 0.5, "new": 0.7}))
    path = choice.open_test(sealed, tmp_path)
    assert choice.open_test(sealed, tmp_path) == path  # the same choice again
    other = choice.seal(made, runs(made, {"plain": 0.7, "new": 0.5}))
    with pytest.raises(Refused, match="test_opened_once"):
        choice.open_test(other, tmp_path)
    assert json.loads(path.read_text()) == sealed and len([*tmp_path.iterdir()]) == 1


@pytest.mark.parametrize(
    "rule, changed",
    [
        ("three_seeds", {"seeds": (42, 43)}),
        ("three_seeds", {"seeds": (42, 43, 43)}),
        ("one_baseline", {"arms": {"a": "candidate", "b": "candidate"}}),
        ("two_arms", {"arms": {"a": "baseline", "b": "placebo"}}),
        ("known_constraint", {"constraint": "memory"}),
    ],
)
def test_a_manifest_that_cannot_be_fair_is_refused(rule, changed):
    with pytest.raises(Refused) as refused:
        frozen(**changed)
    assert refused.value.rule == rule


def test_overlap_by_id_and_by_text_is_refused():
    one = manifest.split({"a": "What is 2+2?"}, "s", "r")
    for other in ({"a": "something else"}, {"b": "what  is 2 + 2"}):
        splits = {"train": one, "validation": manifest.split(other, "s", "r"),
                  "test": manifest.split({"z": "last"}, "s", "r")}  # fmt: skip
        with pytest.raises(Refused, match="disjoint_splits"):
            frozen(splits=splits)


def test_what_makes_two_texts_the_same():
    same = manifest.plain("Naïve Café, 2+2?")
    assert same == manifest.plain("naive cafe 2 + 2") == "naive cafe 2 + 2"
    different = ["2 + 3", "2 - 3", "2 * 3", "23", "2 3 +", "2,3"]
    assert len({manifest.plain(text) for text in different}) == len(different)


def test_a_revision_is_checked_against_the_files(tmp_path):
    (tmp_path / "data.jsonl").write_text("{}\n")
    good = "sha256:" + manifest.files.sha256(tmp_path / "data.jsonl")
    made = frozen()
    for one in made["splits"].values():
        one["revision"] = good
    manifest.check_files(made, tmp_path)
    made["splits"]["test"]["revision"] = "v1.0"
    with pytest.raises(Refused, match="revision_checked"):
        manifest.check_files(made, tmp_path)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), "0.5", None])
def test_a_score_that_is_no_number_is_refused_in_a_losing_arm_too(bad):
    made = frozen(ARMS | {"loser": "candidate"})
    done = runs(made, {"plain": 0.5, "new": 0.7, "loser": 0.2})
    first = next(iter(done[-1]["validation"]["scores"]))
    done[-1]["validation"]["scores"][first] = bad
    with pytest.raises(ReproError):
        rules.check(made, done)


def test_a_zero_learning_rate_that_moves_is_refused():
    made = frozen(SANE)
    right = {"plain": 0.5, "new": 0.7, "start": 0.5, "zero": 0.5, "shuffled": 0.5}
    done = runs(made, right)
    rules.check(made, done)
    done = [r if r["arm"] != "zero" else run(made, "zero", r["seed"], 0.6) for r in done]
    with pytest.raises(Refused, match="zero_learning_rate"):
        rules.check(made, done)


def test_unfinished_items_count_and_are_counted():
    made = frozen()
    done = runs(made, {"plain": 0.5, "new": 0.7})
    ids = made["splits"]["validation"]["ids"][:7]
    for r in done:
        if r["arm"] == "new":
            r["validation"]["unfinished"] = dict.fromkeys(ids, "truncated")
            r["validation"]["scores"] |= dict.fromkeys(ids, 0.0)
    arm = report.report(made, done).arms["new"]
    assert arm.unfinished == {"validation": 21}
    assert arm.differences["validation"].finished > arm.differences["validation"].mean


def test_unequal_use_under_equal_caps_is_said():
    made = frozen()
    done = runs(made, {"plain": 0.5, "new": 0.7})
    for r in done:
        if r["arm"] == "new":
            r["used"] |= {"generated_tokens": 2000}
    notes = report.report(made, done).notes
    assert any("unequal use" in note and "2000" in note for note in notes)
    assert any("items only" in note for note in notes)
    assert any("placebo" in note for note in notes)


def test_the_second_table_takes_equal_real_use_only(tmp_path):
    made = frozen(arms=SANE)
    done = runs(made, {"plain": 0.5, "new": 0.7, "start": 0.5, "zero": 0.5, "shuffled": 0.5})
    for r in done:
        if made["arms"][r["arm"]] == "untouched":
            r["used"] = dict.fromkeys(r["used"], 0)
    budget.check_equal(made, done, "generated_tokens")  # a start that trains on nothing is exempt
    (odd,) = [r for r in done if r["arm"] == "new" and r["seed"] == 43]
    odd["used"] |= {"generated_tokens": 1101}
    with pytest.raises(Refused, match="generated_tokens in seed 43: new used 1101, .* 1000") as bad:
        budget.check_equal(made, done, "generated_tokens")
    assert bad.value.rule == "equal_use"
    budget.check_equal(made, done, "seconds")
    with pytest.raises(BadParameter, match="quantity='updates'; accepted: generated_tokens"):
        budget.check_equal(made, done, "updates")
    path = tmp_path / "runs.json"
    path.write_text(json.dumps({"manifest": made, "runs": done}))
    found = CliRunner().invoke(main, ["compare", str(path), "--equal", "generated_tokens"])
    assert found.exit_code == 1 and "equal_use" in found.output
    assert CliRunner().invoke(main, ["compare", str(path)]).exit_code == 0


# Statistics -------------------------------------------------------------------------------------


def test_mcnemar_is_the_exact_sign_test_on_discordant_items():
    base, ours = np.array([0, 0, 0, 0, 1, 1, 0]), np.array([1, 1, 1, 1, 0, 1, 0])
    assert paired.mcnemar(base, ours) == pytest.approx(0.375)  # 4 against 1: 12/32
    assert paired.mcnemar(base, base) == 1.0
    assert paired.mcnemar(base / 2, ours) is None
    assert paired.mcnemar(np.zeros(3), np.ones(3)) == pytest.approx(0.25)  # three equal signs


def test_holm_by_hand():
    assert paired.holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert paired.holm([0.9]) == [0.9]


@pytest.mark.parametrize("n, d, points", [(200, 0.10, 6.3), (500, 0.10, 4.0), (1319, 0.10, 2.4),
                                          (5000, 0.10, 1.3)])  # fmt: skip
def test_the_smallest_detectable_difference_is_that_of_the_protocol(n, d, points):
    outcomes = np.zeros((1, n))
    outcomes[0, : round(n * d)] = np.resize([1, -1], round(n * d))
    assert 100 * paired.detectable(outcomes) == pytest.approx(points, abs=0.06)


def test_seeds_are_drawn_from_five_on():
    rng = np.random.default_rng(0)
    d = rng.normal(0, 0.01, (6, 400)) + rng.normal(0, 1, 6)[:, None]  # seeds differ, items hardly
    low, high = paired.interval(d)
    few, more = paired.interval(d[:4]), high - low
    assert more > 1.0 and few[1] - few[0] < 0.01
    assert paired.covers(4) == "items only" and paired.covers(5) == "items and seeds"


def test_the_interval_covers_what_it_says():
    rng, inside = np.random.default_rng(1), 0
    for _ in range(60):
        low, high = paired.interval(rng.normal(0.2, 1, (1, 60)))
        inside += low <= 0.2 <= high
    assert inside >= 52  # 95 % of 60 is 57


def test_sign_flips():
    assert paired.sign_flip(np.zeros((3, 9))) == 1.0
    assert paired.sign_flip(np.ones((1, 3))) == pytest.approx(0.25)  # 2 of 2^3
    assert paired.sign_flip(np.ones((2, 40))) < 0.001
    with pytest.raises(ValueError, match="d has shape"):
        paired.interval(np.ones(4))


# Command line -----------------------------------------------------------------------------------


def test_the_command_seals_the_choice_and_opens_the_test_once(tmp_path):
    made = frozen()
    folder = tmp_path / "choices"

    def sealed(right):
        path = tmp_path / "runs.json"
        path.write_text(json.dumps({"manifest": made, "runs": runs(made, right)}))
        return CliRunner().invoke(main, ["compare", str(path), "--seal", str(folder)])

    found = sealed({"plain": 0.5, "new": 0.7})
    assert found.exit_code == 0, found.output
    (path,) = folder.iterdir()
    kept = json.loads(path.read_text())
    assert kept["arm"] == "new" and kept["id"] in found.output.replace("\n", "")
    again = sealed({"plain": 0.7, "new": 0.5})
    assert again.exit_code == 1 and "test_opened_once" in again.output
    assert json.loads(path.read_text()) == kept


def test_the_command_reads_arms_from_several_files(tmp_path):
    made = frozen()
    done, sealed = finished(made, {"plain": 0.5, "new": 0.7})
    for arm in made["arms"]:
        mine = [r for r in done if r["arm"] == arm]
        held = {"manifest": made, "runs": mine} | ({"sealed": sealed} if arm == "new" else {})
        (tmp_path / f"{arm}.json").write_text(json.dumps(held))
    paths = [str(tmp_path / f"{arm}.json") for arm in made["arms"]]
    found = CliRunner().invoke(main, ["compare", *paths])
    assert found.exit_code == 0 and "better" in found.output and "McNemar" in found.output
    found = CliRunner().invoke(main, ["compare", paths[0]])
    assert found.exit_code == 1 and "all_runs" in found.output


def test_files_of_two_manifests_are_refused(tmp_path):
    for name, made in (("a", frozen()), ("b", frozen(margin=0.2))):
        held = {"manifest": made, "runs": runs(made, {"plain": 0.5, "new": 0.7})}
        (tmp_path / f"{name}.json").write_text(json.dumps(held))
    found = CliRunner().invoke(main, ["compare", *(str(tmp_path / f"{n}.json") for n in "ab")])
    assert found.exit_code == 1 and "same_manifest" in found.output


def test_a_file_that_is_no_comparison_is_named(tmp_path):
    (tmp_path / "a.json").write_text('{"runs": 3}')
    found = CliRunner().invoke(main, ["compare", str(tmp_path / "a.json")])
    assert found.exit_code == 1 and "a.json" in found.output
