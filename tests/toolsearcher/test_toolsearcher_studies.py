"""What the credit and objective notebooks call around the mechanism."""

from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib import pyplot as plt
from tiny_llama import tiny_llama

from repro import digest, notebooks
from repro.toolsearcher import credit, objective, strips, study_credit, study_objective, tokens
from repro.toolsearcher.credit_checks import TARGETS, worked_group
from repro.toolsearcher.tokens_checks import VALUES, pieces


def test_notebooks_rest_on_their_own_mechanism():
    credit_book, objective_book = (notebooks.read(f"toolsearcher/{n}") for n in NAMES)
    assert credit_book.assets == () and objective_book.assets == ("smollm2-135m", "bfcl-v4")
    modules = digest.inputs(credit_book, credit_book.values())["modules"]
    assert "repro.toolsearcher.credit" in modules
    assert not any("objective" in name or "index" in name for name in modules)


NAMES = ("credit", "objective")


def test_the_picture_says_what_each_turn_earned():
    group = worked_group()
    credits = credit.group_credit(group, TARGETS)
    fig = study_credit.picture(group, credits, TARGETS)
    said = [text.get_text() for text in fig.axes[0].texts]
    plt.close(fig)
    assert len(said) == 2 * (8 + 4)  # a text and a number for 8 searches and 4 answers
    assert said.count("+0.5000") == 3 and said.count("gate closed: 0") == 1
    assert "returned {A, x}\nnew: A" in said and "chose {A, B, c}\nreward 0.1" in said


def test_drawn_groups_follow_the_chance():
    rng = np.random.default_rng(0)
    none = study_credit.counted(rng, 0.0, 5, 4, 3, 4)
    assert none == dict.fromkeys(study_credit.COUNTS, 0.0)
    sure = study_credit.counted(rng, 1.0, 5, 4, 3, 4)
    assert sure["searches that find a target"] == sure["open gates"] == 1
    assert sure["searches that are paid"] == sure["blamed in vain"] == 0  # all is mastered
    group = study_credit.drawn_group(rng, 6, 3, 4, 0.5)
    assert len(group) == 6 and all(1 <= len(one.retrieved) <= 4 for one in group)


class Letters:
    """A tokenizer of characters, with no file behind it."""

    def __call__(self, text, add_special_tokens):
        assert add_special_tokens is False
        return SimpleNamespace(input_ids=[ord(c) for c in text])


def test_rollouts_are_the_worked_group_with_documents_cut():
    tools = study_objective.drawn_tools(3)
    assert tools == study_objective.drawn_tools(3) != study_objective.drawn_tools(4)
    made, short = (study_objective.rollouts(Letters(), 3, n) for n in (10_000, 30))
    found = credit.group_credit([one.trajectory for one in made], study_objective.targets(3))
    worked = credit.group_credit(worked_group(), TARGETS)
    for one, other in zip(found, worked, strict=True):
        assert one.turns.tolist() == other.turns.tolist()
    for one, cut in zip(made, short, strict=True):
        row = tokens.row(one.pieces)
        assert row.turns == len(one.trajectory.retrieved) + 1
        text = "".join(map(chr, row.ids))
        assert text.endswith("</tool_list><|im_end|>") and text.count("</tool_response>") >= 1
        kept = [p for p in cut.pieces if p.kind == "returned"]
        for piece, names in zip(kept, one.trajectory.retrieved, strict=True):
            body = "".join(map(chr, piece.ids))
            assert len(piece.ids) == len("<tool_response>\n</tool_response>") + 30 * len(names)
            assert body.count(" …\n") == len(names)
    assert study_objective._head((1, 2, 3), 3, (9,)) == (1, 2, 3)


@pytest.fixture(scope="module")
def model():
    net = tiny_llama(40, 16, heads=2, groups=1, room=64, spread=0.3)
    return net.requires_grad_(False)


def test_gradients_of_one_pass_are_those_of_the_loss(model):
    row = tokens.row(pieces())
    leaky = study_objective.spread(row.turn)
    assert leaky[:5].tolist() == [-1] * 5 and leaky[5:].tolist() == [0] * 9 + [1] * 5 + [2] * 4
    arms = {
        "masked": (row.turn >= 0, tokens.token_advantage(row.turn, VALUES)),
        "leaky": (leaky >= 0, tokens.token_advantage(leaky, VALUES)),
    }
    of = objective.Totals(2, 40)
    found = study_objective.gradients(model, row, arms, of, (0, 1), averaging="token")
    masked, unmasked = found["masked"], found["leaky"]
    assert masked.logp == pytest.approx(-arms["masked"][1] / 40)
    assert unmasked.logp == pytest.approx(-arms["leaky"][1] / 40)
    paid = arms["masked"][1] != 0
    assert ((masked.logits[:-1] != 0) == paid[1:]).all() and masked.logits[-1] == 0
    assert (masked.inputs[:-1] != 0).all() and masked.inputs[-1] == 0
    assert all(not p.requires_grad for p in model.parameters())
    assert 0 < study_objective.cosine(masked.layers[0], unmasked.layers[0]) < 1
    assert study_objective.cosine(masked.layers[0], masked.layers[0] * 0) == 0


def test_strips_show_every_token(model):
    rows = [tokens.row(pieces()), tokens.row(pieces((), ()))]
    values = [tokens.token_advantage(row.turn, VALUES) for row in rows]
    fig = strips.strip(rows, values)
    line = fig.axes[0].lines[0]
    assert line.get_ydata().tolist() == values[0].tolist() and len(fig.axes) == 2
    plt.close(fig)
    fig = strips.strip(rows[:1], values[:1])
    assert len(fig.axes) == 1
    plt.close(fig)
    made = study_objective.Gradients(*(np.arange(23.0),) * 3, {})
    fig = strips.gradient_strip(rows[0], values[0], made)
    drawn = sum(len(c.get_segments()) for c in fig.axes[1].collections)
    plt.close(fig)
    assert len(fig.axes) == 4 and drawn == 23
