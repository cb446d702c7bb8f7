"""What the eviction notebook calls: the policy over streams of given scores, without a model."""

import numpy as np
import torch

from repro.deltas.eviction_checks import model
from repro.deltas.retention import Meta, RetentionPolicy
from repro.deltas.runner import StreamRunner, same


def scores(chunks: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Chunk scores as drift gives them: falling as 1/sqrt(t), with peaks where something is new.

    Hand-made, for drawing. Returns scores [chunks] and which chunks are peaks [chunks].
    """
    rng = np.random.default_rng(seed)
    time = np.arange(1, chunks + 1)
    peak = rng.random(chunks) < 0.2
    peak[0] = True
    value = (0.3 + 1.2 * peak) * (1 + rng.normal(0, 0.1, chunks)) / np.sqrt(time)
    return value, peak


def replay(policy: RetentionPolicy, score: np.ndarray, tokens: int = 4) -> list[np.ndarray]:
    """Positions kept after each chunk of `tokens`, one score a chunk [chunks] or a token."""
    score = np.broadcast_to(np.asarray(score, float).reshape(len(score), -1), (len(score), tokens))
    position = chunk = np.zeros(0, int)
    value, frames = np.zeros(0), []
    for at in range(len(score)):
        position = np.concatenate([position, at * tokens + np.arange(tokens)])
        chunk = np.concatenate([chunk, np.full(tokens, at)])
        value = np.concatenate([value, score[at]])
        kept = policy.select(Meta(position, chunk, value))
        position, chunk, value = position[kept], chunk[kept], value[kept]
        frames.append(position)
    return frames


def survival(chunks: int, room: int, again: bool, tokens: int = 4) -> np.ndarray:
    """Share kept by age in tenths of the stream, oldest first, of evenly spaced samples. [10]

    again: space the *survivors* evenly after every chunk; otherwise decide once, by arrival.
    """
    length = chunks * tokens
    kept = np.zeros(0, int)
    for at in range(chunks):
        kept = np.concatenate([kept, at * tokens + np.arange(tokens)])
        if len(kept) <= room:
            continue
        if again:
            kept = kept[np.linspace(0, len(kept) - 1, room).round().astype(int)]
        else:
            kept = np.sort(kept[np.argsort([_inverse(p) for p in kept], kind="stable")[:room]])
    return np.histogram(kept, 10, (0, length))[0] / room


def _inverse(number: int, base: int = 3) -> float:
    found, digit = 0.0, 1 / base
    while number:
        number, last = divmod(int(number), base)
        found, digit = found + digit * last, digit / base
    return found


def renumbered(seed: int, chunks: int = 9) -> tuple[float, float]:
    """Largest change of the answer's logits when the question's positions start at the cache
    length, and the logits' spread. Random weights: not how much a trained model would suffer."""
    read = _streamed(seed, chunks)
    question = torch.randn(1, 4, 8, generator=torch.Generator().manual_seed(seed + 1))
    right = read.ask(question)
    read.next_position[:] = read.real.sum()
    return float((read.ask(question) - right).abs().max()), float(right.std())


def asked(seed: int, times: int) -> tuple[bool, bool]:
    """Ask `times` after every chunk: are all answers to one question equal, and is the stream?"""
    plain, busy = _streamed(seed, 0), _streamed(seed, 0)
    g = torch.Generator().manual_seed(seed + 2)
    alike = True
    for _ in range(9):
        frame, question = torch.randn(2, 1, 4, 8, generator=g)
        plain.feed(frame), busy.feed(frame)
        answers = [busy.ask(question) for _ in range(times)]
        alike &= all(torch.equal(a, answers[0]) for a in answers)
    return alike, same(plain.state(), busy.state())


def sizes(policy: RetentionPolicy | None, chunks: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """KV bytes after each chunk [chunks], and cached entries that each chunk's tokens attend to."""
    read, held, seen = _streamed(seed, 0, policy), [], []
    for frame in torch.randn(chunks, 1, 4, 8, generator=torch.Generator().manual_seed(seed)):
        seen.append(read.index.shape[1])
        read.feed(frame)
        held.append(read.stats()["kv_mib"] * 2**20)
    return np.array(held), np.array(seen)


_SMALL = RetentionPolicy(16, 2, 4, 2)


def _streamed(seed: int, chunks: int, policy: RetentionPolicy | None = _SMALL) -> StreamRunner:
    read = StreamRunner(model(), policy)
    for frame in torch.randn(chunks, 1, 4, 8, generator=torch.Generator().manual_seed(seed)):
        read.feed(frame)
    return read
