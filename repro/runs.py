"""Execute notebooks with Papermill under rules that Papermill lacks.

A run counts only if every code cell ran in order and the record, which the last cell emits, is
complete, matches the schema and names the very inputs asked for. Everything is decided before a
result is moved into place, in one rename; what failed leaves no result.
"""

import json
import math
import os
import sys
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from filelock import FileLock

from repro import digest, files, notebooks, profiles, records, redact, repeat, sanitize, store
from repro.errors import BadParameter, ReproError
from repro.paths import BUILD
from repro.supervise import stop, supervise


@dataclass(frozen=True)
class Run:
    """One notebook with all its parameters; the digest of its inputs is its name."""

    key: str
    parameters: dict[str, Any]
    inputs: dict[str, Any] = field(repr=False)
    profile: str = "default"
    limits: profiles.Limits = profiles.Limits()
    tolerance: float = 0.01

    @property
    def digest(self) -> str:
        return files.digest(self.inputs)

    @property
    def executed(self) -> Path:
        """Where the executed notebook of exactly this run is kept."""
        return store.EXECUTED / self.key / f"{self.digest[:16]}.ipynb"

    @property
    def record_path(self) -> Path | None:
        """Where its record is committed, for runs of a profile as it stands."""
        if self.profile == "default":
            return None
        return records.path(self.key, self.profile, self.parameters["seed"])

    def kept(self) -> dict[str, Any] | None:
        """The executed notebook of just this run, if it is in place and whole."""
        executed = store.load_executed(self.executed)
        record = executed and store.find_record(executed)
        if not executed or not record or record["digest"] != self.digest:
            return None
        return executed if store.same_cells(executed, notebooks.read(self.key).cells) else None

    def done(self) -> bool:
        """Whether its result is already in place."""
        if self.kept() is None:
            return False
        if self.record_path is None:
            return True
        try:
            return records.load(self.record_path)["digest"] == self.digest
        except (OSError, ReproError):
            return False


@dataclass(frozen=True)
class Outcome:
    """How a run ended: ``kept`` (was there), ``done``, ``failed`` or ``lost`` (process killed)."""

    run: Run
    status: str
    message: str = ""
    notebook: str = field(default="", repr=False)

    @property
    def good(self) -> bool:
        return self.status in ("kept", "done")


def plan(
    key: str, profile: str = "default", seed: int | None = None, given: dict | None = None
) -> Run:
    """The run of notebook `key` under `profile`, with `seed` and single parameters on top.

    Parameters given one by one are a reader's own, and a profile without seeds is for trying
    things out: neither result becomes a committed record.
    Raises BadParameter for an unknown notebook, profile or parameter.
    """
    notebook = notebooks.read(key)
    chosen = profiles.read(profile)
    values = chosen.parameters.get(key, {}) | ({} if seed is None else {"seed": seed})
    values = notebook.values(values | (given or {}))
    values["record"] = notebook.parameters["record"].default
    for name, value in values.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise BadParameter(
                f"Parameter {name}={value} is not accepted: it takes a finite number."
            )
    return Run(
        key=key,
        parameters=values,
        inputs=digest.inputs(notebook, values),
        profile=profile if chosen.seeds and not given else "default",
        limits=chosen.limits,
        tolerance=chosen.tolerance_of(key),
    )


def execute(run: Run) -> Outcome:
    """Execute one run in a process of its own; keep nothing, return the safe executed notebook."""
    with tempfile.TemporaryDirectory(prefix="repro-") as scratch:
        request = Path(scratch) / "request.json"
        output = Path(scratch) / "executed.ipynb"
        notebook = notebooks.read(run.key)
        changed = {n: v for n, v in run.parameters.items() if v != notebook.parameters[n].default}
        request.write_text(
            json.dumps(
                {
                    "source": str(notebook.path),
                    "output": str(output),
                    "folder": str(notebook.path.parent),
                    "parameters": changed,
                    "cell_timeout": run.limits.cell_s,
                }
            )
        )
        problem = supervise(
            [sys.executable, "-m", "repro.worker", str(request)], run.limits, Path(scratch)
        )
        if problem:
            return Outcome(run, *problem)
        outcome = json.loads(request.with_suffix(".outcome").read_text())
        if outcome["status"] != "executed":
            where = f" in the cell '{outcome['cell']}'" if outcome["cell"] else ""
            return Outcome(run, "failed", redact.text(f"{outcome['error']}{where}"))
        try:
            return judge(run, json.loads(output.read_text()))
        except Exception as error:  # whatever a notebook put out, the other runs go on
            return Outcome(run, "failed", f"{type(error).__name__}: {error}")


