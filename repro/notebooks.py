"""The notebook contract: what a chapter's notebook declares, and whether it keeps the rules.

Papermill accepts unknown parameters, derived defaults and a missing tag without a word, and
guesses types from text (anchors: rows 1 to 5, 10). Here the notebook itself is the schema.
"""

import ast
import io
import json
import keyword
import tokenize
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from repro.errors import BadParameter, ReproError
from repro.paths import NOTEBOOKS

TYPES = {"int": int, "float": float, "str": str, "bool": bool}
REQUIRED = {"seed": "int", "device": "str", "fault": "str", "record": "str"}
FORBIDDEN_TAGS = {"raises-exception", "skip-execution"}


@dataclass(frozen=True)
class Parameter:
    """One line of the parameters cell: ``name: type = default  # comment``."""

    name: str
    type: str
    default: Any
    comment: str

    def parse(self, value: Any) -> Any:
        """`value` (text from a command line, or a Python value) as this parameter's type.

        Raises BadParameter unless the value is exactly of the type: ``007`` is not an int.
        """
        kind = TYPES[self.type]
        if type(value) is kind:
            return value
        if self.type == "float" and type(value) is int:
            return float(value)
        if isinstance(value, str):
            parsed = _from_text(value, self.type)
            if parsed is not None:
                return parsed
        raise BadParameter(
            f"Parameter {self.name}={value!r} is not accepted: it takes {_ACCEPTED[self.type]}"
            f" (default {self.default!r}: {self.comment})."
        )


_ACCEPTED = {
    "int": "an integer written plainly, such as 42",
    "float": "a number, such as 0.5",
    "str": "text",
    "bool": "true or false",
}


def _from_text(text: str, kind: str) -> Any:
    if kind == "bool":
        return {"true": True, "false": False}.get(text.lower())
    try:
        value = TYPES[kind](text)
    except ValueError:
        return None
    # Only the plain spelling counts: int("007") and int("1_0") would change what was typed.
    return None if kind == "int" and str(value) != text else value


@dataclass(frozen=True)
class Notebook:
    """A source notebook that keeps the contract. `cells` are its code cells' sources, in order."""

    key: str
    title: str
    question: str
    parameters: dict[str, Parameter]
    assets: tuple[str, ...]
    cells: tuple[str, ...]

    @property
    def path(self) -> Path:
        return NOTEBOOKS / f"{self.key}.ipynb"

    def values(self, given: dict[str, Any] | None = None) -> dict[str, Any]:
        """Every parameter with its value: the defaults, overlaid with `given`.

        Raises BadParameter for a name the notebook does not declare or a value of another type.
        """
        given = given or {}
        for name in given:
            if name not in self.parameters:
                raise BadParameter(
                    f"Parameter {name!r} is unknown to {self.key}; it accepts: "
                    + ", ".join(f"{p.name} ({p.type})" for p in self.parameters.values())
                    + "."
                )
        return {
            name: p.parse(given[name]) if name in given else p.default
            for name, p in self.parameters.items()
        }


def keys() -> list[str]:
    """All notebooks as ``paper/subject``, sorted."""
    found = (p.relative_to(NOTEBOOKS) for p in NOTEBOOKS.glob("*/*.ipynb"))
    return sorted(
        str(p.with_suffix("")) for p in found if not any(part[0] == "." for part in p.parts)
    )


def read(key: str) -> Notebook:
    """The notebook `key` (``paper/subject``).

    Raises ReproError when there is none of that name or it breaks the contract.
    """
    if key not in (known := keys()):
        raise BadParameter(f"Notebook {key!r} does not exist; there are: {', '.join(known)}.")
    text = (NOTEBOOKS / f"{key}.ipynb").read_text()
    return parse(key, text)


def parse(key: str, text: str) -> Notebook:
    """The notebook in `text` (JSON); raises ReproError listing every broken rule."""
    beside = (p.stem for p in (NOTEBOOKS / key).parent.glob("*") if p.suffix in ("", ".py"))
    return _parsed(key, text, frozenset(beside))


@cache
def _parsed(key: str, text: str, neighbours: frozenset[str]) -> Notebook:
    """A build asks for each notebook often; `neighbours`: modules beside it."""
    try:
        nb = json.loads(text)
        cells = nb["cells"]
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise ReproError(f"Notebook {key}: the file is not a notebook ({error}).") from error
    code = [c for c in cells if c["cell_type"] == "code"]
    faults, parameters = _parameters(code)
    faults += _rules(nb, code, neighbours)
    assets, more = _start_call(key, code)
    faults += more
    if faults:
        raise ReproError(f"Notebook {key} breaks the contract: " + "; ".join(faults) + ".")
    title, _, rest = source(cells[0]).partition("\n")
    return Notebook(
        key=key,
        title=title.lstrip("# ").strip(),
        question=" ".join(rest.split()),
        parameters=parameters,
        assets=assets,
        cells=tuple(source(c) for c in code if "parameters" not in tags(c)),
    )


