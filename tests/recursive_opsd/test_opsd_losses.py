"""Losses against golden values, finite differences and the bugs of public code (notes, 11)."""

import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from repro.errors import BadParameter
from repro.paths import ROOT
from repro.recursive_opsd import clipping, losses, means, refresh, scoring, toy

GOLDEN = json.loads((ROOT / "tests/golden/recursive_opsd.json").read_text())
SEEDS = st.integers(0, 2**31 - 1)


def logits_of(name):
    return torch.tensor([GOLDEN[name]], dtype=torch.float64).log()


def gradient(student, teacher, **options):
    leaf = student.clone().requires_grad_()
    losses.position_losses(leaf, teacher, **options).sum().backward()
    return leaf.grad


def noise(*shape, seed=0):
    made = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=made, dtype=torch.float64)


@pytest.mark.parametrize("kind", ["forward", "reverse", "jsd"])
def test_bug_1_direction_swapped(kind):
    student, teacher = logits_of("student"), logits_of("teacher")
    found = losses.position_losses(student, teacher, kind).item()
    assert found == pytest.approx(GOLDEN[kind], abs=1e-12)
    expected = GOLDEN[f"{kind}_gradient"]
    assert gradient(student, teacher, kind=kind)[0].tolist() == pytest.approx(expected, abs=1e-12)
    low = losses.position_losses(student.float(), teacher.float(), kind).item()
    assert low == pytest.approx(GOLDEN[kind], abs=1e-6)


def test_bug_1_library_argument_order():
    log_p, log_q = logits_of("student"), logits_of("teacher")
    call = torch.nn.functional.kl_div
    assert call(log_p, log_q, log_target=True, reduction="sum").item() == pytest.approx(
        GOLDEN["forward"]
    )
    assert call(log_q, log_p, log_target=True, reduction="sum").item() == pytest.approx(
        GOLDEN["reverse"]
    )


@settings(max_examples=25)
@given(SEEDS, st.sampled_from(["forward", "reverse", "jsd"]), st.floats(0.2, 5))
def test_gradients_are_finite_differences(seed, kind, temperature):
    student, teacher = noise(2, 5, seed=seed), noise(2, 5, seed=seed + 1)
    found = gradient(student, teacher, kind=kind, temperature=temperature)
    step = 1e-5
    for at in range(5):
        moved = torch.zeros(2, 5, dtype=torch.float64)
        moved[:, at] = step
        up, down = (
            losses.position_losses(student + sign * moved, teacher, kind, temperature)
            for sign in (1, -1)
        )
        assert found[:, at].tolist() == pytest.approx(((up - down) / (2 * step)).tolist(), abs=1e-7)


@settings(max_examples=25)
@given(SEEDS, st.floats(0.1, 10))
def test_divergences_are_not_negative_and_zero_at_equality(seed, temperature):
    student, teacher = noise(3, 6, seed=seed), noise(3, 6, seed=seed + 1)
    for kind in ("forward", "reverse", "jsd"):
        assert (losses.position_losses(student, teacher, kind, temperature) > -1e-12).all()
        same = losses.position_losses(student, student, kind, temperature)
        assert (same.abs() <= (1e-15 if kind == "jsd" else 0)).all()
    jsd = losses.position_losses(student, teacher, "jsd")
    assert (jsd <= torch.tensor(2.0, dtype=torch.float64).log() + 1e-12).all()


def test_bug_2_interior_mixture_is_no_dial():
    log_p, log_q = logits_of("student"), logits_of("teacher")
    small = losses.jsd(log_q, log_p, 0.01).item()
    assert small < 0.02 * GOLDEN["forward"]  # forward KL shrunk a hundredfold, not forward KL
    for beta in (0, 1, -0.1, 1.5, float("nan")):
        with pytest.raises(BadParameter, match=r"beta=.* accepted: \(0, 1\)"):
            losses.jsd(log_q, log_p, beta)


def test_bug_3_gradient_depends_on_the_micro_batches():
    """Through a model: 1x4, 2x2 and 4x1 give the same gradient of shared weights."""
    model = toy.model()
    prefixes = [(1, 9, 8), (5,), (4, 4, 6, 9, 30), (7, 7)]
    rich = [(*prefix, 60, 61) for prefix in prefixes]
    answers = [(20, 21, 22, 2), (40,), (50, 51, 52, 53, 54, 2), (33, 2)]
    total, found = means.answered([len(a) for a in answers]), []
    for cut in ([[0, 1, 2, 3]], [[0, 1], [2, 3]], [[0], [1], [2], [3]]):
        model.zero_grad()
        for part in cut:
            own = [answers[i] for i in part]
            student = scoring.answer_logits(model, [prefixes[i] for i in part], own, toy.END)
            teacher = scoring.answer_logits(model, [rich[i] for i in part], own, toy.END)
            each = [losses.position_losses(p, q) for p, q in zip(student, teacher, strict=True)]
            means.answer_mean(each, total).backward()
        found.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
    assert found[0].norm() > 0.01
    for other in found[1:]:
        assert (other - found[0]).abs().max() < 1e-6


