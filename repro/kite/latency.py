"""Least times on a GPU, and what a measured ratio may be: nothing here is timed.

A group of L layers takes

    t = max(FLOPs / (0.5 F),  bytes / (0.8 W),  L κτ)

with peak F and bandwidth W of the card; 0.5, 0.8 and the launches a layer are assumed (notes on
arXiv 2609.27294, section 8). The Prefiller, the Decoder and the head are groups of their own, one
after the other. κτ is what the host needs to launch a layer's kernels: 0 is the ideal.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import median, quantiles

from repro import accept
from repro.errors import BadParameter
from repro.kite import flops
from repro.kite.config import Config
from repro.paths import ROOT

EAGER, GRAPH = 20 * 12e-6, 12 * 2.5e-6  # seconds a layer: kernels x launch, plain and replayed
COMPUTE, MEMORY = 0.5, 0.8  # shares of the peaks that are reached


@dataclass(frozen=True)
class Card:
    """Nominal peaks of a GPU: dense bf16 FLOP/s and bytes/s."""

    tensor: float
    bandwidth: float


def cards() -> dict[str, Card]:
    """The cards of the notes, figures as in `kernels.traffic`."""
    if str(ROOT) not in sys.path:  # Jupyter starts elsewhere, and `kernels` lies there
        sys.path.append(str(ROOT))
    from kernels.traffic import DEVICES

    return {n: Card(DEVICES[n].tensor, DEVICES[n].bandwidth) for n in ("A30", "A100-80", "H200")}


def deep(config: Config, decoder_layers: int) -> Config:
    """The dense model of the same depth: every layer as in `config`, n_P + n_D of them."""
    return Config(**{**config.__dict__, "layers": config.layers + decoder_layers})


def group(work: float, moved: float, layers: int, card: Card, per_layer: float) -> float:
    """Seconds of `layers` that need `work` FLOPs and `moved` bytes together."""
    launched = layers * per_layer
    return max(work / (COMPUTE * card.tensor), moved / (MEMORY * card.bandwidth), launched)


def prefill(
    config: Config,
    prompt: int,
    card: Card,
    decoder_layers: int = 0,
    per_layer: float = 0.0,
    size: int = 2,
) -> float:
    """Seconds of a prompt, batch 1, Decoder and head at its last position; `size` bytes a number.

    decoder_layers = 0 is a dense model of `config.layers`.
    """
    every = prompt * flops.prefiller(config, prompt)
    found = group(every, _moved(config, True, prompt, size), config.layers, card, per_layer)
    return found + _one(config, prompt, card, decoder_layers, per_layer, size)


def decode(
    config: Config,
    context: int,
    card: Card,
    decoder_layers: int = 0,
    per_layer: float = 0.0,
    size: int = 2,
) -> float:
    """Seconds of one token that reads `context` cached ones, batch 1."""
    work = config.layers * (flops.body(config, True) + flops.attention(config, context))
    found = group(work, _moved(config, True, context, size), config.layers, card, per_layer)
    return found + _one(config, context, card, decoder_layers, per_layer, size)


def _one(config: Config, reads: int, card: Card, layers: int, per_layer: float, size: int) -> float:
    """Seconds of the Decoder and of the head at one position."""
    work = layers * (flops.body(config, False) + flops.attention(config, reads))
    moved = layers * _moved(config, False, reads, size) / config.layers
    head = group(flops.head(config), size * config.width * config.vocab, 0, card, 0.0)
    return group(work, moved, layers, card, per_layer) + head


def _moved(config: Config, writes: bool, tokens: int, size: int) -> float:
    """Bytes of `config.layers` layers: the weights, and the keys and values of `tokens`."""
    weights = flops.body(config, writes) // 2
    return config.layers * size * (weights + 2 * config.kv_heads * config.head_size * tokens)


def ratio(
    config: Config, tokens: int, card: Card, per_layer: float = 0.0, what: str = "prefill"
) -> float:
    """Dense over two equal towers: seconds of a prompt ("prefill") or of one token ("decode")."""
    time = {"prefill": prefill, "decode": decode}[accept.one_of("what", what, _WHAT)]
    n = config.layers
    dense = time(deep(config, n), tokens, card, 0, per_layer)
    return dense / time(config, tokens, card, n, per_layer)


_WHAT = ("prefill", "decode")


def ideal(config: Config, tokens: int, what: str = "prefill") -> float:
    """The same ratio of FLOPs alone: what a machine reaches where nothing else costs time."""
    work = {"prefill": flops.prefill, "decode": flops.decode}[accept.one_of("what", what, _WHAT)]
    n = config.layers
    return work(deep(config, n), tokens) / work(config, tokens, n)


def predicted_sizes() -> list[tuple[Config, int]]:
    """Towers and prompts for which the notes predict a ratio (section 8); FFN and vocabulary are
    not named there and were chosen so that the predictions come out.
    """
    shapes = {
        (32, 2): dict(heads=1, kv_heads=1, hidden=88, vocab=256),
        (512, 4): dict(heads=8, kv_heads=8, hidden=1408, vocab=32_000),
        (1024, 8): dict(heads=16, kv_heads=4, hidden=2816, vocab=32_000),
        (2048, 12): dict(heads=32, kv_heads=8, hidden=5632, vocab=32_000),
        (4096, 16): dict(heads=32, kv_heads=8, hidden=14_336, vocab=128_256),
    }
    prompts = (256,), (2048, 32_768), (2048, 8192), (2048, 8192), (256, 2048)
    return [
        (Config(width=width, layers=layers, **rest), prompt)
        for ((width, layers), rest), each in zip(shapes.items(), prompts, strict=True)
        for prompt in each
    ]


def least_prompt(width: int, card: Card, per_layer: float) -> float:
    """Tokens above which a dense layer of 24 S d^2 FLOPs takes longer than its launches."""
    return per_layer * COMPUTE * card.tensor / 24 / accept.count("width", width) ** 2


def least_width(card: Card, per_layer: float) -> float:
    """Width above which one token's 24 d^2 bytes of a layer take longer to read than to launch."""
    return sqrt(per_layer * MEMORY * card.bandwidth / 24)


