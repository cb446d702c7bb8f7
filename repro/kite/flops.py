"""FLOPs and bytes from the sizes alone: matrix products, a multiply and an add are 2.

Norms, softmax, activations, embedding rows and the optimiser are not counted. Profilers leave out
attention or count it twice (pytorch issues 195460 and 134804), so these formulas are the source
and the counter is held against them (notes, section 5).

`decoder_layers` = 0 is the source or a dense model; with n_D > 0 the Decoder reads only.
`square`: the attention kernel computes the full T x T square, as code with an explicit mask does;
otherwise it skips the masked half.
"""

from repro import accept
from repro.errors import BadParameter
from repro.kite.config import Config


def projections(config: Config, writes: bool) -> int:
    """a: weights of Q and O, and with `writes` of K and V."""
    d = config.width * config.head_size
    return 2 * d * config.heads + 2 * d * config.kv_heads * writes


def ffn(config: Config) -> int:
    """m = g d f."""
    return config.gated * config.width * config.hidden


def attention(config: Config, reads: float) -> float:
    """Scores and values of one query in one layer that reads `reads` keys: 4 h_q d_h reads."""
    return 4 * config.heads * config.head_size * reads


def head(config: Config) -> int:
    """2 d V."""
    return 2 * config.width * config.vocab


def body(config: Config, writes: bool) -> int:
    """One layer for one token without attention: 2 (a + m)."""
    return 2 * (projections(config, writes) + ffn(config))


def forward(config: Config, length: int, decoder_layers: int = 0, square: bool = False) -> float:
    """FLOPs a token of a forward over `length` tokens, all of them through both towers."""
    reads = _mean_reads(length, square)
    towers = config.layers * body(config, True) + decoder_layers * body(config, False)
    both = config.layers + decoder_layers
    return towers + both * attention(config, reads) + head(config)


def training(
    config: Config,
    length: int,
    decoder_layers: int = 0,
    square: bool = False,
    frozen: bool = False,
) -> float:
    """FLOPs a token of a training step: the backward pass costs two forwards.

    frozen: no gradient for the Prefiller, nor for the keys and values that the Decoder reads. The
    notes' formula leaves the second part in; a counter does not see it.
    """
    whole_pass = forward(config, length, decoder_layers, square)
    if not frozen:
        return 3 * whole_pass
    if not decoder_layers:
        raise BadParameter("frozen=True is refused; accepted with decoder_layers > 0.")
    upper = whole_pass - prefiller(config, length, square)
    unread = decoder_layers * attention(config, _mean_reads(length, square))
    return whole_pass + 2 * upper - unread


def prefiller(config: Config, length: int, square: bool = False) -> float:
    """FLOPs a token of the first tower alone, without the head."""
    return forward(config, length, 0, square) - head(config)


def prefill(
    config: Config,
    prompt: int,
    decoder_layers: int = 0,
    last_only: bool = True,
    square: bool = False,
) -> float:
    """FLOPs of a prompt. last_only: Decoder and head run at the last position, on all its KV."""
    if not last_only:
        return prompt * forward(config, prompt, decoder_layers, square)
    one = decoder_layers * (body(config, False) + attention(config, prompt)) + head(config)
    return prompt * prefiller(config, prompt, square) + one


def decode(config: Config, context: int, decoder_layers: int = 0) -> float:
    """FLOPs of one generated token that reads `context` keys, its own among them."""
    accept.count("context", context)
    both = config.layers + decoder_layers
    towers = config.layers * body(config, True) + decoder_layers * body(config, False)
    return towers + both * attention(config, context) + head(config)


def kv_bytes(config: Config, size: int = 4) -> int:
    """Bytes of the KV of one token: the Prefiller's layers only."""
    return 2 * config.kv_heads * config.head_size * config.layers * size


def decode_bytes(
    config: Config, context: int, decoder_layers: int = 0, size: int = 4, shared: bool = False
) -> int:
    """Bytes read for one generated token: weights of both towers and the head, and the KV.

    A layer's KV is read by the Prefiller and again by the Decoder, unless one kernel serves both
    (`shared`). So the KV traffic of equal towers is that of the dense model of the same depth.
    """
    towers = config.layers * (projections(config, True) + ffn(config))
    towers += decoder_layers * (projections(config, False) + ffn(config))
    reads = config.layers + (0 if shared else decoder_layers)
    one_layer = 2 * config.kv_heads * config.head_size
    return size * (towers + config.width * config.vocab + reads * one_layer * context)


def steps(budget: float, step: float) -> int:
    """Training steps of `step` FLOPs that come nearest to `budget`.

    Raises BadParameter for a budget below half a step.
    """
    found = round(budget / step)
    if found < 1:
        raise BadParameter(f"budget={budget:g} is refused; accepted: at least {step:g}, one step.")
    return found


def widened(config: Config, per_token: float, length: int) -> Config:
    """`config` with the FFN so wide that a forward costs `per_token` FLOPs, as near as it gets."""
    gap = per_token - forward(config, length)
    unit = 2 * config.layers * config.gated * config.width
    hidden = config.hidden + round(gap / unit)
    return Config(**{**config.__dict__, "hidden": accept.count("hidden", hidden)})


def _mean_reads(length: int, square: bool) -> float:
    accept.count("length", length)
    return length if square else (length + 1) / 2
