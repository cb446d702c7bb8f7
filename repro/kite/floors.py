"""Floors without any network: tables of letter frequencies. An arm above them has learned nothing.

(The comparison that the public re-implementation reports lies above the first: notes, 7.4.)
"""

import numpy as np

from repro.errors import BadParameter


def unigram(train: np.ndarray, windows: np.ndarray, smooth: float = 1.0) -> np.ndarray:
    """NLL [...] in nats a byte of windows [..., T + 1] (first byte given), from byte counts."""
    _positive(smooth)
    count = np.bincount(train, minlength=256) + smooth
    return -np.log(count / count.sum())[windows[..., 1:]].mean(-1)


def bigram(train: np.ndarray, windows: np.ndarray, smooth: float = 20.0) -> np.ndarray:
    """The same from pairs, backed off to single bytes: (n_ab + smooth p_b) / (n_a + smooth)."""
    _positive(smooth)
    single = np.bincount(train, minlength=256) + 1.0
    pairs = np.zeros((256, 256))
    np.add.at(pairs, (train[:-1], train[1:]), 1)
    share = single / single.sum()
    table = (pairs + smooth * share) / (pairs.sum(1, keepdims=True) + smooth)
    return -np.log(table)[windows[..., :-1], windows[..., 1:]].mean(-1)


def _positive(smooth: float) -> None:
    if not smooth > 0:
        raise BadParameter(f"smooth={smooth!r} is refused; accepted: more than 0.")
