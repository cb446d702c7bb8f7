"""Text, floors, training, arms, falsifiers, and the two notebooks around them."""

import ast
import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from repro import assets, digest, notebooks
from repro.errors import BadParameter, MissingAsset
from repro.kite import (
    corpus,
    falsifiers,
    floors,
    study_fixed,
    study_matched,
    study_towers,
    training,
)
from repro.kite.config import Config
from repro.kite.training import Recipe
from repro.paths import ROOT

GOLDEN = json.loads((ROOT / "tests/golden/kite.json").read_text())
NAMES = ("two_towers", "matched_flops")
RECIPE = Recipe(length=16, batch=4)


@pytest.mark.parametrize("name", NAMES)
def test_notebook_keeps_the_contract(name):
    notebook = notebooks.read(f"kite/{name}")
    assert notebook.assets == ("wikitext-2",)
    assert all(len(cell.splitlines()) < 25 for cell in notebook.cells)
    modules = digest.inputs(notebook, notebook.values())["modules"]
    assert "repro.kite.model" in modules and not any("actkv" in m for m in modules)
    for cell in notebook.cells:
        ast.parse(cell)


@pytest.fixture(scope="module")
def text():
    return corpus.load("synthetic")


def test_missing_asset_gives_labelled_synthetic_text(monkeypatch):
    def missing(name):
        raise MissingAsset("not here")

    monkeypatch.setattr(assets, "path", missing)
    found = corpus.load("auto")
    assert not found.real and "synthetic" in found.told and "Gap" in found.told
    with pytest.raises(MissingAsset):
        corpus.load("wikitext-2")


def test_made_text_measures_under_names_that_no_claim_uses():
    for name in NAMES:
        code = "\n".join(notebooks.read(f"kite/{name}").cells)
        measured = re.findall(r"run\.metric\(\s*f?\"([^\"]*)", code)
        assert all(m.startswith("{mark}") for m in measured if m), measured


def test_wikitext_parts_and_the_floor():
    if assets.status("wikitext-2") not in ("ready", "mirror"):
        pytest.skip("asset wikitext-2 is not here: run `repro fetch wikitext-2`")
    read = corpus.load("wikitext-2")
    assert read.real and len(read.train) + len(read.select) == 1_121_681
    assert 0.79 < len(read.train) / 1_121_681 < 0.81
    assert bytes(read.select[:3]) == b" = " and b"valid-as-train" in read.told.encode()
    _, windows = corpus.windows(read.test, 1200, 1024, 128)
    golden, valid = GOLDEN["unigram_test"], np.concatenate([read.train, read.select])
    found = floors.unigram(valid, windows).mean()
    assert found == pytest.approx(golden["nats"], abs=golden["tolerance"])
    assert floors.bigram(read.train, windows).mean() < found - 0.5


def test_training_lowers_the_loss_and_is_repeatable(text):
    _, windows = corpus.windows(text.select, 4, 64, 16)
    config, ends = Config(width=32, layers=1, vocab=256), []
    for _ in range(2):
        model = study_towers.source(config, text.train, 0, 3, RECIPE)
        before = training.evaluate(model, windows).mean()
        assert list(training.train(model, text.train, 30, 3, RECIPE)) == list(range(1, 31))
        ends.append(training.evaluate(model, windows))
    assert ends[0].mean() < before - 0.5 and np.array_equal(*ends)
    assert ends[0].shape == (4, 4)


@pytest.fixture(scope="module")
def results(text):
    views = [corpus.windows(part, 6, 64, 16)[1] for part in (text.select, text.test, text.train)]
    views = study_matched.Views(*views)
    budget = 8 * 64 * study_matched.costs("dense", 32, 16)[2]
    runs = study_matched.run(
        32, list(study_matched.ARMS), budget, 0.3, text.train, views, RECIPE, 1, 2
    )
    return {r.arm: r for r in runs}


def test_every_arm_runs_at_the_same_flops(results):
    assert set(results) == set(study_matched.ARMS)
    spent = [r.spent for r in results.values()]
    assert max(spent) / min(spent) < 1.15
    for r in results.values():
        assert r.test.shape == (6,) and np.isfinite(r.test).all() and np.isfinite(r.fitted)
        assert r.curve[-1][0] == pytest.approx(r.spent)
        assert [x for x, _ in r.curve] == sorted(x for x, _ in r.curve)
        assert (r.jump is not None) == study_matched.ARMS[r.arm].two_stages
    grown = [r for r in results.values() if r.jump]
    assert len({r.jump[0] for r in grown}) == 1, "stage 1 is not shared"
    assert results["SST"].jump == results["SST, frozen"].jump != results["SST, shuffled"].jump
    assert results["SST"].kv * 2 == results["dense"].kv
    assert results["SST"].prefill < 0.6 * results["dense"].prefill
    assert results["SST"].parameters < results["dense"].parameters


