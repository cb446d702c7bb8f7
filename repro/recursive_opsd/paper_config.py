"""The paper's own run, value by value, each with where it comes from (arXiv 2609.30652).

Labels: ``paper`` (its text states the value for this model), ``repository`` (public code of OPSD or
of the model), ``our choice`` and ``unknown``. An unknown value stays a visible gap; a stand-in,
marked as such, lets the run go on. A value that a reader sets is labelled ``yours``.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from repro import accept
from repro.errors import BadParameter
from repro.recursive_opsd.arms import Arm, Settings

LABELS = ("paper", "repository", "our choice", "unknown", "yours")
Check = Callable[[str, Any], Any]  # name, value -> the value; raises BadParameter


@dataclass(frozen=True)
class Entry:
    """One value of the run.

    value: what the label's source gives; None for ``unknown``. stand_in: what the run takes where
    the source is silent, with its reason in `note`; None: the run does without it. check: refuses
    bad values; without it the value cannot be set.
    """

    value: Any
    label: str
    note: str = ""
    stand_in: Any = None
    check: Check | None = None

    def __post_init__(self) -> None:
        accept.one_of("label", self.label, LABELS)
        if (self.label == "unknown") != (self.value is None):
            raise BadParameter(
                f"value={self.value!r} with the label {self.label!r} is refused; accepted: a value "
                "with a source, or None as unknown."
            )

    @property
    def used(self) -> Any:
        """What the run takes."""
        return self.stand_in if self.value is None else self.value


def _only(accepted: Any, name: str, value: Any) -> Any:
    """Just `accepted`: the update has no other form of it."""
    if type(value) is not type(accepted) or value != accepted:
        raise BadParameter(f"{name}={value!r} is refused; accepted: {accepted!r} only.")
    return value


def _steps(name: str, value: Any) -> tuple[int, ...]:
    """Rising integers above 0."""
    listed = list(value) if isinstance(value, (list, tuple)) else []
    if not listed or listed != sorted(set(listed)):
        raise BadParameter(f"{name}={value!r} is refused; accepted: rising integers >= 1.")
    return tuple(accept.count(name, each) for each in listed)


def _mass(name: str, value: Any) -> float:
    """In (0, 1]: kept probability mass."""
    if accept.between(name, value, 0, 1, ends=True) == 0:
        raise BadParameter(f"{name}={value!r} is refused; accepted: (0, 1].")
    return float(value)


_COUNT: Check = accept.count
_MAYBE: Check = partial(accept.count, least=0)
_POSITIVE: Check = accept.positive
_FEW: Check = partial(accept.between, low=0, high=1)  # without the ends
_SHARE: Check = partial(accept.between, low=0, high=1, ends=True)
_GEMMA = "the paper states it for Gemma-4-12B only; taken over"
_TABLE = "in the paper's Table 24, which no copy that we read holds; taken:"
_OTHER = "stated for Qwen3-8B; an assumption of the cost only"

ENTRIES: dict[str, Entry] = {
    # model
    "model": Entry("Qwen/Qwen3-4B", "paper", check=partial(_only, "Qwen/Qwen3-4B")),
    "revision": Entry(None, "unknown", "the run notes the hash of the folder it is given"),
    "thinking": Entry(False, "paper", "off on both sides", check=partial(_only, False)),
    "rank": Entry(128, "paper", check=_COUNT),
    "alpha": Entry(256, "our choice", _GEMMA, check=_COUNT),
    "projections": Entry("all seven", "repository", "OPSD's"),
    "precision": Entry("bfloat16, adapter float32", "our choice", "paper: bfloat16; no more said"),
    # update
    "steps": Entry(200, "paper", check=_COUNT),
    "batch": Entry(16, "our choice", f"{_GEMMA}; 3,200 rewrites in 200 steps agree", check=_COUNT),
    "seed": Entry(42, "our choice", _GEMMA, check=_MAYBE),
    "rate": Entry(5e-6, "paper", check=_POSITIVE),
    "cap": Entry(None, "unknown", f"gradient norm, {_TABLE} OPSD's", 0.1, _POSITIVE),
    "weight_decay": Entry(None, "unknown", f"{_TABLE} none", 0.0, partial(_only, 0.0)),
    "warm_up": Entry(None, "unknown", f"{_TABLE} none", 0, partial(_only, 0)),
    "micro": Entry(1, "our choice", "examples in one pass", check=_COUNT),
    # what is sampled and learnt
    "rollouts": Entry(1, "paper", "answers a problem", check=partial(_only, 1)),
    "most": Entry(
        None,
        "unknown",
        "cap on an answer's tokens; the paper's mean source has 1,997",
        2048,
        _COUNT,
    ),
    "temperature": Entry(None, "unknown", f"{_TABLE} OPSD's", 1.1, _POSITIVE),
    "top_p": Entry(None, "unknown", f"{_TABLE} OPSD's", 0.95, _mass),
    "top_k": Entry(None, "unknown", f"{_TABLE} OPSD's", 20, _MAYBE),
    "loss_temperature": Entry(None, "unknown", "on both sides", 1.0, _POSITIVE),
    "divergence": Entry("forward", "paper", check=partial(_only, "forward")),
    "placement": Entry("assistant", "paper", check=partial(_only, "assistant")),
    "teacher": Entry("live", "paper", check=partial(_only, "live")),
    "wording": Entry(None, "unknown", "Appendix N's boxes; this book's words", "paper-1"),
    "lambda_guidance": Entry(5e4, "paper", "not used: its averaging rule is unknown"),
    "lambda_concise": Entry(35.0, "paper", "not used: its averaging rule is unknown"),
    "averaging": Entry(None, "unknown", "the rule behind both lambdas"),
    "share": Entry(0.1, "our choice", "SRCL's part of the summed gradient norms", check=_FEW),
    "least": Entry(32, "paper", "tokens of a rewrite", check=_COUNT),
    "longest": Entry(12_000, "paper", "tokens of a rewrite; `most` ends it before"),
    "second_thoughts": Entry(None, "unknown", "the full list of phrases", "the five named ones"),
    "repetition": Entry(None, "unknown", "the thresholds", "a line or six words at most twice"),
    # data
    "problems": Entry(14_717, "paper", "of OpenThoughts mathematics, OPSD's shard", check=_COUNT),
    # evaluation
    "looks": Entry((10, 20, 30, 50, 100, 150, 200), "paper", "steps evaluated", check=_steps),
    "contests": Entry(120, "paper", "AIME 2024 to 2026, HMMT February 2025", check=_COUNT),
    "samples": Entry(12, "paper", "a problem: Average@12", check=_COUNT),
    "eval_temperature": Entry(1.0, "paper", check=_POSITIVE),
    "eval_top_p": Entry(0.8, "paper", check=_mass),
    "eval_top_k": Entry(0, "paper", "none", check=_MAYBE),
    "eval_most": Entry(32_768, "our choice", "the paper says 32K", check=_COUNT),
    "eval_rows": Entry(12, "our choice", "answers written at once a GPU", check=_COUNT),
    # machine
    "processes": Entry(8, "our choice", "one reader reports eight H100", check=_COUNT),
    "save_every": Entry(10, "our choice", "steps between checkpoints", check=_COUNT),
    "timeout_s": Entry(7200.0, "our choice", "how long a rank waits for another", check=_POSITIVE),
    # assumed for the cost alone
    "question_tokens": Entry(None, "unknown", "mean, with instruction; a guess", 200, _COUNT),
    "solution_tokens": Entry(None, "unknown", "mean, with transition; a guess", 1_000, _COUNT),
    "answer_tokens": Entry(1_997, "our choice", _OTHER, check=_COUNT),
    "shorter": Entry(0.8374, "our choice", f"rewrites, {_OTHER}", check=_SHARE),
    "accepted": Entry(0.7175, "our choice", f"rewrites, {_OTHER}", check=_SHARE),
    "eval_tokens": Entry(17_265, "paper", "mean answer of DCE+SRCL", check=_COUNT),
    "overhead_ms": Entry(25.0, "our choice", "a decoding step; a guess", check=_POSITIVE),
    "utilisation": Entry(0.3, "our choice", "of the peak in passes; a guess", check=_FEW),
    "peak_tflops": Entry(989.0, "our choice", "H100 SXM, bfloat16, data sheet", check=_POSITIVE),
    "bandwidth_tbs": Entry(3.35, "our choice", "H100 SXM, data sheet", check=_POSITIVE),
    "memory_gb": Entry(80.0, "our choice", "H100 SXM, data sheet", check=_POSITIVE),
}


@dataclass(frozen=True)
class Config:
    """The run's entries, checked one by one and together."""

    entries: Mapping[str, Entry] = field(default_factory=lambda: dict(ENTRIES))

    def __post_init__(self) -> None:
        for name, entry in self.entries.items():
            if entry.check is not None:
                entry.check(name, entry.used)
        batch, processes = self["batch"], self["processes"]
        if batch % processes:
            raise BadParameter(
                f"processes={processes!r} is refused; accepted: a divisor of batch={batch}."
            )
        if self["looks"][-1] > self["steps"]:
            raise BadParameter(
                f"looks={self['looks']!r} is refused; accepted: none after steps={self['steps']}."
            )

    def __getitem__(self, name: str) -> Any:
        return self.entries[name].used

    def gaps(self) -> Iterator[tuple[str, Entry]]:
        """What no source states."""
        return ((name, e) for name, e in self.entries.items() if e.label == "unknown")

    def settings(self) -> Settings:
        """What the update takes."""
        names = "rate batch micro most temperature top_p top_k loss_temperature cap least seed"
        return Settings(**{name: self[name] for name in names.split()})

    def arm(self) -> Arm:
        """DCE with SRCL."""
        return Arm(
            concise=self["share"],
            placement=self["placement"],
            schedule=self["teacher"],
            kind=self["divergence"],
        )

    def plain(self) -> dict[str, Any]:
        """Values and labels as plain data, for the run's log."""
        return {
            name: {"used": list(e.used) if isinstance(e.used, tuple) else e.used, "label": e.label}
            for name, e in self.entries.items()
        }


