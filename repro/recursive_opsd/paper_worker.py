"""One rank of the paper's run: ``python -m repro.recursive_opsd.paper_worker REQUEST.json``.

The request is written by `paper_launch`; the rank comes from the environment, so `accelerate
launch` and torchrun start it as well. Ends with 0, with 1 where this rank failed, and with 3 where
it only lost another one.
"""

import json
import os
import sys
import traceback
from functools import partial
from pathlib import Path
from typing import Any

from repro import files
from repro.errors import ReproError

FAILED, LOST = 1, 3
NAMED = ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json")


def rehearse(request: dict[str, Any]) -> None:
    """The tiny run of `paper_rehearsal`."""
    from repro.recursive_opsd import paper_group, paper_rehearsal

    group = paper_group.open_group(request["processes"], request["cpu"], request["timeout_s"])
    paper_rehearsal.play(group, Path(request["out"]), request["fail"])
    paper_group.close_group()


def paper(request: dict[str, Any]) -> None:
    """The paper's run from start, or from its last checkpoint, to its end."""
    from repro.recursive_opsd import (
        gates,
        paper_config,
        paper_data,
        paper_evaluate,
        paper_group,
        paper_run,
        paper_step,
        verifier,
    )

    config = paper_config.read(request["given"])
    out, data = Path(request["out"]), Path(request["data"])
    training = paper_data.training(data, config["problems"])
    contests = paper_data.contests(Path(request["contests"]), config["contests"])
    group = paper_group.open_group(config["processes"], request["cpu"], config["timeout_s"])
    folder = Path(request["model"])
    model, tokenizer = load(folder, config, group.device)
    if group.rank == 0:
        about = {
            "config": config.plain(),
            "model": {n: files.sha256(folder / n) for n in NAMED if (folder / n).is_file()},
            "data": {p.name: files.sha256(p) for p in (data, Path(request["contests"]))},
            "refused_problems": training.refused,
        }
        files.write_atomic(out / "about.json", json.dumps(about, indent=1) + "\n")
    with verifier.Verifier() as judge:

        def places(gold: str) -> gates.Places:
            return gates.box_places(lambda inside: judge.compare(inside, gold))

        def look(step: int) -> dict[str, Any]:
            verdict = partial(judge.judge, box="first")
            return paper_evaluate.average(
                model, tokenizer, contests, config, paper_data.WORDING, verdict, group, step
            )

        run = paper_step.Shared(
            model,
            tokenizer,
            config.arm(),
            config.settings(),
            training.problems,
            paper_data.WORDING,
            places,
            group,
        )
        paper_run.train(run, config["steps"], out, config["save_every"], config["looks"], look)
    paper_group.close_group()


def load(folder: Path, config: Any, device: Any) -> tuple[Any, Any]:
    """The model with its adapter on `device`, and its tokenizer with thinking mode off."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from repro.recursive_opsd import checkpoint, paper_data

    base = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.bfloat16, local_files_only=True
    ).requires_grad_(False)
    model = checkpoint.with_lora(base, config["rank"], config["alpha"], config["seed"]).to(device)
    inner = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    return model, paper_data.ThinkingOff(inner)


def main(path: str) -> int:
    """Do the request in `path`; returns the exit status."""
    request = json.loads(Path(path).read_text())
    from repro.recursive_opsd.paper_group import PeerLost

    try:
        {"paper": paper, "rehearsal": rehearse}[request["kind"]](request)
    except PeerLost as error:
        print(error, file=sys.stderr)
        return LOST
    except ReproError as error:
        print(error, file=sys.stderr)
        return FAILED
    except Exception:
        traceback.print_exc()
        return FAILED
    return 0


if __name__ == "__main__":
    status = main(sys.argv[1])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # leaving a group whose other ranks are gone could wait for them
