"""Every notebook of the book keeps the contract."""

import json

import project
import pytest

from repro import notebooks
from repro.errors import BadParameter, ReproError
from repro.paths import NOTEBOOKS

KEYS = notebooks.keys()


@pytest.mark.parametrize("key", KEYS)
def test_contract(key):
    notebook = notebooks.read(key)
    assert notebook.question.endswith(("?", "."))
    nb = json.loads((NOTEBOOKS / f"{key}.ipynb").read_text())
    assert (nb["nbformat"], nb["nbformat_minor"]) == (4, 5)
    for cell in nb["cells"]:
        assert len(notebooks.source(cell).splitlines()) < (25 if "outputs" in cell else 10**6)
        assert not cell.get("outputs") and cell.get("execution_count") is None
    ids = [cell["id"] for cell in nb["cells"]]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize(
    "kind, text, value",
    [
        ("int", "7", 7),
        ("int", "-7", -7),
        ("float", "7", 7.0),
        ("float", "1e-3", 0.001),
        ("bool", "True", True),
        ("str", "007", "007"),
        ("str", "None", "None"),
    ],
)
def test_text_becomes_the_declared_type(kind, text, value):
    default = {"int": 1, "float": 1.0, "bool": False, "str": ""}[kind]
    parsed = notebooks.Parameter("p", kind, default, "c").parse(text)
    assert parsed == value and type(parsed) is type(value)


@pytest.mark.parametrize(
    "kind, given",
    [("int", "7.0"), ("int", "1_0"), ("int", " 7"), ("int", True), ("bool", "1"), ("bool", 1),
     ("float", "x"), ("float", True), ("str", 7), ("int", "")],
)  # fmt: skip
def test_other_types_are_refused(kind, given):
    default = {"int": 1, "float": 1.0, "bool": False, "str": ""}[kind]
    with pytest.raises(BadParameter, match="Parameter p="):
        notebooks.Parameter("p", kind, default, "c").parse(given)


def test_unknown_notebook_lists_the_known_ones():
    with pytest.raises(BadParameter, match="actkv/confidence"):
        notebooks.read("actkv/nothing")


@pytest.mark.parametrize(
    "line",
    [
        "import importlib",
        "from importlib import import_module",
        "__import__('os')",
        "exec('x = 1')",
    ],
)
def test_code_that_no_digest_follows_is_refused(line):
    text = json.dumps(project.notebook(line, project.START.format(name="one"), project.FINISH))
    with pytest.raises(ReproError, match="which no digest follows"):
        notebooks.parse("demo/one", text)


def test_a_helper_beside_the_notebook_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(notebooks, "NOTEBOOKS", tmp_path)
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "helper.py").write_text("x = 1")
    text = json.dumps(
        project.notebook("import helper", project.START.format(name="one"), project.FINISH)
    )
    with pytest.raises(ReproError, match="uses helper, which no digest follows"):
        notebooks.parse("demo/one", text)


def test_hidden_folders_hold_no_notebooks(tmp_path, monkeypatch):
    monkeypatch.setattr(notebooks, "NOTEBOOKS", tmp_path)
    for folder in ("demo", ".ipynb_checkpoints"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "one.ipynb").write_text("{}")
    assert notebooks.keys() == ["demo/one"]


def test_a_parameters_cell_that_is_no_python_is_a_broken_rule():
    with pytest.raises(ReproError, match="code cell 1 is not plain Python"):
        notebooks.parse("demo/one", json.dumps(project.notebook(parameters="seed: int = = 1")))
