"""Deliberate faults in the towers, the formulas and serving: mistakes that somebody could make."""

import functools

import torch

from repro.faults import Fault

_MODEL, _ROWS, _FLOPS = "repro.kite.model:", "repro.kite.rows:", "repro.kite.flops:"


def _decoder_writes(original):
    """After the second tower ran, the last layer's values carry its stream."""

    @functools.wraps(original)
    def decode(self, e, h, past, length, positions, seen):
        z = original(self, e, h, past, length, positions, seen)
        if self.decoder and z.shape[1] == length:
            source = self.layer_map[-1]
            wide = past.values[source].shape[1] * past.values[source].shape[3]
            own = z[..., :wide].unflatten(-1, (past.values[source].shape[1], -1)).transpose(1, 2)
            past.values[source] = past.values[source] + own
        return z

    return decode


def _aliased(original):
    """The Decoder takes the Prefiller's own parameters."""

    def copy_block(source, target):
        for name in ("attention_norm", "ffn_norm", "query", "out", "ffn"):
            setattr(target, name, getattr(source, name))

    return copy_block


def _no_own_token(original):
    def visible(positions, length):
        return original(positions - (positions > 0).long(), length)

    return visible


FAULTS = {
    "decoder_writes_kv": Fault(
        "the Decoder adds its own stream to the cached values",
        _MODEL + "SST.decode",
        _decoder_writes,
    ),
    "layer_map_shifted": Fault(
        "each Decoder layer reads the KV of the layer after its own",
        _MODEL + "source_layer",
        lambda original: lambda layer_map, layer: layer_map[(layer + 1) % len(layer_map)],
    ),
    "logits_off_by_one": Fault(
        "the kept logits are those of one position earlier",
        _ROWS + "last",
        lambda original: (
            lambda new, keep: [[max(0, t - 1) for t in row] for row in original(new, keep)]
        ),
    ),
    "row_index_off_by_one": Fault(
        "a row index names the column before the one meant",
        _ROWS + "grid",
        lambda original: (
            lambda index, new: original(
                torch.stack([index[:, 0], (index[:, 1] - 1).clamp(min=0)], 1), new
            )
        ),
    ),
    "padded_positions": Fault(
        "the next position is taken from the longest row instead of each row's own count",
        _ROWS + "starts",
        lambda original: lambda rows, new, device: original([max(rows)] * len(rows), new, device),
    ),
    "own_token_unread": Fault(
        "a query does not read the key of its own position",
        _ROWS + "visible",
        _no_own_token,
    ),
    "junction_without_embedding": Fault(
        "the Decoder starts from the Prefiller's output alone",
        _MODEL + "junction",
        lambda original: lambda e, h: original(torch.zeros_like(e), h),
    ),
    "copies_share_weights": Fault(
        "copied blocks are the Prefiller's own parameters",
        _MODEL + "copy_block",
        _aliased,
    ),
    "second_expansion": Fault(
        "a grown model may be grown again",
        _MODEL + "refuse_second",
        lambda original: lambda model: None,
    ),
    "scores_from_last_only": Fault(
        "prompt log-probs are not refused where the prompt has no logits",
        "repro.kite.serve:refuse_prompt_logprobs",
        lambda original: lambda last_only: None,
    ),
    "flops_without_attention": Fault(
        "scores and values of attention are not counted",
        _FLOPS + "attention",
        lambda original: lambda config, reads: 0,
    ),
    "decoder_projects_kv": Fault(
        "the FLOPs of a Decoder layer include W_K and W_V",
        _FLOPS + "projections",
        lambda original: lambda config, writes: original(config, True),
    ),
    "kv_of_both_towers": Fault(
        "the KV bytes count the Decoder's layers too",
        _FLOPS + "kv_bytes",
        lambda original: lambda config, size=4: 2 * original(config, size),
    ),
    "break_even_per_token": Fault(
        "the break-even share divides by both towers instead of the Decoder",
        "repro.kite.cost:break_even",
        lambda original: (
            lambda active, prefiller, decoder: (active - prefiller) / (prefiller + decoder)
        ),
    ),
}
