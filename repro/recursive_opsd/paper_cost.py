"""What the paper's run would take: computed from the configuration, never measured.

Counted: tokens, floating-point operations, hours and memory of one rank. A pass costs 2 operations
a weight and token; a student's pass with gradient 4 (forward, and back through frozen weights; the
adapter's own gradients are left out); attention adds 4 x layers x heads x width a pair of tokens.
Writing is bound by memory: a step reads all weights, and reads and rewrites the cache of its rows.
Rows that are written together wait for the longest one, which is taken to reach the cap.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from repro.recursive_opsd.paper_config import Config

GIB = 2**30
HALF, FULL = 2, 4  # bytes of bfloat16 and float32


@dataclass(frozen=True)
class Shape:
    """Sizes of a model; the defaults are Qwen3-4B's published config.json (label: repository)."""

    layers: int = 36
    hidden: int = 2560
    heads: int = 32
    groups: int = 8
    head: int = 128
    inner: int = 9728
    vocabulary: int = 151_936

    @property
    def projections(self) -> tuple[tuple[int, int], ...]:
        """(in, out) of a layer's seven matrices."""
        query, key = self.heads * self.head, self.groups * self.head
        wide = ((self.hidden, self.inner),) * 2 + ((self.inner, self.hidden),)
        return ((self.hidden, query), *((self.hidden, key),) * 2, (query, self.hidden), *wide)

    @property
    def output(self) -> int:
        """Weights of the output layer, which is the embedding too."""
        return self.vocabulary * self.hidden

    @property
    def weights(self) -> int:
        """All weights but those of norms."""
        return self.layers * sum(a * b for a, b in self.projections) + self.output

    @property
    def cache_bytes(self) -> int:
        """Keys and values of one token."""
        return 2 * self.layers * self.groups * self.head * HALF

    @property
    def pair(self) -> int:
        """Operations of attention between two tokens, all layers, one pass."""
        return 4 * self.layers * self.heads * self.head

    def adapter(self, rank: int) -> int:
        """Weights of a low-rank adapter on all seven projections."""
        return self.layers * rank * sum(a + b for a, b in self.projections)


QWEN3_4B = Shape()


@dataclass(frozen=True)
class Part:
    """A share of the cost. tokens: of the whole run; operations; hours: of GPUs, summed."""

    name: str
    tokens: float
    operations: float
    hours: float


@dataclass(frozen=True)
class Memory:
    """GiB of one rank: `always` by what takes it, and on top either a pass or an evaluation."""

    always: dict[str, float]
    moments: dict[str, float]
    there: float

    @property
    def peak(self) -> float:
        return sum(self.always.values()) + max(self.moments.values())

    @property
    def fits(self) -> bool:
        return self.peak <= self.there


@dataclass(frozen=True)
class Cost:
    """What is done, what it takes, and on how many GPUs."""

    parts: tuple[Part, ...]
    memory: Memory
    processes: int

    @property
    def hours(self) -> float:
        """GPU hours in all."""
        return sum(part.hours for part in self.parts)

    @property
    def tokens(self) -> float:
        return sum(part.tokens for part in self.parts)

    @property
    def operations(self) -> float:
        return sum(part.operations for part in self.parts)


def of(config: Config, shape: Shape = QWEN3_4B) -> Cost:
    """The cost of the whole run under the assumptions that `config` names."""
    answers, most = config["steps"] * config["batch"], config["most"]
    answer = min(config["answer_tokens"], most)
    rewrite = answer * (1 - config["shorter"])
    question, rows = config["question_tokens"], config["batch"] / config["processes"]
    rich = question + config["solution_tokens"]
    learnt = answers * config["accepted"]
    judged = len(config["looks"]) * config["contests"] * config["samples"]
    judged_tokens = min(config["eval_tokens"], config["eval_most"])
    together = config["eval_rows"]
    write = _Writing(config, shape)
    parts = (
        write.part("answers", answers, question, answer, most, rows),
        write.part("rewrites", answers, question + answer, rewrite, most, rows),
        _passed(config, shape, "teacher", answers, rich, answer, 2),
        _passed(config, shape, "student", answers, question, answer, 4),
        _passed(config, shape, "SRCL", learnt, question, rewrite, 4),
        write.part("evaluation", judged, question, judged_tokens, config["eval_most"], together),
    )
    return Cost(parts, memory(config, shape), config["processes"])


