"""What a run found, with its provenance: the object a notebook fills and the file that is kept.

In a notebook::

    run = records.start("actkv/confidence", globals(), assets=["bfcl-v4"])
    run.check("ladder", budget == 896, "512 grows to 896")
    run.metric("share", 0.9, unit="fraction", direction="higher", split="base", n=120)
    run.finish()

`finish` displays the checks and the record itself. That output is the end sentinel: a notebook
that stopped early, for whatever reason, has no record.
"""

import html
import importlib.metadata
import json
import math
import platform
import resource
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from repro import assets, digest, files, notebooks, schemas
from repro.errors import ReproError
from repro.paths import EVIDENCE

MIME = "application/vnd.repro.record+json"


class CheckFailed(AssertionError):
    """A check is red although no fault was planted."""


def start(key: str, namespace: Mapping[str, Any], assets: Sequence[str] = ()) -> "Run":
    """Open the record of notebook `key`, taking its parameters from `namespace`.

    assets: names of everything read from `repro.assets`; part of the run's digest.
    Raises BadParameter when a parameter is missing or of another type than declared.
    """
    notebook = notebooks.read(key)
    given = {n: namespace[n] for n in notebook.parameters if n in namespace}
    return Run(key, notebook.values(given), digest.inputs(notebook, notebook.values(given)))


