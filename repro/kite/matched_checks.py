"""What must hold of the study: equal FLOPs, equal batches, own schedules, parts kept apart."""

import functools

import numpy as np
import torch

from repro.kite import corpus, falsifiers, floors, flops, study_fixed, study_matched, training
from repro.kite.study_matched import ARMS
from repro.kite.training import Recipe

SMALL = Recipe(length=16, batch=4)


@functools.cache
def text() -> np.ndarray:
    return corpus.load("synthetic").train


def arms_spend_the_same() -> None:
    """Every arm's steps cost the budget, to within one step of its last stage."""
    recipe, budget = Recipe(), 1e12
    tokens = recipe.length * recipe.batch
    for arm in ARMS:
        steps = study_matched.plan(arm, 64, budget, 0.3, recipe)
        _, _, last = study_matched.costs(arm, 64, recipe.length)
        one = flops.training(study_matched.source_config(64), recipe.length)
        each = [one, last] if len(steps) == 2 else [last]
        spent = sum(s * f * tokens for s, f in zip(steps, each, strict=True))
        assert abs(spent - budget) <= last * tokens, f"{arm} spends {spent:.4g} of {budget:.4g}"
        assert (len(steps) == 2) == ARMS[arm].two_stages, f"{arm} has {len(steps)} stages"


def grown_arms_share_stage_one() -> None:
    """All arms that grow have the same first stage."""
    firsts = {
        study_matched.plan(arm, 32, 1e11, 0.3, Recipe())[0]
        for arm, kind in ARMS.items()
        if kind.two_stages
    }
    assert len(firsts) == 1, f"first stages {firsts}"


def attention_is_in_the_budget() -> None:
    """FLOPs a token grow with the context, by attention alone: 3 x 4 x layers x d x half of it."""
    config = study_matched.source_config(32, 4)
    gap = flops.training(config, 257) - flops.training(config, 129)
    assert gap == 3 * 4 * 4 * 32 * 64, f"{gap} FLOPs a token for 128 tokens more"


def wide_costs_what_sst_decodes_at() -> None:
    """The widened source costs what a token of both towers costs, within one FFN column."""
    config, _, _ = study_matched.costs("wide", 64, 128)
    wanted = flops.forward(study_matched.source_config(64), 128, 2)
    gap = abs(flops.forward(config, 128) - wanted)
    assert gap <= 2 * 2 * 3 * 64, f"{gap} FLOPs a token off"


def batches_are_fresh_and_the_same_for_all() -> None:
    """A step's batch depends on seed and step; without `fresh` it is the first one always."""
    one, again, other = (training.batch(text(), step, 1, SMALL) for step in (3, 3, 4))
    assert torch.equal(one, again) and not torch.equal(one, other), "batches are not fresh"
    assert not torch.equal(one, training.batch(text(), 3, 2, SMALL)), "another seed, same batch"
    fixed = Recipe(length=16, batch=4, fresh=False)
    pair = [training.batch(text(), step, 1, fixed) for step in (0, 9)]
    assert torch.equal(*pair), "the fixed batch changes"


def schedule_is_the_arm_s_own() -> None:
    """Warm-up to the peak, then down to a tenth at the last step, whatever their number."""
    for steps in (20, 200):
        rates = [training.rate_at(step, steps, Recipe()) for step in range(steps)]
        peak = round(0.05 * steps) - 1
        assert np.argmax(rates) in (peak, peak + 1), f"peak at step {np.argmax(rates)} of {steps}"
        assert abs(max(rates) - 2e-3) < 1e-9, f"peak {max(rates)}"
        assert abs(rates[-1] - 2e-4) < 1e-9, f"last rate {rates[-1]}"


def _grown(arm: str) -> tuple:
    torch.manual_seed(0)
    source = study_matched.SST(study_matched.source_config(32))
    kept = [p.detach().clone() for p in (*source.prefiller_parameters(), source.embedding.weight)]
    model = study_matched.grow(source, ARMS[arm], 0)
    for _ in training.train(model, text(), 2, 0, SMALL):
        pass
    now = (*model.prefiller_parameters(), model.embedding.weight)
    return model, all(torch.equal(a, b) for a, b in zip(kept, now, strict=False))


