"""What turns a result stale, and what does not."""

import pytest
from project import CHECK, Project

from repro import digest

CODE = "import numpy as np\nfrom repro import plots\n\n\ndef f(x):\n    return x + 1\n"


@pytest.mark.parametrize(
    "other",
    [
        CODE.replace("x + 1", "x + 1  # why"),
        CODE.replace("return", '"""Says what."""\n    return'),
        CODE.replace("x + 1", "(x + 1)"),
        '"""A module."""\n' + CODE,
        CODE.replace("\n\n\n", "\n"),
    ],
)
def test_comments_docstrings_and_layout_do_not_count(other):
    assert digest.code_hash(other) == digest.code_hash(CODE)


@pytest.mark.parametrize("other", [CODE.replace("1", "2"), CODE.replace("x + 1", "x - 1")])
def test_code_counts(other):
    assert digest.code_hash(other) != digest.code_hash(CODE)


def test_closure_follows_imports_to_modules_and_pins():
    modules, packages = digest.closure("from repro.actkv import eviction\nimport torch.nn")
    assert {"repro", "repro.actkv", "repro.actkv.eviction", "repro.actkv.accept"} <= modules.keys()
    assert "repro.actkv.confidence" not in modules
    assert packages["torch"] == digest.pins()["torch"]
    assert packages["numpy"] == digest.pins()["numpy"]


def test_relative_and_inner_imports_are_seen(monkeypatch, tmp_path):
    package = tmp_path / "repro" / "thing"
    package.mkdir(parents=True)
    (tmp_path / "repro" / "__init__.py").write_text("")
    (package / "__init__.py").write_text("from . import a")
    (package / "a.py").write_text("def f():\n    from .b import g\n    return g")
    (package / "b.py").write_text("from .. import top\ng = 1")
    (tmp_path / "repro" / "top.py").write_text("")
    monkeypatch.setattr(digest, "ROOT", tmp_path)
    monkeypatch.setattr(digest, "pins", dict)
    modules, _ = digest.closure("import repro.thing")
    assert list(modules) == ["repro", "repro.thing", "repro.thing.a", "repro.thing.b", "repro.top"]


def test_a_number_and_its_text_differ():
    assert digest.code_hash("x = 1.0") != digest.code_hash("x = '1.0'")


def test_what_carries_a_result_is_no_part_of_it():
    modules, _ = digest.closure("from repro import records, plots")
    assert "repro.plots" in modules and not modules.keys() & digest.CARRIERS


def test_differences_are_named():
    old = {
        "cells": "a",
        "modules": {"repro.x": "1", "repro.y": "1"},
        "parameters": {"seed": 1},
        "assets": {},
        "packages": {"torch": "1"},
    }
    new = old | {
        "modules": {"repro.x": "2", "repro.y": "1"},
        "parameters": {"seed": 2},
        "assets": {"bfcl-v4": "0"},
        "packages": {"torch": "2"},
    }
    assert digest.differences(old, new) == [
        "module repro.x changed",
        "parameter seed (1 → 2)",
        "asset bfcl-v4 changed",
        "package torch (1 → 2)",
    ]
    assert digest.differences(old, old) == []


def test_a_changed_constant_marks_exactly_the_notebooks_that_import_it(tmp_path):
    project = Project(tmp_path)
    project.write("one", "from repro.actkv import eviction", CHECK)
    project.write("two", "from repro.actkv import confidence", CHECK)
    assert project.repro("run", "demo")[0] == 0
    assert project.states() == {"demo/one": "fresh", "demo/two": "fresh"}
    module = tmp_path / "repro" / "actkv" / "eviction.py"
    text = module.read_text()
    assert "decay: float = 0.5" in text
    module.write_text(text.replace("\nclass ", "\n# Why this is so.\nclass "))
    assert project.states() == {"demo/one": "fresh", "demo/two": "fresh"}
    module.write_text(text.replace("decay: float = 0.5", "decay: float = 0.6"))
    assert project.states() == {"demo/one": "stale", "demo/two": "fresh"}
    code, output = project.repro("status")
    assert code == 0 and "module repro.actkv.eviction changed" in output
    assert project.repro("run", "demo")[0] == 0
    assert project.states() == {"demo/one": "fresh", "demo/two": "fresh"}
    pins = tmp_path / "constraints.txt"
    pins.write_text(pins.read_text().replace("numpy==", "numpy==9."))
    assert project.states()["demo/two"] == "stale"
