"""The command line: nine episodes, exit codes, a record that holds, and twelve that do not."""

import builtins
import copy
import json
import subprocess
import sys

import pytest

from repro import files
from repro.code_skills import command, summary, validate
from repro.paths import ROOT

SCRIPT = [sys.executable, "scripts/run_codehack_minihack.py"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    target = folder / "codehack-minihack-smoke.json"
    done = subprocess.run(
        [*SCRIPT, "--seeds", "42,43,44", "--max-decisions", "8", "--primitive-budget", "64",
         "--output", str(target)],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return target


@pytest.fixture
def value(made):
    return json.loads(made.read_text())


def test_nine_episodes_without_error(value):
    episodes = value["episodes"]
    assert len(episodes) == 9 and not any(e["error"] for e in episodes)
    assert {(e["mode"], e["seed"]["core"]) for e in episodes} == {
        (mode, seed) for mode in ("primitives", "skills", "mixed") for seed in (42, 43, 44)
    }
    assert value["checks"] == {
        "replay_identical": True,
        "budget_violations": 0,
        "seeds_applied": True,
    }
    assert len(value["replays"]) == 9 and value["paper_result_reproduced"] is False
    for e in episodes:  # the counters that the notes' section 6 found wrong elsewhere
        if e["mode"] == "primitives":
            assert e["primitive_steps"] == e["decisions"]
    assert validate.problems(value) == []


def test_the_record_names_no_machine(made, value):
    assert str(made.parent) not in made.read_text()
    assert value["command"][-1] == made.name


def test_the_validator_on_the_command_line(made, tmp_path):
    done = subprocess.run(
        [*SCRIPT, "--validate", str(made)], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0 and "9 episodes" in done.stdout
    bad = tmp_path / "bad.json"
    bad.write_text(made.read_text().replace('"success": false', '"success": true'))
    done = subprocess.run(
        [*SCRIPT, "--validate", str(bad)], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 1 and "problems" in done.stderr


def _rehash(value):
    """What somebody would do who knows the format."""
    value["summary"] = summary.summarise(value["episodes"])
    value["episodes_sha256"] = files.digest(value["episodes"])


def _steps(v):
    v["episodes"][0]["primitive_steps"] += 1
    _rehash(v)


def _won(v):
    v["episodes"][0]["success"] = True
    _rehash(v)


def _won_and_ended(v):
    v["episodes"][0] |= {"success": True, "end_status": "TASK_SUCCESSFUL", "stop_reason": "success"}
    v["episodes"][0]["terminated"] = True


def _action(v):
    v["episodes"][0]["actions"][0]["name"] = "goto_stairs"
    _rehash(v)


def _dropped(v):
    del v["episodes"][-1]
    v["replays"] = v["replays"][:-1]
    _rehash(v)


def _twice(v):
    v["episodes"][1] = copy.deepcopy(v["episodes"][0])
    _rehash(v)


def _budget(v):
    for e in v["episodes"]:
        e["budgets"] = [16, 64]
    v["budgets"]["max_decisions"] = 16
    _rehash(v)


def _mean(v):
    v["summary"][0]["success"] += 0.1


def _hash(v):
    v["episodes_sha256"] = "0" * 64


def _trajectory(v):
    v["episodes"][3]["trajectory_sha256"] = "1" * 64
    _rehash(v)


def _first(v):
    v["episodes"][4]["first_obs_sha256"] = "2" * 64
    _rehash(v)


def _proof(v):
    v["proofs"][0]["other"] = v["proofs"][0]["first"]


def _claim(v):
    v["paper_result_reproduced"] = True


def _library(v):
    v["skill_library"]["source_sha256"] = "3" * 64


def _seed(v):
    v["seeds"] = [42, 43, 45]


def _command(v):
    v["command"][1] = "1,2,3"


def _key(v):
    del v["proofs"]


TAMPERED = [
    _steps, _won, _won_and_ended, _action, _dropped, _twice, _budget, _mean, _hash, _trajectory,
    _first, _proof, _claim, _library, _seed, _command, _key,
]  # fmt: skip


@pytest.mark.parametrize("tamper", TAMPERED, ids=lambda f: f.__name__)
def test_a_tampered_copy_is_rejected(value, tamper):
    before = copy.deepcopy(value)
    tamper(value)
    assert value != before and validate.problems(value) != []


def test_what_is_no_record_is_one_problem():
    for junk in (None, [], {}, {"episodes": 3}, {k: None for k in validate.FIELDS}):
        assert validate.problems(junk)


BAD = [
    (["--seeds", "42,42"], "names a seed twice"),
    (["--seeds", "0"], ">= 1"),
    (["--seeds", "a"], "integers"),
    (["--max-decisions", "0"], "max_decisions=0"),
    (["--primitive-budget", "0"], "primitive_budget=0"),
    (["--tasks", "MiniHack-Nothing-v0"], "is not known"),
    (["--tasks", "MiniHack-MultiRoom-N2-v0"], "is excluded"),
    (["--modes", "keys"], "mode='keys'"),
    (["--controllers", "random,random"], "once"),
    (["--without", "dancing"], "without='dancing'"),
    (["--lgen-seed", "0"], "lgen_seed=0"),
    (["--validate", "nothing-here.json"], "not readable"),
]


@pytest.mark.parametrize(("argv", "says"), BAD)
def test_wrong_arguments_end_with_2(argv, says, capsys, tmp_path):
    assert command.main([*argv, "--output", str(tmp_path / "x.json")]) == 2
    assert says in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_the_other_backend_is_a_named_gap(capsys, tmp_path):
    assert command.main(["--backend", "codehack", "--output", str(tmp_path / "x")]) == 3
    says = capsys.readouterr().err
    assert "3026cdb7378726eace9efe8ab655f1aee616844f" in says and "backend.py" in says


def test_without_the_engine_the_exit_code_is_3(monkeypatch, capsys):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.split(".")[0] in ("nle", "minihack"):
            raise ImportError("no", name=name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    assert command.main([]) == 3
    assert "pip install nle==1.3.0 minihack==1.0.2" in capsys.readouterr().err


def test_an_episode_error_ends_with_1(monkeypatch, tmp_path, capsys):
    from repro.code_skills import pool

    real = pool.Player.play

    def broken(self, spec, ask=None):
        played = real(self, spec, ask)
        return played | {"error": "made up", "stop_reason": "error", "success": False}

    monkeypatch.setattr(pool.Player, "play", broken)
    argv = ["--seeds", "3", "--modes", "skills", "--output", str(tmp_path / "x.json")]
    assert command.main(argv) == 1
    assert "1 errors" in capsys.readouterr().out


def test_both_regimes_a_trace_and_one_map(tmp_path, capsys):
    argv = ["--seeds", "3", "--modes", "primitives", "--controllers", "script", "--regime", "both",
            "--trace", "--lgen-seed", "7", "--action-set", "task", "--primitive-budget", "12",
            "--output", str(tmp_path / "x.json")]  # fmt: skip
    assert command.main(argv) == 0
    found = json.loads((tmp_path / "x.json").read_text())
    assert [e["budgets"] for e in found["episodes"]] == [[8, 12], [12, 12]]
    assert found["tasks"][0]["level_source"] == "lgen"
    assert validate.problems(found) == []
    assert "MiniHack-Room-5x5-v0/primitives/script/3" in capsys.readouterr().out
