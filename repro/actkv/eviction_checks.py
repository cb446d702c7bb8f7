"""What must hold of `repro.actkv.eviction` and `access`: worked vectors, invariants, milliseconds.

Sources: arXiv 2609.31395, Algorithms 1 and 3; the vectors are worked by hand in the project's
notes, section 2.5. Everything is reached through the module, so that a planted fault is seen.
"""

import numpy as np

from repro.actkv import access, eviction

FIRST = (0.05, 0.05, 0.8, 0.1)
SECOND = (0.0, 0.0, 0.0, 0.05, 0.95, 0.0)
ROOMY = 100  # a budget that evicts nothing


def _two_rounds(**options) -> eviction.ActionLRFU:
    policy = eviction.ActionLRFU(**options)
    for row in (FIRST, SECOND):
        policy.observe(row)
        policy.step(len(row), ROOMY)
    return policy


def _same(found, expected, what: str) -> None:
    found, expected = np.asarray(found), np.asarray(expected)
    same = found.shape == expected.shape and np.allclose(found, expected, rtol=0, atol=1e-12)
    assert same, f"{what}: {found} != {expected}"


def recurrence_of_two_rounds() -> None:
    """Two rounds worked by hand give the scores 0.4, 0.05 and 0.95."""
    policy = eviction.ActionLRFU()
    policy.observe(FIRST)
    policy.step(4, ROOMY)
    _same(policy.last_hits, [2, 3], "hits of round 1")
    _same(policy.score, [0, 0, 0.8, 0.1], "score after round 1")
    policy.observe(SECOND)
    policy.step(6, ROOMY)
    _same(policy.last_hits, [4], "hits of round 2")
    _same(policy.score, [0, 0, 0.4, 0.05, 0.95, 0], "score after round 2")


def nucleus_takes_the_crossing_entry() -> None:
    """The entry that crosses the mass p is in the hit set."""
    _same(eviction.hit_set((0.5, 0.05, 0.3, 0.15, 0.0)), [0, 2, 3], "hits")


def nucleus_survives_rounding() -> None:
    """A sum that reaches p but for rounding takes no entry too many."""
    for kind in (np.float64, np.float32):
        _same(eviction.hit_set(np.array(FIRST, dtype=kind)), [2, 3], "0.8 + 0.1 against 0.9")
        row = np.array((0.05, 0.05, 0.7, 0.2), dtype=kind)  # in floats 0.7 + 0.2 < 0.9
        _same(eviction.hit_set(row), [2, 3], "0.7 + 0.2 against 0.9")


def zero_attention_never_hits() -> None:
    """An entry without attention is never hit."""
    _same(eviction.hit_set((0.0, 1.0, 0.0), mass=1.0), [1], "hits at mass 1")
    _same(eviction.hit_set(np.zeros(4)), np.zeros(0), "hits without any attention")


def ties_go_to_the_newer_slot() -> None:
    """Among equal scores the newer slot stays."""
    _same(eviction.hit_set((0.25, 0.25, 0.25, 0.25), mass=0.5), [2, 3], "hits among equals")
    policy = eviction.ActionLRFU()
    policy.observe((0, 1, 0, 0, 0))
    _same(policy.step(5, 3), [1, 3, 4], "kept among equal scores")
    _same(policy.share_zero, 2 / 3, "share of kept entries with score 0")


def prefix_is_never_evicted() -> None:
    """The protected prefix stays, whatever its score."""
    policy = eviction.ActionLRFU(protected=2)
    for length in (6, 5, 5):  # two slots of prefix and two kept, then one new
        policy.observe(np.full(length, 1 / length))
        kept = policy.step(length, 2)
        _same(kept[:2], [0, 1], "prefix among the kept")


def prefix_is_outside_the_mass() -> None:
    """The prefix takes no part in the mass of the hit set."""
    sink = (0.9, 0.0, 0.06, 0.03, 0.01)
    _same(eviction.hit_set(sink, protected=1), [2, 3], "hits beside a heavy prefix")