def read(given: Mapping[str, Any] | None = None) -> Config:
    """The paper's run with the values `given` on top.

    Raises BadParameter for an unknown name, one that cannot be set, and a bad value.
    """
    entries = dict(ENTRIES)
    for name, value in (given or {}).items():
        if name not in entries:
            raise BadParameter(f"{name!r} is no value of the run; accepted: {', '.join(entries)}.")
        check = entries[name].check
        if check is None:
            raise BadParameter(f"{name}={value!r} is refused; accepted: nothing, it is no setting.")
        entries[name] = Entry(check(name, value), "yours", entries[name].note, check=check)
    return Config(entries)


def parsed(pairs: Sequence[str]) -> dict[str, Any]:
    """Values by name from ``name=value`` texts; a value is read as JSON, else as text."""
    import json

    found: dict[str, Any] = {}
    for pair in pairs:
        name, sign, text = pair.partition("=")
        if not sign or not name:
            raise BadParameter(f"set={pair!r} is refused; accepted: NAME=VALUE.")
        try:
            found[name] = json.loads(text)
        except json.JSONDecodeError:
            found[name] = text
    return found


def lines(config: Config) -> list[str]:
    """A line a value: name, what the run takes, label, note."""
    shown = [(name, value(entry), entry) for name, entry in config.entries.items()]
    wide, wider = max(len(n) for n, _, _ in shown), max(len(v) for _, v, _ in shown)
    return [f"{n:{wide}}  {v:{wider}}  {e.label:10}  {e.note}".rstrip() for n, v, e in shown]


def value(entry: Entry) -> str:
    """What a reader sees: the value, or the gap with what stands in."""
    if entry.value is not None:
        return str(entry.value)
    return "GAP" if entry.stand_in is None else f"GAP, stands in: {entry.stand_in}"
