"""Levels are computed from records, and every shortcut to a higher one fails."""

import copy

import pytest

from repro import evidence, levels, records, render
from repro.errors import ReproError
from repro.evidence import Status

CLAIM = {
    "id": "demo-one",
    "paper": "actkv",
    "title": "One",
    "statement": "says one",
    "published": None,
    "source": "nowhere",
    "evidence": {"notebooks": ["demo/a"], "metrics": ["share"], "profile": "cpu"},
    "needs": {"mechanism": [], "diagnostic": ["a real model"], "reproduction": ["the paper's"]},
    "deviations": ["another model"],
}


def record(seed: int, **changes) -> dict:
    inputs = {
        "cells": "0" * 64,
        "modules": {},
        "parameters": {"seed": seed, "fault": ""},
        "assets": {"bfcl-v4": "0" * 64},
        "packages": {},
    }
    run = records.Run("demo/a", inputs["parameters"] | {"record": ""}, inputs)
    run.check("one", changes.get("green", True), "one is one")
    run.metric("share", 0.5, unit="fraction", direction="higher", split="base", n=3)
    run.compare(
        "x",
        unit="u",
        item="i",
        ids=["a", "b"],
        arms=changes.get("arms", {"p": [1, 2], "q": [1, 3]}),
    )
    run.faults(changes.get("faults", {"broken": ["one"]}))
    return run.record()


def verdict(monkeypatch, found, claim=CLAIM) -> levels.Verdict:
    monkeypatch.setattr(levels, "_on_file", lambda key, profile: found)
    return levels.judge(claim)


def three(state="fresh", **changes) -> list[Status]:
    why = "module x changed" if state == "stale" else ""
    return [Status("demo/a", "cpu", s, state, why, record(s, **changes)) for s in (42, 43, 44)]


def test_nothing_on_file_is_a_gap(monkeypatch):
    got = verdict(monkeypatch, [Status("demo/a", "cpu", 42, "missing", "no record on file")])
    assert got.level == "gap" and "demo/a has no record" in got.missing
    claim = copy.deepcopy(CLAIM)
    claim["evidence"]["notebooks"] = []
    assert verdict(monkeypatch, [], claim).level == "gap"


def test_three_fresh_paired_informative_seeds_on_real_input_are_a_diagnostic(monkeypatch):
    got = verdict(monkeypatch, three())
    assert got.level == "diagnostic" and "paired" in got.flags
    assert "deviation: another model" in got.missing and "the paper's" in got.missing


@pytest.mark.parametrize(
    "changes, level, says",
    [
        ({"green": False}, "gap", "checks not green: one"),
        ({"faults": {"broken": []}}, "gap", "faults not caught: broken"),
        ({"faults": {}}, "gap", "faults not caught: none tried"),
        ({"arms": {"p": [1, 2], "q": [1, 2]}}, "mechanism", "uninformative"),
    ],
)
def test_weak_records_do_not_lift(monkeypatch, changes, level, says):
    got = verdict(monkeypatch, three(**changes))
    assert got.level == level and any(says in reason for reason in got.missing)


def test_two_seeds_are_no_diagnostic(monkeypatch):
    got = verdict(monkeypatch, three()[:2])
    assert got.level == "mechanism" and "demo/a: 2 seeds on file, 3 needed" in got.missing


def test_stale_counts_one_level_lower(monkeypatch):
    got = verdict(monkeypatch, three("stale"))
    assert got.level == "mechanism" and "stale" in got.flags
    assert any("module x changed" in reason for reason in got.missing)


def test_missing_metric_and_synthetic_input_do_not_lift(monkeypatch):
    claim = copy.deepcopy(CLAIM)
    claim["evidence"]["metrics"] = ["other"]
    assert "metric other is not measured" in verdict(monkeypatch, three(), claim).missing
    found = three()
    for status in found:
        status.record["inputs"]["assets"] = {}
    got = verdict(monkeypatch, found)
    assert got.level == "mechanism" and "demo/a: no public model or data was used" in got.missing


