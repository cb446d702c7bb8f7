"""BFCL v4 multi-turn tasks, executed: true calls against the packaged back ends, real observations.

Only the eight back-end modules of these tasks are imported; a call is parsed, never evaluated.
"""

import ast
import copy
import decimal
import importlib
import inspect
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from repro import assets
from repro.errors import BadParameter

CATEGORIES = ("base", "miss_func", "miss_param", "long_context")
BACKENDS = "bfcl_eval.eval_checker.multi_turn_eval.func_source_code"
# Class of a back end -> stem of its module and of the file that documents its functions.
CLASSES = {
    "GorillaFileSystem": "gorilla_file_system",
    "MathAPI": "math_api",
    "MessageAPI": "message_api",
    "TwitterAPI": "posting_api",
    "TicketAPI": "ticket_api",
    "TradingBot": "trading_bot",
    "TravelAPI": "travel_booking",
    "VehicleControlAPI": "vehicle_control",
}


@dataclass(frozen=True)
class Task:
    """One multi-turn task.

    turns: the user's text of each turn; empty where, instead, withheld functions become known.
    calls: for each turn the true calls, as Python source. A turn may have none.
    classes: the back ends involved. config: their initial state.
    excluded: functions never offered. withheld: turn -> functions offered only from then on.
    """

    id: str
    category: str
    turns: tuple[str, ...]
    calls: tuple[tuple[str, ...], ...]
    classes: tuple[str, ...]
    config: dict[str, Any]
    excluded: frozenset[str]
    withheld: dict[int, tuple[str, ...]]


@dataclass(frozen=True)
class Call:
    """A function's name and its arguments by name."""

    name: str
    arguments: dict[str, Any]


def tasks(category: str = "base") -> list[Task]:
    """The 200 tasks of one category, in the benchmark's order.

    Raises BadParameter for an unknown category, MissingAsset without the data.
    """
    if category not in CATEGORIES:
        raise BadParameter(f"category={category!r} is not known; accepted: {CATEGORIES}.")
    file = f"BFCL_v4_multi_turn_{category}.json"
    truth = {row["id"]: row["ground_truth"] for row in _rows(f"possible_answer/{file}")}
    return [
        Task(
            id=row["id"],
            category=category,
            turns=tuple("\n".join(m["content"] for m in turn) for turn in row["question"]),
            calls=tuple(tuple(turn) for turn in truth[row["id"]]),
            classes=tuple(row["involved_classes"]),
            config=row["initial_config"],
            excluded=frozenset(row.get("excluded_function", ())),
            withheld={int(t): tuple(f) for t, f in row.get("missed_function", {}).items()},
        )
        for row in _rows(file)
    ]


def functions(class_name: str) -> list[dict[str, Any]]:
    """The benchmark's documentation of a back end's functions (name, description, parameters)."""
    return _rows(f"multi_turn_func_doc/{CLASSES[class_name]}.json")


def offer(chain: Sequence[Task], style: str) -> str:
    """The functions that some task of `chain` offers from its start, one a line."""
    lists = []
    for owner in dict.fromkeys(name for task in chain for name in task.classes):
        users = [task for task in chain if owner in task.classes]
        hidden = frozenset.intersection(
            *(task.excluded.union(*task.withheld.values()) for task in users)
        )
        lists.append(listing((owner,), lambda name, hidden=hidden: name not in hidden, style))
    return "\n".join(lists)


def listing(classes: Sequence[str], keep: Callable[[str], bool], style: str) -> str:
    """Functions of `classes` whose name passes `keep`, one a line.

    style: ``json`` for the benchmark's documentation, ``signature`` for
    ``name(argument: type, optional: type = default): first sentence.``
    """
    show = _signature if style == "signature" else partial(json.dumps, ensure_ascii=False)
    docs = [doc for owner in classes for doc in functions(owner)]
    return "\n".join(show(doc) for doc in docs if keep(doc["name"]))


def execute(task: Task) -> list[list[tuple[Call, str]]]:
    """Run the true calls of `task` in order, from its initial state; for each turn, the calls and
    what they returned.

    An error inside a call is an observation, as in the benchmark. The result depends on the task
    alone: back ends draw from generators seeded by the task, and the arithmetic settings that
    some change are put back.
    """
    import mpmath

    with decimal.localcontext(), mpmath.workdps(mpmath.mp.dps):
        methods = _methods(task)
        return [[call(text, methods) for text in turn] for turn in task.calls]


def call(text: str, methods: dict[str, Callable]) -> tuple[Call, str]:
    """Parse one call, run it, and render what it returned as the benchmark does.

    Raises ValueError for text that is anything else than ``name(literal, key=literal)``.
    """
    name, values, named = parse(text)
    if name not in methods:
        return Call(name, named), f"Error during execution: name '{name}' is not defined"
    try:
        made = Call(name, inspect.signature(methods[name]).bind(*values, **named).arguments)
    except TypeError:  # the call itself raises the error that is observed
        made = Call(name, named)
    try:
        return made, _observation(methods[name](*values, **named))
    except Exception as error:  # whatever a back end raises is what the agent sees
        return made, f"Error during execution: {error}"


def parse(text: str) -> tuple[str, list[Any], dict[str, Any]]:
    """Name, positional and named arguments of ``name(literal, key=literal)``.

    Raises ValueError for anything else: attributes, nested calls, operators, unpacking.
    """
    try:
        node = ast.parse(text.strip(), mode="eval").body
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
            raise ValueError("not a call of a plain name")
        keys = [keyword.arg for keyword in node.keywords]
        if None in keys or len(set(keys)) < len(keys):
            raise ValueError("unpacked or repeated argument")
        values = [ast.literal_eval(value) for value in node.args]
        named = {keyword.arg: ast.literal_eval(keyword.value) for keyword in node.keywords}
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise ValueError(
            f"call={text!r} is refused ({error}); accepted: name(literal, key=literal)."
        ) from error
    return node.func.id, values, named


def _methods(task: Task) -> dict[str, Callable]:
    """Public methods of the task's freshly loaded back ends, by name."""
    methods = {}
    for class_name in task.classes:
        module = importlib.import_module(f"{BACKENDS}.{CLASSES[class_name]}")
        instance = getattr(module, class_name)()
        if hasattr(instance, "_load_scenario"):  # MathAPI has no state
            state = copy.deepcopy(task.config.get(class_name, {}))
            instance._load_scenario(state, long_context=task.category == "long_context")
        public = inspect.getmembers(instance, inspect.ismethod)
        methods |= {name: method for name, method in public if not name.startswith("_")}
    return methods


def _signature(doc: dict[str, Any]) -> str:
    needed = doc["parameters"].get("required", ())
    arguments = []
    for name, kind in doc["parameters"]["properties"].items():
        default = "" if name in needed else f" = {json.dumps(kind.get('default'))}"
        arguments.append(f"{name}: {kind['type']}{default}")
    about = doc["description"].split("Tool description:")[-1].strip().split(". ")[0].rstrip(".")
    return f"{doc['name']}({', '.join(arguments)}): {about}."


def _observation(value: Any) -> str:
    if isinstance(value, dict):
        try:
            return json.dumps(value)
        except (TypeError, ValueError):  # holds something that JSON does not know
            return str(value)
    return str(value)


def _rows(file: str) -> list[dict[str, Any]]:
    path = assets.path("bfcl-v4") / "data" / file
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]
