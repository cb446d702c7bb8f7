"""What the kernels notebook calls around `kernels`: where to launch, the source, small cases.

Whether kernels run on a GPU or in the simulator is fixed when Numba is imported, so `choose` comes
first and everything here imports `kernels` late. A planted fault can make a plan that cannot be
carried out; the cases then say so instead of raising, and a check turns red.
"""

import os
import re
import sys
from collections import Counter
from contextlib import contextmanager
from math import ceil
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np

from repro import models
from repro.actkv import study_plans
from repro.errors import BadParameter
from repro.paths import ROOT

DTYPES = ("float32", "float16", "bfloat16")
PTX_KINDS = (("ld", True), ("ld", False), ("st", True), ("st", False))


def choose(device: str) -> Any:
    """The ``torch.device`` for kernels; on a CPU, turns the simulator on. Call before `kernels`.

    Also makes `kernels` importable from any folder.

    Raises BadParameter for a device that is not here, or when Numba has started the other way.
    """
    where = models.pick_device(device)
    wanted = where.type == "cpu"
    if "numba" in sys.modules:
        from numba import config

        if bool(config.ENABLE_CUDASIM) != wanted:
            raise BadParameter(f"device={device!r} comes too late; accepted: in a fresh process.")
    os.environ["NUMBA_ENABLE_CUDASIM"] = str(int(wanted))
    if (
        str(ROOT) not in sys.path
    ):  # Jupyter starts in the notebook's folder, and `kernels` lies here
        sys.path.append(str(ROOT))
    return where


def source(file: str, span: str) -> str:
    """Markdown of the lines of `file` between ``# begin: span`` and ``# end: span``.

    So a page shows the code that is tested. Raises ValueError when there is no such span.
    """
    text = (ROOT / file).read_text("utf-8")
    found = re.search(
        rf"^# begin: {re.escape(span)}\n(.*?)^# end: {re.escape(span)}$", text, re.M | re.S
    )
    if not found:
        raise ValueError(f"span={span!r} is not in {file}; accepted: a marked span.")
    return f"`{file}`, `{span}`:\n\n```python\n{found[1].strip()}\n```"


def row_sums(seed: int) -> dict[str, float]:
    """Sum of one recovered row (no grouping) when the log-sum-exp is right, and when it is not."""
    from kernels import paged_decode, paged_scores

    rng = np.random.default_rng(seed)
    keys, queries = rng.normal(size=(6, 4, 1, 8)), rng.normal(size=(1, 1, 8))
    table, length = rng.permutation(6)[None, :5], np.array([18])

    def total(lse, scale=None):
        out = np.zeros((1, 1, 20))
        given = (out, queries[:, None], lse[:, None], keys, table, length[:, None], np.zeros(1))
        return paged_scores.recover_reference(*given, scale).sum()

    def lse(lengths=length):
        return paged_decode.decode_reference(queries, keys, keys, table, lengths)[1]

    return {
        "as the attention had it": total(lse()),
        "log-sum-exp in bits": total(lse() / np.log(2)),
        "log-sum-exp without the token's own slot": total(lse(length - 1)),
        "another scale": total(lse(), 0.5),
    }


