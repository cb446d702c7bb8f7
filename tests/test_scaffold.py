"""`repro new-chapter`: what it adds executes, passes and shows as a gap; what is there stays."""

import shutil
import subprocess
import sys

import pytest
from project import Project

from repro import paths, scaffold
from repro.errors import BadParameter
from repro.paths import ROOT

GIVEN = ("new-chapter", "fading", "--title", "Fading Scores & Sums", "--arxiv", "2610.01234")


@pytest.fixture
def project(tmp_path) -> Project:
    made = Project(tmp_path)
    shutil.copytree(ROOT / "book", tmp_path / "book")
    shutil.copy(ROOT / "_toc.yml", tmp_path)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return made


def test_the_new_chapter_executes_and_its_checks_bite(project):
    code, said = project.repro(*GIVEN)
    assert code == 0 and "Next: repro run fading" in said, said
    code, said = project.repro("run", "fading")
    assert code == 0 and "7 of 7 checks are green; 3 of 3 deliberate faults are caught" in said
    code, said = project.repro("run", "fading", "-p", "fault", "never_fades")
    assert code == 0 and "by_hand" in said, said  # the check that went red is named
    code, said = project.repro("ledger", "--explain", "fading-first")
    assert code == 0 and "gap" in said, said
    added = ["repro/fading", "tests/fading", "notebooks/fading"]
    for command in (("ruff", "check"), ("ruff", "format", "--check"), ("pytest", "-q", added[1])):
        given = [] if command[0] == "pytest" else added
        done = subprocess.run(
            [sys.executable, "-m", *command, *given],
            cwd=project.folder,
            env={"PYTHONPATH": str(project.folder), "PATH": ""},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_pages_list_the_new_chapter_and_keep_the_others(project):
    names = ("_toc.yml", "book/ledger.md", "evidence/claims.yml", "book/references.bib")
    before = {name: (project.folder / name).read_text() for name in names}
    assert project.repro(*GIVEN)[0] == 0
    for name, text in before.items():
        now = (project.folder / name).read_text()
        assert "fading" in now and set(text.splitlines()) <= set(now.splitlines())


@pytest.mark.parametrize(
    "changed, says",
    [
        ({"name": "actkv"}, "is there; accepted: a new chapter"),
        ({"name": "plots"}, "repro/plots.py is there"),  # a shared module's name
        ({"name": "../up"}, "name='../up'; accepted: a folder's name"),
        ({"name": "class"}, "name='class'"),
        ({"title": 'A "quoted" one'}, "accepted: a line without quotes"),
        ({"title": "${name}"}, "accepted: a line without quotes"),
        ({"arxiv": "2610.1"}, "arxiv='2610.1'; accepted: a number such as 2609.01234"),
    ],
)
def test_bad_arguments_change_nothing(project, monkeypatch, changed, says):
    monkeypatch.setattr(paths, "ROOT", project.folder)
    shutil.copytree(ROOT / "repro/actkv", project.folder / "repro/actkv", dirs_exist_ok=True)
    before = {p: p.stat().st_mtime_ns for p in project.folder.rglob("*")}
    given = {"name": "fading", "title": "Fading", "arxiv": "2610.01234"} | changed
    with pytest.raises(BadParameter) as refused:
        scaffold.new_chapter(**given)
    assert says in str(refused.value)
    assert {p: p.stat().st_mtime_ns for p in project.folder.rglob("*")} == before