def test_answers_come_from_the_results(results):
    found = falsifiers.answers(results)
    words = (falsifiers.FIRES, falsifiers.HOLDS, falsifiers.OPEN)
    assert len(found) == 4 and all(a.verdict in words for a in found[:3])
    assert found[-1].verdict == falsifiers.UNASKED  # nothing is compared, so nothing can hold
    assert "β*" in found[-1].because
    same = falsifiers.pair(results | {"source": results["SST"]}, "SST", "source")
    assert same.mean == 0 and same.word == falsifiers.EVEN
    with pytest.raises(BadParameter, match="arm='moe'"):
        falsifiers.pair(results, "SST", "moe")
    with pytest.raises(BadParameter, match="part='train'"):
        falsifiers.pair(results, "SST", "dense", part="train")


@pytest.mark.parametrize(
    ("shift", "said"), [(-0.5, "yes"), (0.5, "no"), (0.0, falsifiers.OPEN)], ids=str
)
def test_growth_is_a_question_only_where_an_interval_says_so(results, shift, said):
    source = results["source"]
    assert source.chosen.shape == (source.chosen.size,)
    gaps = np.linspace(-0.1, 0.1, source.chosen.size)
    dense = replace(results["dense"], chosen=source.chosen + shift + gaps)
    assert falsifiers.growth_is_a_question(results | {"dense": dense}) == said


def test_the_public_comparison_has_its_step_counts(text):
    _, windows = corpus.windows(text.test, 8, 32, 32)
    found = study_fixed.run(text.train, windows[:, 0], 1, True, 3, 3)
    assert set(found) == set(study_fixed.arms()) and all(v.shape == (8,) for v in found.values())


BAD = [
    (lambda: corpus.load("wiki"), "text='wiki'", "synthetic"),
    (lambda: corpus.windows(np.zeros(99, np.uint8), 1, 50, 16), "size=50", "multiple of 16"),
    (lambda: corpus.windows(np.zeros(99, np.uint8), 9, 32, 16), "count=9", "at most 3"),
    (lambda: corpus.split(b"no headings", 0.8), "article heading", "WikiText"),
    (lambda: floors.unigram(np.zeros(9, np.uint8), np.zeros((1, 3), int), 0), "smooth=0", "than 0"),
    (lambda: Recipe(batch=0), "batch=0", ">= 1"),
    (lambda: Recipe(rate=2.0), "rate=2.0", "[0, 1]"),
    (lambda: study_matched.source_config(48), "width=48", "multiple of 32"),
    (lambda: study_matched.plan("SST", 32, 1.0, 0.3, Recipe()), "budget=", "one step"),
    (lambda: study_matched.plan("SST", 32, 1e12, 1.0, Recipe()), "share=1.0", "0.99"),
    (lambda: study_fixed.arms(0), "first=0", ">= 1"),
]


@pytest.mark.parametrize(("call", "names", "accepts"), BAD)
def test_bad_input_names_the_argument_and_what_is_accepted(call, names, accepts):
    with pytest.raises(BadParameter, match=re.escape(names)) as caught:
        call()
    assert accepts in str(caught.value)


def test_jumps_and_counts_of_the_towers(text):
    small = study_towers.source(Config(width=32), text.train, 2, 0, RECIPE)
    ids = training.batch(text.test, 0, 0, RECIPE)
    before = study_towers.kv(small, ids)
    for way in study_towers.WAYS[:3]:
        grown = study_towers.grown(small, way, 0)
        assert not any(study_towers.change(before, study_towers.kv(grown, ids)).values())
    stepped = study_towers.step(grown, ids)
    assert any(study_towers.change(before, study_towers.kv(stepped, ids)).values())
    assert not study_towers.grown(small, "stacked dense", 0).decoder
    for _, formula, explicit, _ in study_towers.counts(Config(width=32), 3, 9):
        assert formula == explicit
    assert torch.is_tensor(before["layer 1, key"])


def test_positions_of_each_mode_are_counted(text):
    config = Config(width=32, layers=1)
    model = study_towers.grown(
        study_towers.source(config, text.train, 0, 0, RECIPE), study_towers.WAYS[0], 0
    )
    ran = study_towers.modes(model, training.batch(text.test, 0, 0, RECIPE)[:2], 5)  # 2 x 17 bytes
    assert [counted for *_, counted, _ in ran] == [34] * 4
    assert [counted for *_, counted in ran] == [34, 2, 2, 34]
