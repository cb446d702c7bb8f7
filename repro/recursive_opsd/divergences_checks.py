"""What must hold of `losses`, `clipping`, `means` and `refresh`: worked vectors and identities.

Sources: arXiv 2609.30652, Eq. 4 and 9; arXiv 2601.18734, Eq. 7 to 9; the four-token example is
worked by hand in the project's notes, section 2.4. All through the modules, so that a planted
fault is seen.
"""

import math

import torch

from repro.errors import BadParameter
from repro.recursive_opsd import clipping, losses, means, refresh

TEACHER = (0.9, 0.05, 0.03, 0.02)
STUDENT = (0.5, 0.3, 0.1, 0.1)
FORWARD, REVERSE, JSD = 0.371112082572044, 0.524975579993361, 0.103000290251362
CAP, CLIPPED, CLIPPED_GRADIENT = 0.05, -0.107895915839863, (0.05, -0.02, -0.02, -0.01)


def logits(*rows) -> torch.Tensor:
    """Logits [m, V], float64, whose softmax is `rows`."""
    return torch.tensor(rows, dtype=torch.float64).log()


def gradient(student: torch.Tensor, teacher: torch.Tensor, **options) -> torch.Tensor:
    """d(sum of position losses)/d(student logits), [m, V]."""
    leaf = student.clone().requires_grad_()
    losses.position_losses(leaf, teacher, **options).sum().backward()
    return leaf.grad


def noise(*shape, seed: int = 0) -> torch.Tensor:
    made = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=made, dtype=torch.float64)


def same(found, expected, what: str, atol: float = 1e-9) -> None:
    found = torch.as_tensor(found, dtype=torch.float64).detach()
    expected = torch.as_tensor(expected, dtype=torch.float64).detach()
    good = found.shape == expected.shape and torch.allclose(found, expected, rtol=0, atol=atol)
    assert good, f"{what}: {found.tolist()} != {expected.tolist()}"


def _example(kind: str = "forward", **options) -> float:
    return losses.position_losses(logits(STUDENT), logits(TEACHER), kind, **options).item()


def both_directions_by_hand() -> None:
    """KL(teacher || student) and KL(student || teacher) as worked by hand."""
    same(_example("forward"), FORWARD, "teacher first")
    same(_example("reverse"), REVERSE, "student first")


def jensen_shannon_by_hand() -> None:
    """The mixture with weights 1/2 as worked by hand."""
    same(_example("jsd"), JSD, "JSD")


def library_takes_the_student_first() -> None:
    """kl_div(input = log student, target = log teacher) is the teacher-first divergence."""
    log_p, log_q = logits(STUDENT), logits(TEACHER)
    library = torch.nn.functional.kl_div(log_p, log_q, log_target=True, reduction="sum")
    same(library, losses.forward_kl(log_q, log_p).sum(), "kl_div")


def forward_gradient_is_p_minus_q() -> None:
    """d KL(q || p) / d logits = p - q."""
    student, teacher = noise(3, 6), noise(3, 6, seed=1)
    expected = student.softmax(-1) - teacher.softmax(-1)
    same(gradient(student, teacher), expected, "gradient")


def reverse_gradient_by_hand() -> None:
    """d KL(p || q) / d logits = p (log(p / q) - KL)."""
    student, teacher = noise(3, 6), noise(3, 6, seed=1)
    p, gap = student.softmax(-1), student.log_softmax(-1) - teacher.log_softmax(-1)
    expected = p * (gap - (p * gap).sum(-1, keepdim=True))
    same(gradient(student, teacher, kind="reverse"), expected, "gradient")


def no_gradient_through_the_teacher() -> None:
    """Where both sides hang on the same weights, the gradient is the student path's alone."""
    weights = noise(5, 6, seed=2).requires_grad_()
    plain, rich = noise(3, 5), noise(3, 5, seed=1)
    losses.position_losses(plain @ weights, rich @ weights).sum().backward()
    p, q = ((x @ weights).softmax(-1) for x in (plain, rich))
    same(weights.grad, plain.T @ (p - q), "gradient of shared weights")