def joint_and_frozen() -> None:
    """Stage 2 moves the Prefiller, except in the frozen arm, where only the rest moves."""
    model, still = _grown("SST")
    assert not still and len(model.decoder) == 2, "the Prefiller does not train"
    model, still = _grown("SST, frozen")
    assert still, "the frozen Prefiller moved"
    moved = model.decoder[0].query.weight - model.prefiller[0].query.weight
    assert moved.any(), "the Decoder does not train"


def grown_dense_is_a_stack_of_copies() -> None:
    """The control has twice the layers, 1..n and 1..n again, each with W_K and W_V."""
    torch.manual_seed(0)
    source = study_matched.SST(study_matched.source_config(32))
    grown = study_matched.grow(source, ARMS["grown dense"], 0)
    assert len(grown.prefiller) == 4 and not grown.decoder, "not a stack of four"
    for layer, block in enumerate(grown.prefiller):
        for name, value in source.prefiller[layer % 2].state_dict().items():
            assert torch.equal(block.state_dict()[name], value), f"layer {layer}: {name}"
    assert torch.equal(grown.embedding.weight, source.embedding.weight), "embedding"


def floors_by_hand() -> None:
    """Bytes a, b, a, b: unigram ln 2 without smoothing, and a bigram knows what follows."""
    train = np.array([0, 1] * 500, np.uint8)
    seen = np.array([[0, 1, 0, 1]], np.uint8)
    one, two = floors.unigram(train, seen, 1e-9)[0], floors.bigram(train, seen, 1e-9)[0]
    assert abs(one - np.log(2)) < 1e-6, f"unigram {one:.4f}"
    assert abs(two) < 1e-6, f"bigram {two:.4f}"


def parts_do_not_meet() -> None:
    """Text is cut at an article heading, and every byte is in one part."""
    made = b"\n = One = \n \n text \n = = Part = = \n more \n = Two = \n \n rest " * 20
    cut = corpus.split(made, 0.8)
    assert made[cut : cut + 3] == b" = " and made[cut + 3 : cut + 4] != b"=", "not at a heading"
    assert abs(cut / len(made) - 0.8) < 0.05, f"cut at {cut / len(made):.2f}"


def windows_predict_each_byte_once() -> None:
    """Windows of a block follow one another: each byte but the first is predicted once."""
    starts, found = corpus.windows(np.arange(200, dtype=np.uint8), 2, 64, 16)
    assert found.shape == (2, 4, 17) and starts.tolist() == [0, 135], f"{found.shape}, {starts}"
    assert (found[0, :, 1:].ravel() == np.arange(1, 65)).all(), "bytes missing or twice"


def origin_steps_by_hand() -> None:
    """30 + 30 updates of SST cost 17 + 28 of four dense layers, and 30 + 50 of the source."""
    found = {name: steps for name, (_, *steps) in study_fixed.arms().items()}
    assert found["dense, equal FLOPs"] == [17, 28], f"{found}"
    assert found["source, equal FLOPs"] == [30, 50], f"{found}"


def verdicts_by_hand() -> None:
    """The first falsifier fires only if both controls win, and stays open on a tie."""
    make = functools.partial(falsifiers.Pair, "SST", "x")
    win, loss, tie = make(-1, (-2, -0.5)), make(1, (0.5, 2)), make(0.1, (-1, 1))
    table = {(loss, loss): "fires", (win, loss): "does not fire", (loss, win): "does not fire"}
    table |= {(tie, loss): "undecided", (tie, tie): "undecided", (win, tie): "does not fire"}
    for pair, expected in table.items():
        found = falsifiers.quality(*pair)
        assert found == expected, f"{[p.word for p in pair]}: {found}, not {expected}"


CHECKS = {
    check.__name__: check
    for check in (
        arms_spend_the_same,
        grown_arms_share_stage_one,
        attention_is_in_the_budget,
        wide_costs_what_sst_decodes_at,
        batches_are_fresh_and_the_same_for_all,
        schedule_is_the_arm_s_own,
        joint_and_frozen,
        grown_dense_is_a_stack_of_copies,
        floors_by_hand,
        parts_do_not_meet,
        windows_predict_each_byte_once,
        origin_steps_by_hand,
        verdicts_by_hand,
    )
}
