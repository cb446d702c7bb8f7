"""How cost grows in the chapters without a stream, a graph or a history: see bench_scaling.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
from bench_scaling import Curve, relative, unit_costs


def curve(
    paper: str, way: str, unit: str, works: Mapping[int, Callable[[], object]], repeats: int = 5
) -> Curve:
    return Curve(paper, way, unit, relative(unit_costs(works, repeats)))


def evictions(sizes: tuple[int, ...] = (10**3, 10**4, 10**5)) -> list[Curve]:
    """ActKV: scoring a cached entry and choosing half of them, at the end of a round."""
    from repro.actkv.eviction import ActionLRFU

    rng = np.random.default_rng(1)
    rows = {size: rng.dirichlet(np.ones(size)) for size in sizes}

    def close(row: np.ndarray) -> None:
        state = ActionLRFU()
        for _ in range(4):
            state.observe(row)
        state.step(row.size, row.size // 2)

    works = {size: partial(close, row) for size, row in rows.items()}
    return [curve("actkv", "half evicted", "cached entry", works)]


def episodes(sizes: tuple[int, ...] = (50, 100, 200)) -> list[Curve]:
    """Code-Based Skills: one environment step with the hero's memory, in ever longer episodes."""
    from repro.code_skills.bot import Bot
    from repro.code_skills.engine import Engine, Seed
    from repro.code_skills.menus import menu

    hero = Bot(Engine("MiniHack-Room-Random-15x15-v0", 10**9), menu("primitives"))

    def play(steps: int) -> None:
        hero.start(Seed(5, 5))
        for at in range(steps):
            hero.call(("north", "south")[at % 2])

    works = {size: partial(play, size) for size in sizes}
    return [curve("code_skills", "a room of MiniHack", "step", works)]


def prompts(sizes: tuple[int, ...] = (128, 512, 2048)) -> list[Curve]:
    """KITE: reading a prompt, with the Decoder on its last position alone or on all of them."""
    import torch

    from repro.kite.config import Config
    from repro.kite.model import SST

    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = SST(Config(heads=4)).eval()
    model.expand()
    found = []
    for way, kept in (("Decoder on one position", 1), ("Decoder on all positions", None)):

        @torch.inference_mode()
        def read(tokens: torch.Tensor, kept: int | None = kept) -> None:
            model(tokens, logits_to_keep=kept)

        works = {n: partial(read, torch.randint(256, (1, n))) for n in sizes}
        found.append(curve("kite", way, "prompt token", works))
    return found


def groups(sizes: tuple[int, ...] = (10**2, 10**3, 10**4)) -> list[Curve]:
    """MaD-RL: rewards of one group of answers, with and without leaving each one out."""
    from repro.mad_rl import rewards

    rng, target, found = np.random.default_rng(1), np.full(8, 1 / 8), []
    for way, alone in (("group as a whole", False), ("each left out", True)):
        drawn = {size: rng.integers(8, size=size) for size in sizes}
        works = {
            n: partial(rewards.group, "forward_kl", g, target, leave_one_out=alone)
            for n, g in drawn.items()
        }
        found.append(curve("mad_rl", way, "answer", works))
    return found


def vocabularies(sizes: tuple[int, ...] = (10**3, 10**4, 10**5)) -> list[Curve]:
    """Recursive OPSD: the loss of 16 positions, a vocabulary entry, with gradients."""
    import torch

    from repro.recursive_opsd.losses import position_losses

    torch.set_num_threads(1)
    torch.manual_seed(1)

    def learn(student: torch.Tensor, teacher: torch.Tensor, kind: str) -> None:
        student.grad = None
        position_losses(student, teacher, kind).sum().backward()

    found = []
    for way, kind in (("whole vocabulary", "forward"), ("50 likeliest tokens", "top_k")):
        works = {
            n: partial(learn, torch.randn(16, n, requires_grad=True), torch.randn(16, n), kind)
            for n in sizes
        }
        found.append(curve("recursive_opsd", way, "vocabulary entry", works))
    return found


def libraries(sizes: tuple[int, ...] = (10**2, 10**3, 10**4)) -> list[Curve]:
    """ToolSearcher: 32 lexical searches, a tool in the library; and building its index.

    Made-up tools of ten words out of 2,000.
    """
    from repro.toolsearcher.index import ToolIndex
    from repro.toolsearcher.library import tool

    rng = np.random.default_rng(1)

    def text(words: int) -> str:
        return " ".join(f"word{n}" for n in rng.integers(2000, size=words))

    tools = [
        tool(f"Group{n % 50}.call{n}", f"Group{n % 50}", {}, text(10), [])
        for n in range(max(sizes))
    ]
    queries = [text(5) for _ in range(32)]
    indexes = {n: ToolIndex(tools[:n]) for n in sizes}
    search = {n: partial(index.search, queries) for n, index in indexes.items()}
    build = {n: partial(ToolIndex, tools[:n]) for n in sizes}
    return [
        curve("toolsearcher", "32 searches", "tool", search),
        curve("toolsearcher", "building the index", "tool", build, repeats=3),
    ]


def curves() -> list[Curve]:
    made = (evictions, episodes, prompts, groups, vocabularies, libraries)
    return [each for make in made for each in make()]