def equal_contexts_give_zero_at_any_temperature() -> None:
    """Equal logits give a loss of exactly 0, and no gradient, at every temperature."""
    one = noise(4, 7)
    for temperature in (0.3, 1.0, 1.1, 5.0):
        for kind in ("forward", "reverse", "jsd"):
            found = losses.position_losses(one, one.clone(), kind, temperature)
            same(found, torch.zeros(4), f"{kind} at {temperature}", atol=1e-15)
        same(gradient(one, one, temperature=temperature), torch.zeros(4, 7), "gradient", 1e-12)


def temperature_divides_both_sides() -> None:
    """The loss at temperature t is the loss of both logits divided by t."""
    student, teacher = noise(2, 5), noise(2, 5, seed=1)
    found = losses.position_losses(student, teacher, temperature=2.0)
    p, q = ((x / 2).softmax(-1) for x in (student, teacher))
    same(found, (q * (q / p).log()).sum(-1), "loss at temperature 2")


def jsd_vanishes_at_both_ends() -> None:
    """Near beta = 0 and 1 the mixture goes to 0, as beta KL(q || p) and (1 - beta) KL(p || q)."""
    log_p, log_q = logits(STUDENT), logits(TEACHER)
    small = 1e-6
    same(losses.jsd(log_q, log_p, small) / small, [FORWARD], "beta to 0", 1e-4)
    same(losses.jsd(log_q, log_p, 1 - small) / small, [REVERSE], "beta to 1", 1e-4)


def sampled_token_means_the_reverse_gradient() -> None:
    """Averaged over all tokens by their probability, its gradient is that of the reverse KL."""
    student, teacher = noise(1, 6).requires_grad_(), noise(1, 6, seed=1)
    total = torch.zeros(1, 6, dtype=torch.float64)
    for token in range(6):
        log_p, log_q = student.log_softmax(-1), teacher.log_softmax(-1)
        value = losses.sampled_token(log_q, log_p, torch.tensor([token]), "reverse")
        (one,) = torch.autograd.grad(value.sum(), student)
        total += student.softmax(-1)[0, token].item() * one
    plain = student.detach()
    same(total, gradient(plain, teacher, kind="reverse"), "expected gradient")
    assert not torch.allclose(total, gradient(plain, teacher)), "it equals the forward gradient"


def sampled_token_has_no_forward_form() -> None:
    """Asking for the sampled-token loss in the forward direction is refused."""
    try:
        losses.sampled_token(noise(1, 4), noise(1, 4), torch.tensor([0]), "forward")
    except BadParameter:
        return
    raise AssertionError("the forward direction was accepted")


def top_k_of_everything_is_the_whole() -> None:
    """With k = V both top-k forms equal the full KL; a bucket for the rest never exceeds it."""
    student, teacher = noise(4, 9), noise(4, 9, seed=1)
    full = losses.position_losses(student, teacher)
    for rest in losses.RESTS:
        found = losses.position_losses(student, teacher, "top_k", k=9, rest=rest)
        same(found, full, f"top-9 of 9, {rest}")
    for k in range(1, 9):
        part = losses.position_losses(student, teacher, "top_k", k=k, rest="bucket")
        assert (part <= full + 1e-12).all(), f"top-{k} with a bucket exceeds the full KL"
    same(_example("top_k", k=2), 0.290697137758082, "top-2, renormalised")
    same(_example("top_k", k=2, rest="bucket"), 0.37010530689451, "top-2, bucket")


def entry_clip_is_off_by_default() -> None:
    """Nothing is capped unless asked for: the default gradient on the first token is -0.4."""
    same(gradient(logits(STUDENT), logits(TEACHER)), [(-0.4, 0.25, 0.07, 0.08)], "gradient")


