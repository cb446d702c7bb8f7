"""What must hold of `repro.deltas.delta` and `drift`: worked values, identities, milliseconds.

Source: arXiv 2609.27470, Eq. 3, and the gated delta rule; vectors worked by hand. Everything is
reached through the modules, so that a planted fault is seen.
"""

import torch

from repro.deltas import delta, drift, runner
from repro.deltas.hybrid import SmallHybrid


def near(found, expected, what: str, within: float = 1e-5) -> None:
    found, expected = torch.as_tensor(found).float(), torch.as_tensor(expected).float()
    gap = (found - expected).abs() <= within * (1 + expected.abs())
    assert found.shape == expected.shape and gap.all(), f"{what}: {found} != {expected}"


def case(tokens: int, strength: float = 1.0, seed: int = 0, heads: int = 2, dim: int = 4):
    """q, k, v, log-decay, beta and a state, drawn; `strength` scales the decay."""
    g = torch.Generator().manual_seed(seed)
    q, k, v = torch.randn(3, 2, tokens, heads, dim, generator=g)
    log_decay = -strength * torch.rand(2, tokens, heads, generator=g)
    beta = torch.rand(2, tokens, heads, generator=g)
    return q, k, v, log_decay, beta, torch.randn(2, heads, dim, dim, generator=g)


#: one head, two by two: state before, after, and the tokens between them, worked by hand
HAND = {
    "before": [[2.0, 0.0], [0.0, 1.0]],
    "log_decay": -0.6931471805599453,  # decay 1/2
    "beta": 0.5,
    "k": [1.0, 0.0],
    "v": [3.0, 4.0],
    "after": [[2.0, 2.0], [0.0, 0.5]],  # decayed [[1, 0], [0, 1/2]], error [2, 4], half of it
    "out": [1.4142135623730951, 1.4142135623730951],  # [2, 2] / sqrt(2)
    "residual": 2.23606797749979,  # |[1, 2]|
    "drift": 0.9219544457292888,  # |[[0, 2], [0, -1/2]]| / |[[2, 0], [0, 1]]|
    "write": 1.0,  # |[[1, 2], [0, 0]]| / sqrt(5)
    "decay": 0.5,
}


def _by_hand():
    give = lambda x: torch.tensor(x)[None, None, None]  # noqa: E731
    before = torch.tensor(HAND["before"])[None, None]
    gates = torch.full((1, 1, 1), HAND["log_decay"]), torch.full((1, 1, 1), HAND["beta"])
    k, v = give(HAND["k"]), give(HAND["v"])
    return before, delta.recurrent(k, k, v, *gates, before), gates[0]


def a_step_by_hand() -> None:
    """One token by hand: decay, error against the decayed state, write, read."""
    _, (out, after, committed), _ = _by_hand()
    near(after[0, 0], HAND["after"], "state")
    near(out[0, 0, 0], HAND["out"], "output")
    near(committed[0, 0, 0], HAND["residual"], "committed residual")


def drift_by_hand() -> None:
    """Drift, write-only drift and decay-only drift of that token."""
    before, (_, after, _), log_decay = _by_hand()
    near(drift.drift([before], [after])[0], HAND["drift"], "drift")
    near(drift.write_drift([before], [after], [log_decay])[0], HAND["write"], "write-only drift")
    near(drift.decay_drift([before], [log_decay])[0], HAND["decay"], "decay-only drift")


def layers_and_heads_by_hand() -> None:
    """Heads of a layer are pooled before the ratio; layers are averaged after it."""
    before = torch.tensor([[[[3.0]], [[4.0]]]])  # two heads of one number, norms 3 and 4
    after = torch.tensor([[[[6.0]], [[4.0]]]])
    still = torch.ones(1, 2, 1, 1)
    near(drift.drift([before], [after])[0], 3 / 5, "pooled heads")
    near(drift.drift([before], [after], "head")[0], (3 / 3 + 0) / 2, "mean of the heads' ratios")
    near(drift.drift([before, still], [after, still])[0], 3 / 10, "mean over two layers")


def a_constant_factor_changes_nothing() -> None:
    """All values of a layer times a constant: the same drift."""
    q, k, v, g, b, _ = case(12)
    found = []
    for factor in (1.0, 50.0):
        _, before, _ = delta.recurrent(q, k, factor * v, g, b)
        _, after, _ = delta.recurrent(q, k, factor * v, g, b, before)
        found.append(drift.drift([before], [after]))
    near(found[1], found[0], "drift of scaled values", 1e-4)


