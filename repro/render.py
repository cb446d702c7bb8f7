"""Evidence as text for the pages: banner, gap card, seed table, claims, ledger.

Everything here is computed from records and claims; a page holds only the name of what it shows.
"""

import html
import math
import statistics
from collections.abc import Sequence
from typing import Any

from repro import evidence, intervals, levels, pooled, provenance
from repro.evidence import Status


def level_badge(level: str) -> str:
    return f'<span class="eb-level {level}">{level}</span>'


def flag_badges(flags: tuple[str, ...]) -> str:
    return "".join(f' <span class="eb-flag {flag}">{flag}</span>' for flag in flags)


def banner(key: str) -> str:
    """The box under a notebook's title: what ran, how fresh it is, and which claims rest on it."""
    status = evidence.live(key)
    kind = {"fresh": "fresh", "stale": "stale", "missing": "gap"}[status.state]
    lines = [_HEADLINES[status.state]]
    if status.record:
        lines.append(_provenance(status))
    if status.state == "stale":
        lines.append(f"Changed since: {html.escape(status.why, quote=False)}.")
    lines += [_claim_line(claim) for claim in evidence.claims() if _uses(claim, key)]
    lines.append(f"Execute again: <code>repro run {key}</code>")
    body = "".join(f"<p>{line}</p>" for line in lines)
    return f'<div class="eb-banner {kind}" role="note">{body}</div>'


_HEADLINES = {
    "fresh": "<strong>Fresh.</strong> The outputs below come from the code shown.",
    "stale": "<strong>Stale.</strong> The code has changed; these outputs are from before.",
    "missing": "<strong>Gap.</strong> Not executed: this page shows the code without results.",
}


def _provenance(status: Status) -> str:
    record = status.record
    checks = record["checks"]
    green = sum(c["passed"] for c in checks)
    caught = sum(bool(v) for v in record["faults"].values())
    parts = [
        f"Executed {record['started'][:10]} on {html.escape(record['device'], quote=False)}, "
        f"seed {record['parameters']['seed']}",
        f"{green} of {len(checks)} checks green",
        f"{caught} of {len(record['faults'])} deliberate faults caught",
    ]
    pins = record["inputs"]["packages"]
    other = [f"{n} {v}" for n, v in record["versions"].items() if n in pins and v != pins[n]]
    if other:
        parts.append("run with versions that are not the pinned ones: " + ", ".join(other))
    return "; ".join(parts) + "."


def _claim_line(claim: dict[str, Any]) -> str:
    verdict = levels.judge(claim)
    badges = level_badge(verdict.level) + flag_badges(verdict.flags)
    return f"{badges} {html.escape(claim['title'], quote=False)}"


def _uses(claim: dict[str, Any], key: str) -> bool:
    return key in claim["evidence"]["notebooks"]


def gap_card(key: str, why: str) -> str:
    """What stands in for results that are not there, and the command that would fill it."""
    return (
        '<div class="eb-gap" role="note"><p><strong>No result on file.</strong> '
        f"{html.escape(why, quote=False)}. Fill it with <code>repro run {key}</code>.</p></div>"
    )


def seeds_table(key: str) -> str:
    """Committed multi-seed results of a notebook, one block a profile; empty without any."""
    blocks = []
    for profile in evidence.profiles.names()[1:]:
        held = evidence.of_profile(key, profile)
        if held:
            blocks.append(_profile_block(key, profile, held))
    return "## Seeds on file\n\n" + "\n\n".join(blocks) if blocks else ""


def _profile_block(key: str, profile: str, held: list[Status]) -> str:
    seeds = ", ".join(f"{s.seed} <span class='eb-flag {s.state}'>{s.state}</span>" for s in held)
    why = "; ".join(sorted({s.why for s in held if s.why}))
    text = f"Profile `{profile}`, seeds {seeds}."
    if why:
        text += f" Not fresh because: {html.escape(why, quote=False)}."
        text += f" Run `repro run {key} --profile {profile}`."
    rows = spread([s.record for s in held if s.record])
    if not rows:
        return text
    head = ("metric", "mean", "standard deviation", "smallest", "largest", "unit", "seeds", "items")
    body = [
        (
            f"`{r['name']}`",
            number(r["mean"]),
            number(r["sd"]),
            number(r["low"]),
            number(r["high"]),
            html.escape(f"{r['unit']}, {_BETTER[r['direction']]}", quote=False),
            str(r["seeds"]),
            str(r["n"]),
        )
        for r in rows
    ]
    return text + "\n\n" + table(head, body)