def entry_clip_turns_the_gradient_round() -> None:
    """With the cap, the token that the teacher wants most is pushed down, and the loss is < 0."""
    same(_example(clip=CAP), CLIPPED, "clipped loss")
    found = gradient(logits(STUDENT), logits(TEACHER), clip=CAP)
    same(found, [CLIPPED_GRADIENT], "clipped gradient")
    assert found[0, 0] > 0, "the sign on the teacher's first token did not turn"
    told = clipping.capped(losses.terms(logits(TEACHER), logits(STUDENT)), logits(TEACHER), CAP)
    same([told.entries, told.teacher_mass], [0.25, 0.9], "share capped", 1e-6)


def entry_clip_is_per_entry() -> None:
    """Vocabulary shards capped one by one add up to the cap on a single device."""
    found = losses.terms(noise(3, 8, seed=1).log_softmax(-1), noise(3, 8).log_softmax(-1))
    whole = clipping.clip_entries(found, CAP).sum(-1)
    shards = sum(clipping.clip_entries(part, CAP).sum(-1) for part in found.split(3, dim=-1))
    same(shards, whole, "capped in shards")


def bound_keeps_the_direction() -> None:
    """Bounding a whole position scales its gradient and turns nothing round."""
    student, teacher = noise(5, 6), noise(5, 6, seed=1)
    whole, bounded = gradient(student, teacher), gradient(student, teacher, bound=CAP)
    sizes = losses.position_losses(student, teacher)
    same(bounded, whole * torch.clamp(CAP / sizes, max=1)[:, None], "bounded gradient")
    found = losses.position_losses(student, teacher, bound=CAP)
    assert (found <= CAP + 1e-12).all(), "a bounded position exceeds the bound"


def every_answer_weighs_the_same() -> None:
    """A mean within each answer, then over answers: 1 and 4 make 2.5, whatever the lengths."""
    long, short = torch.full((8,), 1.0).double(), torch.full((2,), 4.0).double()
    same(means.answer_mean([long, short], 2), 2.5, "mean over answers")
    same(means.answer_mean([long, long, short], 3), 2.0, "a long answer twice")
    same(means.token_mean([long, short], 10), 1.6, "mean over tokens")


def one_by_four_is_four_by_one() -> None:
    """The gradient does not depend on how a batch is cut into micro-batches."""
    sizes, width = (2, 7, 1, 4), 6
    student = [noise(m, width, seed=m) for m in sizes]
    teacher = [noise(m, width, seed=10 + m) for m in sizes]
    found = []
    for cut in ([(0, 1, 2, 3)], [(0,), (1,), (2,), (3,)], [(0, 1), (2, 3)]):
        leaves = [s.clone().requires_grad_() for s in student]
        for part in cut:
            each = [losses.position_losses(leaves[i], teacher[i]) for i in part]
            means.answer_mean(each, means.answered(sizes)).backward()
        found.append(torch.cat([leaf.grad for leaf in leaves]))
    for other in found[1:]:
        same(other, found[0], "gradient of micro-batches")


def empty_answer_adds_nothing() -> None:
    """An answer without tokens adds 0 with a live graph, and is not counted in the mean."""
    leaf = torch.zeros(0, 5, requires_grad=True)
    empty = losses.position_losses(leaf, torch.zeros(0, 5))
    assert means.answered([0, 3]) == 1, "an empty answer is counted"
    same(means.answer_mean([empty, torch.full((3,), 2.0)], 1), 2.0, "mean beside an empty answer")
    alone = means.answer_mean([empty], means.answered([0]))
    alone.backward()
    assert alone.item() == 0 and leaf.grad is not None, "no live zero"


def softmax_is_float32() -> None:
    """Logits in bfloat16 are widened before the log-softmax."""
    low = noise(1, 64).bfloat16()
    found = losses.log_probs(low)
    assert found.dtype == torch.float32, f"log-probabilities are {found.dtype}"
    same(found, low.double().log_softmax(-1), "log-softmax", 1e-5)


def unequal_widths_are_refused() -> None:
    """A padded vocabulary on one side is an error, not a cut."""
    try:
        losses.position_losses(noise(2, 8), noise(2, 9))
    except BadParameter:
        return
    raise AssertionError("logits of 8 and 9 entries were accepted")


