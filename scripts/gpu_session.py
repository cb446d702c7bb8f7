"""Build, check and time the kernels on one GPU, in under eight minutes; write one JSON file.

    python scripts/gpu_session.py --output session.json
    python scripts/gpu_session.py --output s.json --stages ceiling,compaction --seconds 20
    python scripts/gpu_session.py --output s.json --device simulator     # no GPU: correctness alone

Run it from the repository's root, in an environment with a CUDA build of torch. It has never run on
a GPU so far: none of its times exist yet, and what it does on one is checked only as far as the
simulator and stand-ins for torch's timers reach.

Stages, in order: environment, build, right_decode, right_scores, right_compaction (against float64,
in fp32, fp16 and bf16), ceiling (a plain streaming copy), compaction, scores, decode (1 to 128
requests, beside torch and Triton where that is installed), rounds (decoding at the paper's size,
attention only, the full cache against 26 % of it). After each stage the file is replaced in one
step, so what was found before a crash is kept. A stage that fails is recorded with its error and
the next one runs. --seconds is each stage's budget; it is looked at between cases, and cases that
come too late are listed in the file. In the simulator the timing stages are skipped.

The file: device class and versions, one entry a stage (state, error, checks, timings, what was left
out) and ``metrics`` as in the book's records: name, value, unit, direction, split, n.

Exit codes: 0 every stage ran or was skipped, and every check is green; 1 a stage failed or a check
is red (the file says which); 2 wrong arguments, or no GPU (nothing is written).
"""

import argparse
import json
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NO_GPU = (
    "no CUDA GPU that torch can use. Nothing was measured and nothing written. "
    "Correctness without a GPU: --device simulator"
)


def parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], epilog="Exit codes: 0 good, 1 failed, 2 not run."
    )
    parser.add_argument("--output", required=True, type=Path, help="the JSON file to write")
    parser.add_argument("--device", default="auto", help="auto, cuda, cuda:N or simulator")
    parser.add_argument("--stages", default="", help="names separated by commas; default: all")
    parser.add_argument("--seconds", type=float, default=45.0, help="budget of each stage")
    given = parser.parse_args(arguments)
    if not 0 < given.seconds < 1e6:
        parser.error(f"--seconds {given.seconds:g}; accepted: more than 0.")
    if given.output.is_dir() or not given.output.resolve().parent.is_dir():
        parser.error(f"--output {given.output}; accepted: a file in a folder that exists.")
    return given


def main(arguments: list[str]) -> int:
    given = parsed(arguments)
    simulator = given.device == "simulator"
    os.environ["NUMBA_ENABLE_CUDASIM"] = str(int(simulator))  # read when Numba is imported
    sys.path.insert(0, str(ROOT))
    from repro import files, models
    from repro.errors import BadParameter

    try:
        where = models.pick_device("cpu" if simulator else given.device)
    except BadParameter as error:
        print(f"gpu_session: {error} Or: simulator.", file=sys.stderr)
        return 2
    if where.type == "cpu" and not simulator:
        print(f"gpu_session: {NO_GPU}", file=sys.stderr)
        return 2
    from kernels import session, stages

    try:
        chosen = stages.chosen(given.stages)
    except ValueError as error:
        print(f"gpu_session: {error}", file=sys.stderr)
        return 2

    def save(report: dict) -> None:
        files.write_atomic(given.output, json.dumps(report, indent=1, allow_nan=False) + "\n")

    report = session.run(
        chosen, stages.bench(where), given.seconds, save, lambda line: print(line, flush=True)
    )
    return 0 if report["ok"] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
