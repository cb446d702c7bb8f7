"""The directives and the role of the pages: a page names what it shows, and this computes it."""

import os
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList

from repro import costs, evidence, files, performance, pictures, player, render
from repro.errors import ReproError
from repro.evidence.receipts import pages
from repro.paths import BUILD

FIGURES = BUILD / "figures"


class Computed(Directive):
    """Base of the directives whose text is computed: subclasses give `text`."""

    def run(self) -> list[nodes.Node]:
        env = self.state.document.settings.env
        holder = nodes.container()
        lines = StringList(self.text().splitlines(), source=env.docname)
        self.state.nested_parse(lines, self.content_offset, holder)
        return holder.children

    def text(self) -> str:
        raise NotImplementedError(type(self).__name__)


class Comparison(Computed):
    """``{comparison} actkv/baselines cpu actkv``, its content the metric: arms paired by item."""

    required_arguments = 3
    has_content = True

    def text(self) -> str:
        key, profile, subject = self.arguments
        return render.comparison(key, profile, subject, " ".join(self.content))


class Tradeoff(Computed):
    """``{tradeoff} actkv/baselines cpu actkv``: one metric against another, from the records.

    Content, a line each: prefix of the metric across, its label, prefix of the metric up, label.
    """

    required_arguments = 3
    has_content = True

    def text(self) -> str:
        from repro import figures  # matplotlib, which an unchanged book does not need

        key, profile, subject = self.arguments
        x, across, y, up = self.content
        held = [s.record for s in evidence.of_profile(key, profile) if s.record]
        if not held:
            return f"*Gap: no record of {key} at the profile `{profile}`.*"
        fig, alt = figures.tradeoff(held, x, y, (across, up), subject)
        name = f"{key.replace('/', '-')}-{profile}-{x}{y}.svg".replace("_", "-")
        figures.save(fig, FIGURES / name)
        place = os.path.relpath(FIGURES / name, Path(self.state.document.current_source).parent)
        return f":::{{image}} {place}\n:alt: {alt}\n:width: 100%\n:::"


class Player(Directive):
    """``{player} graph``: a picture in steps, its still in print and without JavaScript."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        (name,) = self.arguments
        holder = nodes.container(classes=["eb-player"])
        try:
            made = pictures.load(name)
        except ReproError as error:
            text = f"Gap: the picture {name} is {error}."
            return [nodes.paragraph("", "", nodes.emphasis(text, text))]
        place = FIGURES / f"player-{name}.svg"
        files.write_atomic(place, made["still"])
        where = os.path.relpath(place, Path(self.state.document.current_source).parent)
        holder += nodes.image(uri=where, alt=made["alt"])
        holder += nodes.raw("", player.html(made["data"]), format="html")
        holder += nodes.paragraph("", made["about"], classes=["eb-about"])
        return [holder]


class Cost(Computed):
    """``{cost} actkv``: what a full reproduction takes, and what the records on file took."""

    required_arguments = 1

    def text(self) -> str:
        return costs.text(self.arguments[0])


class PaperRun(Computed):
    """``{paper-run} recursive_opsd``: a run that was never executed: gap card, gaps, cost."""

    required_arguments = 1

    def text(self) -> str:
        from repro.recursive_opsd import paper_config, paper_cost, paper_page

        (paper,) = self.arguments
        if paper != "recursive_opsd":
            raise self.error(f"paper-run {paper!r} is refused; accepted: recursive_opsd.")
        for module in (paper_config, paper_cost, paper_page):
            self.state.document.settings.env.note_dependency(str(module.__file__))
        return paper_page.text()


class Performance(Computed):
    """``{performance} ratios``: what `make bench` measured; `machine`, `ratios` or `growth`."""

    required_arguments = 1

    def text(self) -> str:
        (part,) = self.arguments
        said = performance.text(part)
        place = FIGURES / "performance.svg"
        if part != "growth" or not (alt := performance.picture(place)):
            return said
        where = os.path.relpath(place, Path(self.state.document.current_source).parent)
        return f":::{{image}} {where}\n:alt: {alt}\n:width: 100%\n:::\n\n{said}"


class Papers(Computed):
    """``{papers}``: the papers at a glance."""

    def text(self) -> str:
        return render.papers_table()


class Claims(Computed):
    """``{claims} actkv``: one paper's claims."""

    required_arguments = 1

    def text(self) -> str:
        return render.claims_list(self.arguments[0])


class Ledger(Computed):
    """``{ledger} actkv``: one paper's entry in the ledger."""

    required_arguments = 1

    def text(self) -> str:
        return render.ledger(self.arguments[0])


class Protocols(Computed):
    """``{protocols}``: the rules that hold for all papers."""

    def text(self) -> str:
        return render.protocols()


class Receipts(Computed):
    """``{receipts}``: all receipts, each with a link to its page where _toc.yml names that."""

    def text(self) -> str:
        return pages.listing(self.state.document.settings.env.found_docs.__contains__)


class Receipt(Computed):
    """``{receipt} 3f2a91c04d5e6f70``: everything that one receipt says."""

    required_arguments = 1

    def text(self) -> str:
        return pages.page(self.arguments[0])


def metric_role(
    name: str,
    rawtext: str,
    text: str,
    lineno: int,
    inliner: Any,
    options: dict[str, Any] | None = None,
    content: list[str] | None = None,
) -> tuple[list[nodes.Node], list[nodes.system_message]]:
    """``{metric}`actkv/confidence/share```: a measured number, from the committed records."""
    return [nodes.inline(rawtext, render.metric(text), classes=["eb-metric"])], []


DIRECTIVES = {
    "claims": Claims,
    "comparison": Comparison,
    "cost": Cost,
    "ledger": Ledger,
    "paper-run": PaperRun,
    "papers": Papers,
    "performance": Performance,
    "player": Player,
    "protocols": Protocols,
    "receipt": Receipt,
    "receipts": Receipts,
    "tradeoff": Tradeoff,
}
