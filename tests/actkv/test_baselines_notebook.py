"""What the baselines notebook calls around the policies."""

import numpy as np
import pytest
import torch
from tiny_llama import tiny_llama

from repro import digest, notebooks
from repro.actkv import study_arms, study_baselines, study_compare
from repro.actkv.cache import PagedCache
from repro.actkv.cache_faults import FAULTS
from repro.actkv.policies import POLICIES
from repro.actkv.policies.base import due
from repro.actkv.policies.watch import watching
from repro.actkv.study_arms import Outcome
from repro.errors import BadParameter
from repro.traces import Trace

KEY = "actkv/baselines"
LAYERS, PREFIX, LENGTH = 2, 5, 34


def make_trace():
    """Three rounds and a closing observation; labels are the codes of `repro.traces`."""
    runs = [
        *((0, -1, 5), (1, 0, 4), (2, 0, 2), (3, 0, 3), (2, 0, 1)),
        *((1, 1, 6), (2, 1, 1), (3, 1, 4), (2, 1, 1)),
        *((1, 2, 3), (2, 2, 1), (3, 2, 2), (2, 2, 1), (1, 3, 4)),
    ]
    labels = np.array([label for label, _, n in runs for _ in range(n)], np.int8)
    rounds = np.array([at for _, at, n in runs for _ in range(n)], np.int32)
    ids = np.random.default_rng(1).integers(0, 50, len(labels))
    return Trace(ids, labels, rounds, np.zeros((len(labels), 2), np.int32), "", ("one", "two"))


@pytest.fixture(scope="module")
def model():
    return tiny_llama(50, layers=LAYERS)


ARMS = [*POLICIES, "snapkv@round", "actkv@decay=0"]


@pytest.fixture(scope="module")
def begun(model):
    policies = study_arms.build(ARMS, LAYERS, PREFIX, 4, 0, decay=0.5, mass=0.9)
    return study_baselines.start(model, make_trace(), policies)


@pytest.fixture(scope="module")
def reference(model, begun):
    return study_baselines.play(model, begun, ["fullkv"], 1)


def test_notebook_rests_on_cache_and_policies():
    notebook = notebooks.read(KEY)
    assert notebook.assets == ("smollm2-135m", "bfcl-v4") and len(FAULTS) >= 3
    modules = digest.inputs(notebook, notebook.values())["modules"]
    assert {"repro.actkv.cache", "repro.actkv.policies.actkv"} <= set(modules)


def test_the_trace_is_read_region_by_region(begun):
    found = list(study_baselines.passes(begun))
    assert (begun.protected, begun.length, begun.slack, begun.longest) == (PREFIX, LENGTH, 10, 12)
    assert begun.name == "one+two" and begun.share(20) == pytest.approx(15 / 29)
    assert found[0] == ("observation", 5, 9, False) and found[-1] == ("reasoning", 33, 34, True)
    assert [over for *_, over in found] == [False, False, False, True] * 3
    assert found[0][1] == PREFIX and all(
        a[2] == b[1] for a, b in zip(found, found[1:], strict=False)
    )
    assert len(list(study_baselines.passes(begun, rounds=2))) == 8
    assert begun.actions.tolist() == [11, 12, 13, 22, 23, 24, 25, 31, 32]
    assert begun.continues.tolist() == [False] * 3 + [True] * 6  # no text, so no later request
    assert study_baselines.entries(begun.trace, 26) == 7  # 29 x 0.26 = 7.54
    assert study_baselines.entries(begun.trace, 1) == 1
    assert begun.blocks(17) == 2 * begun.cache.pool.block_bytes