def prefix_is_outside_the_budget() -> None:
    """The budget counts unprotected entries only."""
    policy = eviction.ActionLRFU(protected=3)
    policy.observe(np.full(10, 0.1))
    assert len(policy.step(10, 4)) == 7, "kept is not prefix + budget"


def group_maximum_of_probabilities() -> None:
    """Query heads of a group are joined by the maximum of probabilities."""
    attn = np.array([[[[0.8, 0.2]], [[0.3, 0.7]]], [[[0.5, 0.5]], [[0.1, 0.9]]]])
    _same(eviction.action_attention(attn), [0.65, 0.8], "max over G, mean over KV heads")


def mean_over_action_tokens_is_incremental() -> None:
    """Attention folded in token by token equals the mean over the action."""
    attn = np.random.default_rng(0).dirichlet(np.ones(6), size=(2, 3, 4))  # [H_k, G, A, S]
    whole, pieces = eviction.ActionLRFU(mass=1.0), eviction.ActionLRFU(mass=1.0)
    attn[..., 0, 3:] = 0  # appended after the first query
    whole.observe(attn)
    pieces.observe(attn[:, :, :1, :3])
    pieces.observe(attn[:, :, 1:])
    for policy in (whole, pieces):
        policy.step(6, ROOMY)
    _same(pieces.score, whole.score, "score from pieces against one pass")
    _same(whole.score, eviction.action_attention(attn), "score of the first round")


def survivors_carry_their_scores() -> None:
    """Scores move with the entries that survive an eviction."""
    policy = eviction.ActionLRFU(mass=1.0)
    policy.observe((0.1, 0.6, 0.0, 0.3))
    _same(policy.step(4, 2), [1, 3], "kept in round 1")
    _same(policy.score, [0.6, 0.3], "score of the survivors")
    policy.observe((0.0, 0.0, 1.0))
    _same(policy.step(3, 2), [0, 2], "kept in round 2")
    _same(policy.score, [0.3, 1.0], "score of the survivors of round 2")


def decay_zero_forgets_and_one_does_not() -> None:
    """Decay 0 keeps the last round only; decay 1 keeps every round."""
    _same(_two_rounds(decay=0.0).score, [0, 0, 0, 0, 0.95, 0], "score at decay 0")
    _same(_two_rounds(decay=1.0).score, [0, 0, 0.8, 0.1, 0.95, 0], "score at decay 1")


def nothing_is_evicted_within_the_budget() -> None:
    """Nothing is evicted while the budget suffices."""
    policy = eviction.ActionLRFU(protected=1)
    policy.observe(np.full(5, 0.2))
    _same(policy.step(5, 4), np.arange(5), "kept when the budget is not exceeded")


def a_round_without_action_changes_nothing() -> None:
    """A round without an action changes neither scores nor cache."""
    policy = _two_rounds()
    before = policy.score
    _same(policy.step(8, 2), np.arange(8), "kept")
    _same(policy.score, [*before, 0, 0], "score")


def access_classes_by_definition() -> None:
    """Hand-made access vectors fall into their classes."""
    hits = [np.array([0, 1]), np.array([1]), np.array([0, 2])]
    vectors = access.access_vectors(hits, 4)
    found = access.access_classes(vectors, np.array([0, 0, 2, 1])).tolist()
    expected = ["intermittent", "continuous", "continuous", "never"]
    assert found == expected, f"classes {found}"
    assert access.access_class([False, True, True]) == "cold-start", "first bit 0"


CHECKS = {
    check.__name__: check
    for check in (
        recurrence_of_two_rounds,
        nucleus_takes_the_crossing_entry,
        nucleus_survives_rounding,
        zero_attention_never_hits,
        ties_go_to_the_newer_slot,
        prefix_is_never_evicted,
        prefix_is_outside_the_mass,
        prefix_is_outside_the_budget,
        group_maximum_of_probabilities,
        mean_over_action_tokens_is_incremental,
        survivors_carry_their_scores,
        decay_zero_forgets_and_one_does_not,
        nothing_is_evicted_within_the_budget,
        a_round_without_action_changes_nothing,
        access_classes_by_definition,
    )
}
