"""Checkpoints that are whole or absent, and low-rank adapters that start alike in every arm."""

import hashlib
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from repro import accept, files
from repro.errors import BadParameter, ReproError

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


def with_lora(
    model: Any,
    rank: int = 8,
    alpha: int = 16,
    seed: int = 0,
    layers: int = 0,
    projections: Sequence[str] = PROJECTIONS,
) -> Any:
    """`model` inside low-rank adapters on `projections`, float32, without dropout.

    layers: how many layers from the top have one; 0 for all. The adapters start at zero effect, and
    from the same numbers for one `seed`.
    """
    import peft

    depth = model.config.num_hidden_layers
    if accept.count("layers", layers, least=0) > depth:
        raise BadParameter(f"layers={layers} is refused; accepted: 0 to the model's {depth}.")
    config = peft.LoraConfig(
        r=accept.count("rank", rank),
        lora_alpha=accept.count("alpha", alpha),
        lora_dropout=0.0,
        target_modules=list(projections),
        layers_to_transform=list(range(depth - layers, depth)) if layers else None,
        task_type="CAUSAL_LM",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return peft.get_peft_model(model, config).eval()


def snapshot(model: Any) -> dict[str, Any]:
    """A copy of all trained parameters, by name."""
    return {
        name: p.detach().cpu().clone() for name, p in model.named_parameters() if p.requires_grad
    }


def restore(model: Any, saved: Mapping[str, Any]) -> None:
    """Put a `snapshot` back; raises BadParameter when it is of other parameters."""
    mine = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if mine.keys() != saved.keys():
        raise BadParameter("snapshot of other parameters is refused; accepted: of this model.")
    with torch.no_grad():
        for name, parameter in mine.items():
            parameter.copy_(saved[name])


def moved(start: Mapping[str, Any], end: Mapping[str, Any]) -> float:
    """Euclidean distance of two snapshots: what an optimiser walked, no measure of learning."""
    return sum(float((start[n] - end[n]).double().pow(2).sum()) for n in start) ** 0.5


def fingerprint(saved: Mapping[str, Any]) -> str:
    """Hash of a snapshot's names and values."""
    made = hashlib.sha256()
    for name in sorted(saved):
        made.update(name.encode())
        made.update(saved[name].numpy().tobytes())
    return made.hexdigest()
