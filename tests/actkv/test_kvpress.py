"""Our policies keep what NVIDIA's kvpress keeps of the same queries and keys.

tests/golden/kvpress.npz was written by scripts/kvpress_golden.py with kvpress itself. kvpress
chooses a set for each KV head, so `head_sets` is compared, not `select`; a set has no order, for
kvpress returns entries by rank. A budget is skipped where kvpress's own ranking has a tie at the
cut, because a tie has no right answer: kvpress takes what `topk` returns, we the newer entry.
"""

import numpy as np
import pytest
import torch

from repro.actkv.policies.h2o import H2O
from repro.actkv.policies.snapkv import SnapKV
from repro.actkv.policies.streaming import StreamingLLM
from repro.actkv.policies.tova import TOVA
from repro.paths import ROOT

GOLDEN = np.load(ROOT / "tests/golden/kvpress.npz")
CASES, BUDGETS = ("a", "b"), (24, 48, 90, 120)
TIE = 1e-6  # relative distance below which two scores count as equal: fp32 in another order


def budgets(press: str) -> list[tuple[str, int]]:
    return [(c, b) for c in CASES for b in BUDGETS if f"{c}/{press}/{b}" in GOLDEN]


def tensors(case: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Rotated queries [H_q, S, d] and keys [H_k, S, d]."""
    return torch.from_numpy(GOLDEN[f"{case}/queries"]), torch.from_numpy(GOLDEN[f"{case}/keys"])


def ours(policy, case: str, budget: int) -> np.ndarray:
    """[H_k or 1, budget]: the sets of `policy` after one pass over the whole sequence."""
    queries, keys = tensors(case)
    policy.observe(0, queries, keys, "prefix")
    return policy.head_sets(keys.shape[1], budget, lambda _: keys)[0]


def tied(scores: np.ndarray, budget: int) -> bool:
    """Whether the last entry in and the first one out score alike, in any row of [H, S]."""
    ranked = -np.sort(-scores, axis=1)
    return (ranked[:, budget - 1] - ranked[:, budget] < TIE * ranked[:, budget]).any()


def same(found: np.ndarray, wanted: np.ndarray) -> None:
    assert found.shape[1] == wanted.shape[1]
    for head, entries in enumerate(wanted):
        assert set(found[head % len(found)]) == set(entries), f"KV head {head}"


def test_the_file_says_what_made_it_and_is_small():
    made = [str(x).split()[0] for x in GOLDEN["versions"]]
    assert made == ["kvpress", "transformers", "torch"]
    assert str(GOLDEN["versions"][0]) == "kvpress 0.5.4"
    assert (ROOT / "tests/golden/kvpress.npz").stat().st_size < 300_000


def test_ties_leave_enough_to_compare():
    for press in ("snapkv16", "snapkv64", "tova", "observed"):
        free = [p for p in budgets(press) if not tied(GOLDEN[f"{p[0]}/{press}/scores"], p[1])]
        assert len(free) >= len(budgets(press)) - 1, press


@pytest.mark.parametrize(("case", "budget"), budgets("streaming"))
def test_streaming_llm(case, budget):
    """Sinks and window. Both leave keys at their true positions; kvpress's KeyRerotationPress,
    which would rotate them again, is not used."""
    same(ours(StreamingLLM(layers=1, sink=4), case, budget), GOLDEN[f"{case}/streaming/{budget}"])


@pytest.mark.parametrize("window", [16, 64])
@pytest.mark.parametrize(("case", "budget"), budgets("snapkv16"))
def test_snapkv(case, budget, window):
    """Same window and kernel, mean over the query heads of a group; the window is in the budget."""
    press = f"snapkv{window}"
    if (case, budget) not in budgets(press):
        pytest.skip(f"budget {budget} is below the window of {window}")
    if tied(GOLDEN[f"{case}/{press}/scores"], budget):
        pytest.skip("tie at the cut")
    policy = SnapKV(layers=1, window=window, kernel=5)
    same(ours(policy, case, budget), GOLDEN[f"{case}/{press}/{budget}"])


@pytest.mark.parametrize(("case", "budget"), budgets("tova"))
def test_tova(case, budget):
    """One set for the layer: the newest query, mean over all heads. The newest entry is forced in,
    by kvpress and by us; TOVA itself leaves it to its score."""
    if tied(GOLDEN[f"{case}/tova/scores"], budget):
        pytest.skip("tie at the cut")
    found = ours(TOVA(layers=1), case, budget)
    assert found.shape[0] == 1
    same(found, GOLDEN[f"{case}/tova/{budget}"])


def as_sums(case: str) -> np.ndarray:
    """kvpress divides what entry i was paid by the S - i queries that saw it; undo that."""
    scores = GOLDEN[f"{case}/observed/scores"].astype(float)
    return scores * np.arange(scores.shape[1], 0, -1)


@pytest.mark.parametrize("recent", [0.0, 0.5])
@pytest.mark.parametrize(("case", "budget"), budgets("observed"))
def test_h2o_by_sums(case, budget, recent):
    """H2O ranks sums of attention and keeps recent entries; kvpress ranks averages and keeps none.

    So its scores are multiplied by S - i, and the recent share of the budget is added by hand.
    """
    sums = as_sums(case)
    window = int(recent * budget)
    sums[:, sums.shape[1] - window :] = np.inf
    if tied(sums, budget):
        pytest.skip("tie at the cut")
    wanted = np.argsort(-sums, axis=1)[:, :budget]
    same(ours(H2O(layers=1, recent=recent), case, budget), wanted)


def test_h2o_scores_are_the_sums_to_rounding():
    for case in CASES:
        queries, keys = tensors(case)
        policy = H2O(layers=1, recent=0.0)
        policy.observe(0, queries, keys, "prefix")
        np.testing.assert_allclose(policy.sums[0].numpy(), as_sums(case), rtol=2e-5, atol=1e-6)


def test_averages_keep_other_entries_than_sums():
    """The difference of convention is real: kvpress's own sets are not H2O's."""
    for case, budget in budgets("observed"):
        averaged = GOLDEN[f"{case}/observed/{budget}"]
        summed = np.argsort(-as_sums(case), axis=1)[:, :budget]
        assert any(set(a) != set(b) for a, b in zip(averaged, summed, strict=True))
