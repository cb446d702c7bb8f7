"""What must hold of `repro.toolsearcher.credit` and `answer`: worked vectors and invariants.

The vectors are worked by hand in the project's notes on arXiv 2609.30906, sections 2.2 and 2.5.
Everything is reached through the module, so that a planted fault is seen.
"""

import math

import numpy as np

from repro.toolsearcher import answer, credit

TARGETS = ("A", "B")
EVENTS = (  # what each search of four trajectories returned
    ({"A", "x"}, {"A", "B"}),
    ({"x"}, {"A"}),
    ({"A", "B"},),
    ({"B"}, {"B"}, {"A"}),
)
ANSWERS = ("A, B", "A", "A, B, c", "A, B")


def worked_group() -> list[credit.Trajectory]:
    """The four trajectories of the worked example."""
    texts = [f"Done. <tool_list>{names}</tool_list>" for names in ANSWERS]
    return [
        credit.Trajectory("q", events, answer.read_answer(text))
        for events, text in zip(EVENTS, texts, strict=True)
    ]


def _near(found, expected, what: str) -> None:
    found, expected = np.asarray(found, dtype=float), np.asarray(expected, dtype=float)
    same = found.shape == expected.shape and np.allclose(found, expected, rtol=0, atol=1e-4)
    assert same, f"{what}: {found} != {expected}"


def _searches(**options) -> list[list[float]]:
    return [c.search.tolist() for c in credit.group_credit(worked_group(), TARGETS, **options)]


def first_discovery_within_the_trajectory() -> None:
    """Each target counts for the first event of its own trajectory that returns it."""
    first = [credit.first_found(credit.hits(events, TARGETS)) for events in EVENTS]
    expected = ([[1, 0], [0, 1]], [[0, 0], [1, 0]], [[1, 1]], [[0, 1], [0, 0], [1, 0]])
    for i, (found, wanted) in enumerate(zip(first, expected, strict=True)):
        _near(found, wanted, f"first discoveries of trajectory {i + 1}")


def finding_again_earns_nothing() -> None:
    """A search that returns only what an earlier one returned earns 0, a useless one also."""
    first = credit.first_found(credit.hits([{"B"}, {"B"}, {"x"}, set()], TARGETS))
    _near(credit.search_advantage(first, np.array([1.0, 2.0])), [2, 0, 0, 0], "advantages")


def worked_search_advantages() -> None:
    """The search advantages of the worked group, sample and population deviation."""
    for std, b in (("sample", 0.5), ("population", 0.5774)):
        expected = ([0, b], [0, 0], [b], [b, 0, 0])
        for i, (found, wanted) in enumerate(zip(_searches(std=std), expected, strict=True)):
            _near(found, wanted, f"search advantage of trajectory {i + 1}, {std}")


def scores_by_number_of_finders() -> None:
    """With m finders of 5, a finder scores what the closed form says, for both deviations."""
    sample, population = (1.7889, 1.0954, 0.7303, 0.4472, 0), (2, 1.2247, 0.8165, 0.5, 0)
    for std, expected in (("sample", sample), ("population", population)):
        for m, score in enumerate(expected, 1):
            found = np.arange(5) < m
            _near(credit.standardised(found, std)[0], score, f"{m} finders, {std}")


def each_target_has_its_own_statistics() -> None:
    """A rare target scores more than a common one in the same group."""
    found = np.array([[1, 1], [0, 1], [0, 1], [0, 1], [0, 0]])
    _near(credit.standardised(found)[0], [1.7889, 0.4472], "scores of a rare and a common target")


def two_targets_pay_the_larger_score() -> None:
    """One search that finds two targets earns the larger score and not the sum."""
    first = np.array([[True, True]])
    _near(credit.search_advantage(first, np.array([0.4472, 1.0954])), [1.0954], "advantage")


def search_credit_is_never_negative() -> None:
    """In many random groups no search earns less than 0."""
    rng = np.random.default_rng(0)
    for _ in range(30):
        found = rng.random((5, 4, 3)) < 0.3  # [G, n, K]
        scores = credit.standardised(found.any(1))
        for hit, score in zip(found, scores, strict=True):
            worst = credit.search_advantage(credit.first_found(hit), score).min()
            assert worst >= 0, f"a search earns {worst}"


def mastered_target_pays_nobody() -> None:
    """A target that all find, or none, gives exactly 0 to everybody."""
    found = np.array([[1, 0, 1], [1, 0, 0], [1, 0, 1]], dtype=bool)
    assert credit.mastered(found).tolist() == [True, False, False], "mastered targets"
    scores = credit.standardised(found)
    assert (scores[:, :2] == 0).all(), f"scores of a mastered and of a lost target: {scores}"


def identical_rewards_give_zero() -> None:
    """Equal rewards give exactly 0, and no division by nothing, even without an epsilon."""
    for std in ("sample", "population"):
        for value in (0.0, 0.1, 1.1):
            given = credit.standardised(np.full(5, value), std, epsilon=0.0)
            assert np.array_equal(given, np.zeros(5)), f"rewards all {value}: {given}"