_BETTER = {"higher": "higher is better", "lower": "lower is better", "none": "no direction"}


def spread(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each metric over several records: mean, standard deviation (n − 1), range."""
    rows = []
    for metric in found[0]["metrics"] if found else []:
        same = [m for r in found for m in r["metrics"] if m["name"] == metric["name"]]
        values = [m["value"] for m in same]
        rows.append(
            metric
            | dict(
                mean=statistics.fmean(values),
                sd=statistics.stdev(values) if len(values) > 1 else 0.0,
                low=min(values),
                high=max(values),
                seeds=len(values),
                n=sum(m["n"] for m in same),
            )
        )
    return rows


def metric(name: str) -> str:
    """``paper/notebook/metric`` as its value over the committed seeds, or the word gap.

    ``metric@profile`` takes it from that profile, otherwise the first that has it.
    """
    key, _, short = name.rpartition("/")
    short, _, only = short.partition("@")
    for profile in [only] if only else evidence.profiles.names()[1:]:
        held = [s for s in evidence.of_profile(key, profile) if s.record]
        for row in spread([s.record for s in held]):
            if row["name"] == short:
                stale = " (stale)" if any(s.state == "stale" for s in held) else ""
                return f"{with_spread(row['mean'], row['sd'])}{stale}"
    return "gap"


def comparison(key: str, profile: str, subject: str, what: str) -> str:
    """Every arm's mean at every setting, and the paired difference of `subject` to it.

    what: metric of the comparisons, up to the comma; what follows the comma names the setting.
    """
    held = [s for s in evidence.of_profile(key, profile) if s.record]
    found = [
        c
        for c in pooled.comparisons([s.record for s in held])
        if c.metric.partition(", ")[0] == what and subject in c.arms
    ]
    if not found:
        return f"*Gap: no record of {key} at the profile `{profile}` compares {what}.*"
    everywhere = [a for a in found[0].arms if all(a in c.arms for c in found)]
    everywhere.sort(key=lambda a: a != subject)
    head = ("setting", *everywhere)
    rows = [(_setting(c), *(_cell(c, subject, a) for a in everywhere)) for c in found]
    some = [
        (a, _setting(c), _cell(c, subject, a)) for c in found for a in c.arms if a not in everywhere
    ]
    states = ", ".join(f"{s.seed} <span class='eb-flag {s.state}'>{s.state}</span>" for s in held)
    counts = sorted({len(c.ids) for c in found})
    caption = (
        f"{what[0].upper()}{what[1:]} ({found[0].unit}): mean of the arm, and in brackets how much "
        f"{subject} has more, with the 95 % interval of the paired difference (bootstrap over "
        f"{' to '.join(map(str, counts))} different {found[0].item}s). Profile `{profile}`, seeds "
        f"{states}."
    )
    if len(everywhere) > len(found):  # the longer side goes down the page
        head = ("arm", *(_setting(c) for c in found))
        rows = [(a, *(_cell(c, subject, a) for c in found)) for a in everywhere]
    parts = [table(head, rows), caption]
    if some:
        parts.append("Arms that ran at some settings only:")
        parts.append(table(("arm", "setting", f"mean ({subject} has more)"), some))
    return "\n\n".join(parts)


def _setting(compared: pooled.Pooled) -> str:
    return compared.metric.partition(", ")[2] or "mean"


def _cell(compared: pooled.Pooled, subject: str, arm: str) -> str:
    mean = f"{compared.arms[arm].mean():.3f}"
    if arm == subject:
        return f"**{mean}**"
    gain = compared.differences(subject, arm)
    between = intervals.of_mean(gain)
    shown = f": {between[0]:+.3f} to {between[1]:+.3f}" if between else ""
    return f"{mean} ({gain.mean():+.3f}{shown})"


def with_spread(mean: float, sd: float) -> str:
    """Mean and standard deviation, both to the second significant digit of the latter."""
    if sd == 0:
        return f"{number(mean)} in every seed"
    digits = max(0, 1 - math.floor(math.log10(sd)))
    if digits > 7:  # rounding errors and the like
        return f"{mean:.2g} ± {sd:.2g}"
    return f"{mean:.{digits}f} ± {sd:.{digits}f}"


def number(value: float) -> str:
    """Four significant digits, without an exponent where it reads well."""
    return f"{value:.4g}"


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A MyST table in a box that scrolls by itself on a narrow screen."""
    lines = [" | ".join(head), " | ".join("---" for _ in head)]
    lines += [" | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in r) for r in rows]
    body = "\n".join(f"| {line} |" for line in lines)
    return f":::{{div}} eb-table\n\n{body}\n\n:::"


def papers_table() -> str:
    """All papers with the highest level any of their claims has reached."""
    rows = []
    for paper, about in evidence.papers().items():
        verdicts = [levels.judge(c) for c in evidence.claims(paper)]
        counts = [f"{sum(v.level == x for v in verdicts)} {x}" for x in levels.LEVELS]
        best = max((v.level for v in verdicts), key=levels.LEVELS.index)
        link = f"[{about['name']}](#{anchor(paper)}): {about['title']}"
        arxiv = f"[{about['arxiv']}](https://arxiv.org/abs/{about['arxiv']})"
        spelled = ", ".join(c for c in counts if not c.startswith("0 "))
        rows.append((link, arxiv, level_badge(best), spelled))
    return table(("Paper", "arXiv", "Highest level", "Claims by level"), rows)


def claims_list(paper: str) -> str:
    """One paper's claims: what it says, its number, our level, what is missing next."""
    return "\n\n".join(_claim_card(claim) for claim in evidence.claims(paper))


def _claim_card(claim: dict[str, Any]) -> str:
    verdict = levels.judge(claim)
    lines = [
        f"{level_badge(verdict.level)}{flag_badges(verdict.flags)} **{claim['title']}.** "
        f"{claim['statement']}",
        f"*Paper:* {_published(claim['published'])}. *Source:* {claim['source']}.",
    ]
    if claim.get("note"):
        lines.append(f"*Note:* {claim['note']}")
    if verdict.runs and claim["deviations"]:
        lines.append(f"*Our runs differ:* {'; '.join(claim['deviations'])}.")
    if verdict.runs and verdict.findings:
        seen = "; ".join(f"`{f.text}` {f.where}" for f in verdict.findings)
        lines.append(f"*Expected, and seen here:* {seen}.")
    if verdict.runs:
        lines.append(
            f"*Executed elsewhere:* {provenance.confirmed(claim['evidence']['notebooks'])}."
        )
    rest = [text for text in verdict.missing if not text.startswith("deviation: ")]
    if len(rest) < len(verdict.missing):
        rest.insert(0, "runs without these deviations")
    lines.append(f"*Missing for the next level:* {'; '.join(rest) or 'nothing'}.")
    return ":::{div} eb-claim\n" + "\n\n".join(lines) + "\n:::"


def _published(published: dict[str, str] | None) -> str:
    if not published:
        return "no number"
    return f"{published['value']} ({published['where']}; label {published['label']})"


def ledger(paper: str) -> str:
    """One paper's entry: what a reproduction needs and costs, what others found, the claims."""
    about = evidence.papers()[paper]
    parts = [
        f"({anchor(paper)})=\n**{about['title']}**, [{about['arxiv']}]"
        f"(https://arxiv.org/abs/{about['arxiv']}).",
        f"*Missing for a full reproduction.* {about['seed_row']}",
        f"*What it would take.* {about['cost']}",
    ]
    if about.get("elsewhere"):
        parts.append("*What others found.*\n" + "\n".join(f"* {t}" for t in about["elsewhere"]))
    return "\n\n".join([*parts, claims_list(paper)])


def anchor(paper: str) -> str:
    return f"ledger-{paper.replace('_', '-')}"


def protocols() -> str:
    """The rules that hold for all papers, and that none of them is executed yet."""
    parts = []
    for protocol in evidence.claims_file().get("protocols", ()):
        level = "gap" if not protocol["evidence"]["notebooks"] else "mechanism"
        parts.append(f"**{protocol['title']}** {level_badge(level)}. {protocol['statement']}")
        parts.append("\n".join(f"* {rule}" for rule in protocol["rules"]))
        parts.append(protocol["note"])
    return "\n\n".join(parts)