class Two(torch.nn.Module):
    """A module with two weights, for the schedules."""

    def __init__(self) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(torch.tensor([1.0, -1.0]))

    def move(self) -> None:
        with torch.no_grad():
            self.w.add_(1.0)


def _seen(teacher: refresh.Teacher) -> list[float]:
    with teacher.weights() as model:
        return model.w.tolist()


def live_teacher_is_the_student() -> None:
    """After every step the live teacher has the student's new weights."""
    model = Two()
    teacher = refresh.Teacher(model, "live")
    for _ in range(3):
        model.move()
        teacher.after_step()
        same(_seen(teacher), model.w, "live teacher")


def frozen_teacher_stays() -> None:
    """A frozen teacher keeps the first weights, bit for bit; the student gets its own back."""
    model = Two()
    teacher = refresh.Teacher(model, "frozen")
    for at in range(3):
        model.move()
        teacher.after_step()
        assert _seen(teacher) == [1.0, -1.0], "the frozen teacher moved"
        same(model.w, [2.0 + at, float(at)], "student afterwards")


def ema_in_closed_form() -> None:
    """After three steps the EMA teacher is d^3 t + (1 - d)(d^2 s1 + d s2 + s3)."""
    model, d = Two(), 0.7
    teacher = refresh.Teacher(model, "ema", decay=d)
    for _ in range(3):
        model.move()
        teacher.after_step()
    found = d**3 * 1 + (1 - d) * (d**2 * 2 + d * 3 + 4)
    same(_seen(teacher)[0], found, "EMA after 3 steps", 1e-6)


def periodic_is_constant_in_between() -> None:
    """A periodic teacher copies after every `every` steps and holds still until the next."""
    model, found = Two(), []
    teacher = refresh.Teacher(model, "periodic", every=2)
    for _ in range(5):
        model.move()
        teacher.after_step()
        found.append(_seen(teacher)[0])
    assert found == [1, 3, 3, 5, 5], f"weights after each step: {found}"


def student_comes_back_after_an_error() -> None:
    """An exception in the teacher's pass leaves the student's weights and mode in place."""
    model = Two().train()
    teacher = refresh.Teacher(model, "frozen")
    model.move()
    try:
        with teacher.weights():
            assert not model.training, "dropout is on in the teacher's pass"
            raise KeyError("planned")
    except KeyError:
        pass
    same(model.w, [2.0, 0.0], "student after the error")
    assert model.training and torch.is_grad_enabled(), "mode or gradients did not come back"


def bound_at_zero_is_finite() -> None:
    """A bound on a position without divergence gives 0, not NaN."""
    found = gradient(logits(STUDENT), logits(STUDENT), bound=CAP)
    assert math.isfinite(found.abs().sum()), "NaN in the gradient"


CHECKS = {
    check.__name__: check
    for check in (
        both_directions_by_hand,
        jensen_shannon_by_hand,
        library_takes_the_student_first,
        forward_gradient_is_p_minus_q,
        reverse_gradient_by_hand,
        no_gradient_through_the_teacher,
        equal_contexts_give_zero_at_any_temperature,
        temperature_divides_both_sides,
        jsd_vanishes_at_both_ends,
        sampled_token_means_the_reverse_gradient,
        sampled_token_has_no_forward_form,
        top_k_of_everything_is_the_whole,
        entry_clip_is_off_by_default,
        entry_clip_turns_the_gradient_round,
        entry_clip_is_per_entry,
        bound_keeps_the_direction,
        bound_at_zero_is_finite,
        every_answer_weighs_the_same,
        one_by_four_is_four_by_one,
        empty_answer_adds_nothing,
        softmax_is_float32,
        unequal_widths_are_refused,
        live_teacher_is_the_student,
        frozen_teacher_stays,
        ema_in_closed_form,
        periodic_is_constant_in_between,
        student_comes_back_after_an_error,
    )
}
