"""What must hold of streams and arms before their comparison means anything.

Source: the notes on arXiv 2609.27470, sections 3, 9.1 and 9.2. Everything is reached through the
modules, so that a planted fault is seen.
"""

from functools import lru_cache

import numpy as np
import torch

from repro.deltas import streams, study_streaming
from repro.deltas.hybrid import SmallHybrid
from repro.deltas.retention import RetentionPolicy

POLICY = RetentionPolicy(28, 2, 4, 2)


@lru_cache
def _world() -> streams.World:
    return streams.World.draw(0, keys=8, values=4, features=12)


@lru_cache
def _model() -> SmallHybrid:
    torch.manual_seed(0)
    return SmallHybrid(12, 4, 16, 2, 4, "da").eval().requires_grad_(False)


def _seen(kind: str = "static", frames: int = 40, batch: int = 6) -> streams.Streams:
    return streams.draw(_world(), 3, batch, frames, 2, kind)


def _play(arm: str, frames: int = 8, seed: int = 0) -> study_streaming.Outcome:
    return study_streaming.play(_model(), _seen("static", frames, 2), arm, POLICY, seed)


def places_hold_the_objects() -> None:
    """At each place of the truth the patch shows the asked key and its value."""
    for kind in streams.KINDS:
        seen, world = _seen(kind), _world()
        shown = seen.frames.flatten(1, 2)[torch.arange(6)[:, None], torch.from_numpy(seen.place)]
        wanted = seen.questions - world.mark + world.values[seen.answers]
        gap = (shown - wanted).abs().max()
        assert gap < 6 * world.jitter, f"{kind}: a patch is {gap:g} off its object"


def labels_tell_the_frames() -> None:
    """A repeat differs from the frame before by noise only, a new scene by much more."""
    seen = _seen()
    step = (seen.frames[:, 1:] - seen.frames[:, :-1]).square().mean((2, 3)).sqrt().numpy()
    calm = (seen.kind[:, 1:] == 0) & (seen.kind[:, :-1] < 2)
    assert step[calm].max() < 0.2 < step[seen.kind[:, 1:] == 1].min(), "labels and frames disagree"
    noisy = _seen("noise").kind
    assert 0.05 < (noisy == 3).mean() < 0.4, "no noise frames are marked"


def scenes_return() -> None:
    """A-B-A: there are only two scenes, and a cut goes back to the other."""
    seen = streams.draw(_world(), 3, 2, 80, 1, "returns")
    calm = seen.frames[0][torch.from_numpy(seen.kind[0] < 2)].flatten(1)
    apart = torch.cdist(calm, calm[:1])[:, 0] > 1
    assert apart.any() and not apart.all(), "there is one scene only"
    other = calm[apart]
    assert torch.cdist(other, other[:1]).max() < 1, "there are more than two scenes"


def the_oracle_keeps_all() -> None:
    """With room for them, the oracle keeps every token that will be asked for."""
    kept = _play("oracle", 40).kept
    assert kept.min() == 1, f"the oracle keeps {kept.min():.2f}"


def uniform_is_uniform() -> None:
    """Evenly spaced means: in each third of a long stream about a third of the kept tokens."""
    ages = _play("uniform", frames=54).stats["ages"]
    free = ages[1:52]  # without window and sinks
    thirds = np.array([part.sum() for part in np.array_split(free, 3)]) / free.sum()
    assert np.abs(thirds - 1 / 3).max() < 0.15, f"shares of the thirds: {thirds.round(2)}"


def the_placebo_is_another_stream() -> None:
    """Shuffled drift gives each stream the numbers of another."""
    real, placebo = (_play(arm).scores for arm in ("drift", "drift-shuffled"))
    assert np.allclose(placebo[0], np.roll(real[0], 1)), "not another stream's numbers"
    assert not np.allclose(placebo[3], real[3]), "each stream has its own numbers"


def arms_fill_one_budget() -> None:
    """Arms hold exactly the budget, whether they score chunks, tokens or old tokens anew."""
    for arm in ("drift", "residual", "survivors"):
        cached = _play(arm).stats["cached"]
        assert cached == POLICY.budget, f"{arm} holds {cached}"


def full_evicts_nothing() -> None:
    """Without a budget nothing is evicted."""
    full = _play("full")
    assert full.stats["evictions"] == 0 and full.kept.min() == 1, "the full cache lost tokens"


CHECKS = {
    check.__name__: check
    for check in (
        places_hold_the_objects,
        labels_tell_the_frames,
        scenes_return,
        the_oracle_keeps_all,
        uniform_is_uniform,
        the_placebo_is_another_stream,
        arms_fill_one_budget,
        full_evicts_nothing,
    )
}
