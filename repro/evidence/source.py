"""What git holds of the code behind a result. Without git, or with a shallow clone, it says so."""

import hashlib
import json
import os
import subprocess
from collections.abc import Iterable, Mapping
from typing import Any

from repro import digest, notebooks, paths
from repro.errors import ReproError


def git(*arguments: str, given: bytes = b"") -> bytes:
    """What git prints. Raises ReproError where it fails or is not there."""
    plain = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=paths.ROOT, env=plain, input=given, capture_output=True
        )
    except OSError as error:
        raise ReproError(f"git cannot be run ({error.strerror}).") from error
    if done.returncode:
        last = (done.stderr.decode(errors="replace").strip().splitlines() or ["no message"])[-1]
        raise ReproError(f"git {arguments[0]} failed: {last}")
    return done.stdout


def head() -> str:
    """The commit that is checked out, 40 hex digits."""
    return git("rev-parse", "--verify", "HEAD^{commit}").decode().strip()


def unclean(names: Iterable[str]) -> list[str]:
    """Which of the files differ from the commit that is checked out, or are not in it."""
    said = git("status", "--porcelain", "-z", "--no-renames", "--", *names).decode()
    return sorted(entry[3:] for entry in said.split("\0") if entry)


def reachable(commit: str) -> bool | None:
    """Whether `commit` is HEAD or before it; None where it is not in the history held here."""
    try:
        shallow = git("rev-parse", "--is-shallow-repository").strip() == b"true"
        git("cat-file", "-e", f"{commit}^{{commit}}")
    except ReproError:
        return None
    try:
        git("merge-base", "--is-ancestor", commit, "HEAD")
    except ReproError:
        return None if shallow else False
    return True


def contents(commit: str, names: Iterable[str]) -> dict[str, bytes]:
    """Those of the files that are in `commit`, name -> content. Raises ReproError without git."""
    names = list(names)
    asked = "".join(f"{commit}:{name}\n" for name in names).encode()
    said, found = git("cat-file", "--batch", given=asked), {}
    for name in names:
        line, _, said = said.partition(b"\n")
        words = line.split()
        if len(words) == 3 and words[1] == b"blob":
            size = int(words[2])
            found[name], said = said[:size], said[size + 1 :]
    return found


def committed(name: str) -> str:
    """The text of a file in the commit that is checked out; empty where there is none."""
    try:
        return contents("HEAD", [name]).get(name, b"").decode(errors="replace")
    except ReproError:
        return ""


def files_of(entry: str, inputs: Mapping[str, Any]) -> list[str]:
    """The files behind a run's `inputs` that are here: notebook or script, modules, pins."""
    names = [p for module in inputs["modules"] for p in _places(module)]
    return [entry, *(p for p in names if (paths.ROOT / p).is_file()), "constraints.txt"]


def other_code(commit: str, entry: str, inputs: Mapping[str, Any]) -> list[str]:
    """Notebook or script, and modules, whose code in `commit` is not that of `inputs`."""
    places = {module: _places(module) for module in inputs["modules"]}
    held = contents(commit, [entry, *(p for both in places.values() for p in both)])
    odd = [] if _code(entry, held.get(entry)) == inputs["cells"] else [entry]
    for module, both in places.items():
        if inputs["modules"][module] not in [_code(p, held.get(p)) for p in both]:
            odd.append(module)
    return odd


def _places(module: str) -> tuple[str, str]:
    stem = module.replace(".", "/")
    return f"{stem}/__init__.py", f"{stem}.py"


def _code(name: str, content: bytes | None) -> str:
    """The hash of the code in a file, as `repro.digest` takes it; empty for none."""
    if content is None:
        return ""
    try:
        text = content.decode()
        if name.endswith(".ipynb"):
            code = [c for c in json.loads(text)["cells"] if c["cell_type"] == "code"]
            kept = [notebooks.source(c) for c in code if "parameters" not in notebooks.tags(c)]
            text = "\n".join(kept)
        return digest.code_hash(text)
    except (ValueError, KeyError, TypeError, SyntaxError):
        return hashlib.sha256(content).hexdigest()  # equal to no hash of code
