"""Start the paper's run, its rehearsal, or only print its plan.

python -m repro.recursive_opsd.paper_launch --dry-run
python -m repro.recursive_opsd.paper_launch --rehearse
python -m repro.recursive_opsd.paper_launch --model DIR --data FILE --contests FILE --out DIR
"""

import json
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import click

from repro import files
from repro.errors import BadParameter, ReproError
from repro.recursive_opsd import paper_config, paper_cost, paper_watch

REHEARSED = (2, 4)  # ranks that share the rehearsal's batch of four
WORKER = "repro.recursive_opsd.paper_worker"


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--dry-run", is_flag=True, help="Print plan and cost; start nothing.")
@click.option("--rehearse", is_flag=True, help="A tiny random model instead, on CPUs.")
@click.option("--fail", is_flag=True, help="With --rehearse: the last rank fails on purpose.")
@click.option("--processes", type=int, help="Ranks; default 8, rehearsal 2.")
@click.option("--model", type=click.Path(path_type=Path), help="Folder of Qwen3-4B.")
@click.option("--data", type=click.Path(path_type=Path), help="Training problems, JSON lines.")
@click.option("--contests", type=click.Path(path_type=Path), help="Contests, JSON lines.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder of checkpoints and logs.")
@click.option("--set", "pairs", multiple=True, metavar="NAME=VALUE", help="Another value.")
def command(
    dry_run: bool,
    rehearse: bool,
    fail: bool,
    processes: int | None,
    model: Path | None,
    data: Path | None,
    contests: Path | None,
    out: Path | None,
    pairs: Sequence[str],
) -> None:
    """The paper's run of Recursive OPSD: Qwen3-4B on eight GPUs."""
    try:
        if rehearse:
            _rehearse(2 if processes is None else processes, out, fail)
            return
        given = paper_config.parsed(pairs)
        if processes is not None:
            given["processes"] = processes
        config = paper_config.read(given)
        places = {"model": model, "data": data, "contests": contests, "out": out}
        if dry_run:
            click.echo("\n".join(plan(config, places)))
            return
        _start(config, given, places)
    except ReproError as error:
        click.echo(f"paper_launch: {error}", err=True)
        sys.exit(2 if isinstance(error, BadParameter) else 1)


def plan(config: paper_config.Config, places: dict[str, Path | None]) -> list[str]:
    """The plan and its cost as text; nothing is run, read or written."""
    needs = [f"{name:10} {_state(path)}" for name, path in places.items() if name != "out"]
    return [
        "The paper's run of Recursive OPSD. It has never been executed with this code.",
        "",
        *paper_config.lines(config),
        "",
        "Cost, computed from these values and never measured:",
        *paper_cost.lines(paper_cost.of(config)),
        "",
        f"Needs {config['processes']} GPUs of {config['memory_gb']:g} GB, and:",
        *needs,
    ]


def launch(
    request: dict[str, Any], processes: int, out: Path, grace_s: float = 10.0
) -> list[paper_watch.Failure]:
    """Do `request` with `processes` ranks; returns the ranks that failed."""
    path = out / "request.json"
    files.write_atomic(path, json.dumps(request | {"out": str(out)}, indent=1) + "\n")
    commands = [[sys.executable, "-m", WORKER, str(path)]] * processes
    return paper_watch.run(commands, out, request["cpu"], grace_s)


def _start(
    config: paper_config.Config, given: dict[str, Any], places: dict[str, Path | None]
) -> None:
    found = {name: path.resolve() for name, path in places.items() if path is not None}
    if lacking := [f"--{name}" for name in places if name not in found]:
        raise BadParameter(f"{', '.join(lacking)} is missing; accepted: a path. Or --dry-run.")
    for name in ("model", "data", "contests"):
        if not found[name].exists():
            raise BadParameter(f"{name}={places[name]} is refused; accepted: what exists.")
    import torch

    processes, seen = config["processes"], torch.cuda.device_count()
    if seen < processes:
        raise ReproError(f"{processes} GPUs are needed, one a rank; this machine has {seen}.")
    request = {"kind": "paper", "cpu": False, "given": given}
    request |= {name: str(path) for name, path in found.items()}
    _report(launch(request, processes, found["out"]))
    click.echo("The run has ended; history.json holds its log.")


def _rehearse(processes: int, out: Path | None, fail: bool) -> None:
    if processes not in REHEARSED:
        raise BadParameter(f"processes={processes} is refused; accepted with --rehearse: 2 or 4.")
    with tempfile.TemporaryDirectory(prefix="repro-") as folder:
        place = (out or Path(folder)).resolve()
        request: dict[str, Any] = {"kind": "rehearsal", "cpu": True, "processes": processes}
        request |= {"timeout_s": 60.0, "fail": fail}
        _report(launch(request, processes, place))
        found = json.loads((place / "verdicts.json").read_text())
    click.echo(f"{processes} ranks against one, largest differences of weights and of the log:")
    for each in found:
        word = "as expected" if each["good"] else "NOT as expected"
        click.echo(f"{each['name']:10} {each['weights']:.1e} {each['logs']:.1e}  {word}")
    if not all(each["good"] for each in found):
        sys.exit(1)


def _report(failed: list[paper_watch.Failure]) -> None:
    """Name the ranks that failed and end with status 1."""
    for each in failed:
        click.echo(f"paper_launch: rank {each.rank} {each.says}", err=True)
    if failed:
        click.echo("paper_launch: the ranks' logs are in the folder of the run.", err=True)
        sys.exit(1)


def _state(path: Path | None) -> str:
    if path is None:
        return "not named"
    return "there" if path.exists() else "NOT there"


def _terminated(*_: object) -> NoReturn:
    sys.exit(1)  # so that the ranks are ended too


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _terminated)
    command()
