"""From a profile to a branch of receipts, on a CPU, in a copy of the whole book."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from repro import runs
from repro.errors import BadParameter, ReproError
from repro.evidence.receipts import branch
from repro.paths import ROOT

FOLDERS = ("repro", "kernels", "notebooks", "profiles", "evidence", "book", "scripts")
FILES = ("constraints.txt", "pyproject.toml", "README.md", "_toc.yml", "_config.yml", ".gitignore")
PROFILE = """summary: small
seeds: [42]
notebooks:
  mad_rl/rewards: {}
"""


def git(root, *arguments):
    own = ("-c", "user.name=t", "-c", "user.email=t@t")
    done = subprocess.run(["git", *own, *arguments], cwd=root, check=True, capture_output=True)
    return done.stdout.decode()


@pytest.fixture
def book(tmp_path):
    """A copy of the project, committed, with the profile `small`."""
    ignore = shutil.ignore_patterns("__pycache__", "confirmations")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, tmp_path / name, ignore=ignore)
    for name in FILES:
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "profiles/small.yml").write_text(PROFILE)
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-q", "-m", "x")
    return tmp_path


def repro(root, *arguments):
    names = {
        f"GIT_{who}_{what}": "t@t" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    done = subprocess.run(
        [sys.executable, "-m", "repro.cli", *arguments],
        cwd=root,
        env=os.environ | names | {"PYTHONPATH": str(root), "COLUMNS": "300"},
        capture_output=True,
        text=True,
        timeout=280,
    )
    return done.returncode, done.stdout + done.stderr


def test_a_profile_ends_as_a_branch_that_validates(book):
    before = git(book, "rev-parse", "main")
    code, said = repro(book, "run", "--profile", "small", "--branch", "evidence/here")
    assert code == 0 and "Ready: branch evidence/here, 1 receipts" in said, said
    # what was checked out is as it was, and clean
    assert git(book, "rev-parse", "--abbrev-ref", "HEAD").strip() == "main"
    assert git(book, "rev-parse", "main") == before and git(book, "status", "--porcelain") == ""
    assert git(book, "rev-parse", "evidence/here~1") == before
    names = git(book, "diff", "--name-only", "main", "evidence/here").split()
    assert "evidence/records/mad_rl/rewards/small/seed-42.json" in names
    assert "evidence/executed/mad_rl/rewards/small/seed-42.ipynb" in names
    (name,) = [n for n in names if n.startswith("evidence/receipts/mad_rl/")]
    assert all(n.startswith(("evidence/", "book/receipts/")) for n in names)
    receipt = json.loads(git(book, "show", f"evidence/here:{name}"))
    assert receipt["outcome"] == "passed" and receipt["device"]["class"] == "CPU"
    assert receipt["source"]["commit"] == before.strip()
    assert "mad_rl/rewards, seed 42: passed" in git(
        book, "log", "-1", "--format=%B", "evidence/here"
    )
    # whoever checks the branch out finds it consistent; the name is taken now
    git(book, "switch", "-q", "evidence/here")
    code, said = repro(
        book, "evidence", "validate", "--level", "inputs", receipt["receipt_id"][:16]
    )
    assert code == 0 and "consistent" in said, said
    code, said = repro(book, "run", "--profile", "small", "--branch", "evidence/here")
    assert code == 2 and "'evidence/here' exists" in said


def plans(profile="cpu", **given):
    return [runs.plan("actkv/kernels", profile, 42, given)]


def authored(desk):
    desk.git("config", "user.name", "t")
    desk.git("config", "user.email", "t@t")
    desk.commit()


def test_what_would_spoil_the_end_is_said_at_the_start(desk):
    authored(desk)
    branch.ready("evidence/new", plans())
    with pytest.raises(BadParameter, match="runs as default; accepted: a profile with seeds"):
        branch.ready("evidence/new", plans("default"))
    for odd in ("a..b", "-x", "a b"):
        with pytest.raises(BadParameter, match="is no name of a branch"):
            branch.ready(odd, plans())
    (desk.root / "constraints.txt").write_text("numpy==1.0\n")
    with pytest.raises(ReproError, match="Not committed: constraints.txt"):
        branch.ready("evidence/new", plans())


def test_without_a_gpu_the_gpu_profile_computes_nothing(desk):
    before = desk.files()
    with pytest.raises(BadParameter, match="device='cuda' is not usable here"):
        branch.leave("evidence/new", plans("gpu"))
    assert desk.files() == before


def test_an_inconsistent_end_leaves_no_branch_and_loses_nothing(desk, monkeypatch):
    receipt = {"outcome": "passed", "reason": "", "device": {"class": "CPU"}}

    def spoiled(key, profile, seed):
        desk.record.write_text(desk.record.read_text().replace("0.5", "0.6"))
        return receipt | {"subject": key, "seeds": [seed]}

    authored(desk)
    monkeypatch.setattr(branch.attempt, "execute", spoiled)
    with pytest.raises(ReproError, match="No branch was made: .*is not what was recorded"):
        branch.leave("evidence/new", plans())
    assert desk.record.exists() and b"0.6" in desk.record.read_bytes()
    assert branch.source.git("branch", "--list", "evidence/*") == b""


def test_a_failed_run_is_committed_with_its_reason(desk, monkeypatch):
    from repro.evidence.receipts import attempt

    failed = runs.Outcome(plans()[0], "failed", "took longer than 5 s")
    monkeypatch.setattr(attempt, "timed", lambda run: (failed, "2026-12-02T10:00:00Z", 5.0))
    authored(desk)
    (made,) = branch.leave("evidence/new", plans())
    assert made["outcome"] == "timed_out"
    said = branch.source.git("log", "-1", "--format=%B", "evidence/new").decode()
    assert "actkv/kernels, seed 42: timed out (took longer than 5 s)" in said
