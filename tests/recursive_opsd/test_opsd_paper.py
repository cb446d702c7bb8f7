"""The paper's run: its configuration, its cost, and its wiring on two CPU ranks of a tiny model.

Two processes are started once for all checks of the wiring; the watching of ranks is tested with
processes that import nothing.
"""

import json
import os
import signal
import sys
import time

import pytest
import tiny_qwen3
import torch
from click.testing import CliRunner

from repro.errors import BadParameter, ReproError
from repro.recursive_opsd import (
    checkpoint,
    paper_config,
    paper_cost,
    paper_data,
    paper_draws,
    paper_evaluate,
    paper_launch,
    paper_page,
    paper_rehearsal,
    paper_run,
    paper_watch,
    paper_worker,
    toy,
)
from repro.recursive_opsd.paper_group import Group, PeerLost

CONFIG = paper_config.read()


def call(*arguments):
    return CliRunner().invoke(paper_launch.command, [str(a) for a in arguments])


# ---- configuration


def test_every_value_has_a_source_and_gaps_are_visible():
    for name, entry in CONFIG.entries.items():
        assert (entry.value is None) == (entry.label == "unknown"), name
    gaps = dict(CONFIG.gaps())
    assert {"revision", "averaging", "cap", "warm_up", "most", "temperature", "wording"} <= set(
        gaps
    )
    text = "\n".join(paper_config.lines(CONFIG))
    assert text.count("GAP") == len(gaps)
    with pytest.raises(BadParameter, match="accepted: a value with a source, or None as unknown"):
        paper_config.Entry(None, "paper")


def test_the_papers_own_numbers():
    """As the paper's text states them (section 4 and Appendix M of arXiv 2609.30652)."""
    stated = {n: e.value for n, e in CONFIG.entries.items() if e.label == "paper"}
    expected = {"rank": 128, "steps": 200, "rate": 5e-6, "least": 32, "problems": 14_717}
    expected |= {"contests": 120, "samples": 12, "eval_temperature": 1.0, "eval_top_p": 0.8}
    assert expected.items() <= stated.items()
    assert stated["looks"] == (10, 20, 30, 50, 100, 150, 200) and not stated["thinking"]
    settings, arm = CONFIG.settings(), CONFIG.arm()
    assert (settings.rate, settings.batch, settings.most, settings.cap) == (5e-6, 16, 2048, 0.1)
    assert (arm.kind, arm.placement, arm.schedule) == ("forward", "assistant", "live")
    assert 0 < arm.concise < 1 and arm.guidance == 1


BAD = [
    ("rate=0", r"rate=0 is refused; accepted: a finite number above 0"),
    ("steps=1.5", r"steps=1.5 is refused; accepted: an integer >= 1"),
    ("top_p=0", r"top_p=0 is refused; accepted: \(0, 1\]"),
    ("share=1", r"share=1 is refused; accepted: \(0, 1\)"),
    ("looks=[20, 10]", r"looks=\[20, 10\] is refused; accepted: rising integers >= 1"),
    ("looks=[300]", r"looks=\(300,\) is refused; accepted: none after steps=200"),
    ("processes=3", r"processes=3 is refused; accepted: a divisor of batch=16"),
    ("thinking=true", r"thinking=True is refused; accepted: False only"),
    ("weight_decay=0.1", r"weight_decay=0.1 is refused; accepted: 0.0 only"),
    ("lambda_guidance=1", r"lambda_guidance=1 is refused; accepted: nothing, it is no setting"),
    ("speed=1", r"'speed' is no value of the run; accepted: model, revision, thinking"),
    ("rate", r"set='rate' is refused; accepted: NAME=VALUE"),
]


@pytest.mark.parametrize(("pair", "says"), BAD, ids=[pair for pair, _ in BAD])
def test_bad_values_name_what_is_accepted(pair, says):
    with pytest.raises(BadParameter, match=says):
        paper_config.read(paper_config.parsed([pair]))


def test_a_readers_value_is_labelled_as_such():
    config = paper_config.read(paper_config.parsed(["most=4096", "looks=[50]"]))
    assert config.entries["most"].label == "yours" and config.settings().most == 4096
    assert config["looks"] == (50,) and "most" not in dict(config.gaps())
    assert json.loads(json.dumps(config.plain()))["looks"] == {"used": [50], "label": "yours"}