def test_full_cache_is_the_plain_model(model, begun, reference):
    out, logp = reference
    plain = study_baselines.plain(model, begun)
    torch.testing.assert_close(logp, plain, atol=1e-4, rtol=0)
    actions = [14 + np.arange(-3, 0), np.arange(22, 26), np.arange(31, 33)]
    true = torch.as_tensor(begun.trace.ids[np.concatenate(actions)])
    assert (begun.trace.labels[np.concatenate(actions)] == 3).all()
    expected = -plain.gather(1, true[:, None])[:, 0].numpy()
    np.testing.assert_allclose(out["fullkv"].nll, expected, atol=1e-4)
    assert out["fullkv"].agree.all() and out["fullkv"].peak == LENGTH
    assert out["fullkv"].evictions == 0 and abs(out["fullkv"].kl).max() == 0


def test_roomy_budget_changes_nothing(model, begun, reference):
    room = {"budget": LENGTH, "upper": LENGTH}
    out, _ = study_baselines.play(model, begun, ARMS, LENGTH, reference[1], room)
    for arm, outcome in out.items():
        assert outcome.agree.all() and not outcome.evictions, arm
        np.testing.assert_allclose(outcome.nll, reference[0]["fullkv"].nll, atol=1e-4)


def test_all_arms_obey_prefix_and_budget(model, begun, reference):
    out, _ = study_baselines.play(model, begun, ARMS, 4, reference[1], {"budget": 4, "upper": 9})
    assert {arm: o.peak for arm, o in out.items() if arm != "fullkv"} != {}
    for arm, outcome in out.items():
        assert outcome.prefix_kept and outcome.nll.shape == (9,)
        before, after = outcome.sizes.T
        assert (after[after < before] == PREFIX + 4).all() or arm == "actkv-adaptive"
        assert outcome.evictions > 0 or arm == "fullkv", arm
    rounds = {arm: np.flatnonzero(np.diff(o.sizes) < 0) for arm, o in out.items()}
    assert rounds["actkv"].tolist() == rounds["snapkv@round"].tolist() == [3, 7, 11]
    assert out["actkv"].sizes[3].tolist() == [15, 9]
    worse = [a for a, o in out.items() if np.abs(o.nll - out["fullkv"].nll).max() > 1e-3]
    assert set(worse) == set(ARMS) - {"fullkv"}  # what is gone is felt


@pytest.mark.parametrize("arm", ["h2o", "snapkv", "actkv"])
def test_one_arm_among_many_is_the_same_alone(model, begun, reference, arm):
    """The shared reading of the prefix and the ragged batch leave no trace."""
    together, _ = study_baselines.play(model, begun, ARMS, 4, reference[1])
    policy = study_arms.build([arm], LAYERS, PREFIX, 4, 0, decay=0.5, mass=0.9)[arm]
    cache, rows = PagedCache(model), []
    regions = [("prefix", 0, PREFIX, False), *study_baselines.passes(begun)]
    with torch.inference_mode(), watching(model, cache, [policy]) as watch:
        for watch.phase, first, stop, over in regions:
            ids = torch.as_tensor(begun.trace.ids[first:stop])[None]
            rows.append(model(ids, cache=cache).logits[0].log_softmax(-1))
            held = cache.physical[0]
            if due(policy, held, 4, begun.slack, over):
                cache.evict(policy.select(held, 4, cache.keys))
    logp, at = torch.cat(rows), np.flatnonzero(begun.trace.labels[:LENGTH] == 3)
    alone = -logp[at - 1, torch.as_tensor(begun.trace.ids[at])].numpy()
    np.testing.assert_allclose(together[arm].nll, alone, atol=1e-4)


def test_playing_leaves_the_start_as_it_was(model, begun, reference):
    first, second = (
        study_baselines.play(model, begun, ["h2o", "random"], 4, reference[1])[0] for _ in range(2)
    )
    for arm in first:
        np.testing.assert_array_equal(first[arm].nll, second[arm].nll)
    assert begun.policies["actkv-adaptive"].budget == 512


