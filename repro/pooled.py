"""Committed records of one notebook taken together: items paired over arms, pooled over seeds.

An item that several seeds drew counts once, with the mean of its values.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Pooled:
    """One comparison: `arms` holds for each arm a value for each of the items `ids`."""

    metric: str
    unit: str
    item: str
    ids: tuple[str, ...]
    arms: Mapping[str, np.ndarray]

    def differences(self, subject: str, arm: str) -> np.ndarray:
        """Value of `subject` less that of `arm`, [items]."""
        return self.arms[subject] - self.arms[arm]


def comparisons(records: Iterable[Mapping[str, Any]]) -> list[Pooled]:
    """Every comparison of the records, in the order of the first record.

    An arm that a record lacks, or an item that an arm lacks, is left out: pairs must be complete.
    """
    found: dict[str, list[Mapping[str, Any]]] = {}
    for record in records:
        for comparison in record["comparisons"]:
            found.setdefault(comparison["metric"], []).append(comparison)
    return [_pool(same) for same in found.values()]


def _pool(same: list[Mapping[str, Any]]) -> Pooled:
    arms = [arm for arm in same[0]["arms"] if all(arm in c["arms"] for c in same)]
    values: dict[str, list[list[float]]] = {}
    for comparison in same:
        columns = zip(*(comparison["arms"][arm] for arm in arms), strict=True)
        for name, row in zip(comparison["ids"], columns, strict=True):
            values.setdefault(name, []).append(list(row))
    table = np.array([np.mean(rows, axis=0) for rows in values.values()])
    return Pooled(
        metric=same[0]["metric"],
        unit=same[0]["unit"],
        item=same[0]["item"],
        ids=tuple(values),
        arms=dict(zip(arms, table.T, strict=True)),
    )
