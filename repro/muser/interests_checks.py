"""What must hold of interests, score, penalty, objective and fusion: values by hand, identities.

Sources: arXiv 2609.23677 as the project's notes give it, sections 3.3 to 3.6. Everything is
reached through its module, so that a planted fault is seen.
"""

import itertools
import math

import numpy as np
import torch

from repro.errors import BadParameter
from repro.muser import interests


def _randn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def _near(found, expected, what: str, within: float = 1e-9) -> None:
    found = torch.as_tensor(found, dtype=torch.float64)
    expected = torch.as_tensor(expected, dtype=torch.float64)
    same = found.shape == expected.shape and (found - expected).abs().max() <= within
    assert same, f"{what}: {found.tolist()} != {expected.tolist()}"


def attention_by_hand() -> None:
    """d = 4: logits 2 log 3 / sqrt(4) = log 3 and 0 weigh two tokens 3 to 1."""
    h = torch.eye(4, dtype=torch.float64)[None, :2]
    q = torch.tensor([[2 * math.log(3), 0, 0, 0]], dtype=torch.float64)
    _near(interests.attend(q, h)[0, 0], [0.75, 0.25, 0, 0], "interest")


def interests_lie_among_the_tokens() -> None:
    """An interest is a weighted mean: in every direction it lies within the tokens' range."""
    h, q = _randn(2, 9, 5), 5 * _randn(3, 5, seed=1)
    u = interests.attend(q, h)
    low, high = h.amin(1, keepdim=True), h.amax(1, keepdim=True)
    assert ((u >= low - 1e-12) & (u <= high + 1e-12)).all(), "an interest left the tokens' range"


def score_by_hand() -> None:
    """Cosines 0.5 and 0 at tau = 0.5 / log 3: weights 3 to 1, score 0.375."""
    cos = torch.tensor([[0.5], [0.0]], dtype=torch.float64)
    _near(interests.score(cos, 0.5 / math.log(3)), [0.375], "score")


def score_becomes_the_largest_cosine() -> None:
    """tau = 0: the largest cosine. Otherwise at most tau log M below it, and at last the mean."""
    cos = interests.cosines(_randn(4, 6, 8), _randn(50, 8, seed=1))
    top = cos.amax(-2)
    _near(interests.score(cos, 0.0), top, "limit")
    for tau in (1e-4, 0.01, 0.07, 1.0):
        gap = top - interests.score(cos, tau)
        low, high = gap.min(), gap.max()
        assert low >= -1e-12 and high <= tau * math.log(6) + 1e-12, f"tau {tau}: {low} to {high}"
    _near(interests.score(cos, 1e9), cos.mean(-2), "mean", 1e-8)


def one_interest_is_its_cosine() -> None:
    """With M = 1 the score is the cosine at every tau."""
    cos = interests.cosines(_randn(2, 1, 8), _randn(9, 8, seed=1))
    for tau in (0.0, 0.07, 1.0):
        _near(interests.score(cos, tau), cos[:, 0], f"score at {tau}")


def lengths_do_not_matter() -> None:
    """Longer interests or items change no cosine."""
    u, e = _randn(3, 5), _randn(7, 5, seed=1)
    _near(interests.cosines(9 * u, 0.1 * e), interests.cosines(u, e), "cosines")


def penalty_by_hand() -> None:
    """Two interests at 60 degrees: 2 x 0.5^2 = 0.5; a right angle gives 0."""
    u = torch.tensor([[[1, 0], [0.5, 3**0.5 / 2]], [[3, 0], [0, 2]]], dtype=torch.float64)
    _near(interests.orthogonality(u), 0.25, "mean penalty over the two users")


def penalty_of_the_origin() -> None:
    """Mean of (Gram - I)^2 over all M^2 entries is the penalty divided by M^2, for unit vectors."""
    u = torch.nn.functional.normalize(_randn(5, 4, 6), dim=-1)
    mean = ((u @ u.transpose(1, 2) - torch.eye(4)) ** 2).mean()
    _near(interests.orthogonality(u) / 16, mean, "penalty")


def penalty_pushes_apart() -> None:
    """A step against the gradient of the penalty lowers it, and it vanishes at right angles."""
    u = _randn(2, 4, 6).requires_grad_()
    before = interests.orthogonality(u)
    (slope,) = torch.autograd.grad(before, u)
    after = interests.orthogonality(u - 0.01 * slope)
    assert after < before, f"penalty went from {before} to {after}"
    flat = torch.eye(4, dtype=torch.float64)[None].requires_grad_()
    (slope,) = torch.autograd.grad(interests.orthogonality(flat), flat)
    _near(slope, torch.zeros(1, 4, 4), "slope at right angles")


