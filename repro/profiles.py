"""Profiles: named notebook parameters and resources (``profiles/*.yml``), never code."""

from dataclasses import dataclass, field
from typing import Any

from repro import files
from repro.errors import BadParameter, ReproError
from repro.paths import ROOT

FOLDER = ROOT / "profiles"


@dataclass(frozen=True)
class Limits:
    """What one run may take: seconds a cell and a notebook, memory in GiB, threads."""

    cell_s: float = 300.0
    notebook_s: float = 600.0
    memory_gib: float = 12.0
    threads: int = 1


@dataclass(frozen=True)
class Profile:
    """Parameters by notebook and the seeds a committed result takes.

    tolerance: how far a metric of a re-execution may be from the record on file, relative to its
    size and at least 1; `tolerances` names notebooks that need another one.
    """

    name: str
    summary: str
    seeds: tuple[int, ...] = ()
    limits: Limits = Limits()
    parameters: dict[str, dict[str, Any]] = field(default_factory=dict)
    tolerance: float = 0.01
    tolerances: dict[str, float] = field(default_factory=dict)

    def tolerance_of(self, key: str) -> float:
        return self.tolerances.get(key, self.tolerance)


def names() -> list[str]:
    return ["default", *sorted(p.stem for p in FOLDER.glob("*.yml"))]


def read(name: str) -> Profile:
    """The profile `name`; ``default`` is each notebook's own defaults.

    Raises BadParameter for an unknown name, ReproError for a file with unknown fields.
    """
    if name == "default":
        return Profile("default", "each notebook's own defaults")
    if name not in names():
        raise BadParameter(f"Profile {name!r} does not exist; there are: {', '.join(names())}.")
    data = files.read_yaml(FOLDER / f"{name}.yml")
    try:
        return Profile(
            name=name,
            summary=data.pop("summary"),
            seeds=tuple(data.pop("seeds", ())),
            limits=Limits(**data.pop("limits", {})),
            parameters=data.pop("notebooks", None) or {},
            **data,
        )
    except (AttributeError, TypeError, KeyError) as error:
        raise ReproError(f"profiles/{name}.yml: {error}.") from error