class Run:
    """The record of one run while it is being filled."""

    def __init__(self, key: str, parameters: dict[str, Any], inputs: dict[str, Any]):
        self.key, self.parameters, self.inputs = key, parameters, inputs
        self._checks: list[dict] = []
        self._metrics: list[dict] = []
        self._comparisons: list[dict] = []
        self._faults: dict[str, list[str]] = {}
        self._used_before = set(assets.USED)
        self._started = datetime.now(UTC)
        self._clock = time.monotonic()

    def check(self, name: str, passed: Any, sentence: str) -> bool:
        """Note whether a named property holds; `sentence` says it in words."""
        _unused(name, self._checks, "check")
        self._checks.append({"name": name, "passed": bool(passed), "sentence": sentence})
        return bool(passed)

    def checks(self, failed: Mapping[str, str], names: Mapping[str, Any]) -> None:
        """Note every check of `names`: red where `failed` (from `faults.red`) has a message."""
        for name, function in names.items():
            says = " ".join((function.__doc__ or name).split())
            self.check(name, name not in failed, failed.get(name) or says)

    def metric(
        self, name: str, value: float, *, unit: str, direction: str, split: str, n: int
    ) -> None:
        """Note a measured number.

        direction: ``higher`` or ``lower`` is better, or ``none``. n: how many items it rests on.
        Raises ValueError for NaN or infinity: a share of nothing is not a number.
        """
        _unused(name, self._metrics, "metric")
        value = float(value)
        if not math.isfinite(value):
            raise ValueError(f"metric {name}={value} is not finite; accepted: a finite number.")
        self._metrics.append(
            dict(name=name, value=value, unit=unit, direction=direction, split=split, n=int(n))
        )

    def compare(
        self,
        metric: str,
        *,
        unit: str,
        item: str,
        ids: Sequence[str],
        arms: Mapping[str, Sequence[float]],
    ) -> None:
        """Note paired values: every arm gives one value for each item of `ids`, in order."""
        for arm, values in arms.items():
            if len(values) != len(ids):
                raise ValueError(
                    f"arms[{arm!r}] has {len(values)} values; accepted: {len(ids)}, one an item."
                )
        self._comparisons.append(
            {
                "metric": metric,
                "unit": unit,
                "item": item,
                "ids": [str(i) for i in ids],
                "arms": {arm: [float(v) for v in values] for arm, values in arms.items()},
            }
        )

    def faults(self, caught: Mapping[str, Sequence[str]]) -> None:
        """Note which checks each deliberate fault turned red (from `faults.audit`)."""
        self._faults = {name: list(checks) for name, checks in caught.items()}

    def record(self) -> dict[str, Any]:
        """The record as plain JSON, checked against evidence/schema/record.json.

        Raises ReproError for an asset that was read and is not among the declared ones.
        """
        if undeclared := assets.USED - self._used_before - self.inputs["assets"].keys():
            raise ReproError(
                f"{self.key} reads {', '.join(sorted(undeclared))}, which records.start does not "
                "name; accepted: every asset that is read, in assets=[…]."
            )
        value = {
            "schema": 1,
            "notebook": self.key,
            "digest": files.digest(self.inputs),
            "inputs": self.inputs,
            "parameters": self.inputs["parameters"],
            "checks": self._checks,
            "metrics": self._metrics,
            "comparisons": self._comparisons,
            "faults": self._faults,
            "versions": versions(self.inputs["packages"]),
            "device": _device(),
            "started": self._started.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "wall_s": round(time.monotonic() - self._clock, 1),
            "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        }
        validate(value)
        return value

    def finish(self) -> None:
        """Show the checks, emit the record, write it where parameter `record` says.

        Raises CheckFailed when a check is red and no fault was planted.
        """
        from IPython.display import display

        value = self.record()
        if target := self.parameters["record"]:
            files.write_atomic(Path(target), dumps(value))
        shown = {"text/html": _checks_html(value), "text/plain": summary(value), MIME: value}
        display(shown, raw=True)
        red = [c["name"] for c in self._checks if not c["passed"]]
        if red and not self.parameters["fault"]:
            raise CheckFailed(f"{self.key}: red without a planted fault: {', '.join(red)}.")


def validate(value: dict[str, Any]) -> None:
    """Raises ReproError naming the first field of a record that breaks the schema."""
    schemas.check("record", value, "Record")
    if value["digest"] != files.digest(value["inputs"]):
        raise ReproError(f"Record of {value['notebook']}: $.digest does not match $.inputs.")
    for comparison in value["comparisons"]:
        for arm, values in comparison["arms"].items():
            if len(values) != len(comparison["ids"]):
                raise ReproError(f"Record of {value['notebook']}: arm {arm!r} misses pairs.")


def load(path: Path) -> dict[str, Any]:
    """The record in `path`; raises ReproError when it is truncated or breaks the schema."""
    try:
        value = json.loads(path.read_text())
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ReproError(f"Record {path.name}: not readable as JSON ({error}).") from error
    validate(value)
    return value


def dumps(value: dict[str, Any]) -> str:
    """A record as the text of its file: indented, sorted, one trailing newline."""
    return json.dumps(value, indent=1, sort_keys=True, allow_nan=False, ensure_ascii=False) + "\n"


def path(key: str, profile: str, seed: int) -> Path:
    """Where the record of a profile's run is kept."""
    return EVIDENCE / "records" / key / profile / f"seed-{seed}.json"


def summary(value: dict[str, Any]) -> str:
    """One computed sentence: how many checks are green, and what was planted."""
    green = sum(c["passed"] for c in value["checks"])
    caught = sum(bool(v) for v in value["faults"].values())
    text = f"{green} of {len(value['checks'])} checks are green"
    if value["faults"]:
        text += f"; {caught} of {len(value['faults'])} deliberate faults are caught"
    if fault := value["parameters"].get("fault"):
        text += f"; the fault {fault!r} is planted"
    red = [c["name"] for c in value["checks"] if not c["passed"]]
    return text + (f"; red: {', '.join(red)}." if red else ".")


def _checks_html(value: dict[str, Any]) -> str:
    rows = "".join(
        f'<tr class="{"green" if c["passed"] else "red"}"><td>{"✓" if c["passed"] else "✗"} '
        f"{html.escape(c['name'])}</td><td>{html.escape(c['sentence'])}</td></tr>"
        for c in value["checks"]
    )
    return (
        f"<p>{html.escape(summary(value))}</p>"
        '<div class="eb-table"><table class="eb-checks"><thead><tr><th>Check</th>'
        f"<th>What it says</th></tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _unused(name: str, taken: list[dict], what: str) -> None:
    if any(entry["name"] == name for entry in taken):
        raise ValueError(f"{what} name={name!r} is used twice; accepted: each name once.")


def versions(packages: Mapping[str, str]) -> dict[str, str]:
    """Versions really installed, without local build labels; Python's own too."""
    found = {"python": platform.python_version()}
    for name, pin in packages.items():
        try:
            found[name] = importlib.metadata.version(name).partition("+")[0]
        except importlib.metadata.PackageNotFoundError:
            found[name] = pin
    return found


def _device() -> str:
    """The device class that computed, read from the runtime and never from a parameter."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        return torch.cuda.get_device_name().removeprefix("NVIDIA ")
    return "CPU"
