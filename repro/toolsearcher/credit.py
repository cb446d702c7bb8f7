"""Who earned what: the credit of ToolSearcher (arXiv 2609.30906) for searches and for selection.

G trajectories answer one query with K target tools. Trajectory i makes n_i searches; each is an
*event* with the set of tool names that could be read from the text returned to it. Then

    F(i,j)  = (targets in event j of i) - (those in earlier events of i)               Eq. 2
    z(i,t)  = (y(i,t) - mean_i y(i,t)) / (std_i y(i,t) + eps),  y(i,t) = i found t     Eq. 5
    search  A(i,j) = max of z(i,t) over t in F(i,j); 0 when F(i,j) is empty            Eq. 5
    select  A(i)   = (r_i - mean r) / (std r + eps) * [i found every target]           Eq. 7

Equation numbers as one public re-implementation gives them; the constants and what is marked
"repository" come from the authors' public code. What neither settles is an argument.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from repro.errors import BadParameter
from repro.toolsearcher.answer import Answer

STD, SCORES, GATES, STATISTICS = (
    ("sample", "population"),
    ("exact", "f1"),
    ("hard", "none"),
    ("all", "open"),
)


@dataclass(frozen=True)
class Trajectory:
    """What credit needs to know of one rollout.

    retrieved: one set of names an event, in order; empty for a call that failed, found nothing, or
    came on the last allowed turn and was never executed. answer: None when there is no selection
    turn (that last call, or a turn that did not fit), `Answer` with no blocks when there is one
    that answers nothing.
    """

    query: str
    retrieved: tuple[Collection[str], ...]
    answer: Answer | None

    def without(self, lost: Collection[int]) -> "Trajectory":
        """The same with only the turns before the first `lost` one (events 0, 1, …, selection)."""
        if not lost:
            return self
        return replace(self, retrieved=self.retrieved[: min(lost)], answer=None)


@dataclass(frozen=True)
class Credit:
    """Credit of one trajectory with n events.

    first: bool [n, K], targets found first by each event. search: [n] advantages, never negative.
    reward: selection reward. complete: whether its searches found every target. selection: the
    advantage of the selection turn, None without one.
    """

    first: np.ndarray
    search: np.ndarray
    reward: float
    complete: bool
    selection: float | None

    @property
    def turns(self) -> np.ndarray:
        """One advantage an assistant turn: the events, then the selection turn if there is one."""
        return np.append(self.search, [] if self.selection is None else self.selection)


def hits(retrieved: Sequence[Collection[str]], targets: Sequence[str]) -> np.ndarray:
    """Which event returned which target: bool [n, K]. Names that are no target do not matter.

    Raises BadParameter for no targets, a repeated one, or an event given as one text.
    """
    if isinstance(targets, str) or not len(targets) or len(set(targets)) < len(targets):
        raise BadParameter(
            f"targets={targets!r} is refused; accepted: one or more names, each once."
        )
    for j, names in enumerate(retrieved):
        if isinstance(names, str) or not isinstance(names, Collection):
            raise BadParameter(f"retrieved[{j}]={names!r} is refused; accepted: a set of names.")
    found = [[target in set(names) for target in targets] for names in retrieved]
    return np.array(found, dtype=bool).reshape(len(retrieved), len(targets))


def first_found(hit: np.ndarray) -> np.ndarray:
    """F: targets that no earlier event of the same trajectory returned. bool [n, K] -> [n, K]."""
    return hit & (np.cumsum(hit, axis=0) == 1)


def standardised(values: np.ndarray, std: str = "sample", epsilon: float = 1e-6) -> np.ndarray:
    """(value - mean) / (std + epsilon) over the group, axis 0 of [G] or [G, K].

    std: "sample" divides by G - 1 (repository), "population" by G (re-implementation). Where the
    whole group is equal the result is exactly 0: a target that all find, or none, pays nobody.
    Raises BadParameter for a group of one (its sample std is no number) and values not finite.
    """
    values = np.asarray(values, dtype=float)
    _one_of("std", std, STD)
    if not (np.isfinite(epsilon) and epsilon >= 0):
        raise BadParameter(f"epsilon={epsilon!r} is refused; accepted: a number >= 0.")
    if len(values) < 2:
        raise BadParameter(
            f"a group of {len(values)} trajectories is refused; accepted: 2 or more."
        )
    if not np.isfinite(values).all():
        raise BadParameter("values hold NaN or infinity; accepted: finite numbers.")
    spread = values.std(axis=0, ddof=1 if std == "sample" else 0) + epsilon
    same = values.max(axis=0) == values.min(axis=0)
    return np.where(same, 0.0, (values - values.mean(axis=0)) / np.where(same, 1.0, spread))


def search_advantage(first: np.ndarray, score: np.ndarray) -> np.ndarray:
    """The best score among what each event found first. bool [n, K], [K] -> [n].

    One who found a target never scores below 0 on it, so nothing here is negative; a search that
    finds nothing new gets exactly 0. Neither the number of targets nor the turn is weighed.
    """
    return np.max(np.where(first, score, 0.0), axis=1, initial=0.0)


def mastered(found: np.ndarray) -> np.ndarray:
    """Targets that every trajectory of the group finds. bool [G, K] -> [K]. They pay nobody."""
    return found.all(axis=0)


def complete(found: np.ndarray) -> np.ndarray:
    """The gate g: trajectories whose searches, taken together, found all targets. [G, K] -> [G]."""
    return found.all(axis=1)


def selection_reward(
    answer: Answer | None, targets: Sequence[str], score: str = "exact", bonus: float = 0.1
) -> float:
    """Score of the chosen set plus `bonus` for exactly one answer block (repository, both).

    score: "exact", 1 for the very set and else 0; "f1", the harmonic mean of precision and recall.
    Sets: order and repeats do not count. A name that is no target counts against the answer,
    whether such a tool exists or not. No answer turn or no block: 0. Two blocks: no bonus.
    """
    _one_of("score", score, SCORES)
    if answer is None or not answer.blocks:
        return 0.0
    chosen, wanted = set(answer.names), set(targets)
    if score == "exact":
        points = float(chosen == wanted)
    else:
        points = 2 * len(chosen & wanted) / (len(chosen) + len(wanted))
    return points + (bonus if answer.blocks == 1 else 0.0)


def selection_advantage(
    reward: np.ndarray,
    gate_open: np.ndarray,
    std: str = "sample",
    epsilon: float = 1e-6,
    gate: str = "hard",
    statistics: str = "all",
) -> np.ndarray:
    """Normalised reward, set to exactly 0 where the gate is closed. [G], bool [G] -> [G].

    Mean and std run over all G trajectories and the gate comes after (repository), so the result
    need not sum to 0. Other algorithms, by name: gate="none" leaves the gate out; statistics="open"
    normalises over the open trajectories only, and gives 0 when fewer than two are.
    """
    reward, gate_open = np.asarray(reward, dtype=float), np.asarray(gate_open, dtype=bool)
    _one_of("gate", gate, GATES)
    _one_of("statistics", statistics, STATISTICS)
    if statistics == "open":
        if gate == "none":
            raise BadParameter("statistics='open' is refused with gate='none'; accepted: 'all'.")
        result = np.zeros(len(reward))
        if gate_open.sum() > 1:
            result[gate_open] = standardised(reward[gate_open], std, epsilon)
        return result
    result = standardised(reward, std, epsilon)
    return result if gate == "none" else np.where(gate_open, result, 0.0)


def group_credit(
    group: Sequence[Trajectory],
    targets: Sequence[str],
    std: str = "sample",
    score: str = "exact",
    bonus: float = 0.1,
    gate: str = "hard",
    statistics: str = "all",
    epsilon: float = 1e-6,
) -> list[Credit]:
    """Credit of each trajectory of one query's group; arguments as in the functions above."""
    first = [first_found(hits(one.retrieved, targets)) for one in group]
    found = np.array([f.any(axis=0) for f in first]).reshape(len(group), len(targets))  # y
    z = standardised(found, std, epsilon)
    rewards = np.array([selection_reward(one.answer, targets, score, bonus) for one in group])
    whole = complete(found)
    chosen = selection_advantage(rewards, whole, std, epsilon, gate, statistics)
    return [
        Credit(
            first=first[i],
            search=search_advantage(first[i], z[i]),
            reward=float(rewards[i]),
            complete=bool(whole[i]),
            selection=None if one.answer is None else float(chosen[i]),
        )
        for i, one in enumerate(group)
    ]


def batch_credit(
    batch: Sequence[Trajectory], targets: Mapping[str, Sequence[str]], **options
) -> list[Credit]:
    """`group_credit` of a batch in any order: grouped by `Trajectory.query` and by nothing else.

    targets: those of each query. Raises BadParameter for a query without targets there.
    """
    members: dict[str, list[int]] = {}
    for i, one in enumerate(batch):
        members.setdefault(one.query, []).append(i)
    result: dict[int, Credit] = {}
    for query, group in members.items():
        if query not in targets:
            raise BadParameter(f"query={query!r} has no targets; accepted: {sorted(targets)}.")
        credits = group_credit([batch[i] for i in group], targets[query], **options)
        result |= dict(zip(group, credits, strict=True))
    return [result[i] for i in range(len(batch))]


def _one_of(name: str, value: str, accepted: tuple[str, ...]) -> None:
    if value not in accepted:
        raise BadParameter(f"{name}={value!r} is refused; accepted: {accepted}.")
