"""What the outputs of a page were computed from: the foot of every executed notebook."""

import html
from typing import Any

from repro import evidence
from repro.evidence import verdict


def foot(key: str) -> str:
    """Parameters, hashes, versions and cost of the live run of `key`; empty without one."""
    status = evidence.live(key)
    if not status.record:
        return ""
    record, inputs = status.record, status.record["inputs"]
    given = {k: v for k, v in inputs["parameters"].items() if v != ""}
    facts = {
        "State": f"{status.state}{': ' + _plain(status.why) if status.why else ''}",
        "Executed": f"{record['started'][:10]} on {_plain(record['device'])}, in "
        f"{record['wall_s']:.0f} s, peak memory {record['peak_memory_bytes'] / 2**30:.1f} GiB",
        "Parameters": ", ".join(f"`{name}={value!r}`" for name, value in given.items()),
        "Digest of all inputs": f"`{record['digest']}`",
        "Code": f"the cells, and {len(inputs['modules'])} modules of this project",
        "Models and data": ", ".join(f"{k} `{v[:12]}…`" for k, v in inputs["assets"].items())
        or "none",
        "Versions": ", ".join(f"{k} {_plain(v)}" for k, v in record["versions"].items()),
        "Executed elsewhere too": confirmed([key]),
        "Check it": f"`repro run {key} --force` executes it again; `repro verdict RECORD` judges "
        "yours",
    }
    body = "\n\n".join(f"{name}\n: {text}" for name, text in facts.items())
    return f"::::{{dropdown}} Where these outputs come from\n\n{body}\n\n::::"


def confirmed(keys: list[str]) -> str:
    """How many accepted records of other executions still agree with those on file."""
    n = sum(len(verdict.confirmations(key)) for key in keys)
    return f"{n or 'no'} accepted record{'' if n == 1 else 's'} of other executions"


def _plain(text: Any) -> str:
    return html.escape(str(text), quote=False)
