"""What a result depends on: code, parameters, assets and pinned packages, each with its hash.

The digest of a run covers the notebook's code cells, every ``repro`` or ``kernels`` module that
they import directly or through others, the parameters, the assets and the pinned versions of the
third-party packages imported anywhere in that closure. Code is compared as a syntax tree, so
that comments, docstrings and layout do not count. Left out are the modules that carry a result
from the notebook to its file: they compute no number, and what they read is hashed by itself.
"""

import ast
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

from repro import assets, files
from repro.notebooks import Notebook
from repro.paths import ROOT

OURS = ("repro", "kernels")
CARRIERS = frozenset(
    f"repro.{name}"
    for name in ("assets", "digest", "errors", "files", "notebooks", "paths", "records", "schemas")
)
NOT_INPUTS = {"record"}  # where to write is not part of what is computed
_IMPORT_NAMES = {"yaml": "pyyaml"}


def inputs(notebook: Notebook, values: dict[str, Any]) -> dict[str, Any]:
    """Everything the run of `notebook` with parameters `values` depends on, hashed by part."""
    modules, packages = closure("\n".join(notebook.cells))
    return {
        "cells": code_hash("\n".join(notebook.cells)),
        "modules": modules,
        "parameters": {k: v for k, v in sorted(values.items()) if k not in NOT_INPUTS},
        "assets": {name: assets.digest(name) for name in sorted(notebook.assets)},
        "packages": packages,
    }


def differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """What changed between two `inputs`, in words, most telling first."""
    found = []
    if old["cells"] != new["cells"]:
        found.append("the notebook's code changed")
    for part, word in (("modules", "module"), ("parameters", "parameter"), ("assets", "asset")):
        for name in sorted(old[part].keys() | new[part].keys()):
            before, after = old[part].get(name), new[part].get(name)
            if before != after:
                detail = f" ({before!r} → {after!r})" if part == "parameters" else " changed"
                found.append(f"{word} {name}{detail}")
    for name in sorted(old["packages"].keys() | new["packages"].keys()):
        before, after = old["packages"].get(name), new["packages"].get(name)
        if before != after:
            found.append(f"package {name} ({before} → {after})")
    return found


def closure(code: str) -> tuple[dict[str, str], dict[str, str]]:
    """Modules of ours that `code` imports, transitively, with their hash; pinned packages too."""
    modules: dict[str, str] = {}
    packages: dict[str, str] = {}
    waiting = list(_imported(code, ""))
    seen: set[str] = set()
    places: dict[str, Path | None] = {}
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        top = name.partition(".")[0]
        if top not in OURS:
            if pin := pins().get(_IMPORT_NAMES.get(top, top).replace("_", "-").lower()):
                packages[top] = pin
            continue
        for module, path in _files(name, places):
            if module not in modules and module not in CARRIERS:
                text = path.read_text()
                modules[module] = code_hash(text)
                package = module if path.name == "__init__.py" else module.rpartition(".")[0]
                waiting += _imported(text, package)
    return dict(sorted(modules.items())), dict(sorted(packages.items()))


@cache
def code_hash(text: str) -> str:
    """SHA-256 of the syntax tree of `text`, without docstrings, comments or positions."""
    return files.digest(_tree(ast.parse(text)))


@cache
def pins() -> dict[str, str]:
    """Package name → version, from constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    found = (re.match(r"([\w.-]+)==([\w.!+-]+)", line) for line in lines)
    return {m[1].replace("_", "-").lower(): m[2] for m in found if m}


def _tree(node: Any) -> Any:
    """A plain-JSON picture of a syntax tree that does not change between Python versions."""
    if isinstance(node, list):
        return [_tree(n) for n in node]
    if not isinstance(node, ast.AST):
        plain = isinstance(node, (str, int, bool, type(None)))
        return node if plain else [type(node).__name__, repr(node)]
    fields = dict(ast.iter_fields(node))
    body = fields.get("body")
    if isinstance(body, list) and body and _is_text(body[0]):
        fields["body"] = body[1:]
    kept = {k: _tree(v) for k, v in fields.items() if v not in (None, []) and k != "kind"}
    return [type(node).__name__, kept]


def _is_text(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


@cache
def _imported(code: str, package: str) -> list[str]:
    """Dotted names that `code` imports anywhere, relative ones resolved against `package`."""
    names = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parent = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parent, base] if base else parent)
            names.append(base)
            names += [f"{base}.{alias.name}" for alias in node.names]
    return [n for n in names if n.partition(".")[0] not in sys.stdlib_module_names]


def _files(name: str, places: dict[str, Path | None]) -> list[tuple[str, Path]]:
    """The module `name` and the packages above it, as files; a name inside a module is its file.

    places: what this look over the tree has found so far.
    """
    found = []
    parts = name.split(".")
    for depth in range(1, len(parts) + 1):
        module = ".".join(parts[:depth])
        if module not in places:
            place = ROOT.joinpath(*parts[:depth])
            both = (place / "__init__.py", place.with_suffix(".py"))
            places[module] = next((path for path in both if path.is_file()), None)
        if path := places[module]:
            found.append((module, path))
    return found
