"""Write tests/golden/kvpress.npz: what kvpress keeps of small random caches.

kvpress (NVIDIA/kvpress, Apache-2.0) wants an older transformers than this book, so this script
runs in an environment of its own, from the repository's root::

    python3.11 -m venv ENV
    ENV/bin/pip install torch==2.13.0 kvpress==0.5.4
    ENV/bin/python scripts/kvpress_golden.py tests/golden/kvpress.npz

ENV is a folder outside the repository. Only numbers are kept: the rotated queries and keys of one
random attention layer, the scores that kvpress gives them, and the entries that it keeps at several
budgets. `tests/actkv/test_kvpress.py` reads them and needs neither kvpress nor a network.

One case holds, under ``<case>/``: ``queries`` [H_q, S, d], ``keys`` [H_k, S, d] (fp32, rotated),
``<press>/scores`` [H_k, S] and ``<press>/<budget>`` [H_k, budget], kept entries, rising.
"""

import importlib.metadata
import sys
from typing import Any

import numpy as np
import torch
from kvpress import ObservedAttentionPress, SnapKVPress, StreamingLLMPress, TOVAPress
from kvpress.utils import get_prerope_query_states
from transformers.models.llama.modeling_llama import (
    LlamaAttention,
    LlamaConfig,
    LlamaRotaryEmbedding,
    apply_rotary_pos_emb,
)

HEADS, KV_HEADS, WIDTH = 9, 3, 16
CASES = {"a": (0, 128), "b": (1, 192)}  # seed, entries S
BUDGETS = (24, 48, 90, 120)
PRESSES = {
    "streaming": lambda ratio: StreamingLLMPress(ratio, n_sink=4),
    "snapkv16": lambda ratio: SnapKVPress(ratio, window_size=16, kernel_size=5),
    "snapkv64": lambda ratio: SnapKVPress(ratio, window_size=64, kernel_size=5),
    "tova": lambda ratio: TOVAPress(ratio),
    "observed": lambda ratio: ObservedAttentionPress(ratio),
}
LEAST = {"snapkv16": 16, "snapkv64": 64}  # a budget below the window has no meaning


def layer(seed: int, length: int) -> tuple[Any, ...]:
    """A random attention layer and one sequence through it, as kvpress sees them."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        hidden_size=HEADS * WIDTH,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        head_dim=WIDTH,
        attn_implementation="eager",
    )
    module = LlamaAttention(config, 0)
    for each in (module.q_proj, module.k_proj):  # attention that has something to choose from
        torch.nn.init.normal_(each.weight, std=1.2 / config.hidden_size**0.5)
    hidden = torch.randn(1, length, config.hidden_size)
    position = LlamaRotaryEmbedding(config)(hidden, torch.arange(length)[None])
    queries = get_prerope_query_states(module, hidden)
    keys = module.k_proj(hidden).view(1, length, KV_HEADS, WIDTH).transpose(1, 2)
    queries, keys = apply_rotary_pos_emb(queries, keys, *position)
    mask = torch.full((length, length), -torch.inf).triu(1)[None, None]
    _, attentions = module(hidden, position, mask)
    return module, hidden, queries, keys, attentions, {"position_embeddings": position}


def kept(press: Any, given: tuple[Any, ...], length: int) -> np.ndarray:
    """Entries [H_k, n] that `compress` leaves: the values it is given are the entries' numbers."""
    module, hidden, _, keys, attentions, options = given
    numbers = torch.arange(length, dtype=torch.float32)[None, None, :, None]
    numbers = numbers.expand(1, KV_HEADS, length, WIDTH)
    _, values = press.compress(module, hidden, keys, numbers, attentions, options)
    return np.sort(values[0, ..., 0].numpy().astype(np.int16), axis=1)


@torch.inference_mode()
def main(target: str) -> None:
    found: dict[str, Any] = {}
    for case, (seed, length) in CASES.items():
        given = layer(seed, length)
        module, hidden, queries, keys, attentions, options = given
        found |= {f"{case}/queries": queries[0].numpy(), f"{case}/keys": keys[0].numpy()}
        for name, make in PRESSES.items():
            for budget in BUDGETS:
                if budget < LEAST.get(name, 1):
                    continue
                press = make(1 - (budget + 0.5) / length)  # kvpress rounds S (1 - ratio) down
                scores = press.score(module, hidden, keys, keys, attentions, options)[0]
                found[f"{case}/{name}/{budget}"] = kept(press, given, length)
                if name.startswith(("snapkv", "tova")):  # kvpress's other way to the same scores
                    again = press.score(module, hidden, keys, keys, None, options)[0]
                    torch.testing.assert_close(again, scores, atol=1e-6, rtol=1e-5)
            if name != "streaming":  # its scores only say in or out
                found[f"{case}/{name}/scores"] = scores.numpy()
    versions = [
        f"{n} {importlib.metadata.version(n)}" for n in ("kvpress", "transformers", "torch")
    ]
    found["versions"] = np.array(versions)
    np.savez_compressed(target, **found)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: kvpress_golden.py TARGET.npz")
    main(sys.argv[1])
