"""Checkpoints that are whole or absent, and low-rank adapters that start alike in every arm."""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from repro import accept, files
from repro.errors import ReproError

PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def save(path: Path, state: Mapping[str, Any]) -> None:
    """Write `state` beside `path` and move it there in one step."""
    buffer = io.BytesIO()
    torch.save(dict(state), buffer)
    files.write_atomic(path, buffer.getvalue())


def load(path: Path) -> dict[str, Any]:
    """The state in `path`, tensors and plain values only.

    Raises ReproError for a file that is not there, cut short, or holds code.
    """
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise ReproError(f"checkpoint {path.name} does not exist.") from error
    except Exception as error:  # torch raises many kinds for damaged files
        raise ReproError(f"checkpoint {path.name} cannot be read: it is damaged.") from error


def with_lora(model: Any, rank: int = 8, alpha: int = 16, seed: int = 0) -> Any:
    """`model` inside low-rank adapters on all seven projections, float32, without dropout.

    The adapters start at zero effect, and from the same numbers for one `seed`.
    """
    import peft

    config = peft.LoraConfig(
        r=accept.count("rank", rank),
        lora_alpha=accept.count("alpha", alpha),
        lora_dropout=0.0,
        target_modules=list(PROJECTIONS),
        task_type="CAUSAL_LM",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return peft.get_peft_model(model, config).eval()