def memory(config: Config, shape: Shape = QWEN3_4B) -> Memory:
    """Of one rank, without what the allocator and the kernels take.

    Logits: six float32 blocks of [answer, vocabulary] live at once (both sides, their logarithms,
    the terms and a gradient). Activations: inputs and outputs of the projections in bfloat16 and
    the adapter's float32 copies, without recomputation. Gradients: of both losses, their sum, and
    the buffer that is reduced.
    """
    adapter = shape.adapter(config["rank"]) * FULL
    answer = config["micro"] * config["most"]
    length = answer + config["micro"] * config["question_tokens"]
    layer = sum((HALF + FULL) * a + HALF * b for a, b in shape.projections)
    activations = length * shape.layers * (layer + 2 * FULL * shape.hidden)
    rows = config["eval_rows"] * (config["eval_most"] + config["question_tokens"])
    always = {
        "frozen weights": shape.weights * HALF,
        "adapter with Adam": 3 * adapter,
        "gradients": 4 * adapter,
    }
    moments = {
        "a pass with gradient": 6 * FULL * answer * shape.vocabulary + activations,
        "an evaluation's cache": rows * shape.cache_bytes,
    }
    return Memory(_gib(always), _gib(moments), config["memory_gb"] * 1e9 / GIB)


def lines(cost: Cost) -> list[str]:
    """The cost as text."""
    head = f"{'part':12} {'million tokens':>15} {'PFLOP':>9} {'GPU hours':>10}"
    whole = Part("all", cost.tokens, cost.operations, cost.hours)
    rows = [
        f"{p.name:12} {p.tokens / 1e6:15,.1f} {p.operations / 1e15:9,.0f} {p.hours:10,.1f}"
        for p in (*cost.parts, whole)
    ]
    held = cost.memory
    sizes = [f"{name:22} {size:6.1f} GiB" for name, size in held.always.items()]
    sizes += [f"{f'or {name}':22} {size:6.1f} GiB" for name, size in held.moments.items()]
    verdict = "fits" if held.fits else "does NOT fit"
    sizes.append(f"{'at most':22} {held.peak:6.1f} GiB of {held.there:.1f}: {verdict}")
    clock = f"{cost.hours / cost.processes:,.1f} hours on {cost.processes} GPUs, if all are busy."
    return [head, *rows, "", clock, "", "Memory of one rank:", *sizes]


@dataclass(frozen=True)
class _Writing:
    """Text that the model writes, a token a step."""

    config: Config
    shape: Shape

    def part(
        self, name: str, count: float, start: float, new: float, cap: float, rows: float
    ) -> Part:
        """`count` texts of `new` tokens behind `start`, `rows` at once, all waiting until `cap`."""
        shape, config, length = self.shape, self.config, start + new
        operations = count * (2 * shape.weights * length + shape.pair * length**2 / 2)
        cache = rows * (start + cap / 2) * shape.cache_bytes  # at the middle of the way
        moved = shape.weights * HALF + 3 * cache  # read for attention; read and written to grow
        step = config["overhead_ms"] / 1e3 + moved / (config["bandwidth_tbs"] * 1e12)
        return Part(name, count * new, operations, count / rows * cap * step / 3600)


def _passed(
    config: Config, shape: Shape, name: str, count: float, start: float, answer: float, each: int
) -> Part:
    """`count` sequences, `each` operations a weight and token; only answers get logits."""
    length = start + answer
    inside = (shape.weights - shape.output) * length + shape.output * answer
    operations = count * (each * inside + each / 2 * shape.pair * length**2 / 2)
    speed = config["peak_tflops"] * 1e12 * config["utilisation"]
    return Part(name, count * length, operations, operations / speed / 3600)


def _gib(sizes: Mapping[str, float]) -> dict[str, float]:
    return {name: size / GIB for name, size in sizes.items()}
