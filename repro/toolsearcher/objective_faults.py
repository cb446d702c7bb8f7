"""Deliberate faults in `repro.toolsearcher.tokens` and `objective`; most were made by somebody.

The names of projects in the comments are those whose public issues report such a mistake.
"""

import numpy as np
import torch

from repro.faults import Fault
from repro.toolsearcher import objective, tokens

_HOME, _TOKENS = "repro.toolsearcher.objective:", "repro.toolsearcher.tokens:"


def _all_but_prompt(original):
    """trl and verl: the mask is the length of the response."""
    return lambda turn: np.cumsum(np.asarray(turn) != tokens.NO_TURN, axis=-1) > 0


def _one_late(original):
    return lambda turn: np.roll(original(turn), 1, axis=-1)


def _by_runs(original):
    """Turns counted as unbroken runs of the mask: neighbours merge."""

    def row(pieces):
        made = original(pieces)
        sampled = made.turn != tokens.NO_TURN
        starts = sampled & ~np.concatenate([[False], sampled[:-1]])
        turn = np.where(sampled, np.cumsum(starts) - 1, tokens.NO_TURN)
        return tokens.Row(made.ids, turn, made.kind, made.lost)

    return row


def _guessed_padding(original):
    """trl: padding is wherever the id is the padding id."""

    def padded(rows, pad):
        made = original(rows, pad)
        return tokens.Batch(made.ids, made.turn, made.ids != pad)

    return padded


def _any_length(original):
    def token_advantage(turn, values):
        held = int(np.max(turn, initial=-1)) + 1
        return original(turn, np.resize(np.append(values, np.zeros(held)), held))

    return token_advantage


def _cut_in_the_turn(original):
    """rllm: cut at the limit, and nobody is told."""
    return lambda full, limit: tokens.Row(full.ids[:limit], full.turn[:limit], full.kind[:limit])


def _late_logits(original):
    def token_logprobs(logits, ids):
        return logits.log_softmax(-1).gather(-1, ids[..., None])[..., 0]

    return token_logprobs


def _kl_everywhere(original):
    """trl, NeMo-RL: policy and KL under two masks. Here the KL of every token comes in."""

    def changed(logp, old, advantage, mask, reference=None, *, beta=0.001, **options):
        found = original(logp, old, advantage, mask, reference, beta=beta, **options)
        if reference is not None and beta:
            d = torch.nan_to_num(reference - logp, nan=0.0, posinf=0.0, neginf=0.0)
            outside = torch.where(mask, 0.0, d.clamp(-20, 20).exp() - d - 1)
            found = objective.Objective(
                found.loss + beta * outside.sum() / mask.numel(), *list(vars(found).values())[1:]
            )
        return found

    return changed


def _per_micro_batch(original):
    return lambda values, mask, averaging="trajectory", of=None: original(values, mask, averaging)


FAULTS = {
    "retrieved_in_loss": Fault(
        "everything after the prompt is trained on, returned documents too",
        _TOKENS + "trainable",
        _all_but_prompt,
    ),
    "mask_off_by_one": Fault(
        "the mask lies one token late",
        _TOKENS + "trainable",
        _one_late,
    ),
    "logits_off_by_one": Fault(
        "each token is scored by the logits that have already read it",
        _HOME + "token_logprobs",
        _late_logits,
    ),
    "turns_from_runs": Fault(
        "turns are counted as runs of the mask, so that neighbours merge",
        _TOKENS + "row",
        _by_runs,
    ),
    "padding_guessed": Fault(
        "padding is guessed from the id, which is the end of a turn as well",
        _TOKENS + "padded",
        _guessed_padding,
    ),
    "values_cut_silently": Fault(
        "a list of advantages that does not fit the turns is cut or filled up",
        _TOKENS + "token_advantage",
        _any_length,
    ),
    "cut_without_notice": Fault(
        "a long trajectory is cut in the middle of a turn, and nothing says so",
        _TOKENS + "capped",
        _cut_in_the_turn,
    ),
    "mask_multiplied": Fault(
        "masked values are multiplied by 0 instead of replaced",
        _HOME + "selected",
        lambda original: lambda values, mask: values * mask,
    ),
    "kl_unmasked": Fault(
        "the KL term runs over all tokens",
        _HOME + "objective",
        _kl_everywhere,
    ),
    "micro_batch_means": Fault(
        "each micro-batch divides by its own count",
        _HOME + "average",
        _per_micro_batch,
    ),
    "one_average": Fault(
        "the averaging rule changes nothing",
        _HOME + "average",
        lambda original: (
            lambda values, mask, averaging="trajectory", of=None: original(
                values, mask, "token", of
            )
        ),
    ),
    "no_dual_clip": Fault(
        "a negative advantage is not bounded by the dual clip",
        _HOME + "clipped_loss",
        lambda original: (
            lambda rho, advantage, low=0.2, high=0.2, dual=3.0: original(
                rho, advantage, low, high, None
            )
        ),
    ),
    "clip_too_kind": Fault(
        "of the two losses the smaller is taken",
        _HOME + "clipped_loss",
        lambda original: (
            lambda rho, advantage, low=0.2, high=0.2, dual=3.0: torch.minimum(
                -advantage * rho, -advantage * rho.clamp(1 - low, 1 + high)
            )
        ),
    ),
    "k1_in_the_loss": Fault(
        "the plain log ratio stands in the loss, whose mean gradient is zero",
        _HOME + "k3",
        lambda original: lambda logp, reference, gradient="k3": logp - reference,
    ),
    "k3_reversed": Fault(
        "policy and reference change places in the KL estimate",
        _HOME + "k3",
        lambda original: lambda logp, reference, gradient="k3": original(reference, logp, gradient),
    ),
}