def source(cell: dict) -> str:
    """A cell's source as one string (on disk it may be a list of lines)."""
    return "".join(cell["source"])


def tags(cell: dict) -> list[str]:
    return cell.get("metadata", {}).get("tags", [])


def _rules(nb: dict, code: list[dict], neighbours: frozenset[str]) -> list[str]:
    """Broken rules about the file as a whole and about each code cell."""
    found = []
    if not nb["cells"] or not source(nb["cells"][0]).startswith("# "):
        found.append("the first cell must be Markdown starting with '# Title'")
    kernel = nb.get("metadata", {}).get("kernelspec", {}).get("name")
    if kernel != "python3":
        found.append(f"kernelspec is {kernel!r}, must be 'python3'")
    if "allow_errors" in json.dumps(nb.get("metadata", {})):
        found.append("metadata sets allow_errors, which hides failures")
    for number, cell in enumerate(code, 1):
        if bad := FORBIDDEN_TAGS & set(tags(cell)):
            found.append(f"code cell {number} has the tag {sorted(bad)[0]}, which hides failures")
        if not source(cell).strip():
            found.append(f"code cell {number} is empty")
        try:
            tree = ast.parse(source(cell))
        except SyntaxError as error:
            found.append(f"code cell {number} is not plain Python ({error.msg}; no magics)")
            continue
        for name in _hidden_code(tree, neighbours):
            found.append(f"code cell {number} uses {name}, which no digest follows")
    return found


def _hidden_code(tree: ast.AST, neighbours: frozenset[str]) -> list[str]:
    """Ways to run code that the digest of a result would miss."""
    found = []
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or "."]
        elif isinstance(node, ast.Name) and node.id in ("__import__", "exec", "eval"):
            found.append(node.id)
        tops = {name.partition(".")[0] for name in names}
        found += sorted(tops & (neighbours | {"importlib", "runpy", ""}))
    return found


def _parameters(code: list[dict]) -> tuple[list[str], dict[str, Parameter]]:
    """The parameters cell read as a schema, and what is wrong with it."""
    tagged = [i for i, c in enumerate(code) if "parameters" in tags(c)]
    if tagged != [0]:
        return ["exactly one cell, the first code cell, must carry the tag 'parameters'"], {}
    text = source(code[0])
    try:
        lines = ast.parse(text).body
    except SyntaxError:
        return [], {}  # `_rules` names it
    comments = {
        token.start[0]: token.string.lstrip("# ").strip()
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT
    }
    found, parameters = [], {}
    node: Any  # an assignment with a type, or the attributes below are missing
    for node in lines:
        try:
            name, kind = node.target.id, node.annotation.id
            default = ast.literal_eval(node.value)
        except (AttributeError, ValueError, TypeError):
            found.append(
                f"parameters cell line {node.lineno}: only 'name: type = literal' is allowed"
            )
            continue
        if kind not in TYPES or type(default) is not TYPES[kind] or keyword.iskeyword(name):
            found.append(f"parameter {name}: the default {default!r} is not a {kind}")
            continue
        if not comments.get(node.lineno):
            found.append(f"parameter {name} has no comment")
        parameters[name] = Parameter(name, kind, default, comments.get(node.lineno, ""))
    for name, kind in REQUIRED.items():
        if name not in parameters or parameters[name].type != kind:
            found.append(f"parameter '{name}: {kind}' is missing")
    return found, parameters


def _start_call(key: str, code: list[dict]) -> tuple[tuple[str, ...], list[str]]:
    """The assets named in ``records.start(key, globals(), assets=[…])``, read without running."""
    calls = []
    for cell in code:
        try:
            tree = ast.parse(source(cell))
        except SyntaxError:
            continue
        calls += [
            n
            for n in ast.walk(tree)
            if isinstance(n, ast.Call) and ast.unparse(n.func) == "records.start"
        ]
    try:
        (call,) = calls
        assert ast.literal_eval(call.args[0]) == key
        (named,) = [ast.literal_eval(k.value) for k in call.keywords] or [()]
        assert len(call.args) == 2
    except (ValueError, AssertionError, IndexError):
        return (), [f"exactly one call records.start({key!r}, globals(), assets=[…]) is needed"]
    if not source(code[-1]).strip().endswith("run.finish()"):
        return (), ["the last code cell must end with run.finish()"]
    return tuple(named), []
