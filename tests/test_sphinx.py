"""What a notebook's page shows: fresh outputs, a stale banner, or a gap card."""

import json
import os
import subprocess
import sys

from project import CHECK, Project

PAGE = """
import json, sys
from repro import sphinx
from repro.paths import NOTEBOOKS
shown = sphinx.page("demo/a", (NOTEBOOKS / "demo/a.ipynb").read_text())
print(json.dumps(shown))
"""


def page(project: Project) -> dict:
    done = subprocess.run(
        [sys.executable, "-c", PAGE],
        cwd=project.folder,
        env=os.environ | {"PYTHONPATH": str(project.folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def text(shown: dict) -> str:
    return json.dumps(shown, ensure_ascii=False)


def test_gap_then_fresh_then_stale(tmp_path):
    project = Project(tmp_path)
    path = project.write("a", 'print("the value is", 7)', CHECK)
    shown = text(page(project))
    assert "eb-banner gap" in shown and "eb-gap" in shown and "repro run demo/a" in shown
    assert "the value is 7" not in shown

    assert project.repro("run", "demo/a")[0] == 0
    shown = text(page(project))
    assert "eb-banner fresh" in shown and "the value is 7" in shown and "eb-gap" not in shown
    assert "1 of 1 checks green" in shown and "1 of 1 deliberate faults caught" in shown
    assert "application/vnd.repro" not in shown
    assert "Where these outputs come from" in shown and "`seed=42`" in shown

    path.write_text(path.read_text().replace("# Demo", "# Demo, reworded"))
    shown = text(page(project))
    assert "eb-banner fresh" in shown and "Demo, reworded" in shown and "the value is 7" in shown

    path.write_text(path.read_text().replace('\\"the value is\\", 7', '\\"the value is\\", 8'))
    shown = text(page(project))
    assert "eb-banner stale" in shown and "the notebook's code changed" in shown
    assert "the value is 7" in shown and 'is\\", 8' not in shown

    (copy,) = project.results()
    copy.write_text(copy.read_text().replace("the value is 7", "the value is 9"))
    shown = text(page(project))
    assert "eb-banner gap" in shown and "the value is 9" not in shown  # edited by hand


def test_notebook_whose_data_is_missing_is_a_gap_and_not_a_failure(tmp_path, monkeypatch):
    project = Project(tmp_path)
    path = project.write("a", CHECK)
    path.write_text(path.read_text().replace("globals())", "globals(), assets=['gsm8k'])"))
    alone = {"REPRO_CACHE": str(tmp_path / "cache"), "REPRO_MIRROR": ""}
    code, output = project.repro("status", **alone)
    assert code == 0 and "asset gsm8k is not here: run `repro fetch gsm8k`" in output
    monkeypatch.setenv("REPRO_CACHE", alone["REPRO_CACHE"])
    monkeypatch.setenv("REPRO_MIRROR", "")
    shown = text(page(project))
    assert "eb-gap" in shown and "repro fetch gsm8k" in shown


def test_outputs_never_move_to_another_cell(tmp_path):
    project = Project(tmp_path)
    path = project.write("a", 'print("first")', 'print("second")', CHECK)
    assert project.repro("run", "demo/a")[0] == 0
    nb = json.loads(path.read_text())
    first, second = nb["cells"][3], nb["cells"].pop(4)
    first["source"] += "\n" + second["source"]
    path.write_text(json.dumps(nb))
    assert project.states() == {"demo/a": "stale"}
    shown = text(page(project))
    assert "eb-banner stale" in shown and "the cells are cut otherwise" in shown
    assert project.repro("run", "demo/a")[0] == 0
    assert project.states() == {"demo/a": "fresh"}


def test_stale_page_shows_the_run_that_its_banner_names(tmp_path):
    project = Project(tmp_path)
    path = project.write("a", 'print("share is", share)', CHECK)
    assert project.repro("run", "demo/a")[0] == 0
    assert project.repro("run", "demo/a", "-p", "share", "0.9")[0] == 0
    path.write_text(path.read_text().replace("share is", "share was"))
    shown = text(page(project))
    assert "eb-banner stale" in shown and "share is 0.5" in shown and "0.9" not in shown
