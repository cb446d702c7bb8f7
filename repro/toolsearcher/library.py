"""Real tool libraries: documents to search, and requests with the tools that they need.

============== ========================================= ======== ============================
name           documents                                 category requests
============== ========================================= ======== ============================
bfcl           BFCL v4 single-turn functions             module   parallel_multiple and others
stabletoolbench the APIs that its requests come with     yes      765, the paper's test set
seal-tools     Seal-Tools                                yes      dev and two test sets
============== ========================================= ======== ============================

The paper (arXiv 2609.30906) searches 16,464 documents. None of these is that library, and recall
over fewer documents is easier. A document is a block of lines like the authors' YAML.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from repro import assets
from repro.errors import BadParameter
from repro.toolsearcher.names import category_name, rapid_name

ASSETS = {
    "bfcl": "bfcl-v4-functions",
    "stabletoolbench": "stabletoolbench",
    "seal-tools": "seal-tools",
}
BFCL_FILES = tuple(
    f"{live}{kind}"
    for live in ("", "live_")
    for kind in ("parallel_multiple", "multiple", "parallel", "simple")
)
NO_CATEGORY = "general"
LINE = 100  # characters of the one-line form


@dataclass(frozen=True)
class Tool:
    """One document. name: unique key, as an answer must write it. text: what a search returns.
    line: name and first sentence. words: names, descriptions and parameters, what is searched."""

    name: str
    category: str
    text: str
    line: str
    words: str


@dataclass(frozen=True)
class Request:
    """A user request of a split, and the names of the tools that it needs (evaluator only)."""

    id: str
    split: str
    text: str
    targets: frozenset[str]


@dataclass(frozen=True)
class Library:
    """Tools and requests, and what was left out on the way, counted."""

    name: str
    tools: tuple[Tool, ...]
    requests: tuple[Request, ...] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)


def load(name: str) -> Library:
    """The library `name`; raises BadParameter for an unknown one, MissingAsset without its data."""
    if name not in ASSETS:
        raise BadParameter(f"library={name!r} is not known; accepted: {', '.join(ASSETS)}.")
    folder = assets.path(ASSETS[name])
    return {"bfcl": _bfcl, "stabletoolbench": _stabletoolbench, "seal-tools": _seal}[name](folder)


def read_jsonl(path: Path) -> tuple[Tool, ...]:
    """Tools from a file with one JSON object a line.

    Fields: ``name`` and ``description`` (text), optional ``category`` (text) and ``parameters``
    (name -> description). Raises BadParameter naming the line that is something else.
    """
    tools = []
    for number, line in enumerate(Path(path).read_text("utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            given = [row["name"], row["description"], row.get("category", NO_CATEGORY)]
            parameters = list(row.get("parameters", {}).items())
            if not all(isinstance(value, str) and value.strip() for value in given):
                raise ValueError("name, description and category must be text")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BadParameter(
                f"{Path(path).name} line {number} is refused ({type(error).__name__}: {error}); "
                "accepted: {name, description, category?, parameters?: {name: description}}."
            ) from error
        rows = [(key, "", str(about), True) for key, about in parameters]
        tools.append(tool(given[0], category_name(given[2]), {}, given[1], rows))
    return tuple(tools)


def tool(
    name: str,
    category: str,
    titles: Mapping[str, str],
    description: str,
    parameters: Sequence[tuple[str, str, str, bool]],
    response: Any = None,
) -> Tool:
    """Build a document. titles: further names, such as tool and api. parameters: rows of name,
    type, description, required. response: a template, shown and not searched."""
    about = " ".join((description or "").split())
    lines = [f"category: {category}", *(f"{key}: {value}" for key, value in titles.items())]
    lines += [f"description: {about}"] if about else []
    for word, wanted in (("required", True), ("optional", False)):
        rows = [row for row in parameters if row[3] == wanted]
        lines += [f"{word}_parameters:"] if rows else []
        for key, kind, says, _ in rows:
            typed = f" ({kind})" if kind else ""
            lines.append(f"  {key}{typed}: {' '.join(says.split())}".rstrip(": "))
    if response:
        lines.append(f"response: {json.dumps(response, ensure_ascii=False)}")
    first = re.split(r"(?<=[.!?])\s", about)[0]
    line = f"{name}: {first}" if first else name
    words = [*([category, *titles.values()] if titles else [name]), about]
    words += [part for row in parameters for part in (row[0], row[2])]
    short = line if len(line) <= LINE + len(name) else line[: LINE + len(name)] + "…"
    return Tool(name, category, "\n".join(lines), short, " ".join(filter(None, words)))


def _stabletoolbench(folder: Path) -> Library:
    """Each request lists the documents of some APIs and which of them it needs."""
    tools: dict[str, Tool] = {}
    requests, left_out = [], Counter()
    for file in sorted(assets.ASSETS["stabletoolbench"].files):
        for row in json.loads((folder / file).read_text("utf-8")):
            names = {}
            for api in row["api_list"]:
                key = api["category_name"], api["tool_name"], api["api_name"]
                name = names[key[1:]] = rapid_name(*key)
                if name not in tools:
                    tools[name] = _rapid(name, api)
            targets = frozenset(names[tuple(pair)] for pair in row["relevant APIs"])
            if len(targets) < len(row["relevant APIs"]):
                left_out["requests whose labels name a tool twice"] += 1
            split = file.removesuffix(".json")
            requests.append(Request(f"{split}-{row['query_id']}", split, row["query"], targets))
    return Library("stabletoolbench", tuple(tools.values()), tuple(requests), dict(left_out))


def _rapid(name: str, api: Mapping[str, Any]) -> Tool:
    parameters = [
        (p["name"], p.get("type") or "", str(p.get("description") or ""), required)
        for required, part in ((True, "required_parameters"), (False, "optional_parameters"))
        for p in api[part]
    ]
    titles = {"tool": api["tool_name"], "api": api["api_name"]}
    category = category_name(api["category_name"])
    about = api["api_description"]
    return tool(name, category, titles, about, parameters, api.get("template_response"))


def _seal(folder: Path) -> Library:
    tools = []
    for row in _lines(folder / "tool.jsonl"):
        parameters = [
            (key, p.get("type", ""), str(p.get("description", "")), key in row["required"])
            for key, p in row["parameters"].items()
        ]
        category = category_name(row["field"].split("/")[0])
        about = row["api_description"]
        tools.append(tool(row["api_name"], category, {}, about, parameters, row["responses"]))
    requests = [
        Request(row["id"], split, row["query"], frozenset(c["api"] for c in row["calling"]))
        for split in ("dev", "test_in_domain", "test_out_domain")
        for row in _lines(folder / f"{split}.jsonl")
    ]
    return Library("seal-tools", tuple(tools), tuple(requests))


def _bfcl(folder: Path) -> Library:
    """A function's name is no key there: of several documents with one name the first is kept."""
    tools: dict[str, Tool] = {}
    seen: dict[str, set[str]] = {}
    requests, left_out = [], Counter()
    for split in BFCL_FILES:
        answers = {r["id"]: r["ground_truth"] for r in _lines(_bfcl_file(folder, split, True))}
        for row in _lines(_bfcl_file(folder, split, False)):
            for doc in row["function"]:
                text = json.dumps(doc, sort_keys=True)
                if doc["name"] in tools and text not in seen[doc["name"]]:
                    left_out["documents with the name of an earlier one"] += 1
                seen.setdefault(doc["name"], set()).add(text)
                tools.setdefault(doc["name"], _function(doc))
            targets = frozenset(name for call in answers[row["id"]] for name in call)
            said = " ".join(m["content"] for turn in row["question"] for m in turn)
            requests.append(Request(row["id"], split, said, targets))
    return Library("bfcl", tuple(tools.values()), tuple(requests), dict(left_out))


def _function(doc: Mapping[str, Any]) -> Tool:
    name, inside = doc["name"], doc["parameters"]
    parameters = [
        (key, p.get("type", ""), str(p.get("description", "")), key in inside.get("required", ()))
        for key, p in inside["properties"].items()
    ]
    category = category_name(name.split(".")[0]) if "." in name else NO_CATEGORY
    return tool(name, category, {}, doc["description"], parameters)


def _bfcl_file(folder: Path, split: str, answers: bool) -> Path:
    name = split if split != "simple" else "simple_python"
    return folder / "data" / ("possible_answer" if answers else "") / f"BFCL_v4_{name}.json"


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.strip():
                yield json.loads(line)
