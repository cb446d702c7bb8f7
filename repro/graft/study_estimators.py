"""How far each step signal is from the true advantage, on random tabular processes (synthetic)."""

from collections.abc import Mapping

import numpy as np

from repro.errors import BadParameter
from repro.graft import controls, credit, graph, tabular, values

GRAFT = "GRAFT, one step"
VARIANTS = {  # how Graph GAE differs: sinks, weight of actions, edges that count
    "as defined": ("own", "count", "raw"),
    "each edge once": ("own", "count", "distinct"),
    "mean over distinct actions": ("own", "uniform", "raw"),
    "last state merged": ("merged", "count", "raw"),
}


def groups(n: int, size: int, seed: int, alias: float = 0.0, **shape: int) -> list[tuple]:
    """(group, true advantages [E]) of those of the `n` processes of `seed` with mixed outcomes.

    size: rollouts a group. alias: share of the states that are seen under another state's name.
    """
    if n < 1 or size < 2 or not 0 <= alias <= 1:
        raise BadParameter(
            f"n={n}, size={size}, alias={alias}: accepted: n >= 1, size >= 2, alias 0 to 1."
        )
    found = []
    for each in numbers(n, seed):
        rng = np.random.default_rng(each)
        process = tabular.draw(rng, **shape)
        names = _aliased(process, alias, np.random.default_rng([each, 1])) if alias else None
        group, passed = tabular.rollouts(process, size, rng, names)
        if tabular.mixed(group):
            found.append((group, tabular.advantages(process, group, passed)))
    return found


def numbers(n: int, seed: int) -> range:
    """Numbers of the `n` processes of `seed`; no two seeds share one."""
    return range(seed * 1_000_000, seed * 1_000_000 + n)


def signals(group: list[graph.Trajectory]) -> dict[str, np.ndarray]:
    """Every method's credit of every step, [E] each; sinks are typed."""
    built = graph.build(group)
    found = {name: control(built) for name, control in controls.CONTROLS.items()}
    value = values.solve(built, method="sparse")
    return found | {GRAFT: credit.one_step(built, value)}


def variants(group: list[graph.Trajectory], lam: float = 0.95) -> dict[str, tuple]:
    """For each variant (one-step credit, Graph GAE), [E] each."""
    found = {}
    for name, (sinks, weight, edges) in VARIANTS.items():
        built = graph.build(group, sinks=sinks)
        value = values.solve(built, weight=weight, method="sparse")
        step = credit.one_step(built, value)
        found[name] = step, credit.graph_gae(built, value, lam=lam, edges=edges)
    return found


def errors(found: Mapping[str, np.ndarray], true: np.ndarray) -> dict[str, float]:
    """Mean squared distance to the true advantage, a step at a time."""
    return {name: float(np.mean((signal - true) ** 2)) for name, signal in found.items()}


def proposition(group: list[graph.Trajectory], process: tabular.Process, passed: list) -> dict:
    """Both sides of Proposition 2's condition on one group, and whether its conclusion holds.

    left: |gamma e' - e| + max(|mean return - V|, sqrt(Var(R) / N)), right: the square root of the
    mean variance of returns given state and action, norms as root mean squares over the steps.
    """
    gamma, n = 0.99, len(group)
    built = graph.build([_timed(t) for t in group])
    value = values.solve(built, gamma, method="sparse")
    true = tabular.value(process, gamma)
    t = built.step
    at = np.concatenate([states[:-1] for states in passed])
    to = np.concatenate([states[1:] for states in passed])
    error = value[built.tail] - true[t, at]
    ahead = value[built.head] - true[t + 1, to]
    held = controls.returns(built, gamma)
    mean = controls.mean_by(built.tail, held)
    won = np.array([g.outcome for g in group])
    left = _rms(gamma * ahead - error) + max(_rms(mean - true[t, at]), np.sqrt(won.var() / n))
    inside = true[t + 1, to] * gamma  # P(success) and time are what the return varies with
    right = np.sqrt(np.mean(_return_variance(process, t, at, to, gamma)))
    exact = inside - true[t, at]
    mse = errors(signals([_timed(g) for g in group]), exact)
    holds = mse[GRAFT] <= min(mse["GiGPO step part"], mse["GRPO"]) + 1e-12
    return {"left": float(left), "right": float(right), "better": bool(holds)}


def _return_variance(process, t, at, to, gamma) -> np.ndarray:
    """Var(G_t | S_t, A_t) of each step: the walk is deterministic, so from the next state on."""
    first, second = tabular.value(process, gamma), tabular.value(process, gamma**2)
    return gamma**2 * np.maximum(second[t + 1, to] - first[t + 1, to] ** 2, 0)


def _timed(trajectory: graph.Trajectory) -> graph.Trajectory:
    """The same walk with the time in the state: Proposition 2 needs it there."""
    states = tuple((s, t) for t, s in enumerate(trajectory.states))
    return graph.Trajectory(states, trajectory.actions, trajectory.outcome, trajectory.task)


def _aliased(process: tabular.Process, share: float, rng: np.random.Generator) -> np.ndarray:
    """Names under which states are seen: a share of them (never the goal) bears another's."""
    names = np.arange(process.goal + 1)
    hidden = rng.permutation(process.goal)[: round(share * process.goal)]
    for state in hidden:
        names[state] = names[int(rng.integers(process.goal))]
    return names


def _rms(x: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(x))))