def test_bug_8_padded_vocabularies_differ():
    with pytest.raises(BadParameter, match="accepted: .m, V. of equal width"):
        losses.position_losses(noise(2, 8), noise(2, 9))
    wide = torch.nn.Module()
    wide.get_output_embeddings = lambda: torch.nn.Linear(4, 128)
    with pytest.raises(BadParameter, match="vocabulary widths 100 .student. and 128"):
        scoring.same_width(toy.model(), wide)
    scoring.same_width(toy.model(), toy.model(1))


@pytest.mark.parametrize("temperature", [0.3, 1.0, 1.1, 4.0])
def test_bug_9_temperature_on_one_side(temperature):
    """Equal contexts through a model: loss 0, gradient 0, at any temperature."""
    model = toy.model()
    prefixes, answers = [(1, 9, 8), (5,)], [(20, 21, 2), (40, 2)]
    student = scoring.answer_logits(model, prefixes, answers, toy.END)
    with torch.no_grad():
        teacher = scoring.answer_logits(model, prefixes, answers, toy.END)
    each = [
        losses.position_losses(p, q, temperature=temperature)
        for p, q in zip(student, teacher, strict=True)
    ]
    assert all((one == 0).all() for one in each)
    means.answer_mean(each, 2).backward()
    assert max(p.grad.abs().max() for p in model.parameters()) < 1e-6


def test_bug_11_clip_in_vocabulary_shards():
    found = losses.terms(noise(3, 8, seed=1).log_softmax(-1), noise(3, 8).log_softmax(-1))
    whole = clipping.clip_entries(found, 0.05).sum(-1)
    parts = [clipping.clip_entries(part, 0.05).sum(-1) for part in found.split(3, dim=-1)]
    assert torch.allclose(sum(parts), whole)


def test_bug_12_answer_without_a_valid_token():
    model = toy.model()
    student = scoring.answer_logits(model, [(5, 6)], [()], toy.END)
    each = [losses.position_losses(student[0], student[0].detach())]
    loss = means.answer_mean(each, means.answered([0]))
    loss.backward()  # a live graph
    assert loss.item() == 0
    assert all(p.grad is None or (p.grad == 0).all() for p in model.parameters())


def test_bug_15_low_precision_weights():
    model = toy.model().bfloat16()
    with pytest.raises(BadParameter, match="torch.bfloat16; accepted: torch.float32"):
        scoring.trainable(model)
    with pytest.raises(BadParameter, match="torch.bfloat16"):
        refresh.Teacher(model)
    assert losses.log_probs(noise(1, 9).bfloat16()).dtype == torch.float32
    with pytest.raises(BadParameter, match="no trainable parameter"):
        scoring.trainable(toy.model().requires_grad_(False))


def test_clip_reverses_and_bound_does_not():
    student, teacher, golden = logits_of("student"), logits_of("teacher"), GOLDEN["clip"]
    found = losses.position_losses(student, teacher, clip=golden["cap"])
    assert found.item() == pytest.approx(golden["loss"], abs=1e-12)
    clipped = gradient(student, teacher, clip=golden["cap"])[0]
    assert clipped.tolist() == pytest.approx(golden["gradient"], abs=1e-12)
    plain = gradient(student, teacher)[0]
    bounded = gradient(student, teacher, bound=golden["cap"])[0]
    assert clipped[0] * plain[0] < 0 < bounded[0] * plain[0]
    terms = losses.terms(teacher, student)[0].tolist()
    assert terms == pytest.approx(GOLDEN["terms"], abs=1e-12)


def test_clip_starts_where_the_notes_say():
    """A token with teacher probability 0.9 is capped as soon as the student's is below 0.851."""
    edge = GOLDEN["clip"]["capped_from_student_below"]
    for p, capped in ((edge - 1e-6, True), (edge + 1e-6, False)):
        log_p = torch.tensor([[p, 1 - p]], dtype=torch.float64).log()
        log_q = torch.tensor([[0.9, 0.1]], dtype=torch.float64).log()
        told = clipping.capped(losses.terms(log_q, log_p), log_q, 0.05)
        assert (told.entries == 0.5) is capped


def test_sampled_token_by_sampling():
    """Many draws: the mean gradient nears the reverse KL's and stays away from the forward's."""
    student, teacher = logits_of("student"), logits_of("teacher")
    made = torch.Generator().manual_seed(0)
    tokens = torch.multinomial(student.exp()[0], 40_000, replacement=True, generator=made)
    leaf = student.clone().requires_grad_()
    rows = leaf.log_softmax(-1).expand(len(tokens), -1)
    log_q = teacher.log_softmax(-1).expand(len(tokens), -1)
    losses.sampled_token(log_q, rows, tokens, "reverse").mean().backward()
    assert leaf.grad[0].tolist() == pytest.approx(GOLDEN["reverse_gradient"], abs=0.02)
    assert leaf.grad[0].tolist() != pytest.approx(GOLDEN["forward_gradient"], abs=0.1)