def test_reproduction_needs_the_papers_scale_and_no_deviation(monkeypatch):
    claim = copy.deepcopy(CLAIM)
    claim["deviations"] = []
    assert verdict(monkeypatch, three(), claim).level == "diagnostic"
    claim["evidence"]["profile"] = "paper"
    assert verdict(monkeypatch, three(), claim).level == "reproduction"
    claim["deviations"] = ["another model"]
    assert verdict(monkeypatch, three(), claim).level == "diagnostic"


def test_the_claims_file_is_sound_and_complete():
    assert levels.check() == []
    nine = "actkv toolsearcher recursive_opsd mad_rl kite deltas graft code_skills muser"
    assert set(evidence.papers()) >= set(nine.split())
    for paper, about in evidence.papers().items():
        assert evidence.claims(paper) and about["seed_row"]
    with_notebooks = {c["paper"] for c in evidence.claims() if c["evidence"]["notebooks"]}
    for claim in evidence.claims():
        if claim["paper"] not in with_notebooks:
            assert levels.judge(claim).level == "gap"


def test_unknown_paper():
    with pytest.raises(ReproError, match="Paper 'x' is unknown"):
        evidence.claims("x")


def test_spread_over_seeds():
    (row,) = render.spread([record(1), record(2)])
    assert (row["mean"], row["sd"], row["seeds"], row["n"]) == (0.5, 0.0, 2, 6)
    assert render.metric("actkv/nothing/share") == "gap"


@pytest.mark.parametrize(
    "expected, held, flag",
    [
        ({"metric": "share", "above": 0.4}, 3, None),
        ({"metric": "share", "below": 0.4}, 0, "negative"),
        ({"metric": "share", "above": "share"}, 0, "negative"),
    ],
)
def test_expectations_are_tested_seed_by_seed(monkeypatch, expected, held, flag):
    got = verdict(monkeypatch, three(), CLAIM | {"expects": [expected]})
    (finding,) = got.findings
    assert (finding.held, finding.seeds) == (held, 3)
    assert got.level == "diagnostic" and ("negative" in got.flags) == (flag == "negative")
    assert verdict(monkeypatch, [], CLAIM | {"expects": [expected]}).flags == ()


def test_an_unmeasured_expectation_counts_in_no_seed(monkeypatch):
    claim = CLAIM | {"expects": [{"metric": "other", "above": 0}]}
    (finding,) = verdict(monkeypatch, three(), claim).findings
    assert (finding.held, finding.seeds) == (0, 0)
    assert finding.where == "(no record of it yet)"


def test_a_run_at_default_size_speaks_neither_for_nor_against_a_claim(monkeypatch):
    small = [Status("demo/a", "default", 42, "fresh", "", record(42))]
    claim = CLAIM | {"expects": [{"metric": "share", "below": 0.4}]}
    got = verdict(monkeypatch, small, claim)
    assert got.level == "mechanism" and "negative" not in got.flags
    assert (got.findings[0].held, got.findings[0].seeds) == (0, 0)


def test_numbers_show_what_the_spread_allows():
    assert render.with_spread(0.934123, 0.001745) == "0.9341 ± 0.0017"
    assert render.with_spread(5.25, 1.26) == "5.2 ± 1.3"
    assert render.with_spread(512.4, 88.0) == "512 ± 88"
    assert render.with_spread(0.0, 0.0) == "0 in every seed"
    assert render.with_spread(2.01e-15, 5.6e-16) == "2e-15 ± 5.6e-16"


def test_a_record_counts_only_in_its_own_place(tmp_path):
    from project import CHECK, Project

    project = Project(tmp_path)
    (tmp_path / "profiles" / "tiny.yml").write_text(
        "summary: tiny\nseeds: [1, 2, 3]\nnotebooks: {demo/a: {word: small}}\n"
    )
    project.write("a", CHECK)
    assert project.repro("run", "demo/a", "--profile", "tiny", "--seeds", "1")[0] == 0
    folder = tmp_path / "evidence" / "records" / "demo" / "a" / "tiny"
    for seed in (2, 3):
        (folder / f"seed-{seed}.json").write_text((folder / "seed-1.json").read_text())
    _, output = project.repro("status")
    assert output.count("fresh") == 1 and output.count("the record is of demo/a, seed 1") == 2