# ---- plan and cost


def test_sizes_against_a_real_model_of_that_shape():
    """Counted weights are those of transformers' Llama with the same seven projections."""
    shape = paper_cost.Shape(2, 32, 4, 2, 8, 64, toy.VOCABULARY)
    model = checkpoint.with_lora(toy.model().requires_grad_(False), rank=3, alpha=6)
    adapter = sum(p.numel() for p in model.parameters() if p.requires_grad)
    norms = sum(p.numel() for n, p in model.named_parameters() if "norm" in n)
    frozen = sum(p.numel() for p in model.parameters() if not p.requires_grad)
    assert shape.adapter(3) == adapter and shape.weights == frozen - norms
    assert paper_cost.QWEN3_4B.weights == pytest.approx(4.02e9, rel=0.01)  # its published size


def test_cost_by_hand_and_what_moves_it():
    cost = paper_cost.of(CONFIG)
    parts = {part.name: part for part in cost.parts}
    assert parts["answers"].tokens == 200 * 16 * 1997
    assert parts["evaluation"].tokens == 7 * 120 * 12 * 17_265
    assert parts["teacher"].tokens == 200 * 16 * (200 + 1000 + 1997)
    weights = paper_cost.QWEN3_4B.weights
    assert parts["answers"].operations > 2 * weights * parts["answers"].tokens
    assert cost.memory.fits and cost.memory.peak < cost.memory.there
    fewer = paper_cost.of(paper_config.read({"looks": [200]}))
    assert fewer.hours < cost.hours / 2
    assert not paper_cost.of(paper_config.read({"eval_rows": 24})).memory.fits
    slower = paper_cost.of(paper_config.read({"overhead_ms": 250.0}))
    assert slower.hours > 2 * cost.hours and slower.operations == cost.operations


def test_dry_run_prints_plan_gaps_cost_and_needs_and_writes_nothing(tmp_path):
    said = call("--dry-run", "--out", tmp_path / "run", "--data", tmp_path, "--set", "steps=200")
    assert said.exit_code == 0, said.output
    for part in ("GAP, stands in: 0.1", "GPU hours", "Memory of one rank", "never been executed"):
        assert part in said.output
    assert "data       there" in said.output and "model      not named" in said.output
    assert list(tmp_path.iterdir()) == []


def test_the_page_says_that_nothing_was_run_and_names_every_gap():
    text = paper_page.text()
    assert (
        "eb-gap" in text and "never been executed" in text and "nothing in it is measured" in text
    )
    assert all(f"| `{name}` |" in text for name, _ in CONFIG.gaps())
    assert f"{paper_cost.of(CONFIG).hours:,.1f} |" in text


def test_launcher_refuses_before_it_starts_anything(tmp_path):
    said = call("--model", tmp_path)
    assert said.exit_code == 2 and "--data, --contests, --out is missing" in said.output
    said = call("--rehearse", "--processes", 3)
    assert said.exit_code == 2 and "processes=3 is refused" in said.output
    said = call("--dry-run", "--set", "rate=-1")
    assert said.exit_code == 2 and "rate=-1 is refused" in said.output
    if torch.cuda.device_count() < 8:
        named = [a for n in ("model", "data", "contests", "out") for a in (f"--{n}", tmp_path)]
        said = call(*named)
        assert said.exit_code == 1 and "8 GPUs are needed, one a rank" in said.output


# ---- data


def test_problems_are_read_counted_and_never_cut(tmp_path):
    rows = [
        {"problem": "2+2?", "solution": "So \\boxed{4}."},
        {"problem": "3+3?", "solution": "It is six.", "answer": "6"},
        {"problem": "no answer", "solution": "Nobody knows."},
        {"problem": "says \\boxed{1}", "solution": "\\boxed{1}"},
    ]
    path = tmp_path / "train.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    found = paper_data.training(path, 4)
    assert [p.answer for p in found.problems] == ["4", "6"] and found.refused == 2
    with pytest.raises(
        BadParameter, match="problems=5 is refused with train.jsonl; .* its 4 lines"
    ):
        paper_data.training(path, 5)
    path.write_text('{"problem": "x", "solution": "y"}\n{"problem": "x"}')
    with pytest.raises(ReproError, match="line 2 of train.jsonl lacks the text solution"):
        paper_data.training(path, 2)
    path.write_text("{")
    with pytest.raises(ReproError, match="line 1 of train.jsonl is not JSON"):
        paper_data.training(path, 1)
    with pytest.raises(ReproError, match="none.jsonl does not exist"):
        paper_data.training(tmp_path / "none.jsonl", 1)