def rewards_of_the_worked_group() -> None:
    """Exact match and F1 of the four answers, each with the bonus for one block."""
    for score, expected in (("exact", (1.1, 0.1, 0.1, 1.1)), ("f1", (1.1, 0.7667, 0.9, 1.1))):
        found = [credit.selection_reward(t.answer, TARGETS, score) for t in worked_group()]
        _near(found, expected, f"rewards, {score}")


def answers_are_sets() -> None:
    """Order and repeats in an answer do not matter."""
    given = answer.read_answer("<tool_list>B , A,\nA, </tool_list>")
    _near(credit.selection_reward(given, TARGETS), 1.1, "reward of the same set")


def last_block_counts_without_bonus() -> None:
    """Of several answer blocks the last is scored and the bonus is lost; no block gives 0."""
    twice = answer.read_answer("<tool_list>c</tool_list> no: <tool_list>A,B</tool_list>")
    _near(credit.selection_reward(twice, TARGETS), 1.0, "reward of two blocks")
    for text in ("I found A and B.", "<tool_list>A,B"):
        none = credit.selection_reward(answer.read_answer(text), TARGETS)
        _near(none, 0.0, f"reward of {text!r}")


def worked_selection_advantages() -> None:
    """The selection advantages of the worked group, three conventions."""
    cases = (
        ({}, (0.8660, 0, -0.8660, 0.8660)),
        ({"score": "f1"}, (0.8165, 0, -0.4082, 0.8165)),
        ({"std": "population"}, (1, 0, -1, 1)),
    )
    for options, expected in cases:
        found = [c.selection for c in credit.group_credit(worked_group(), TARGETS, **options)]
        _near(found, expected, f"selection advantages, {options or 'defaults'}")


def gate_follows_the_statistics() -> None:
    """Mean and deviation include closed trajectories; the gate then gives exactly 0."""
    reward = np.array([1.1, 2 / 3 + 0.1, 0.9, 1.1])
    closed = np.array([True, False, True, True])
    _near(credit.selection_advantage(reward, closed), (0.8165, 0, -0.4082, 0.8165), "gated")
    before = credit.selection_advantage(reward, closed, gate="none")
    _near(before[1], -1.2247, "the closed trajectory before the gate")
    among = credit.selection_advantage(reward, closed, statistics="open")
    assert abs(among.sum()) < 1e-9 and among[1] == 0, f"normalised among the open ones: {among}"


def gate_needs_every_target() -> None:
    """The gate opens when the searches together found all targets, and not before."""
    found = np.array([[1, 1], [1, 0], [0, 0]], dtype=bool)
    assert credit.complete(found).tolist() == [True, False, False], "open gates"


def no_selection_turn_no_selection_credit() -> None:
    """A trajectory that ends in a call gets no selection value, but counts in the statistics."""
    group = worked_group()
    group[2] = credit.Trajectory("q", ({"A", "B"}, set()), None)
    found = credit.group_credit(group, TARGETS)
    assert found[2].selection is None and len(found[2].turns) == 2, "turns of the unfinished one"
    mean = (1.1 + 0.1 + 0.0 + 1.1) / 4
    spread = math.sqrt(sum((r - mean) ** 2 for r in (1.1, 0.1, 0.0, 1.1)) / 3)
    _near(found[0].selection, (1.1 - mean) / spread, "advantage beside an unfinished one")


def groups_go_by_query() -> None:
    """Credit of a batch does not depend on the order of its trajectories."""
    other = [
        credit.Trajectory("p", ({"C"},), answer.Answer(frozenset({"C"}), 1)),
        credit.Trajectory("p", (set(),), answer.Answer(frozenset(), 1)),
    ]
    batch, targets = worked_group() + other, {"q": TARGETS, "p": ("C",)}
    straight = credit.batch_credit(batch, targets)
    order = [4, 0, 1, 5, 2, 3]
    mixed = credit.batch_credit([batch[i] for i in order], targets)
    for at, i in enumerate(order):
        _near(mixed[at].turns, straight[i].turns, f"turns of trajectory {i + 1} in a mixed batch")


CHECKS = {
    check.__name__: check
    for check in (
        first_discovery_within_the_trajectory,
        finding_again_earns_nothing,
        worked_search_advantages,
        scores_by_number_of_finders,
        each_target_has_its_own_statistics,
        two_targets_pay_the_larger_score,
        search_credit_is_never_negative,
        mastered_target_pays_nobody,
        identical_rewards_give_zero,
        rewards_of_the_worked_group,
        answers_are_sets,
        last_block_counts_without_bonus,
        worked_selection_advantages,
        gate_follows_the_statistics,
        gate_needs_every_target,
        no_selection_turn_no_selection_credit,
        groups_go_by_query,
    )
}
