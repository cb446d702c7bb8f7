"""Which cached tokens stay: Algorithm 1 of DeltaS (arXiv 2609.27470), without any model.

Sinks and a recent window always stay. The rest is dealt into time buckets by *original* chunk
index, each bucket keeps its best tokens, and what a bucket cannot use goes to the best of all.
Scores are given at birth and never change. Open in the sources [U], so an argument: budget,
sinks, window, buckets, and what happens inside a chunk whose tokens all have one score.
"""

from dataclasses import dataclass

import numpy as np

from repro.errors import BadParameter

WITHIN = ("prefix", "spread", "whole")


@dataclass(frozen=True)
class Meta:
    """What is known of each cached token, in order of arrival; all [S].

    position: number of arrival in the stream (the position of a one-axis stream). chunk: index of
    the chunk that brought it, counted over the whole stream. score: given at birth.
    Raises BadParameter for other shapes, a position or chunk out of order, or a score that is NaN.
    """

    position: np.ndarray
    chunk: np.ndarray
    score: np.ndarray

    def __post_init__(self):
        for name in ("position", "chunk", "score"):
            object.__setattr__(self, name, np.asarray(getattr(self, name)))
        if not self.position.ndim == 1 or self.chunk.shape != self.position.shape:
            raise BadParameter(
                f"position has shape {self.position.shape} and chunk {self.chunk.shape}; accepted: "
                "[S] both."
            )
        if self.score.shape != self.position.shape or np.isnan(self.score).any():
            raise BadParameter(
                f"score has shape {self.score.shape} and {np.isnan(self.score).sum()} NaN; "
                f"accepted: {self.position.shape}, none of them NaN."
            )
        if (np.diff(self.position) <= 0).any():
            raise BadParameter("position does not rise; accepted: original positions, rising.")
        if (np.diff(self.chunk) < 0).any():
            raise BadParameter("chunk falls; accepted: original chunk indices, in order.")

    def __len__(self) -> int:
        return len(self.position)

    def take(self, index: np.ndarray) -> "Meta":
        """The tokens `index`, with the metadata they were born with."""
        return Meta(self.position[index], self.chunk[index], self.score[index])


@dataclass(frozen=True)
class RetentionPolicy:
    """Algorithm 1 with budget B, n_s sinks, window w and J buckets, all counted in tokens.

    within_chunk: "prefix" keeps the first tokens of a chunk that is cut (the tie-break by position
    of the public selector), "spread" keeps tokens evenly over the chunk, "whole" keeps or drops
    whole chunks and may leave budget unused.
    Raises BadParameter unless 0 <= n_s, 0 <= w, n_s + w <= B and J >= 1.
    """

    budget: int
    sinks: int = 4
    window: int = 8
    buckets: int = 4
    within_chunk: str = "prefix"

    def __post_init__(self):
        for name, least in (("budget", 1), ("sinks", 0), ("window", 0), ("buckets", 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
                raise BadParameter(
                    f"{name}={value!r} is refused; accepted: an integer, at least {least}."
                )
        if self.sinks + self.window > self.budget:
            raise BadParameter(
                f"budget={self.budget} is refused; accepted: at least {self.sinks + self.window}, "
                f"sinks={self.sinks} + window={self.window}."
            )
        if self.within_chunk not in WITHIN:
            raise BadParameter(
                f"within_chunk={self.within_chunk!r} is refused; accepted: {WITHIN}."
            )

    def select(self, meta: Meta) -> np.ndarray:
        """Indices of the tokens that stay, rising; at most B, all of them if there are no more."""
        size = len(meta)
        if size <= self.budget:
            return np.arange(size)
        free = np.arange(self.sinks, size - self.window)
        quota = self.budget - self.sinks - self.window
        bucket = bucket_of(meta.chunk[free], self.buckets)
        order = self._order(meta, free)
        if self.within_chunk == "whole":
            chosen = _whole(meta.chunk[free], order, bucket, quota, self.buckets)
        else:
            chosen = _by_token(order, bucket, quota, self.buckets)
        ends = np.arange(self.sinks), np.arange(size - self.window, size)
        return np.sort(np.concatenate([ends[0], free[chosen], ends[1]]))

    def _order(self, meta: Meta, free: np.ndarray) -> np.ndarray:
        """Candidates (as indices into `free`) by falling score, then by the within-chunk rule."""
        position, chunk = meta.position[free], meta.chunk[free]
        rank = position
        if self.within_chunk == "spread":
            rank = _spread(chunk)
        # equal scores of different chunks: the older chunk first, whole
        return np.lexsort((position, rank, chunk, -meta.score[free]))


def bucket_of(chunk: np.ndarray, buckets: int) -> np.ndarray:
    """Time bucket of each token, from its original chunk index. [n] -> [n], 0 .. buckets - 1.

    The range is that of the survivors, so the borders move as old tokens die.
    """
    if not chunk.size:
        return np.zeros(0, int)
    first, last = chunk.min(), chunk.max()
    return np.minimum(buckets - 1, (chunk - first) * buckets // (last - first + 1))


def quotas(quota: int, buckets: int) -> np.ndarray:
    """Equal shares; the first buckets take what is left over. [buckets]"""
    return quota // buckets + (np.arange(buckets) < quota % buckets)


def _by_token(order: np.ndarray, bucket: np.ndarray, quota: int, buckets: int) -> np.ndarray:
    """The best of each bucket, then the best of what remains for the quota not used."""
    ranked = bucket[order]
    within = np.zeros(len(order), int)
    for j in range(buckets):
        mine = ranked == j
        within[mine] = np.arange(mine.sum())
    first = within < quotas(quota, buckets)[ranked]
    return np.concatenate([order[first], _spill(order[~first], quota - int(first.sum()))])


def _spill(rest: np.ndarray, unused: int) -> np.ndarray:
    """What empty buckets left over goes to the best remaining candidates of any bucket."""
    return rest[:unused]


def _whole(chunk, order, bucket, quota, buckets) -> np.ndarray:
    """Whole chunks in order of score: first inside the buckets' shares, then anywhere."""
    left, free = quotas(quota, buckets), quota
    names = list(dict.fromkeys(chunk[order].tolist()))  # by falling score
    taken: list[np.ndarray] = []
    later = []
    for name in names:
        tokens = np.flatnonzero(chunk == name)
        j = bucket[tokens[0]]
        if len(tokens) <= left[j]:
            left[j] -= len(tokens)
            free -= len(tokens)
            taken.append(tokens)
        else:
            later.append(tokens)
    for tokens in later:
        if len(tokens) <= free:
            free -= len(tokens)
            taken.append(tokens)
    return np.concatenate(taken) if taken else np.zeros(0, int)


def _spread(chunk: np.ndarray) -> np.ndarray:
    """Rank inside the chunk such that any first few are spread evenly over it."""
    rank = np.zeros(len(chunk), int)
    for name in np.unique(chunk):
        at = np.flatnonzero(chunk == name)
        rank[at] = _even(len(at))
    return rank


def _even(size: int) -> np.ndarray:
    """Bit reversal: 0, 4, 2, 6, 1, ... for 8; the rank of each place."""
    bits = max(1, (size - 1).bit_length())
    key = [int(f"{i:0{bits}b}"[::-1], 2) for i in range(size)]
    return np.argsort(np.argsort(key))
