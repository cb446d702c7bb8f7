"""Nothing may say more than the evidence: sentences, typed levels, badges, the claims file."""

import copy
import json

import pytest

from repro import evidence, levels, render, sphinx
from repro.errors import ReproError
from repro.evidence import prose

TOO_MUCH = [
    "This chapter\nreproduces the paper.",
    "We successfully reproduced all results.",
    "Our numbers match the paper's accuracy.",
    "ActKV is fully reproduced here.",
    "The paper has been reproduced on one GPU.",
    "These runs confirm the authors' result.",
    "Evidence level: reproduction",
    "Level: **diagnostic**",
    "This claim has reached reproduction.",
    '<span class="eb-level reproduction">reproduction</span>',
    "{bdg-success}`reproduced`",
    "![badge](https://img.shields.io/badge/reproduced-yes)",
]
FINE = [
    "This does not reproduce the paper.",
    "No notebook here reproduces the paper; the diagnostic is small.",
    "Nobody can say whether this confirms the paper.",
    "Four levels: gap, mechanism, diagnostic or reproduction.",
    "What would be needed until it reproduces the paper is listed.",
    "A literate reproduction book for LLM papers.",
    "A level says how far the evidence goes.",
]


@pytest.mark.parametrize("text", TOO_MUCH)
def test_a_sentence_or_badge_that_says_too_much_is_found(tmp_path, text):
    for name in ("book/x.md", "README.md"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"# Title\n\nOrdinary words. {text} More words.\n")
        assert prose.overclaims(tmp_path) and name in prose.overclaims(tmp_path)[0]
        path.unlink()
    folder = tmp_path / "notebooks" / "a"
    folder.mkdir(parents=True)
    cell = {"cell_type": "markdown", "source": text.splitlines(keepends=True)}
    (folder / "b.ipynb").write_text(json.dumps({"cells": [cell]}))
    assert prose.overclaims(tmp_path)


@pytest.mark.parametrize("text", FINE)
def test_what_is_denied_or_only_defined_passes(tmp_path, text):
    (tmp_path / "README.md").write_text(text)
    assert prose.overclaims(tmp_path) == []


def test_the_claims_file_can_neither_type_a_level_nor_say_too_much(monkeypatch):
    held = copy.deepcopy(evidence.claims_file())
    held["claims"][0]["note"] = "The paper has been reproduced."
    found = prose.overclaimed(held)
    assert len(found) == 1 and held["claims"][0]["id"] in found[0]
    held["claims"][0]["level"] = "reproduction"
    monkeypatch.setattr(evidence.files, "read_yaml", lambda path: held)
    evidence.claims_file.cache_clear()
    with pytest.raises(ReproError, match=r"claims\[0\].*level"):
        evidence.claims_file()
    monkeypatch.undo()
    evidence.claims_file.cache_clear()


@pytest.fixture
def built(tmp_path, monkeypatch):
    """A page as the build would leave it, from today's evidence."""
    page = tmp_path / "book" / "ledger.html"
    page.parent.mkdir()
    page.write_text("".join(render.ledger(p) for p in evidence.papers()) + render.protocols())
    (tmp_path / ".evidence").write_text("today")
    monkeypatch.setattr(sphinx, "fingerprint", lambda: "today")
    return page


def test_a_badge_edited_in_a_built_page_is_found(built):
    assert prose.badges(built.parent.parent) == []
    text = built.read_text()
    built.write_text(text.replace(">gap<", ">reproduction<", 1))
    assert "book/ledger.html: shows other badges" in prose.badges(built.parent.parent)[0]
    built.write_text(text + render.level_badge("diagnostic"))
    assert prose.badges(built.parent.parent)


def test_a_book_of_other_evidence_is_not_judged(built):
    built.write_text("")
    (built.parent.parent / ".evidence").write_text("yesterday")
    assert prose.badges(built.parent.parent) == []


def test_today_s_book_says_no_more_than_its_evidence():
    assert levels.check() == []