def even_prompt(card: Card) -> float:
    """Prompt at which reading the Decoder's weights costs what its FLOPs at all tokens would."""
    return COMPUTE * card.tensor / (MEMORY * card.bandwidth)


def impossible(seconds: float, work: float, peak: float) -> bool:
    """Whether a time is shorter than `work` FLOPs need at `peak` FLOP/s: nothing was waited for."""
    return accept.positive("seconds", seconds) < work / accept.positive("peak", peak)


@dataclass(frozen=True)
class Verdict:
    """What repeats of a ratio say. Prompts are told by their length.

    above: every repeat exceeds the ideal, an error. over: the median does and not every repeat,
    noise. falls: every repeat is below every one of the next shorter prompt, an error. nearer: the
    longest prompt's median is nearer to the limit than the shortest's.
    """

    above: tuple[int, ...]
    over: tuple[int, ...]
    falls: tuple[int, ...]
    nearer: bool

    @property
    def error(self) -> bool:
        return bool(self.above or self.falls) or not self.nearer

    def __str__(self) -> str:
        said = [f"above its ideal in every repeat at {s:,} tokens" for s in self.above]
        said += [f"lower at {s:,} tokens than at the length before" for s in self.falls]
        if not self.nearer:
            said.append("no nearer to the limit at the longest prompt than at the shortest")
        if said:
            return "**an error**: dense / SST is " + "; ".join(said) + "."
        spread = f" The median is, within its range, at {_list(self.over)}." if self.over else ""
        least, most = "dense / SST grows towards the limit", "above its ideal in every repeat"
        return f"{least}; {most} it is at no prompt.{spread}"


def judge(
    ratios: Mapping[int, Sequence[float]], ideals: Mapping[int, float], limit: float
) -> Verdict:
    """Does dense / SST grow with the prompt towards `limit`, never above its ideal?

    ratios: prompt -> paired ratios, one a repeat. Raises BadParameter for fewer than two prompts.
    """
    lengths = sorted(ratios)
    if len(lengths) < 2 or any(not len(ratios[s]) for s in lengths):
        raise BadParameter(f"ratios of {lengths} are refused; accepted: two prompts or more.")
    above = tuple(s for s in lengths if min(ratios[s]) > ideals[s])
    over = tuple(s for s in lengths if median(ratios[s]) > ideals[s] and s not in above)
    pairs = zip(lengths, lengths[1:], strict=False)
    falls = tuple(long for short, long in pairs if max(ratios[long]) < min(ratios[short]))
    gaps = [limit - median(ratios[s]) for s in (lengths[0], lengths[-1])]
    return Verdict(above, over, falls, gaps[1] < gaps[0])


def read_decode(ratios: Sequence[float], ideal: float, operations: float) -> str:
    """What repeats of a decode ratio, dense / SST, say; errors need every repeat, as in `judge`.

    operations: the ratio of the operations that both launch, which decides where launching takes
    all the time. A gain above both, or a loss, is an error of the benchmark.
    """
    most, low = max(ideal, operations), quantiles(ratios, n=4, method="inclusive")[0]
    if max(ratios) < 1:
        return "**an error**: dense is quicker"
    if min(ratios) > most:
        return "**an error**: a gain"
    if low > ideal:
        return "bound by launches" if low <= most else "above both, not in every repeat"
    return "even"


def _list(prompts: Sequence[int]) -> str:
    return ", ".join(f"{s:,} tokens" for s in prompts)
