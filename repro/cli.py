"""The command line: ``repro list | run | status | ledger | evidence | verdict | compare | …``.

Modules that a command needs are imported inside it, so that ``repro --help`` is instant.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from repro.cli_evidence import COMMANDS
from repro.errors import BadParameter, MissingAsset, ReproError

if TYPE_CHECKING:
    from repro.compare.report import ArmReport
    from repro.runs import Outcome, Run

console = Console(highlight=False, soft_wrap=True)
_GLYPH = {"kept": "·", "done": "✓", "failed": "✗", "lost": "✗"}
_COLOR = {"fresh": "green", "stale": "yellow", "missing": "red"}


class Commands(click.Group):
    """Turns an error that the user can act on into one paragraph and exit code 1 (2 for usage)."""

    def invoke(self, context: click.Context) -> object:
        try:
            return super().invoke(context)
        except ReproError as error:
            click.echo(f"repro: {error}", err=True)
            sys.exit(2 if isinstance(error, BadParameter) else 1)
        except OSError as error:
            where = f" ({os.path.relpath(error.filename)})" if error.filename else ""
            click.echo(f"repro: {error.strerror or error}{where}.", err=True)
            sys.exit(1)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="executable-boundaries")
def main() -> None:
    """Re-execute, check and build the literate reproduction book."""


@main.command("list")
def list_() -> None:
    """Chapters with their notebooks and parameters, and the profiles.

    \b
    Example:
      repro list
    """
    from repro import notebooks, profiles

    for key in notebooks.keys():
        notebook = notebooks.read(key)
        table = Table("parameter", "type", "default", "meaning", title=f"{key}: {notebook.title}")
        for p in notebook.parameters.values():
            table.add_row(p.name, p.type, repr(p.default), p.comment)
        console.print(table)
    table = Table("profile", "seeds", "meaning", title="profiles (--profile)")
    for name in profiles.names():
        chosen = profiles.read(name)
        table.add_row(name, ", ".join(map(str, chosen.seeds)), chosen.summary)
    console.print(table)


@main.command()
@click.argument("target", required=False)
@click.option("--all", "everything", is_flag=True, help="Every notebook.")
@click.option("--profile", default="default", help="Named parameters, see `repro list`.")
@click.option("--seeds", help="Comma-separated seeds, such as 42,43,44.")
@click.option("-p", "parameters", nargs=2, multiple=True, metavar="NAME VALUE")
@click.option("--workers", type=click.IntRange(1), help="Notebooks at a time (default 2).")
@click.option("--scheduler", help="Address of a Dask scheduler, such as tcp://10.0.0.1:8786.")
@click.option("--force", is_flag=True, help="Execute even what is fresh.")
@click.option("--branch", help="Write receipts, and leave them as a commit on this new branch.")
def run(
    target: str | None,
    everything: bool,
    profile: str,
    seeds: str | None,
    parameters: tuple[tuple[str, str], ...],
    workers: int | None,
    scheduler: str | None,
    force: bool,
    branch: str | None,
) -> None:
    """Execute notebooks: one (actkv/confidence), a paper's (actkv), --all, or a profile's.

    \b
    Examples:
      repro run actkv/confidence -p top_k 1
      repro run actkv --profile cpu --seeds 42,43,44
      repro run --all --workers 2
      repro run --profile gpu --branch evidence/a100
    """
    from repro import runs

    given = dict(parameters)
    if len(given) != len(parameters):
        raise BadParameter("-p names one parameter twice; accepted: each name once.")
    if "record" in given:
        raise BadParameter("-p record is set by the runner; see evidence/records and _build.")
    chosen = _seeds(seeds, profile, "seed" in given)
    keys = _keys(target, everything, profile)
    plans = [runs.plan(key, profile, seed, given) for key in keys for seed in chosen]
    if branch:
        if workers or scheduler or force:
            raise BadParameter("--branch executes everything here, one run at a time, by itself.")
        _branch(branch, plans)
    elif not all(r.good for r in _run(plans, workers, scheduler, force)):
        sys.exit(1)


def _branch(name: str, plans: list[Run]) -> None:
    """Exit 1 where a run did not pass: its receipt is in the branch all the same."""
    from repro.evidence.receipts import branch

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    made = branch.leave(name, plans, click.echo)
    click.echo(f"Ready: branch {name}, {len(made)} receipts. Push it, and open a pull request.")
    sys.exit(any(r["outcome"] != "passed" for r in made))


def _keys(target: str | None, everything: bool, profile: str = "default") -> list[str]:
    from repro import notebooks, profiles

    known = notebooks.keys()
    if not everything and not target and profile != "default":
        if named := [key for key in known if key in profiles.read(profile).parameters]:
            return named
    if everything or not target:
        if not everything:
            raise BadParameter("Name a paper or a notebook, or give --all; see `repro list`.")
        return known
    found = [k for k in known if k == target or k.startswith(f"{target}/")]
    if not found:
        raise BadParameter(f"{target!r} is no paper or notebook; there are: {', '.join(known)}.")
    return found


def _seeds(text: str | None, profile: str, given: bool) -> list[int | None]:
    from repro import profiles

    if text and given:
        raise BadParameter("--seeds and -p seed exclude each other; accepted: one of them.")
    if text:
        try:
            return list(dict.fromkeys(int(part) for part in text.split(",")))
        except ValueError:
            raise BadParameter(f"--seeds {text!r} is not a list like 42,43,44.") from None
    return [None] if given else list(profiles.read(profile).seeds) or [None]


def _run(
    plans: list[Run],
    workers: int | None = None,
    scheduler: str | None = None,
    force: bool = False,
) -> list[Outcome]:
    from rich.progress import Progress

    from repro import runs

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends like Ctrl-C: cleans up
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("notebooks", total=len(plans))

        def report(outcome: Outcome) -> None:
            seed = outcome.run.parameters["seed"]
            where = f"{outcome.run.key} ({outcome.run.profile}, seed {seed})"
            message = outcome.message or "fresh, nothing to do."
            if outcome.good and outcome.run.profile == "default":
                message += f" See {os.path.relpath(outcome.run.executed)}"
            line = f"{_GLYPH[outcome.status]} {where}: {message}"
            progress.print(line, markup=False) if console.is_terminal else click.echo(line)
            progress.advance(task)

        return runs.run_all(plans, workers, scheduler, force, report)


@main.command()
def status() -> None:
    """Which results are fresh, stale or missing, and why.

    \b
    Example:
      repro status
    """
    from repro import evidence

    table = Table("notebook", "profile", "seed", "state", "why")
    for s in evidence.statuses():
        state = f"[{_COLOR[s.state]}]{s.state}[/]"
        table.add_row(s.key, s.profile, str(s.seed), state, escape(s.why))
    console.print(table)


@main.command()
@click.option("--check", is_flag=True, help="Exit 1 when anything says more than the evidence.")
@click.option("--explain", metavar="CLAIM", help="One claim: what is on file, what is missing.")
def ledger(check: bool, explain: str | None) -> None:
    """Every claim with its computed level and what the next level needs.

    \b
    Examples:
      repro ledger
      repro ledger --check
      repro ledger --explain actkv-sign
    """
    from repro import evidence, levels

    if explain:
        click.echo(levels.explain(explain))
        return

    if check:
        found = levels.check()
        for line in found:
            click.echo(f"- {line}")
        click.echo(f"ledger: {len(evidence.claims())} claims, {len(found)} problems.")
        sys.exit(bool(found))
    table = Table("claim", "level", "flags", "missing for the next level")
    for claim in evidence.claims():
        verdict = levels.judge(claim)
        table.add_row(
            claim["id"], verdict.level, " ".join(verdict.flags), "; ".join(verdict.missing)
        )
    console.print(table)


@main.group("evidence", cls=Commands)
def evidence_() -> None:
    """What the evidence rests on."""


@evidence_.command("faults")
@click.argument("target", required=False)
def faults(target: str | None) -> None:
    """Plant every deliberate fault, and list the checks that it turns red.

    \b
    Examples:
      repro evidence faults
      repro evidence faults actkv/confidence
    """
    from repro.evidence import teeth

    sound = True
    for key in _keys(target, everything=not target):
        found = teeth.bite(key)
        sound &= found.sound
        click.echo(f"{key}: {found.checks - len(found.red)} of {found.checks} checks green as is.")
        for name, red in found.caught.items():
            said = ", ".join(red) or "NOT CAUGHT"
            click.echo(f"  {name} ({found.summaries[name].rstrip('.')}): {said}")
    sys.exit(not sound)


for command in COMMANDS:
    evidence_.add_command(command)


@main.command()
@click.argument("path", metavar="RECORD", type=click.Path(exists=True, dir_okay=False))
@click.option("--accept", is_flag=True, help="Keep it as a confirmation, if it agrees.")
def verdict(path: str, accept: bool) -> None:
    """Does a record made elsewhere agree with those on file? Exit 1 where it does not.

    \b
    Example:
      repro verdict seed-47.json
    """
    from pathlib import Path

    from repro import records
    from repro.evidence import verdict as verdicts

    record = records.load(Path(path))
    reading = verdicts.read(record)
    click.echo(f"{reading.verdict}: {reading.why}.")
    if accept:
        click.echo(f"Kept as {os.path.relpath(verdicts.accept(record, reading))}.")
    sys.exit(reading.verdict != "inside")


@main.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False))
@click.option(
    "--data", type=click.Path(exists=True, file_okay=False), help="Check the splits' files."
)
@click.option("--equal", metavar="USE", help="Refuse unequal real use, such as generated_tokens.")
@click.option(
    "--seal", type=click.Path(file_okay=False), metavar="FOLDER",
    help="Choose by validation, and write the choice there: it opens the test, once.",
)  # fmt: skip
def compare(paths: tuple[str, ...], data: str | None, equal: str | None, seal: str | None) -> None:
    """Arms held against a baseline, item by item; an unfair set is refused, by the rule's name.

    \b
    Examples:
      repro compare baseline.json candidate.json --seal choices
      repro compare baseline.json candidate.json --equal generated_tokens
    """
    from pathlib import Path

    from repro.compare import budget, choice, load, manifest, report

    held, runs, sealed = load.load([Path(path) for path in paths])
    if equal:
        budget.check_equal(held, runs, equal)
    if data:
        manifest.check_files(held, Path(data))
    if seal:
        chosen = choice.seal(held, runs)
        place = choice.open_test(chosen, Path(seal))
        click.echo(f"Sealed: {chosen['arm']}, in {place}. Runs of the test name {chosen['id']}.")
    found = report.report(held, runs, sealed)
    for split in ("validation", "test") if found.opened else ("validation",):
        table = Table(
            "arm", "role", found.metric, "by seed", "difference", "95 %", "p (Holm)", "detectable",
            title=f"{split}: {held['question']}",
        )  # fmt: skip
        for arm in found.arms.values():
            table.add_row(*_compared(arm, split))
        console.print(table)
    for arm in found.arms.values():
        if arm.verdict:
            click.echo(f"{arm.arm}: {arm.verdict} ({'; '.join(arm.reasons)}).")
        for split, d in arm.differences.items():
            if None not in d.mcnemar:
                exact = ", ".join(f"{p:.3g}" for p in d.mcnemar)
                click.echo(f"  {split}: p of McNemar's test by seed: {exact}")
    click.echo(f"Chosen by validation: {found.chosen}. Intervals cover {found.covers}.")
    for note in found.notes:
        click.echo(f"- {note}")


def _compared(arm: ArmReport, split: str) -> list[str]:
    """One row of the table that `compare` prints."""
    scores = arm.scores[split]
    row = [arm.arm, arm.role, f"{sum(scores) / len(scores):.3f}"]
    row.append(" ".join(f"{score:.3f}" for score in scores))
    if not (d := arm.differences.get(split)):
        return row
    row += [f"{d.mean:+.3f}", f"{d.interval[0]:+.3f} to {d.interval[1]:+.3f}"]
    return [*row, "" if arm.p_holm is None else f"{arm.p_holm:.4f}", f"{d.detectable:.3f}"]


@main.command()
@click.argument("asset", required=False)
def fetch(asset: str | None) -> None:
    """Fetch and hash-check one asset, or all that the notebooks need.

    \b
    Examples:
      repro fetch
      repro fetch gsm8k
    """
    from repro import assets, models, notebooks

    needed = {a for key in notebooks.keys() for a in notebooks.read(key).assets}
    for name in [asset] if asset else sorted(needed):
        try:
            assets.fetch(name)
        except MissingAsset as error:
            if asset:
                raise
            click.echo(f"✗ {error} Its notebooks show a gap.", err=True)
            continue
        if name in models.MODELS:
            models.prepare(name)
        click.echo(f"✓ {name}: here, hash checked.")


@main.command("new-chapter")
@click.argument("name")
@click.option("--title", required=True, help="The paper as readers know it.")
@click.option("--arxiv", required=True, metavar="NUMBER", help="Such as 2609.01234.")
def new_chapter(name: str, title: str, arxiv: str) -> None:
    """Add a chapter that builds, passes its tests and shows as a gap; then make it the paper's.

    \b
    Example:
      repro new-chapter fading_scores --title "Fading Scores" --arxiv 2610.01234
    """
    from repro import scaffold

    for path in scaffold.new_chapter(name, title, arxiv):
        click.echo(os.path.relpath(path))
    click.echo(f"Next: repro run {name}, repro ledger --check; then book/contributing.md, step 1.")


@main.command()
@click.option("--strict", is_flag=True, help="Fail on any warning, broken link or stale page.")
@click.option("--no-run", is_flag=True, help="Build from what is on file; execute nothing.")
@click.option("--pdf", is_flag=True, help="Print the built book to one PDF as well.")
def book(strict: bool, no_run: bool, pdf: bool) -> None:
    """Execute what is not fresh, at default parameters, and build the HTML.

    \b
    Examples:
      repro book
      repro book --strict
      repro book --no-run --pdf
    """
    from repro import assets, book, notebooks, runs

    plans = []
    for key in [] if no_run else notebooks.keys():
        if why := assets.lacking(notebooks.read(key).assets):
            click.echo(f"– {key}: {why}. Its page shows a gap.")
        else:
            plans.append(runs.plan(key))
    good = all(r.good for r in _run(plans))
    front = book.build(strict)
    click.echo(f"The book: {os.path.relpath(front)}")
    if pdf:
        from repro import pdf as printing

        click.echo(f"As PDF: {os.path.relpath(printing.write())}")
    if not good:
        raise ReproError("A notebook failed; its page shows a gap or an earlier, stale result.")


if __name__ == "__main__":
    main()
