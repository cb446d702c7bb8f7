"""Check data against the JSON Schemas in evidence/schema, naming the first field that is wrong."""

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import fastjsonschema

from repro import files
from repro.errors import ReproError
from repro.paths import EVIDENCE


def check(name: str, value: Any, what: str) -> None:
    """Raises ReproError where `value` breaks schema `name`; `what` opens the message."""
    try:
        _validator(name)(value)
        files.canonical(value)  # no NaN, which JSON cannot hold
    except fastjsonschema.JsonSchemaValueException as error:
        name = error.name or "data"
        where = "$" + name.removeprefix("data")
        said = error.message.replace(name, "it", 1)[:200]
        raise ReproError(f"{what}: {where}: {said}") from None
    except ValueError as error:
        raise ReproError(f"{what}: {error}") from None


@cache
def _validator(name: str) -> Callable[[Any], Any]:
    schema = json.loads((EVIDENCE / "schema" / f"{name}.json").read_text())
    return fastjsonschema.compile(schema)