def test_thinking_mode_is_off_whoever_asks():
    class Inner(toy.Tokenizer):
        def apply_chat_template(self, messages, **options):
            return f"{options['enable_thinking']}{len(messages)}"

    off = paper_data.ThinkingOff(Inner())
    assert off.apply_chat_template([{}], tokenize=False) == "False1"
    assert off.eos_token_id == toy.END and off("ab")["input_ids"] == Inner()("ab")["input_ids"]


# ---- sampling and evaluation


def test_an_answer_does_not_hang_on_its_neighbours():
    model, rows = toy.model(), [(1, 9, 8), (5,), (7, 7)]
    draw = {"most": 6, "temperature": 1.1, "top_p": 0.95, "top_k": 20}
    whole = paper_draws.write(model, toy.Tokenizer(), rows, seeds=[4, 5, 6], **draw)
    apart = [
        paper_draws.write(model, toy.Tokenizer(), [row], seeds=[seed], **draw)[0]
        for row, seed in zip(rows, (4, 5, 6), strict=True)
    ]
    assert whole == apart
    assert whole != paper_draws.write(model, toy.Tokenizer(), rows, seeds=[7, 8, 9], **draw)
    with pytest.raises(BadParameter, match="2 seeds are refused; accepted: 3, one a row"):
        paper_draws.write(model, toy.Tokenizer(), rows, seeds=[4, 5], **draw)


def test_row_noise_draws_from_the_softmax():
    """5,000 draws from three logits: shares within 4 standard errors of the probabilities."""
    scores = torch.tensor([0.0, 1.0, -1.0])
    noise = paper_draws.RowNoise([3], torch.device("cpu"))
    drawn = [int(noise(torch.zeros(1, 1), scores[None]).argmax()) for _ in range(5_000)]
    shares = torch.bincount(torch.tensor(drawn), minlength=3) / len(drawn)
    wanted = scores.softmax(0)
    assert ((shares - wanted).abs() < 4 * (wanted * (1 - wanted) / len(drawn)).sqrt()).all()


def test_average_is_a_mean_over_samples_and_the_same_for_any_ranks(monkeypatch):
    config = paper_config.read({"samples": 3, "eval_most": 5, "eval_rows": 2, "contests": 2})
    problem = paper_rehearsal.problems()[0]
    contests = [("A", problem), ("B", problem)]
    model, tokens = toy.model(), toy.Tokenizer()
    verdicts = iter(["right", "wrong", "unknown"] * 4)

    def average(group, judge):
        return paper_evaluate.average(
            model, tokens, contests, config, paper_rehearsal.WORDING, judge, group, 10
        )

    found = average(Group(), lambda *_: next(verdicts))
    assert found["accuracy"] == pytest.approx(1 / 3) and found["unknown"] == 2
    assert found["by_contest"] == {"A": pytest.approx(1 / 3), "B": pytest.approx(1 / 3)}

    def by_text(text, _):
        return "right" if len(text) % 2 else "wrong"

    alone = average(Group(), by_text)
    rows = []
    monkeypatch.setattr(Group, "every", lambda self, value: rows.extend(value) or [value])
    for rank in (0, 1):
        average(Group(rank, 2), by_text)
    assert paper_evaluate._summary(rows) == alone


