"""What is fixed before any arm runs, and its hash.

A manifest names the question, the metric, the arms with their roles, the seeds, the caps and the
items of every split. Runs carry its hash, so nothing can be decided afterwards.
"""

import hashlib
import re
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from repro import files, schemas
from repro.compare.refused import Refused

ROLES = ("baseline", "candidate", "untouched", "zero_learning_rate", "other_data_seed", "placebo")
SANITY = ROLES[2:]
SPLITS = ("train", "validation", "test")


def freeze(
    *,
    question: str,
    metric: str,
    direction: str,
    margin: float,
    arms: Mapping[str, str],
    seeds: Sequence[int],
    caps: Mapping[str, float],
    splits: Mapping[str, Mapping[str, Any]],
    checkpoint_rule: str,
    settings: int = 1,
    constraint: str | None = None,
    worst: float = 0.0,
    tolerance: float = 1e-9,
) -> dict[str, Any]:
    """The manifest, checked.

    direction: "higher" or "lower" is better. margin: smallest difference of `metric` that would
    matter. arms: name -> role, one of `ROLES`. caps: what every arm may use, such as updates,
    tokens a generation or FLOPs. splits: from `split`, for train, validation and test. settings:
    hyper-parameter settings each arm may try. constraint: the cap under test, which has to bind
    somewhere. worst: score of an item that was cut off or gave no answer.
    tolerance: a smaller difference of validation means is a tie.

    Raises Refused, naming the rule.
    """
    made = {
        "question": question,
        "metric": metric,
        "direction": direction,
        "margin": float(margin),
        "arms": dict(arms),
        "seeds": sorted(seeds),
        "caps": {name: float(value) for name, value in sorted(caps.items())},
        "splits": {name: dict(splits[name]) for name in SPLITS if name in splits},
        "checkpoint_rule": checkpoint_rule,
        "settings": settings,
        "constraint": constraint,
        "worst": float(worst),
        "tolerance": float(tolerance),
    }
    check(made)
    return made


def check(manifest: dict[str, Any]) -> None:
    """Raises ReproError for a field that is not as the schema says, Refused for a broken rule."""
    schemas.check("comparison", {"manifest": manifest, "runs": []}, "Manifest")
    arms = manifest["arms"]
    if list(arms.values()).count("baseline") != 1:
        raise Refused("one_baseline", f"arms have roles {sorted(arms.values())}")
    if "candidate" not in arms.values():
        raise Refused("two_arms", f"arms are {sorted(arms)}, none of them a candidate")
    if len(set(manifest["seeds"])) < 3:
        raise Refused("three_seeds", f"seeds are {manifest['seeds']}")
    if manifest["constraint"] not in (None, *manifest["caps"]):
        raise Refused("known_constraint", f"constraint={manifest['constraint']!r} is no cap")
    _disjoint(manifest["splits"])


def split(items: Mapping[str, str], source: str, revision: str) -> dict[str, Any]:
    """One split: its items by id, each with the hash of its text.

    items: id -> text. An item counts as the same when only case, accents, punctuation or spacing
    differ.
    """
    ids = sorted(items)
    return {
        "source": source,
        "revision": revision,
        "ids": ids,
        "texts": [hashlib.sha256(plain(items[i]).encode()).hexdigest() for i in ids],
    }


def plain(text: str) -> str:
    """`text` without case, accents, punctuation and spacing; numbers and operators stay."""
    text = unicodedata.normalize("NFKD", text).casefold()
    text = "".join(c for c in text if not unicodedata.combining(c))
    return " ".join(re.findall(r"[^\W_]+|[-+*/=<>^%×÷−]", text))


def digest(manifest: Mapping[str, Any]) -> str:
    """The hash that every run carries."""
    return files.digest(manifest)


def check_files(manifest: Mapping[str, Any], folder: Path) -> None:
    """Hold the revision of every split, where it is a SHA-256, against a file of `folder`.

    Raises Refused for a split whose file is not there or is another one.
    """
    there = {files.sha256(path) for path in Path(folder).rglob("*") if path.is_file()}
    for name, one in manifest["splits"].items():
        if one["revision"].removeprefix("sha256:") not in there:
            raise Refused("revision_checked", f"no file in the folder is the {name} split's")


def _disjoint(splits: Mapping[str, Mapping[str, Any]]) -> None:
    seen: dict[str, str] = {}
    for name, one in splits.items():
        if len(one["ids"]) != len(set(one["ids"])) or len(one["texts"]) != len(one["ids"]):
            raise Refused("disjoint_splits", f"{name} names an item twice, or misses a text")
        for key in (*(f"id {i}" for i in one["ids"]), *(f"text {t}" for t in one["texts"])):
            if seen.setdefault(key, name) != name:
                raise Refused("disjoint_splits", f"{key[:24]} is in {seen[key]} and in {name}")
