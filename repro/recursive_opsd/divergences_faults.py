"""Deliberate faults in `losses`, `clipping`, `means` and `refresh`: mistakes that people made."""

import contextlib

import torch

from repro.faults import Fault

_LOSSES = "repro.recursive_opsd.losses:"
_CLIP = "repro.recursive_opsd.clipping:"
_MEANS = "repro.recursive_opsd.means:"
_REFRESH = "repro.recursive_opsd.refresh:"


def _one_sided(original):
    """Alternate: the student's call (first of a pair) keeps its temperature, the teacher's is 1."""
    calls = {"n": 0}

    def log_probs(logits, temperature=1.0):
        calls["n"] += 1
        return original(logits, temperature if calls["n"] % 2 else 1.0)

    return log_probs


def _not_restored(original):
    @contextlib.contextmanager
    def weights(self):
        with torch.no_grad():
            self._swap()
            self._model.eval()
            yield self._model
            self._swap()
            self._model.train()

    return weights


FAULTS = {
    "direction_swapped": Fault(
        "student and teacher change places in the divergence",
        _LOSSES + "forward_kl",
        lambda original: lambda log_q, log_p: original(log_p, log_q),
    ),
    "teacher_not_detached": Fault(
        "the gradient also flows through the teacher's distribution",
        _LOSSES + "detached",
        lambda original: lambda log_q: log_q,
    ),
    "temperature_on_one_side": Fault(
        "only the student's logits are divided by the temperature",
        _LOSSES + "log_probs",
        _one_sided,
    ),
    "softmax_in_low_precision": Fault(
        "the log-softmax runs in the precision of the logits",
        _LOSSES + "log_probs",
        lambda original: (
            lambda logits, temperature=1.0: torch.log_softmax(logits / temperature, -1)
        ),
    ),
    "mixture_weights_swapped": Fault(
        "the two weights of the Jensen-Shannon mixture change places",
        _LOSSES + "jsd",
        lambda original: lambda log_q, log_p, beta=0.5: original(log_q, log_p, 1 - beta),
    ),
    "top_k_of_the_student": Fault(
        "the k most likely tokens are taken from the student",
        _LOSSES + "top_k_kl",
        lambda original: (
            lambda log_q, log_p, k, rest="renormalise": original(log_p, log_q, k, rest)
        ),
    ),
    "sampled_token_forward": Fault(
        "the sampled-token loss is accepted as if it were the forward KL",
        _LOSSES + "sampled_token",
        lambda original: (
            lambda log_q, log_p, tokens, direction: original(log_q, log_p, tokens, "reverse")
        ),
    ),
    "entries_clipped": Fault(
        "every entry of the vocabulary is capped although nobody asked for it",
        _LOSSES + "terms",
        lambda original: lambda log_q, log_p: original(log_q, log_p).clamp(max=0.05),
    ),
    "position_clipped_as_entry": Fault(
        "the cap falls on the sum of a position instead of on each entry",
        _CLIP + "clip_entries",
        lambda original: (
            lambda terms, cap: (
                terms * (terms.sum(-1, keepdim=True).clamp(max=cap) / terms.sum(-1, keepdim=True))
            )
        ),
    ),
    "bound_not_constant": Fault(
        "the bound is differentiated, so a bounded position has no gradient",
        _CLIP + "bound_positions",
        lambda original: lambda losses, bound: losses.clamp(max=bound),
    ),
    "mean_over_all_tokens": Fault(
        "long answers weigh more: one mean over the tokens of all answers",
        _MEANS + "answer_mean",
        lambda original: lambda losses, answers: torch.cat(list(losses)).mean(),
    ),
    "micro_batch_means": Fault(
        "each micro-batch is divided by its own number of answers",
        _MEANS + "answer_mean",
        lambda original: lambda losses, answers: original(losses, len(losses)),
    ),
    "frozen_shares_storage": Fault(
        "the frozen teacher holds the parameters themselves instead of a copy",
        _REFRESH + "Teacher._copy",
        lambda original: lambda self: {n: p.data for n, p in self._student.items()},
    ),
    "ema_weights_swapped": Fault(
        "the decay is applied to the student instead of to the teacher",
        _REFRESH + "averaged",
        lambda original: lambda teacher, student, decay: original(teacher, student, 1 - decay),
    ),
    "student_not_restored": Fault(
        "an error in the teacher's pass leaves the teacher's weights in the student",
        _REFRESH + "Teacher.weights",
        _not_restored,
    ),
}
