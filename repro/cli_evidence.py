"""``repro evidence validate | receipt | sign | …``: commands for what is on file.

As in `repro.cli`, modules that a command needs are imported inside it.
"""

import os
import sys
from pathlib import Path

import click

from repro.errors import BadParameter

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.argument("receipt", required=False, default="")
@click.option(
    "--level",
    type=click.Choice(["schema", "integrity", "inputs", "rerun"]),
    default="integrity",
    show_default=True,
    help="How far to look; each includes those before it.",
)
def validate(receipt: str, level: str) -> None:
    """Are receipts, lists, records, executed notebooks, keys and claims consistent?

    Exit code 0 with one line when they are, 1 with a list of what is not, 2 for wrong arguments.
    RECEIPT, the beginning of an id, restricts the levels inputs and rerun to that one.

    \b
    Examples:
      repro evidence validate
      repro evidence validate --level inputs
      repro evidence validate --level rerun 3f2a
    """
    from repro.evidence import validate as checks

    report = checks.validate(level, receipt, click.echo)
    for line in report.problems:
        click.echo(f"- {line}")
    for line in report.notes:
        click.echo(f"  note: {line}")
    click.echo(f"{report.summary}.")
    sys.exit(bool(report.problems))


@click.command()
@click.argument("source", metavar="RECORD|SESSION|NOTEBOOK")
@click.option("--profile", default="default", help="For a notebook: named parameters.")
@click.option("--seed", type=int, help="For a notebook: its seed.")
def receipt(source: str, profile: str, seed: int | None) -> None:
    """Write the receipt of a committed record or of a GPU session's file.

    A notebook (actkv/kernels) is executed now; its receipt says what came of it, whatever it was.

    \b
    Examples:
      repro evidence receipt evidence/records/actkv/kernels/cpu/seed-42.json
      repro evidence receipt session.json
      repro evidence receipt actkv/kernels --profile smoke
    """
    from repro.evidence.receipts import attempt, build

    path = Path(source)
    if path.is_file():
        if profile != "default" or seed is not None:
            raise BadParameter("--profile and --seed belong to a notebook; accepted: a file alone.")
        made = build.from_file(path)
    else:
        made = attempt.execute(source, profile, seed)
    _told(made)


@click.command()
@click.argument("old", metavar="RECEIPT")
@click.argument("source", metavar="[RECORD|SESSION]", type=FILE, required=False)
def supersede(old: str, source: Path | None) -> None:
    """Write a later receipt of the same run; the earlier one stays and is marked.

    Without a file, of the record that the earlier one names, as it is now.

    \b
    Examples:
      repro evidence supersede 3f2a91c0
      repro evidence supersede 3f2a91c0 session.json
    """
    from repro.evidence.receipts import build

    _told(build.superseding(old, source))


@click.command("list")
def list_() -> None:
    """Every receipt: id, run, device class, outcome, state, signature.

    \b
    Example:
      repro evidence list
    """
    from repro.evidence import receipts
    from repro.evidence.receipts import pages

    found = receipts.everything()
    for one in found:
        state = ", ".join([one["outcome"].replace("_", " "), *pages.states(one, found)])
        name, device = one["receipt_id"][:16], one["device"]["class"]
        signer = pages.signer(one).replace("`", "")
        click.echo(f"{name}  {one['subject']}  {device}  {one['started'][:10]}  {state}; {signer}")
    if not found:
        click.echo(pages.NONE)


@click.command()
@click.argument("private", type=click.Path(path_type=Path))
@click.option("--days", type=click.IntRange(1), default=365, show_default=True, help="Validity.")
def keygen(private: Path, days: int) -> None:
    """Make a key pair: PRIVATE (a new file outside the repository), and evidence/keys/….json.

    \b
    Example:
      repro evidence keygen ../receipts.pem
    """
    from repro.evidence.receipts import sign

    click.echo(f"Public key: {os.path.relpath(sign.keygen(private, days))}. Keep the other one.")


@click.command("sign")
@click.argument("name", metavar="RECEIPT")
@click.option("--key", "private", type=FILE, required=True, help="The private key's file.")
def sign_(name: str, private: Path) -> None:
    """Sign a receipt; the envelope is put beside it. It is no proof that a run took place.

    \b
    Example:
      repro evidence sign 3f2a91c0 --key ../receipts.pem
    """
    from repro.evidence import receipts
    from repro.evidence.receipts import sign

    click.echo(f"Signed: {os.path.relpath(sign.sign(receipts.find(name), private))}")


@click.command()
@click.argument("name", metavar="RECEIPT")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
def export(name: str, folder: Path) -> None:
    """Write a receipt and its files as an RO-Crate 1.1 into FOLDER, which is checked.

    \b
    Example:
      repro evidence export 3f2a91c0 crate
    """
    from repro.evidence import receipts
    from repro.evidence.receipts import crate

    click.echo(f"Written: {os.path.relpath(crate.export(receipts.find(name), folder))}")


@click.command()
@click.argument("files", nargs=-1, required=True, type=FILE)
def scan(files: tuple[Path, ...]) -> None:
    """Do notebooks or JSON files hold paths, hosts, addresses, secrets or Papermill's metadata?

    For files that are about to be committed: exit code 1 with place and kind, never the value.

    \b
    Example:
      repro evidence scan notebooks/actkv/confidence.ipynb session.json
    """
    import json

    from repro import sanitize

    found = 0
    for path in files:
        try:
            value = json.loads(path.read_bytes())
            notebook = path.suffix == ".ipynb"
            said = sanitize.scan_notebook(value) if notebook else sanitize.scan(value, (".*",))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            said = [sanitize.Finding("", "not readable as JSON, or no notebook")]
        found += len(said)
        for one in said:
            click.echo(f"- {os.path.relpath(path)} {one.pointer or 'the whole'}: {one.kind}")
    click.echo(f"scan: {len(files)} files, {found} problems.")
    sys.exit(bool(found))


@click.command()
def reindex() -> None:
    """Accept the committed records as they are now, in evidence/records/index.jsonl.

    `repro run` does this for what it makes. Here somebody vouches for what it did not.

    \b
    Example:
      repro evidence reindex
    """
    from repro.evidence import manifest

    for line in manifest.reindex() or ["Every record is what the list says."]:
        click.echo(line)


def _told(made: dict) -> None:
    from repro.evidence import receipts

    says = f": {made['reason']}" if made["reason"] else ""
    click.echo(f"{os.path.relpath(receipts.path(made))} ({made['outcome']}{says})")
    for text in made["limitations"]:
        click.echo(f"  {text}")


COMMANDS = (validate, scan, receipt, supersede, list_, keygen, sign_, export, reindex)