@settings(max_examples=25)
@given(SEEDS, st.integers(1, 7))
def test_top_k_forms(seed, k):
    student, teacher = noise(3, 7, seed=seed), noise(3, 7, seed=seed + 1)
    full = losses.position_losses(student, teacher)
    bucket = losses.position_losses(student, teacher, "top_k", k=k, rest="bucket")
    assert (bucket <= full + 1e-12).all() and (bucket >= -1e-12).all()
    if k == 7:
        alike = losses.position_losses(student, teacher, "top_k", k=7)
        assert torch.allclose(alike, full) and torch.allclose(bucket, full)


def test_zero_probability_is_no_nan():
    """0 log 0 is 0; a student without mass where the teacher has some is infinitely far."""
    log_q = torch.tensor([[1.0, 0.0]]).log()
    log_p = torch.tensor([[0.5, 0.5]]).log()
    assert losses.forward_kl(log_q, log_p).item() == pytest.approx(0.693147, abs=1e-5)
    assert losses.reverse_kl(log_q, log_p).item() == float("inf")


BAD = [
    (dict(kind="backward"), "kind='backward' is refused; accepted: forward, reverse"),
    (dict(temperature=0), "temperature=0 is refused"),
    (dict(temperature=float("nan")), "temperature=nan is refused"),
    (dict(kind="top_k", k=9), "k=9 is refused; accepted: 1 to the vocabulary's 4"),
    (dict(kind="top_k", k=0), "k=0 is refused"),
    (dict(kind="top_k", rest="drop", k=2), "rest='drop' is refused"),
    (dict(kind="reverse", clip=0.05), "clip=0.05 is refused; accepted with kind=forward"),
    (dict(clip=0.05, bound=1.0), "clip=0.05 is refused"),
    (dict(clip=-1.0), "clip=-1.0 is refused"),
    (dict(bound=0.0), "bound=0.0 is refused"),
]


@pytest.mark.parametrize(("options", "says"), BAD)
def test_bad_options_name_what_is_accepted(options, says):
    with pytest.raises(BadParameter, match=says):
        losses.position_losses(noise(2, 4), noise(2, 4, seed=1), **options)


def test_nan_logits_are_refused():
    bad = noise(2, 4)
    bad[0, 0] = float("nan")
    with pytest.raises(BadParameter, match="logits hold NaN"):
        losses.position_losses(bad, noise(2, 4))


def test_means_refuse_nothing_and_negative_counts():
    with pytest.raises(BadParameter, match="losses=.. is refused"):
        means.answer_mean([], 0)
    with pytest.raises(BadParameter, match="answers=-1 is refused"):
        means.answer_mean([noise(2)], -1)
    assert means.token_mean([noise(0)], 0).item() == 0


def test_teacher_state_is_taken_up_and_foreign_ones_refused():
    model = toy.model()
    teacher = refresh.Teacher(model, "ema", decay=0.5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.01)
    teacher.after_step()
    fresh = refresh.Teacher(model, "ema", decay=0.5)
    fresh.load(teacher.state())
    with teacher.weights(), fresh.weights():
        pass
    assert fresh.steps == 1
    for name, held in teacher.state()["held"].items():
        assert torch.equal(held, fresh.state()["held"][name])
    with pytest.raises(BadParameter, match="teacher state of schedule 'ema' is refused"):
        refresh.Teacher(model, "frozen").load(teacher.state())
    for options, says in (
        (dict(schedule="slow"), "schedule='slow' is refused; accepted: live, frozen"),
        (dict(decay=1.5), "decay=1.5 is refused"),
        (dict(every=0), "every=0 is refused"),
    ):
        with pytest.raises(BadParameter, match=says):
            refresh.Teacher(model, **options)


def test_frozen_teacher_scores_stay_while_the_student_moves():
    """Through a model: live scores follow the student, frozen ones are bit-identical."""
    model, probe = toy.model(), ([(1, 9, 8)], [(20, 21)])
    frozen, live = refresh.Teacher(model, "frozen"), refresh.Teacher(model, "live")

    def seen(teacher):
        with teacher.weights() as one:
            return scoring.answer_logits(one, *probe, toy.END)[0]

    before = seen(frozen)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
        student = scoring.answer_logits(model, *probe, toy.END)[0]
    assert torch.equal(seen(frozen), before) and not torch.equal(seen(live), before)
    assert torch.equal(seen(live), student)
    assert not seen(live).requires_grad
