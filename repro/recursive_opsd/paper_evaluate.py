"""Average@n on contests: mean accuracy of n sampled answers a problem (not the best of them)."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from repro.recursive_opsd import paper_draws, prompts
from repro.recursive_opsd.paper_config import Config
from repro.recursive_opsd.paper_group import Group
from repro.recursive_opsd.problems import Problem

Judge = Callable[[str, str], str]  # text, gold -> a verdict of `verifier`


def average(
    model: Any,
    tokenizer: Any,
    contests: Sequence[tuple[str, Problem]],
    config: Config,
    wording: prompts.Wording,
    judge: Judge,
    group: Group,
    step: int,
) -> dict[str, Any]:
    """Shares right, by contest and in all; mean tokens; answers cut at the cap; verdicts unknown.

    Ranks take the samples in turn. A sample's stream hangs on seed, step and its own number, so the
    result does not hang on how many ranks there are. Unknown verdicts count as not right.
    """
    samples = config["samples"]
    items = [(at, s) for at in range(len(contests)) for s in range(samples)]
    own = list(range(len(items)))[group.rank :: group.size]
    rows: list[tuple[str, str, int, bool]] = []
    for first in range(0, len(own), config["eval_rows"]):
        part = own[first : first + config["eval_rows"]]
        asked = [contests[items[i][0]] for i in part]
        written = paper_draws.write(
            model,
            tokenizer,
            [prompts.student(tokenizer, problem, wording).ids for _, problem in asked],
            config["eval_most"],
            config["eval_temperature"],
            [((config["seed"] * 1_000_003 + step) * len(items) + i) * 2 + 1 for i in part],
            config["eval_top_p"],
            config["eval_top_k"],
        )
        for (contest, problem), answer in zip(asked, written, strict=True):
            text = tokenizer.decode(answer.ids, skip_special_tokens=True)
            rows.append((contest, judge(text, problem.answer), len(answer), answer.ended))
    return _summary([row for part in group.every(rows) for row in part])


def _summary(rows: list[tuple[str, str, int, bool]]) -> dict[str, Any]:
    right: dict[str, list[bool]] = defaultdict(list)
    for contest, verdict, _, _ in rows:
        right[contest].append(verdict == "right")
    return {
        "accuracy": sum(verdict == "right" for _, verdict, _, _ in rows) / len(rows),
        "by_contest": {name: sum(each) / len(each) for name, each in sorted(right.items())},
        "tokens": sum(size for _, _, size, _ in rows) / len(rows),
        "cut": sum(not ended for *_, ended in rows),
        "unknown": sum(verdict == "unknown" for _, verdict, _, _ in rows),
    }