def test_arms_are_read_and_built():
    assert study_arms.percents(" 26,10, 10") == [10, 26]
    assert study_arms.chosen("snapkv@round, actkv@decay=0.5") == [
        *("fullkv", "actkv", "snapkv@round", "actkv@decay=0.5")
    ]
    assert study_arms.chosen("all") == [*POLICIES]
    assert study_arms.slug("actkv@decay=0", 26) == "actkv_decay_0_26"
    assert study_arms.span(175) == (100, 306)
    made = study_arms.build(ARMS, 1, 5, 10, 3, decay=1.0, mass=0.8)
    assert made["snapkv"].window == 5 and made["rkv"].window == 5 and made["random"].seed == 3
    assert made["snapkv@round"].trigger == "round" and made["snapkv"].trigger == "overflow"
    assert made["actkv"].decay == 1 and made["actkv@decay=0"].decay == 0
    assert study_arms.chosen("", ()) == []


def test_every_open_point_changes_a_policy():
    changed = [f"actkv@{c}" for c in (*study_arms.CHANGES, "mass=0.5", "decay=1")]
    changed += [f"actkv-adaptive@{c}" for c in study_arms.MONITOR]
    assert set(study_arms.chosen(", ".join(changed), ())) == set(changed)
    made = study_arms.build([*changed, "actkv", "actkv-adaptive"], 2, 5, 10, 3)
    for arm in changed:
        plain = vars(made[arm.partition("@")[0]])
        new = {k: v for k, v in vars(made[arm]).items() if k != "state" and v is not plain[k]}
        assert any(not np.array_equal(plain[k], v) for k, v in new.items()), arm
    shared = made["actkv@layers=shared"].state
    assert shared[0] is shared[1] and made["actkv"].state[0] is not made["actkv"].state[1]


def test_one_set_for_all_layers(model, begun, reference):
    arm = "actkv@layers=shared"
    start = study_baselines.start(
        model, make_trace(), study_arms.build(["actkv", arm], LAYERS, PREFIX, 4, 0)
    )
    out, _ = study_baselines.play(model, start, ["actkv", arm], 4, reference[1])
    assert out[arm].evictions == out["actkv"].evictions == 3
    assert np.abs(out[arm].nll - out["actkv"].nll).max() > 1e-4


def test_the_negated_monitor_reads_the_opposite():
    made = study_arms.build(["actkv-adaptive", "actkv-adaptive@sign=negated"], 1, 5, 10, 3)
    for policy in made.values():
        policy.note([3.0, 4.0])
    right, wrong = made.values()
    assert right.trace.tolist() == [3, 4] and wrong.trace.tolist() == [-3, -4]


@pytest.mark.parametrize("text", ["", "0", "101", "a", "10,", "-3", "2.5"])
def test_bad_budgets_are_named(text):
    with pytest.raises(BadParameter, match="budgets="):
        study_arms.percents(text)


@pytest.mark.parametrize(
    "text",
    [
        "snap",
        "",
        "snapkv@late",
        "snapkv@decay=0",
        "actkv@decay=2",
        "actkv@sign=negated",
        "actkv@ties=newest",
    ],
)
def test_bad_policies_are_named(text):
    with pytest.raises(BadParameter, match="policies="):
        study_arms.chosen(text)


def test_interpolation_at_a_peak():
    assert study_compare.at_peak([0.4, 0.2], [0.9, 0.8], 0.25) == pytest.approx(0.825)
    assert np.isnan(study_compare.at_peak([0.4, 0.2], [0.9, 0.8], 0.1))


class Whole:
    """A stand-in for `study_baselines.Start`: 20 tokens, no prefix."""

    protected, length, slack, longest = 0, 20, 4, 6
    actions, continues = np.array([0, 1, 5, 6]), np.array([False, False, True, True])
    trace = Trace(
        *(None, None, np.array([0] * 4 + [1] * 4)),
        *(np.stack([np.arange(8), np.arange(1, 9)], 1), "abcdefgh", ("one",)),
    )
    policies = study_arms.build(["actkv", "random", "random@round"], 1, 0, 2, 0)

    @staticmethod
    def share(peak):
        return peak / 20

    blocks = share