def forgetting_alone_drifts() -> None:
    """A chunk that writes nothing drifts by 1 - prod a_t; its write-only drift is 0."""
    q, k, v, g, _, state = case(6, heads=1)
    _, after, _ = delta.recurrent(q, k, v, g, torch.zeros_like(g), state)
    floor = 1 - g.sum(1)[:, 0].exp()
    near(drift.drift([state], [after]), floor, "drift without writing")
    near(drift.decay_drift([state], [g]), floor, "decay-only drift")
    near(drift.write_drift([state], [after], [g]), torch.zeros(2), "write-only drift")


def the_first_chunk_is_singular() -> None:
    """From a zero state the drift is |S| / eps, whatever the chunk brought."""
    after = torch.full((1, 1, 2, 2), 0.5)
    near(drift.drift([torch.zeros_like(after)], [after])[0] * 1e-12, 1.0, "first drift")


def small_moves_are_seen() -> None:
    """A move of one part in a thousand is measured to one in a hundred of itself."""
    before = torch.rand(1, 2, 8, 8, generator=torch.Generator().manual_seed(0)) + 0.5
    near(drift.drift([before], [before * 1.001])[0] * 1e3, 1.0, "1000 x drift", 1e-2)


def states_are_copied() -> None:
    """A stream that is read moves the state: the copy from before does not move with it."""
    torch.manual_seed(0)
    read = runner.StreamRunner(SmallHybrid(8, 4, 16, 2, 4), None)
    g = torch.Generator().manual_seed(0)
    for _ in range(3):
        read.feed(torch.randn(1, 4, 8, generator=g))
    assert read.scores[2].min() > 1e-3, f"drift of a third chunk is {read.scores[2].min():g}"


def chunked_is_recurrent() -> None:
    """Blocks and single tokens agree, from a state on, also under strong decay."""
    for tokens, strength in ((5, 1.0), (9, 30.0), (16, 1.0)):
        *args, state = case(tokens, strength)
        one, many = delta.recurrent(*args, state), delta.chunked(*args, state, chunk=8)
        for name, a, b in zip(("outputs", "state", "residual"), one, many, strict=True):
            near(b, a, f"{name} of {tokens} tokens at decay {strength:g}", 1e-4)


def pieces_are_one_pass() -> None:
    """A stream in pieces gives the state of one pass."""
    q, k, v, g, b, _ = case(10)
    _, whole, _ = delta.chunked(q, k, v, g, b)
    state = None
    for here in (slice(0, 3), slice(3, 4), slice(4, 10)):
        _, state, _ = delta.chunked(*(x[:, here] for x in (q, k, v, g, b)), state)
    near(state, whole, "state in pieces", 1e-4)


def the_move_is_bounded() -> None:
    """A state moves by no more than it forgets and writes."""
    q, k, v, g, b, state = case(7)
    _, after, committed = delta.recurrent(q, k, v, g, b, state)
    ((forgot, wrote),) = drift.bound([state], [g], [committed])
    moved = (after - state).norm(dim=(-2, -1))
    assert (moved <= forgot + wrote + 1e-4).all(), f"moved {moved} > {forgot} + {wrote}"


def keys_have_length_one() -> None:
    """The length of keys and queries does not matter."""
    q, k, v, g, b, state = case(6)
    one, many = delta.recurrent(q, k, v, g, b, state), delta.recurrent(7 * q, 3 * k, v, g, b, state)
    near(many[1], one[1], "state", 1e-4)


def a_zero_key_writes_nothing() -> None:
    """A key of zeros (padding) gives no NaN and leaves the state to its decay."""
    q, k, v, g, b, state = case(3)
    _, after, _ = delta.chunked(q, 0 * k, v, g, b, state)
    near(after, g.sum(1).exp()[..., None, None] * state, "state")


CHECKS = {
    check.__name__: check
    for check in (
        a_step_by_hand,
        drift_by_hand,
        layers_and_heads_by_hand,
        a_constant_factor_changes_nothing,
        forgetting_alone_drifts,
        the_first_chunk_is_singular,
        small_moves_are_seen,
        states_are_copied,
        chunked_is_recurrent,
        pieces_are_one_pass,
        the_move_is_bounded,
        keys_have_length_one,
        a_zero_key_writes_nothing,
    )
}