def judge(run: Run, executed: dict[str, Any]) -> Outcome:
    """Whether an executed notebook really is the complete result of `run`."""
    code = [c for c in executed["cells"] if c["cell_type"] == "code"]
    counts = [c["execution_count"] for c in code]
    if counts != list(range(1, len(code) + 1)):
        first = next(i for i, n in enumerate(counts, 1) if n != i)
        return Outcome(run, "failed", f"stopped early: code cell {first} did not run in its turn")
    for number, cell in enumerate(code, 1):
        if any(output["output_type"] == "error" for output in cell["outputs"]):
            return Outcome(run, "failed", f"code cell {number} holds an error output")
    record = store.find_record(executed)
    if record is None:
        return Outcome(run, "failed", "no record, or several: run.finish() did not complete once")
    records.validate(record)
    if found := sanitize.scan(record, sanitize.RECORD_HASHES):
        says = f"{found[0].pointer}: {found[0].kind}"
        return Outcome(run, "failed", f"the record holds what must not be committed: {says}")
    if record["notebook"] != run.key or record["parameters"] != run.inputs["parameters"]:
        return Outcome(run, "failed", "the record is of another run")
    if record["digest"] != run.digest:
        changed = digest.differences(run.inputs, record["inputs"])
        return Outcome(run, "failed", "inputs changed while it ran: " + "; ".join(changed))
    return Outcome(run, "done", records.summary(record), json.dumps(redact.notebook(executed)))


def keep(outcome: Outcome, force: bool = False) -> Outcome:
    """Move a good result into place: the executed notebook, and the record of a profile's run.

    A record of the same inputs that is on file stays, and the new one is held against it; only
    `force` writes over it.
    """
    if outcome.status != "done":
        return outcome
    from repro.evidence import manifest  # which needs this module

    run, says = outcome.run, outcome.message
    try:
        executed = json.loads(outcome.notebook)
        if path := run.record_path:
            record: Any = store.find_record(executed)  # there: `judge` has seen it
            old = repeat.earlier(path, run.digest)
            if old and not force:
                same, told = repeat.verdict(old, record, run.tolerance)
                if not same:
                    return Outcome(run, "failed", f"{told}. With --force the new record counts.")
                says = f"{says.rstrip('.')}; {told}."
            else:
                manifest.commit(path, records.dumps(record))
        files.write_atomic(run.executed, outcome.notebook)
    except OSError as error:
        return Outcome(run, "failed", f"could not be written: {error.strerror}")
    except ReproError as error:
        return Outcome(run, "failed", f"is written, and not in the list of records: {error}")
    return replace(outcome, message=says)


def run_once(run: Run, force: bool = False) -> Outcome:
    """Execute `run` unless its result is there; a second runner beside this one waits for it."""
    lock = BUILD / "locks" / f"{run.digest[:16]}.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(lock):
        if not force and run.done():
            return Outcome(run, "kept")
        outcome = execute(run)
        if outcome.status == "lost" and not stop.is_set():
            outcome = execute(run)
        return keep(outcome, force)


def run_all(
    runs: Iterable[Run],
    workers: int | None = None,
    scheduler: str | None = None,
    force: bool = False,
    report: Callable[[Outcome], None] = lambda outcome: None,
) -> list[Outcome]:
    """Execute `runs`, at most `workers` at a time (default two), and report each as it ends.

    scheduler: address of a `dask.distributed` scheduler; runs then go to its workers.
    Interrupting stops the running notebooks and keeps what had finished.
    """
    runs = list(runs)
    if scheduler:
        return _run_on_dask(runs, scheduler, force, report)
    outcomes = []
    stop.clear()
    with ThreadPoolExecutor(workers or min(2, os.cpu_count() or 1)) as pool:
        waiting = [pool.submit(run_once, run, force) for run in runs]
        try:
            for future in as_completed(waiting):
                outcomes.append(future.result())
                report(outcomes[-1])
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise
    return outcomes


def _run_on_dask(
    runs: list[Run], scheduler: str, force: bool, report: Callable[[Outcome], None]
) -> list[Outcome]:
    """Workers only execute; results are kept here, so that no shared disk is needed."""
    from distributed import Client
    from distributed import as_completed as completed

    outcomes = [Outcome(run, "kept") for run in runs if not force and run.done()]
    for outcome in outcomes:
        report(outcome)
    there = {outcome.run.digest for outcome in outcomes}
    with Client(scheduler, timeout="20s") as client:
        waiting = {
            client.submit(
                execute, run, key=f"run-{run.digest}", retries=2, resources=_wants(run, client)
            ): run
            for run in runs
            if run.digest not in there
        }
        for future in completed(waiting):
            if future.status == "error":
                outcome = Outcome(waiting[future], "lost", f"worker lost: {future.exception()}")
            else:
                outcome = keep(future.result(), force)
            outcomes.append(outcome)
            report(outcome)
    return outcomes


def _wants(run: Run, client: Any) -> dict[str, int]:
    """What a worker must have for `run`: one GPU where its device is one.

    Raises ReproError where no worker has it: Dask would wait for ever.
    """
    if not str(run.parameters["device"]).startswith("cuda"):
        return {}
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    if not any(worker.get("resources", {}).get("GPU") for worker in workers):
        raise ReproError(
            f"{run.key} runs on {run.parameters['device']} and no worker of the scheduler offers a "
            'GPU. Start one with: dask worker ADDRESS --nthreads 1 --resources "GPU=1".'
        )
    return {"GPU": 1}