def test_the_whole_run_on_a_tiny_qwen3_from_files(tmp_path, monkeypatch):
    """Everything that a rank of the paper's run does, from a model folder to the evaluation."""
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    tiny_qwen3.save(tmp_path / "model")
    rows = [{"problem": f"{a}+1?", "solution": f"\\boxed{{{a + 1}}}"} for a in range(4)]
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, rows)))
    rows = [{"contest": "AIME", "problem": "5+1?", "answer": "6"}]
    (tmp_path / "contests.jsonl").write_text(json.dumps(*rows))
    given = {"problems": 4, "contests": 1, "samples": 3, "steps": 2, "looks": [1], "batch": 2}
    given |= {"processes": 1, "rank": 2, "alpha": 4, "most": 6, "eval_most": 6, "rate": 1e-3}
    request = {"kind": "paper", "cpu": True, "given": given, "out": str(tmp_path / "out")}
    request |= {"model": str(tmp_path / "model"), "data": str(tmp_path / "train.jsonl")}
    request |= {"contests": str(tmp_path / "contests.jsonl")}
    paper_worker.paper(request)
    log = json.loads((tmp_path / "out" / "history.json").read_text())
    assert [each["step"] for each in log] == [0, 1]
    assert all(each["guidance_loss"] > 0 < each["gradient_norm"] for each in log)
    assert sum(log[0]["reasons"].values()) == 2  # both rewrites were judged
    look = log[0]["look"]
    assert look["by_contest"].keys() == {"AIME"} and 0 < look["tokens"] <= 6
    about = json.loads((tmp_path / "out" / "about.json").read_text())
    assert about["config"]["batch"] == {"used": 2, "label": "yours"}
    assert "config.json" in about["model"] and about["refused_problems"] == 0
    with pytest.raises(BadParameter, match="processes=2 is refused; accepted: the 1 that run"):
        paper_worker.paper(request | {"given": given | {"processes": 2}})
    adapter = checkpoint.load(tmp_path / "out" / "adapter-000001.pt")
    assert all(tensor.dtype == torch.float32 for tensor in adapter.values())
    assert any(tensor.abs().sum() > 0 for name, tensor in adapter.items() if "lora_B" in name)


# ---- two ranks


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory):
    """One launch of two ranks: all jobs of the rehearsal, then one in which rank 1 breaks off."""
    out = tmp_path_factory.mktemp("rehearsal")
    started = time.monotonic()
    said = call("--rehearse", "--fail", "--out", out)
    found = json.loads((out / "verdicts.json").read_text())
    return out, said, {each["name"]: each for each in found}, time.monotonic() - started


@pytest.fixture(scope="module")
def alone():
    """The same run in this process, as one rank."""
    return paper_rehearsal.alone()


@pytest.mark.parametrize("name", ["shared", "resumed"])
def test_two_ranks_equal_one(rehearsed, name):
    """Weights and logs after four updates; resumed: stopped after two, from the checkpoint."""
    found = rehearsed[2][name]
    assert found["good"] and found["weights"] < 1e-5 and found["logs"] < 1e-5


@pytest.mark.parametrize("name", ["unreduced", "unweighted"])
def test_a_broken_reduction_is_caught(rehearsed, name):
    found = rehearsed[2][name]
    assert found["good"] and found["weights"] > 100 * paper_rehearsal.LIMIT


def test_the_comparison_here_finds_the_same(rehearsed, alone):
    """Rank 0 compared; this process compares again with a run of its own."""
    out, _, found, _ = rehearsed
    again = paper_rehearsal.verdicts(out, alone)
    assert [each.name for each in again] == list(found) and all(each.good for each in again)
    log = json.loads((out / "shared" / "history.json").read_text())
    assert [each["step"] for each in log] == [0, 1, 2, 3]
    assert sum(each["dropped"] for each in log) == 2  # the long one, counted on one rank only
    assert all(each["guidance_norm"] > 0 < each["accepted_tokens"] for each in log)


def test_the_failed_rank_is_named_and_nothing_hangs(rehearsed):
    _, said, _, seconds = rehearsed
    assert said.exit_code == 1 and seconds < 60
    assert "rank 1 ended with status 1: RuntimeError: planted" in said.output
    assert "rank 0" not in said.output  # it only lost rank 1


def test_what_a_failed_run_leaves_can_be_resumed(rehearsed, alone, tmp_path):
    """The run in which rank 1 broke off goes on, here with one rank, to the uninterrupted end."""
    out, *_ = rehearsed
    (tmp_path / paper_run.LAST).write_bytes((out / "failing" / paper_run.LAST).read_bytes())
    run = paper_rehearsal.training(Group())
    assert checkpoint.load(tmp_path / paper_run.LAST)["run"]["step"] == 1
    with paper_rehearsal.all_accepted():
        log = paper_run.train(run, paper_rehearsal.UPDATES, tmp_path, 1, {2}, lambda s: {"at": s})
    end = alone["run"]["weights"]
    assert len(log) == 4 and log[1]["look"] == {"at": 2}
    assert (tmp_path / "adapter-000002.pt").is_file()
    for name, parameter in run.parameters.items():
        assert torch.allclose(parameter, end[name], atol=paper_rehearsal.LIMIT)


