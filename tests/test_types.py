"""Modules that mypy spares are only those whose code is hashed with a result."""

import tomllib

import pytest

from repro import digest, notebooks, pictures
from repro.paths import ROOT

SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]
THIRD_PARTY = {"ignore_missing_imports": True}, {"follow_imports": "skip"}


def spared(**how: bool) -> list[str]:
    """Modules of the one override that says just `how`."""
    (entry,) = [o for o in SETTINGS["overrides"] if {k: o[k] for k in o.keys() - {"module"}} == how]
    return entry["module"]


LOOSE = spared(disallow_untyped_defs=False)
IGNORED = spared(ignore_errors=True)


def hashed() -> set[str]:
    """Modules in the code digest of a notebook, or of a picture that is kept as a file."""
    codes = ["\n".join(notebooks.read(key).cells) for key in notebooks.keys()]
    codes += [f"import repro.pictures.{name}" for name in pictures.COMMITTED]
    return {module for code in codes for module in digest.closure(code)[0]}


def test_spared_modules_are_hashed_with_a_result():
    known = hashed()
    assert [name for name in LOOSE + IGNORED if name not in known] == []


@pytest.mark.parametrize("names", [LOOSE, IGNORED], ids=["loose", "ignored"])
def test_spared_modules_exist_and_are_named_once(names):
    assert names == sorted(set(names))
    for name in names:
        place = ROOT.joinpath(*name.split("."))
        assert place.with_suffix(".py").is_file() or (place / "__init__.py").is_file(), name
    assert not set(LOOSE) & set(IGNORED)


def test_lists_only_shrink():
    assert len(LOOSE) <= 79 and len(IGNORED) <= 118


def test_nothing_else_is_spared():
    assert SETTINGS["check_untyped_defs"] and SETTINGS["disallow_untyped_defs"]
    ways = [{k: o[k] for k in o.keys() - {"module"}} for o in SETTINGS["overrides"]]
    assert [way for way in ways if way not in THIRD_PARTY] == [
        {"disallow_untyped_defs": False},
        {"ignore_errors": True},
    ]
    ours = {name.partition(".")[0] for o in SETTINGS["overrides"] for name in o["module"]}
    third = [n for o in SETTINGS["overrides"][:2] for n in o["module"]]
    assert not {"repro", "kernels", "scripts"} & {name.partition(".")[0] for name in third}
    assert {"repro", "kernels"} <= ours