def make_study(**arms):
    """Arms of (agreement, peak) at budgets of 10 and 20 %; two traces alike."""

    def outcome(agree, peak):
        sizes = np.array([[peak, peak], [peak, 2]])
        return Outcome(np.ones(4), np.full(4, agree), np.ones(4), np.zeros(4), sizes, 0, True)

    found = {
        p: {arm.replace("_", "@"): [outcome(*points[at])] * 2 for arm, points in arms.items()}
        for at, p in enumerate((10, 20))
    }
    return study_compare.Study([Whole(), Whole()], found)


def test_verdict_names_who_keeps_the_goal():
    study = make_study(
        fullkv=[(1, 20)] * 2,
        random=[(0.8, 5), (0.97, 8)],
        actkv=[(0.9, 4), (0.96, 8)],
        random_round=[(0.95, 5), (0.96, 8)],
    )
    said = " ".join(study_compare.verdict(study))
    assert "*random@round* agrees most: 95.0%" in said and "does **not** keep 98.5%" in said
    assert "agrees on 91.8% at a peak of 26%" in said  # 0.2 to 0.4, 0.9 to 0.96
    assert "20 % *random* agrees on 97.0%, more than *actkv*, *random@round*" in said
    told = list(study_compare.reasons(study))
    assert "changes by +0.100. Of this, +0.150 comes with the moment" in told[0]
    assert "and -0.050 with the ranking" in told[0]
    assert study.gain("nll", 10, "actkv", "random").tolist() == [0, 0]


def test_where_the_loss_falls():
    study = make_study(fullkv=[(1, 20)] * 2, random=[(0.8, 5)] * 2, actkv=[(0.9, 4)] * 2)
    for outcome in study.found[10]["actkv"]:
        outcome.nll[:] = [1, 2, 1, 4]
    assert [e.tolist() for e in study.excess(10, "actkv")] == [[0, 1, 0, 3]] * 2
    assert study.excess_by_call(10, "actkv") == (0.5, 1.5)
    first, *_ = study.costly(10, "actkv", 2)
    assert first == ("abcdef", "g", 2, 3)
    shown = study_compare.as_html([("<a>\n", "&", 1, 2.0)])
    assert "<td>&lt;a&gt;⏎<b>&amp;</b></td><td>1</td><td>2.0</td>" in shown


def test_verdict_without_a_small_peak_and_without_a_difference():
    high = make_study(fullkv=[(1, 20)] * 2, random=[(0.8, 9)] * 2, actkv=[(0.9, 9)] * 2)
    assert "No arm peaks at 26% or less" in " ".join(study_compare.verdict(high))
    same = make_study(fullkv=[(1, 20)] * 2, random=[(0.9, 4)] * 2, actkv=[(0.9, 4)] * 2)
    assert "Uninformative" in " ".join(study_compare.verdict(same))


def test_adaptive_is_compared_at_its_own_peak():
    study = make_study(**{"actkv": [(0.9, 4), (0.96, 8)], "actkv-adaptive": [(0.95, 6), (0.99, 9)]})
    assert study.adaptive_gains() == pytest.approx([0.95 - 0.93] * 2)  # 9 lies outside 4 to 8
    assert "over the 2 of 4 runs" in list(study_compare.reasons(study))[-1]


def test_an_arm_that_breaks_the_rules_is_found():
    study = make_study(random=[(0.8, 12), (0.8, 13)], actkv=[(0.9, 8), (0.9, 9)])
    assert not study_compare.exceeds(study, 10, "actkv", [2, 2])  # 8 = 2 + 6
    assert study_compare.exceeds(study, 20, "actkv", [2, 2])
    assert study_compare.exceeds(study, 10, "actkv", [3, 3])  # 2 are left, not 3
    assert not study_compare.exceeds(study, 10, "random", [2, 2])  # 12 = 2 + 4 + 6
    assert study_compare.exceeds(study, 20, "random", [2, 2])