def test_a_damaged_checkpoint_is_named(rehearsed, tmp_path):
    whole = (rehearsed[0] / "shared" / paper_run.LAST).read_bytes()
    (tmp_path / paper_run.LAST).write_bytes(whole[:2000])
    with pytest.raises(ReproError, match="last.pt cannot be read: it is damaged"):
        paper_run.train(paper_rehearsal.training(Group()), 4, tmp_path, 1)


def test_a_kill_while_saving_leaves_the_checkpoint_before(tmp_path, monkeypatch):
    run = paper_rehearsal.training(Group())
    paper_run.train(run, 1, tmp_path, 1)
    before = (tmp_path / paper_run.LAST).read_bytes()
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        paper_run.train(run, 2, tmp_path / "other", 1)
    with pytest.raises(KeyboardInterrupt):
        paper_run.train(paper_rehearsal.training(Group()), 2, tmp_path, 1)
    assert (tmp_path / paper_run.LAST).read_bytes() == before
    assert checkpoint.load(tmp_path / paper_run.LAST)["run"]["step"] == 1


def test_ranks_that_differ_are_named(monkeypatch):
    monkeypatch.setattr(Group, "every", lambda self, value: [value, value, "other"])
    with pytest.raises(ReproError, match="the adapter of rank 2 is not that of rank 0"):
        Group(0, 3).agree("the adapter", "mine")


def test_lost_neighbour_is_no_failure_of_its_own(tmp_path, monkeypatch, capsys):
    def gone(*_):
        raise RuntimeError("connection closed by peer")

    with pytest.raises(PeerLost, match="rank 0 lost another rank"):
        Group(0, 2)._said(gone)

    def lost(_):
        raise PeerLost("rank 0 lost another rank.")

    request = tmp_path / "request.json"
    request.write_text(json.dumps({"kind": "rehearsal"}))
    monkeypatch.setattr(paper_worker, "rehearse", lost)
    assert paper_worker.main(str(request)) == paper_worker.LOST == paper_watch.LOST
    assert "lost another rank" in capsys.readouterr().err


# ---- watching, with ranks that import nothing


def watched(tmp_path, *codes, grace_s=0.2):
    commands = [[sys.executable, "-I", "-S", "-c", code] for code in codes]
    started = time.monotonic()
    found = paper_watch.run(commands, tmp_path, cpu=True, grace_s=grace_s)
    assert time.monotonic() - started < 10
    return {each.rank: each.says for each in found}


SLEEP = "import time; time.sleep(100)"
LOST = "raise SystemExit(3)"
WATCHED = [
    (["pass", "pass"], {}),
    (
        [SLEEP, "print('out of memory'); raise SystemExit(9)"],
        {1: "ended with status 9: out of mem"},
    ),
    (["import os; os.kill(os.getpid(), 9)", SLEEP], {0: "was ended by SIGKILL"}),
    ([LOST, "import time; time.sleep(.1); raise SystemExit(1)"], {1: "ended with status 1"}),
    ([LOST, SLEEP], {1: "did not answer"}),
    ([LOST, LOST], {0: "lost another rank", 1: "lost another rank"}),
]


@pytest.mark.parametrize(("codes", "expected"), WATCHED)
def test_the_rank_that_is_the_cause_is_named(tmp_path, codes, expected):
    found = watched(tmp_path, *codes, grace_s=2.0 if "SystemExit(1)" in codes[-1] else 0.2)
    assert found.keys() == expected.keys()
    assert all(found[rank].startswith(says) for rank, says in expected.items())


def test_no_rank_outlives_the_launcher(tmp_path):
    note = "import os, sys; print(os.getpid(), flush=True); "
    watched(tmp_path, note + SLEEP, note + "import time; time.sleep(.3); raise SystemExit(1)")
    pid = int((tmp_path / "rank-0.log").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_terminating_the_launcher_ends_its_ranks():
    with pytest.raises(SystemExit):
        paper_launch._terminated(signal.SIGTERM, None)
