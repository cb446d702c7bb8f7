"""Execute a profile's notebooks here, and leave what they gave as one commit on a new branch.

For a machine that has what others lack, such as a GPU: receipts, records and executed notebooks are
written, validated and committed; whoever reviews the branch needs no access to the machine. Runs
that fail leave receipts too. Nothing is pushed, and the branch that was checked out stays.
"""

from collections.abc import Callable, Sequence
from typing import Any

from repro import paths, runs
from repro.errors import BadParameter, ReproError
from repro.evidence import source, validate
from repro.evidence.receipts import attempt, devices

KEPT = ("evidence", "book/receipts")  # what a run with a receipt may write


def ready(name: str, plans: Sequence[runs.Run]) -> None:
    """Everything that would spoil the end, asked before hours of computing.

    Raises BadParameter for a branch that exists or is no name of one, for runs of no committed
    profile and for a device that is not here; ReproError for files that are not committed, and
    where git knows no author.
    """
    for run in plans:
        if run.record_path is None:
            raise BadParameter(
                f"{run.key} with --branch runs as {run.profile}; accepted: a profile with seeds."
            )
        devices.here(run.parameters["device"])
    try:
        source.git("check-ref-format", "--branch", name)
    except ReproError:
        raise BadParameter(f"--branch {name!r} is no name of a branch for git.") from None
    if source.git("branch", "--list", "--format=%(refname:short)", name).strip():
        raise BadParameter(f"--branch {name!r} exists; accepted: a new one.")
    if changed := source.unclean(["."]):
        raise ReproError(f"Not committed: {', '.join(changed[:5])}. A receipt names a commit.")
    source.git("var", "GIT_COMMITTER_IDENT")


def leave(
    name: str, plans: Sequence[runs.Run], say: Callable[[str], None] = lambda line: None
) -> list[dict[str, Any]]:
    """Execute `plans` one after another and commit their receipts on the new branch `name`.

    Returns the receipts. Raises what `ready` raises, and ReproError where what was written is not
    consistent: the files then stay, uncommitted.
    """
    ready(name, plans)
    made = []
    for run in plans:
        say(f"{run.key} ({run.profile}, seed {run.parameters['seed']}) …")
        made.append(attempt.execute(run.key, run.profile, run.parameters["seed"]))
        say(f"  {made[-1]['device']['class']}: {_told(made[-1])}")
    report = validate.validate("integrity")
    say(report.summary)
    if report.problems:
        raise ReproError(f"No branch was made: {'; '.join(report.problems[:5])}.")
    _commit(name, made)
    return made


def _commit(name: str, made: Sequence[dict[str, Any]]) -> None:
    """One commit above HEAD; HEAD, its branch and its index are as before."""
    lines = [f"- {r['subject']}, seed {r['seeds'][0]}: {_told(r)}" for r in made]
    classes = " and ".join(sorted({r["device"]["class"] for r in made}))
    message = "\n".join([f"Receipts of {len(made)} runs on {classes}", "", *lines])
    before = source.git("rev-parse", "--abbrev-ref", "HEAD").decode().strip()
    here = [folder for folder in KEPT if (paths.ROOT / folder).exists()]
    source.git("switch", "--quiet", "--create", name)
    source.git("add", "--", *here)
    source.git("commit", "--quiet", "--message", message, "--", *here)
    back = ["--detach", f"{name}~1"] if before == "HEAD" else [before]
    source.git("switch", "--quiet", *back)


def _told(receipt: dict[str, Any]) -> str:
    says = f" ({receipt['reason']})" if receipt["reason"] else ""
    return f"{receipt['outcome'].replace('_', ' ')}{says}"