def attention_case(seed: int, dtype: str, where: Any, block_size: int, actions: int = 2) -> dict:
    """Decode `actions` tokens of two ragged requests, then recover their scores, by kernels.

    Returns the largest distance to float64 of output, log-sum-exp, scores token by token and in
    one pass; and, in the simulator, how many bytes of keys the one pass read and the formula.
    """
    import torch

    from kernels import paged_decode, paged_scores, traffic

    rng, g = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
    shape = traffic.Geometry(4, 2, 16, layers=1, bytes=getattr(torch, dtype).itemsize)
    visible = rng.integers(40, 80, (2, 1)) + np.arange(actions)
    width = ceil(visible.max() / block_size)
    table = torch.from_numpy(rng.permutation(2 * width + 2)[: 2 * width].reshape(2, width))
    pool = torch.randn(2, 2 * width + 2, block_size, shape.heads, shape.dim, generator=g)
    keys, values = pool.to(where, getattr(torch, dtype))
    queries = torch.randn(2, actions, shape.q_heads, shape.dim, generator=g).to(keys)
    table, visible = table.to(where), torch.from_numpy(visible).to(where)
    steps = torch.zeros(2, shape.heads, width * block_size, device=where)
    once, expected, lses, wanted = steps.clone(), steps.cpu().double().numpy(), [], []
    worst = Counter()
    for i in range(actions):
        args = (queries[:, i], keys, values, table, visible[:, i])
        out, lse = paged_decode.decode(*args, chunk=64)
        right, known = paged_decode.decode_reference(*args)
        one = (queries[:, i : i + 1], keys, table, visible[:, i : i + 1], torch.full((2,), i))
        q, k, t, seen, folded = (x.to(where) for x in one)
        paged_scores.recover_(steps, q, lse[:, None], k, t, seen, folded)
        expected = paged_scores.recover_reference(expected, q, known[:, None], k, t, seen, folded)
        lses.append(lse), wanted.append(known)
        for name, a, b in (("output", out, right), ("log-sum-exp", lse, known)):
            worst[name] = max(worst[name], _apart(a, b))
    none = torch.zeros(2, dtype=torch.int32, device=where)
    with _counting(paged_scores) as count:
        paged_scores.recover_(once, queries, torch.stack(lses, 1), keys, table, visible, none)
    worst["scores, one by one"], worst["scores, one pass"] = (
        _apart(x, expected) for x in (steps, once)
    )
    read = [n for (words, _), n in count.loads.items() if words == keys.numel() * shape.bytes // 4]
    counted = 16 * sum(read) if where.type == "cpu" else None
    return {**worst, "read": counted, "formula": int(visible.amax(1).sum()) * shape.row // 2}


def compaction_case(seed: int, dtype: str, where: Any, block_size: int) -> dict:
    """Compact two ragged requests in three layers that keep different slots, in one launch.

    Returns moved rows, whether every byte equals the reference, and, in the simulator, the bytes
    counted beside those of the formula.
    """
    import torch

    from kernels import compaction, plan, traffic

    rng = np.random.default_rng(seed)
    shape = traffic.Geometry(2, 2, 16, layers=3, bytes=getattr(torch, dtype).itemsize)
    lengths = rng.integers(3 * block_size + 1, 5 * block_size + 1, 2)
    tables, plans = rng.permutation(12)[:10].reshape(2, 5), []
    for length in lengths:
        kept = [
            study_plans.draw_keep(rng, length - block_size, length // 2, "random") for _ in range(3)
        ]
        full = [np.concatenate([np.ones(block_size, bool), behind]) for behind in kept]
        plans.append([plan.plan(keep, length, block_size, 1) for keep in full])
    size = (3, 2, 12, block_size, 2, 16)
    cache = torch.from_numpy(rng.integers(0, 200, size)).to(where, getattr(torch, dtype))
    expected, problem = cache.cpu().clone(), ""
    try:
        with _counting(compaction) as seen:
            compaction.compact_(cache, tables, plans)
        compaction.compact_reference(expected, tables, plans)
    except ValueError as error:
        problem = str(error)
    moved = sum(len(p.src) for layers in plans for p in layers)
    counted = 16 * (sum(seen.loads.values()) + sum(seen.stores.values())) + seen.index
    return {
        "moved": moved,
        "equal": not problem and torch.equal(cache.cpu(), expected),
        "counted": counted if where.type == "cpu" else None,
        "launches": seen.launches,
        "formula": traffic.compaction(moved, shape),
        "problem": problem,
    }


def ptx_table(report: dict) -> tuple[list[str], list[list]]:
    """Head and rows of a table from `kernels.ptx.report`: one row a kernel and target."""
    head = ["kernel", "target", "16-byte loads", "other loads", "16-byte stores", "other stores"]
    head, rows = [*head, "registers", "spilled bytes", "shared bytes"], []
    for name, targets in report["kernels"].items():
        for target, entry in targets.items():
            counts = [_global(entry, *kind) for kind in PTX_KINDS]
            spilled = entry.get("spill_stores", 0) + entry.get("spill_loads", 0)
            known = (
                [entry["registers"], spilled, entry["shared"]] if "shared" in entry else ["?"] * 3
            )
            rows.append([f"`{name}`", target, *counts, *known])
    return head, rows


def wide(report: dict) -> bool:
    """Whether copies store only 16 bytes at a time, keys are loaded so, and nothing spills."""
    good = []
    for name, targets in report["kernels"].items():
        for entry in targets.values():
            wide_loads, _, wide_stores, stores = (_global(entry, *kind) for kind in PTX_KINDS)
            local = [i for i in entry["instructions"] if ".local" in i]
            good.append(not local and not entry.get("spill_stores") and not entry.get("stack"))
            good.append(wide_loads > 0 or name == "combine")
            good.append(name not in ("copy_rows", "stream") or (wide_stores > 0 and not stores))
    return all(good)


def _global(entry: dict, kind: str, is_wide: bool) -> int:
    found = entry["instructions"].items()
    return sum(n for i, n in found if i.startswith(f"{kind}.global") and (".v4." in i) is is_wide)


@contextmanager
def _counting(module: Any) -> Any:
    """Counts the launches of `module`; in the simulator also its 16-byte loads and stores."""
    from kernels.vector16 import SIMULATED

    seen = SimpleNamespace(loads=Counter(), stores=Counter(), index=0, launches=0)
    plain = {n: getattr(module, n, None) for n in ("load_global", "store_global", "launch")}

    def load(array, at):
        seen.loads[array.size, int(at)] += 1
        return plain["load_global"](array, at)

    def store(array, at, values):
        seen.stores[array.size, int(at)] += 1
        plain["store_global"](array, at, values)

    def launch(*args):
        seen.launches += 1
        seen.index += sum(x.nbytes for x in args if str(getattr(x, "dtype", "")) == "torch.int64")
        plain["launch"](*args)

    counted = {"load_global": load, "store_global": store} if SIMULATED else {}
    counted = {n: f for n, f in counted.items() if plain[n]} | {"launch": launch}
    with mock.patch.multiple(module, **counted):
        yield seen


def _apart(found: Any, expected: np.ndarray) -> float:
    return float(np.abs(found.cpu().numpy() - expected).max())
