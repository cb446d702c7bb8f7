"""Receipts as text for the book: a list of all, and a page each whose text is computed."""

import html
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from repro import paths
from repro.errors import ReproError

_NO_CLAIM = (
    "No claim in this book rests on a run on an accelerator, and no page shows a speed or a memory "
    "figure from one."
)
NONE = f"There are no receipts on file. {_NO_CLAIM}"
NO_GPU = f"None of them is of an accelerator. {_NO_CLAIM}"


def path(receipt: Mapping[str, Any]) -> Path:
    """The source of a receipt's page."""
    return paths.ROOT / "book" / "receipts" / f"{receipt['receipt_id'][:16]}.md"


def stub(receipt: Mapping[str, Any]) -> str:
    """The text of that source: it holds nothing but the name of what it shows."""
    name = receipt["receipt_id"][:16]
    return f"# Receipt {name}\n\n```{{receipt}} {name}\n```\n"


def listing(linked: Callable[[str], bool] = lambda name: False) -> str:
    """All receipts, newest last. linked: whether a page of the book has this document name."""
    from repro import render
    from repro.evidence import receipts

    try:
        found = receipts.everything()
    except ReproError as error:
        return (
            f"**Nothing is shown, because the list of receipts is damaged.** {_plain(str(error))}"
        )
    if not found:
        return NONE
    rows = []
    for receipt in found:
        name = receipt["receipt_id"][:16]
        page = f"book/receipts/{name}"
        shown = f"{{doc}}`{name} </{page}>`" if linked(page) else f"`{name}`"
        state = ", ".join([receipt["outcome"].replace("_", " "), *states(receipt, found)])
        when, device = receipt["started"][:10], receipt["device"]
        state = f"{state}; {signer(receipt)}"
        rows.append((shown, receipt["subject"], _device(device), when, state))
    text = render.table(("receipt", "of", "device class", "date", "outcome, state, key"), rows)
    gpu = any(r["device"]["class"] != "CPU" and r["outcome"] == "passed" for r in found)
    return text if gpu else f"{text}\n\n{NO_GPU}"


def states(receipt: Mapping[str, Any], found: list[dict[str, Any]]) -> list[str]:
    """What else a reader has to know of a receipt: replaced, expired, repeated, of older inputs."""
    from repro.evidence import receipts
    from repro.evidence.receipts import today

    told = [f"superseded by {r['receipt_id'][:16]}" for r in _later(receipt, found)]
    told += ["expired"] if receipts.expired(receipt) else []
    if receipt["kind"] == "counter":
        agrees = "agrees" if receipt["repeats"]["agrees"] else "does not agree"
        return [*told, f"{agrees} with {receipt['repeats']['receipt_id'][:16]}"]
    if not told and today.differences(receipt):
        told.append("stale")
    mine = [r for r in found if (r["repeats"] or {}).get("receipt_id") == receipt["receipt_id"]]
    agree = sum(r["repeats"]["agrees"] for r in mine)
    return told + ([f"repeated, {agree} of {len(mine)} agree"] if mine else [])


def page(name: str) -> str:
    """Everything that one receipt says."""
    from repro import render
    from repro.evidence import receipts
    from repro.evidence.receipts import today

    try:
        receipt, found = receipts.find(name), receipts.everything()
    except ReproError as error:
        return f"**Nothing is shown, because this receipt is damaged.** {_plain(str(error))}"
    device, outcome = receipt["device"], receipt["outcome"].replace("_", " ")
    rows = [
        ("outcome", outcome + (f": {_plain(receipt['reason'])}" if receipt["reason"] else "")),
        ("of", f"`{receipt['subject']}` ({receipt['kind']})"),
        ("state", "; ".join(states(receipt, found)) or "current"),
        ("device class", f"{_device(device)}; the runtime calls it {_plain(device['name'])}"),
        ("started, seconds", f"{receipt['started']}, {receipt['wall_s']:g}"),
        ("valid until", receipt["expires"][:10]),
        ("commit", f"`{receipt['source']['commit']}`, without changes"),
        ("command", f"`{' '.join(receipt['command'])}`"),
        ("seeds", ", ".join(map(str, receipt["seeds"])) or "none"),
        ("checks", f"{receipt['checks']['green']} green, {len(receipt['checks']['red'])} red"),
        ("versions", ", ".join(f"{n} {v}" for n, v in sorted(receipt["versions"].items()))),
        ("assets", ", ".join(f"{n} `{h[:16]}`" for n, h in receipt["inputs"]["assets"].items())
         or "none"),
        ("signed by", signer(receipt)),
        ("receipt id", f"`{receipt['receipt_id']}`"),
    ]  # fmt: skip
    parts = [render.table(("field", "value"), rows)]
    changed = [] if receipt["kind"] == "counter" else today.differences(receipt)
    if changed:
        parts.append(f"**Stale.** Changed since: {_plain('; '.join(changed))}.")
    if receipt["repeats"] and receipt["repeats"]["differences"]:
        parts.append("Differs: " + _plain("; ".join(receipt["repeats"]["differences"])) + ".")
    if receipt["metrics"]:
        head = ("metric", "value", "unit", "better", "split", "n")
        parts.append(render.table(head, [_metric(m) for m in receipt["metrics"]]))
    if receipt["files"]:
        held = [(f["role"], f"`{f['path']}`", f"`{f['sha256']}`") for f in receipt["files"]]
        parts.append(render.table(("file", "path", "SHA-256"), held))
    parts += [f"* {_plain(text)}" for text in receipt["limitations"]]
    return "\n\n".join(parts)


def signer(receipt: Mapping[str, Any]) -> str:
    """The key whose signature holds, ``unsigned``, or what is wrong with the signature."""
    from repro.evidence import receipts
    from repro.evidence.receipts import sign

    try:
        keyid = sign.signed_by(receipt, receipts.path(receipt))
    except ReproError as error:
        return f"bad signature: {_plain(str(error))}"
    return f"key `{keyid[:16]}`" if keyid else sign.UNSIGNED


def _metric(metric: Mapping[str, Any]) -> tuple[str, ...]:
    from repro import render

    told = (render.number(metric["value"]), _plain(metric["unit"]), metric["direction"])
    return (f"`{metric['name']}`", *told, _plain(metric["split"]), str(metric["n"]))


def _device(device: Mapping[str, Any]) -> str:
    count = f"{device['count']} x " if device["count"] > 1 else ""
    part = f", a part of it ({device['partition']})" if device["partition"] else ""
    return f"{count}{device['class']}{part}"


def _later(receipt: Mapping[str, Any], found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [r for r in found if r["supersedes"] == receipt["receipt_id"]]


def _plain(text: str) -> str:
    return html.escape(text, quote=False)
