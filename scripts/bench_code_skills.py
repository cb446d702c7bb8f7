"""Slower checks of the skill library: speed against the bare engine, and all 122 offline tasks.

    python scripts/bench_code_skills.py            # both, about two minutes
    python scripts/bench_code_skills.py --speed    # speed alone
    python scripts/bench_code_skills.py --table    # success rates against those of the notes

Speed is given in steps a second of processor time, so that a busy machine does not count, and as a
ratio in the same run. Exit code 1 where a task fails, or where counting, copying and hashing brings
the speed below 3,000 or below 0.9 of what MiniHack's usual environment does by itself.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from statistics import median

from repro.code_skills import study_action_spaces as study
from repro.code_skills import tasks
from repro.code_skills.bot import Bot
from repro.code_skills.engine import Engine, Seed, load
from repro.code_skills.menus import menu
from repro.code_skills.results import EngineFault, Stop
from repro.code_skills.summary import newcombe
from repro.paths import ROOT

TASK, STEPS, ROUNDS = "MiniHack-Room-Random-15x15-v0", 190, 12
KEYS = ("north", "south")


def timed(start: Callable[[], object], step: Callable[[str], object]) -> float:
    """Steps a second of processor time over one episode, without its start."""
    start()
    clock = time.process_time()
    for at in range(STEPS):
        step(KEYS[at % 2])
    return STEPS / (time.process_time() - clock)


def speed() -> bool:
    engine = Engine(TASK, 10**9)
    bare = Engine(TASK, 10**9)  # its environment alone is stepped
    codes = {name: bare._key[bare._names[name]] for name in KEYS}
    usual = load().make(TASK)  # MiniHack as most people make it, with its default observation
    names = [int(key) for key in usual.unwrapped.actions]
    moves = {name: names.index(bare._names[name]) for name in KEYS}

    def restart() -> None:
        usual.unwrapped.seed(5, 5, reseed=False)
        usual.reset()

    hero = Bot(engine, menu("primitives"))
    arms = {
        "gymnasium.make, default observation": (restart, lambda n: usual.step(moves[n])),
        "env.step, our observation": (
            lambda: bare.reset(Seed(5, 5)),
            lambda n: bare._env.step(codes[n]),
        ),
        "counted, copied, hashed": (lambda: engine.reset(Seed(5, 5)), engine.step),
        "the same with the hero's memory": (lambda: hero.start(Seed(5, 5)), hero.call),
    }
    found: dict[str, list[float]] = {name: [] for name in arms}
    for _ in range(ROUNDS):
        for name, (start, step) in arms.items():
            found[name].append(timed(start, step))
    base = median(found["env.step, our observation"])
    for name, values in found.items():
        print(
            f"{name}: {median(values):,.0f} steps/s, {median(values) / base:.0%} of the bare step"
        )
    ours, usual_speed = (median(found[n]) for n in ("counted, copied, hashed", next(iter(arms))))
    return ours >= max(3000, 0.9 * usual_speed)


def every_task() -> list[str]:
    """Construct, seed twice, step: what goes wrong, by task."""
    wrong = []
    for task in tasks.runnable():
        try:
            engine = Engine(task, 20)
            same = [engine.reset(Seed(7, 7)).hash() for _ in range(2)]
            other = engine.reset(Seed(8, 8)).hash()
            if same[0] != same[1] or same[0] == other:
                wrong.append(f"{task}: the seed is not applied")
            for name in ("south", "east", "search", "wait"):
                engine.step(name)
        except Stop:
            pass  # the task may end at once
        except EngineFault as error:
            wrong.append(f"{task}: {error}")
        engine.close()
    return wrong


def table() -> int:
    """Success rates of 20 levels against the notes' (section 7.7); how many cells are apart."""
    golden = json.loads((ROOT / "tests/golden/code_skills.json").read_text())["success_of_20"]
    arms = [tuple(arm.split()) for arm in golden.pop("arms")]
    cells = apart = 0
    for task, theirs in golden.items():
        played = study.play([task], range(1, 21), 64, arms)
        for arm, counts in zip(arms, theirs, strict=True):
            for decisions, count in zip((8, 64), counts, strict=True):
                ours = int(study.wins(played[arm], decisions).sum())
                low, high = newcombe(ours, 20, count, 20)
                cells, far = cells + 1, low > 0 or high < 0
                apart += far
                mark = "  <- apart" if far else ""
                print(f"{task} {' '.join(arm)} D={decisions}: {ours} of 20, notes {count}{mark}")
    print(f"{apart} of {cells} cells lie apart at 95 %; by chance about {cells / 20:.0f} would")
    return apart


def main() -> int:
    it = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    it.add_argument("--speed", action="store_true")
    it.add_argument("--table", action="store_true")
    if it.parse_args().table:
        return int(table() > 6)
    fast = speed()
    if it.parse_args().speed:
        return int(not fast)
    wrong = every_task()
    print(
        f"{len(tasks.runnable()) - len(wrong)} of {len(tasks.runnable())} tasks run",
        *wrong,
        sep="\n",
    )
    return int(bool(wrong) or not fast)


if __name__ == "__main__":
    sys.exit(main())
