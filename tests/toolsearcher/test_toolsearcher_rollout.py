"""Sampling in batches over several turns: a tiny random model, held against plain passes."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tiny_llama import tiny_llama

from repro.errors import BadParameter
from repro.toolsearcher import generation, protocol, tokens
from repro.toolsearcher.environment import Environment
from repro.toolsearcher.index import ToolIndex
from repro.toolsearcher.made_up import LETTERS, TOOLS
from repro.toolsearcher.rollout import lots, rollout, scripted

LIMITS = protocol.Protocol("short", turns=3, top_k=2, turn_tokens=12, block_tokens=40)
WIDE = protocol.Protocol("short", turns=3, top_k=2, block_tokens=40)
ASKED = [
    SimpleNamespace(id=f"r{i}", text=text)
    for i, text in enumerate(("Rain?", "When will it snow and what is a share?", "A price, please"))
]
SCRIPTS = {
    ("r0", 0): ["<search>rain</search>", "<search>share</search>", "<tool_list>1</tool_list>"],
    ("r0", 1): ["nothing"],
    ("r1", 0): ["<search>snow</search>", "<search></search>", "<search>late</search>"],
    ("r1", 1): ["<search>snow tells when</search>", "<tool_list>1, 2</tool_list>"],
    ("r2", 0): ["<search>price</search", "no"],
    ("r2", 1): ["<search>price</search>", "<tool_list>1</tool_list>"],
}


@pytest.fixture(scope="module")
def model():
    return tiny_llama(140, room=4096, spread=0.3).requires_grad_(False)


@pytest.fixture
def environment():
    return Environment(ToolIndex(TOOLS[:4]), LETTERS, LIMITS)


def plain(model, ids):
    """Log-probabilities after each token of one row, alone and without padding."""
    with torch.inference_mode():
        return torch.log_softmax(model(torch.tensor(ids)[None]).logits[0].float(), -1)


def agrees(model, ids, start, sampled):
    """The recorded log-probabilities are those of a plain pass over the same ids."""
    found = plain(model, ids)[start - 1 : start - 1 + len(sampled.ids)]
    expected = found.gather(1, torch.tensor(sampled.ids)[:, None])[:, 0].numpy()
    np.testing.assert_allclose(sampled.old, expected, atol=2e-5)


def test_ragged_rows_over_two_turns_are_rows_alone(model):
    prompts = [[5, 6, 7, 8, 9], [5, 6, 7], [5, 6, 7, 30, 31, 32, 33]]
    batch = generation.Batch(model, prompts, group=2)
    rows = [list(prompts[i // 2]) for i in range(6)]
    turns = batch.generate([3, 8, 1, 5, 2, 6], 1, [lots(0, "a", i) for i in range(6)])
    for row, turn in zip(rows, turns, strict=True):
        start = len(row)
        row += turn.ids
        agrees(model, row, start, turn)
    stay = [0, 2, 5]
    batch.keep(stay)
    rows, blocks = [rows[i] for i in stay], [[40, 41, 42, 43], [50], [60, 61]]
    batch.append([row[-1:] + new for row, new in zip(rows, blocks, strict=True)])
    rows = [row + new for row, new in zip(rows, blocks, strict=True)]
    turns = batch.generate([4, 4, 7], 1, [lots(1, "b", i) for i in range(3)], 0.7)
    batch.append([turn.ids[-1:] for turn in turns])
    for row, turn, last in zip(rows, turns, batch.last, strict=True):
        row += turn.ids
        with torch.inference_mode():
            expected = model(torch.tensor(row)[None]).logits[0, -1]
        torch.testing.assert_close(last, expected, atol=2e-5, rtol=0)


def test_verl_3960_ids_and_log_probabilities_survive_the_whole_rollout(model, environment):
    """Recomputed at the same weights over the stored ids, every log-probability matches."""
    for made in rollout(model, environment, ASKED, group=2, seed=3):
        row = made.row
        assert row.ids.tolist() == [i for piece in made.episode.pieces for i in piece.ids]
        at = np.flatnonzero(row.turn >= 0)
        expected = plain(model, row.ids)[at - 1, row.ids[at]].numpy()
        np.testing.assert_allclose(made.old[at], expected, atol=2e-5)
        assert not made.old[row.turn < 0].any()


def test_sampled_turns_go_the_way_of_scripted_ones(model, environment, monkeypatch):
    """Six rows that end at different turns in different ways: same rows, and the cache is right."""
    said = {key: iter(turns) for key, turns in SCRIPTS.items()}
    keys = {}

    def generate(self, limits, end, draws, temperature):
        turns = []
        for row, generator in enumerate(draws):
            ids = LETTERS(next(said[keys[id(generator)]]))["input_ids"] + [end]
            turns.append(
                generation.Sampled(ids[: limits[row]], [-1.0] * min(limits[row], len(ids)))
            )
        self.seen = getattr(self, "seen", []) + [self.last]
        self._read([turn.ids[:-1] for turn in turns])
        return turns

    def known(seed, request, sample):
        generator = lots(seed, request, sample)
        keys[id(generator)] = request, sample
        keep.append(generator)
        return generator

    keep, made_batches, start = [], [], generation.Batch.__init__

    def remember(self, *arguments):
        start(self, *arguments)
        made_batches.append(self)

    monkeypatch.setattr(generation.Batch, "generate", generate)
    monkeypatch.setattr(generation.Batch, "__init__", remember)
    monkeypatch.setattr("repro.toolsearcher.rollout.lots", known)
    environment.limits = WIDE
    found = rollout(model, environment, ASKED, group=2)
    for made in found:
        other = scripted(
            environment, ASKED[int(made.request[1])], SCRIPTS[made.request, made.sample]
        )
        assert made.row.ids.tolist() == other.row.ids.tolist()
        assert made.row.turn.tolist() == other.row.turn.tolist()
        assert made.episode.events == other.episode.events
        assert made.episode.ended == other.episode.ended and made.credit == other.credit
    ends = ["answer", "no answer", "last turn", "answer", "unreadable call", "answer"]
    assert [made.episode.ended for made in found] == ends
    (batch,) = made_batches
    for turn, last in enumerate(batch.seen):  # what each live row saw before its turn
        live = [made.row for made in found if made.row.turns > turn]
        for row, logits in zip(live, last, strict=True):
            before = row.ids[: np.argmax(row.turn == turn)]
            expected = plain(model, before)[-1]
            torch.testing.assert_close(torch.log_softmax(logits, -1), expected, atol=2e-5, rtol=0)


def test_a_trajectory_does_not_depend_on_its_company(model, environment):
    def texts(requests, **options):
        made = rollout(model, environment, requests, seed=5, **options)
        return {(m.request, m.sample): m.row.ids.tolist() for m in made}

    whole = texts(ASKED, group=3)
    assert len({tuple(ids) for ids in whole.values()}) == 9
    assert texts(ASKED[::-1], group=3) == whole
    assert texts(ASKED[1:2], group=3, together=1).items() <= whole.items()
    assert texts(ASKED, group=2, together=2).items() <= whole.items()
    made = rollout(model, environment, ASKED, group=3, seed=6)
    assert {tuple(m.row.ids) for m in made}.isdisjoint(map(tuple, whole.values()))


def test_order_is_request_by_request(model, environment):
    made = rollout(model, environment, ASKED, group=2, together=2)
    assert [(m.request, m.sample) for m in made] == [(r.id, s) for r in ASKED for s in (0, 1)]


def test_greedy_is_the_likeliest_token(model, environment):
    (made,) = rollout(model, environment, ASKED[:1], group=1, temperature=0)
    at = np.flatnonzero(made.row.turn >= 0)
    assert made.row.ids[at].tolist() == plain(model, made.row.ids)[at - 1].argmax(-1).tolist()


def test_lots_hit_tokens_in_proportion():
    old = torch.log(torch.tensor([[0.2, 0.0, 0.5, 0.3]])).repeat(6, 1)
    aims = torch.tensor([0.0, 0.1999, 0.2001, 0.6999, 0.7001, 0.999999], dtype=torch.float64)
    assert generation._inverse(old, aims).tolist() == [0, 0, 2, 2, 3, 3]


def test_examples_in_the_prompt_are_prompt(model, environment):
    environment.limits = WIDE
    shown = scripted(environment, ASKED[0], SCRIPTS["r0", 0]).episode
    other = Environment(environment.index, LETTERS, LIMITS, [shown])
    prompt = LETTERS.decode(other.start("Snow?").prompt)
    assert prompt.index("Rain?") < prompt.index("<search>rain</search>") < prompt.index("Snow?")
    (made,) = rollout(model, other, ASKED[1:2], group=1)
    assert (made.row.kind[: len(made.episode.prompt)] == tokens.KINDS.index("prompt")).all()


def test_bad_input_is_refused(model, environment):
    for options, word in (
        (dict(group=0), "group=0"),
        (dict(together=True), "together=True"),
        (dict(temperature=-1.0), "temperature=-1.0"),
        (dict(temperature=float("nan")), "temperature=nan"),
        (dict(seed=-1), "seed=-1"),
    ):
        with pytest.raises(BadParameter, match=word):
            rollout(model, environment, ASKED, **options)
    with pytest.raises(BadParameter, match="an id twice"):
        rollout(model, environment, [ASKED[0]] * 2)
    assert rollout(model, environment, []) == []