def _denominator(correction: str) -> tuple[float, float]:
    """Exact mean, over all pairs of draws, of the sampled denominator; and the full one."""
    s = torch.tensor([0.3, -0.2, 1.0, 0.1], dtype=torch.float64)
    q, good, mean = np.array([0.1, 0.2, 0.3, 0.4]), 0, 0.0
    for pair in itertools.product(range(4), repeat=2):
        drawn = torch.tensor(pair)
        loss = interests.next_k(
            s[[good]][None], s[drawn][None], torch.log(torch.tensor(q))[drawn],
            (drawn == good)[None, None], correction,
        )  # fmt: skip
        mean += q[list(pair)].prod() * math.exp(loss + s[good])
    return mean, float(s.exp().sum())


def sampled_softmax_is_unbiased() -> None:
    """With log N Q and hits left out, the mean sampled denominator is the full one exactly."""
    found, full = _denominator("nq")
    assert abs(found - full) < 1e-12, f"{found} != {full}"


def log_q_alone_is_not() -> None:
    """With log Q alone, what the other items add is counted N = 2 times."""
    found, full = _denominator("q")
    others = full - math.exp(0.3)
    assert abs(found - (full + others)) < 1e-12, f"{found} != {full + others}"


def next_k_is_a_mean_over_actions() -> None:
    """The loss of K actions is the mean of their losses alone."""
    good, other, q = _randn(3, 4), _randn(3, 8, seed=1), torch.full((8,), -2.0).double()
    alone = [interests.next_k(good[:, [k]], other, q) for k in range(4)]
    _near(interests.next_k(good, other, q), sum(alone) / 4, "loss")


def matching_by_hand() -> None:
    """Short-term interests in another order find their own; each is used once."""
    long = torch.eye(3, dtype=torch.float64)
    near = long + 0.1 * _randn(3, 3)
    _near(interests.match(long, near[[2, 0, 1]]), [1, 2, 0], "matching")
    same = long[[0, 0, 0]] + 0.01 * _randn(3, 3)
    assert sorted(interests.match(long, same).tolist()) == [0, 1, 2], "one was used twice"


def fusion_by_hand() -> None:
    """With zero weights and bias log 3 the share of the fresh part is 3/4; far off, all or none."""
    long = torch.tensor([[1.0, 0], [0, 1]], dtype=torch.float64)
    short = torch.tensor([[0.6, 0.8], [0.8, -0.6]], dtype=torch.float64)
    w = torch.zeros(6, dtype=torch.float64)
    same = [1, 0]  # 0.8 is the largest cosine, and leaves -0.8 for the other
    given = (long, short, 5.0, 3, w)
    raw = 0.25 * long + 0.75 * short[same]
    unit = raw / raw.norm(dim=-1, keepdim=True)
    _near(interests.fuse(*given, math.log(3)), unit, "fused")
    _near(interests.fuse(*given, -80.0), long, "no fresh part")
    _near(interests.fuse(*given, 80.0), short[same], "fresh part only")


def staleness_moves_the_share() -> None:
    """With a weight on log(1 + n), more new actions bring the result nearer to the fresh part."""
    long, short = torch.eye(4, dtype=torch.float64)[:1], torch.eye(4, dtype=torch.float64)[1:2]
    w = torch.zeros(10, dtype=torch.float64)
    w[-1] = 1.0
    near = [float(interests.fuse(long, short, 0.0, n, w, -2.0)[0, 1]) for n in (0, 3, 30, 300)]
    assert near == sorted(near) and near[-1] > 0.99 > 0.2 > near[0], f"shares {near}"


def empty_history_is_refused() -> None:
    """A user without a token has no interests: an error, not NaN."""
    mask = torch.tensor([[True, True], [False, False]])
    try:
        interests.attend(_randn(2, 3), _randn(2, 2, 3), mask)
    except BadParameter as error:
        assert "user 1 is empty" in str(error)
    else:
        raise AssertionError("an empty history was accepted")


CHECKS = {
    check.__name__: check
    for check in (
        attention_by_hand, interests_lie_among_the_tokens, score_by_hand,
        score_becomes_the_largest_cosine, one_interest_is_its_cosine, lengths_do_not_matter,
        penalty_by_hand, penalty_of_the_origin, penalty_pushes_apart,
        sampled_softmax_is_unbiased, log_q_alone_is_not, next_k_is_a_mean_over_actions,
        matching_by_hand, fusion_by_hand, staleness_moves_the_share, empty_history_is_refused,
    )
}  # fmt: skip
