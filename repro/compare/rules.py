"""What makes a comparison unfair: each rule has a name, and breaking it is refused."""

from collections.abc import Mapping, Sequence
from typing import Any

from repro import schemas
from repro.compare import manifest as frozen
from repro.compare.refused import Refused


def check(manifest: Mapping[str, Any], runs: Sequence[Mapping[str, Any]]) -> None:
    """Refuse a set of runs that is not complete, matched and equal in what each arm could use.

    runs: one an arm and seed, fields as in evidence/schema/comparison.json.
    Raises Refused with the first rule that is broken, ReproError for a malformed run, NaN included.
    """
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
    for item, why in run[split]["unfinished"].items():
        if (score := run[split]["scores"][item]) != manifest["worst"]:
            says = f"{_of(run)}, {split}: {item!r} is {why} and scores {score:g}"
            raise Refused("unfinished_is_worst", says)


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
