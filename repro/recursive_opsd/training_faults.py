"""Deliberate faults in the training of Recursive OPSD: mistakes that a reader could make."""

import dataclasses
import functools
import itertools

from repro.faults import Fault

_TRAIN = "repro.recursive_opsd.train:"
_EVALUATE, _LOOP = "repro.recursive_opsd.evaluate:", "repro.recursive_opsd.loop:"


def _by_order(original):
    def split_of(a, b):
        return original(a, b) if a <= b else ("train", "validation", "test")[(a + 2 * b) % 3]

    return split_of


def _fresh_dice(original):
    calls = itertools.count()

    @functools.wraps(original)
    def write(*arguments, **options):
        if "seed" in options:
            options["seed"] = next(calls)
        return original(*arguments, **options)

    return write


def _momentum_lost(original):
    def load(self, state):
        original(self, {**state, "optimiser": self.optimiser.state_dict()})

    return load


def _saved_before_the_step(original):
    def state(self):
        return original(self) | {"step": max(0, self.step - 1)}

    return state


FAULTS = {
    "split_by_order": Fault(
        "3 + 5 may be trained on while 5 + 3 is in the test",
        "repro.recursive_opsd.sums:split_of",
        _by_order,
    ),
    "cut_answers_count": Fault(
        "an answer cut off at the cap is scored by its last number",
        _EVALUATE + "score",
        lambda original: (
            lambda text, ended, gold, lenient=True: original(text, True, gold, lenient)
        ),
    ),
    "student_first": Fault(
        "teacher and student change places in the divergence",
        "repro.recursive_opsd.losses:forward_kl",
        lambda original: lambda log_q, log_p: original(log_p, log_q),
    ),
    "placebo_right": Fault(
        "the placebo arm keeps its own solutions",
        _TRAIN + "_rotated",
        lambda original: list,
    ),
    "zero_rate_moves": Fault(
        "the arm with a zero learning rate has the rate of the others",
        "repro.recursive_opsd.arms:arm",
        lambda original: lambda name: dataclasses.replace(original(name), rate=1.0),
    ),
    "fresh_dice": Fault(
        "every arm samples with random numbers of its own",
        "repro.recursive_opsd.rollout:write",
        _fresh_dice,
    ),
    "momentum_lost": Fault(
        "a resumed run starts with a new optimiser",
        _TRAIN + "Training.load",
        _momentum_lost,
    ),
    "step_behind": Fault(
        "a checkpoint is one step behind its weights",
        _TRAIN + "Training.state",
        _saved_before_the_step,
    ),
    "last_look": Fault(
        "the last checkpoint is taken, whatever validation says",
        _LOOP + "best",
        lambda original: lambda looks: len(looks) - 1,
    ),
    "solution_unseen": Fault(
        "the teacher's prefix is the student's",
        "repro.recursive_opsd.prompts:teacher",
        lambda original: (
            lambda tokenizer, problem, placement, wording: original.__globals__["student"](
                tokenizer, problem, wording
            )
        ),
    ),
}
