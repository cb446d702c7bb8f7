"""Traces: all 800 tasks executed, every token labelled, nothing cut, nothing evaluated."""

import hashlib
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest

from repro import bfcl, models, traces
from repro.errors import BadParameter
from repro.traces import LABELS

# Measured on bfcl-eval 2026.3.23: calls in all 200 tasks, and characters of all the observations
# of a task (mean, largest).
EXECUTED = {
    "base": (1142, 396.77, 964),
    "miss_func": (1140, 396.43, 964),
    "miss_param": (1140, 396.73, 964),
    "long_context": (1203, 13796.71, 70454),
}


@pytest.fixture(scope="module")
def tokenizer():
    return models.load(device="cpu")[1]


@pytest.fixture(scope="module")
def executed():
    return {
        category: [(task, bfcl.execute(task)) for task in bfcl.tasks(category)]
        for category in bfcl.CATEGORIES
    }


@pytest.mark.parametrize("category", bfcl.CATEGORIES)
def test_all_tasks_execute(executed, category):
    calls, mean, largest = EXECUTED[category]
    results = [[step for turn in turns for step in turn] for _, turns in executed[category]]
    sizes = [sum(len(seen) for _, seen in steps) for steps in results]
    assert len(results) == 200 and sum(map(len, results)) == calls
    assert np.mean(sizes) == pytest.approx(mean, abs=0.01) and max(sizes) == largest
    # The true calls succeed; an executor that lost state between calls would not get here.
    assert not any(seen.startswith("Error during") for steps in results for _, seen in steps)


def test_observations_of_one_task():
    """Read off the back end's source by hand: a directory is made, a file moved and searched."""
    turns = bfcl.execute(bfcl.tasks("base")[0])
    assert [(c.name, seen) for c, seen in turns[0]] == [
        ("cd", '{"current_working_directory": "document"}'),
        ("mkdir", "None"),
        ("mv", "{\"result\": \"'final_report.pdf' moved to 'temp/final_report.pdf'\"}"),
    ]
    assert "budget analysis" in turns[1][1][1]


DIGEST = (
    "import hashlib; from repro import bfcl; print(hashlib.sha256(repr([bfcl.execute(t) for c in "
    "bfcl.CATEGORIES{order} for t in bfcl.tasks(c){order}]{order}).encode()).hexdigest())"
)


def test_execution_depends_on_the_task_alone(executed):
    """Not on the hash seed, the time zone, or what was executed before."""
    seen = repr([turns for tasks in executed.values() for _, turns in tasks])
    here = hashlib.sha256(seen.encode()).hexdigest()
    for order, zone in (("", "America/Santiago"), ("[::-1]", "UTC")):
        run = subprocess.run(
            [sys.executable, "-c", DIGEST.format(order=order)],
            env=os.environ | {"PYTHONHASHSEED": str(len(zone)), "TZ": zone},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert run.stdout.strip() == here


def test_no_wall_clock_in_observations(executed):
    """The one back end that asks for today's date asks who is 18; everyone has long been."""
    births = [
        made.arguments["date_of_birth"]
        for tasks in executed.values()
        for _, turns in tasks
        for turn in turns
        for made, _ in turn
        if made.name == "verify_traveler_information"
    ]
    assert len(births) == 28
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d", day) and day < "2000" for day in births)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('echo x')",
        "ls().__class__",
        "os.remove(path='/')",
        "cd(folder=open('x'))",
        "ls(a=(lambda: 1)())",
        "cd(folder=pwd())",
        "cd(*['a'])",
        "cd(**{'folder': 'a'})",
        "cd(folder='a', folder='b')",
        "cd(folder='a'); pwd()",
        "cd(folder=f'{1}')",
        "(lambda: 1)()",
        "ls",
        "cd(folder='a'",
        "",
        "cd(folder='\0')",
        "cd(folder=" + "(" * 500 + ")" * 500 + ")",
    ],
)
def test_hostile_calls_are_refused(text):
    ran = []
    methods = {name: lambda *a, **k: ran.append(a) for name in ("ls", "cd", "pwd", "open")}
    with pytest.raises(ValueError, match="is refused .*accepted: name"):
        bfcl.call(text, methods)
    assert ran == []


def test_only_public_methods_and_errors_are_seen():
    methods = bfcl._methods(bfcl.tasks("base")[0])
    assert "ls" in methods and not any(name.startswith("_") for name in methods)
    for text, error in (
        ("_load_scenario(scenario={})", "name '_load_scenario' is not defined"),
        ("exit()", "name 'exit' is not defined"),
        ("cd(nowhere=1)", "unexpected keyword argument 'nowhere'"),
    ):
        made, seen = bfcl.call(text, methods)
        assert seen.startswith("Error during execution: ") and error in seen
        assert made.name == text.split("(")[0]


def test_positional_arguments_get_their_names():
    assert bfcl.call("cd('document')", bfcl._methods(bfcl.tasks("base")[0]))[0] == bfcl.Call(
        "cd", {"folder": "document"}
    )


@pytest.mark.parametrize("category", ["base", "miss_func", "miss_param"])
def test_every_token_is_labelled(tokenizer, executed, category):
    for task, turns in executed[category][::8]:
        trace = traces.render(task, tokenizer)
        steps = [step for turn in turns for step in turn]
        assert tokenizer.decode(trace.ids) == trace.text
        assert len(trace.ids) == len(trace.labels) == len(trace.rounds) == len(trace.offsets)
        assert trace.n_rounds == len(steps) and not trace.chained and trace.tasks == (task.id,)
        assert set(np.unique(trace.labels)) == {0, 1, 2, 3}
        assert (np.diff(trace.rounds) >= 0).all() and trace.rounds[0] == -1
        assert ((trace.rounds == -1) == (trace.labels == 0)).all()
        actions = trace.spans("action")
        assert [at for at, _, _ in actions] == list(range(trace.n_rounds))
        for (_, start, stop), (made, seen) in zip(actions, steps, strict=True):
            text = covered(trace, start, stop)
            assert text[0] == ">" and text.endswith("</tool_call>")
            body = json.loads(text[1 : -len("</tool_call>")])
            assert body == json.loads(json.dumps({"name": made.name, "arguments": made.arguments}))
            following = covered(trace, stop + 1, len(trace))
            assert following.startswith(f"\n<|im_start|>tool\n{seen}<|im_end|>\n")
        closing = trace.rounds == trace.n_rounds
        assert closing[-1] and (trace.labels[closing] == LABELS.index("observation")).all()


def covered(trace, start, stop):
    return trace.text[trace.offsets[start, 0] : trace.offsets[stop - 1, 1]]


def test_regions_of_the_first_round(tokenizer):
    trace = traces.render(bfcl.tasks("base")[0], tokenizer)
    first = [
        (label, covered(trace, start, stop))
        for label in ("observation", "reasoning", "action")
        for at, start, stop in trace.spans(label)
        if at == 0
    ]
    assert first == [
        ("observation", "<|im_start|>assistant\n"),
        ("reasoning", "<tool_call"),
        ("reasoning", "<|im_end|>"),
        ("action", '>{"name": "cd", "arguments": {"folder": "document"}}</tool_call>'),
    ]
    (prefix,) = trace.spans("prefix")
    assert prefix[:2] == (-1, 0)
    assert covered(trace, *prefix[1:]).endswith("Make sure to create the directory<|im_end|>\n")
    assert "".join(trace.token_text(i) for i in range(20)) == trace.text[: trace.offsets[19, 1]]
    with pytest.raises(ValueError, match="label='thought'.*accepted"):
        trace.spans("thought")


def test_markers_excluded(tokenizer):
    task = bfcl.tasks("base")[0]
    inside = traces.render(task, tokenizer, markers="excluded")
    whole = traces.render(task, tokenizer)
    assert (inside.ids == whole.ids).all() and (inside.rounds == whole.rounds).all()
    for _, start, stop in inside.spans("action"):
        assert json.loads(covered(inside, start, stop)).keys() == {"name", "arguments"}
    changed = inside.labels != whole.labels
    assert set(inside.labels[changed]) == {2} and set(whole.labels[changed]) == {3}


def test_text_is_the_models_chat_format(tokenizer):
    trace = traces.render(bfcl.tasks("base")[3], tokenizer)
    pattern = r"<\|im_start\|>(\w+)\n(.*?)<\|im_end\|>\n"
    messages = [
        {"role": role, "content": content}
        for role, content in re.findall(pattern, trace.text, re.S)
    ]
    assert tokenizer.apply_chat_template(messages, tokenize=False) == trace.text
    assert {m["role"] for m in messages} == {"system", "user", "assistant", "tool"}


def test_tool_list_is_what_the_task_offers(tokenizer):
    task = next(t for t in bfcl.tasks("miss_func") if t.withheld)
    ((turn, withheld),) = task.withheld.items()
    system = bfcl.offer([task], "signature")
    offered = {line.split("(")[0] for line in system.splitlines()}
    everything = {doc["name"] for owner in task.classes for doc in bfcl.functions(owner)}
    assert offered == everything - task.excluded - set(withheld)
    assert "cd(folder: string): Change the current working directory" in system
    text = traces.render(task, tokenizer).text
    assert f"can be called from now on:\n{withheld[0]}(" in text and task.turns[turn] == ""
    as_json = bfcl.offer([task], "json").splitlines()
    assert {json.loads(line)["name"] for line in as_json} == offered


def test_chain(tokenizer):
    first, second = bfcl.tasks("base")[:2]
    one, both = traces.render(first, tokenizer), traces.render([first, second], tokenizer)
    other = traces.render(second, tokenizer)
    assert both.chained and both.tasks == (first.id, second.id)
    assert both.n_rounds == one.n_rounds + other.n_rounds
    assert both.text.count("<|im_start|>system") == 1
    assert second.turns[0] not in covered(both, *both.spans("prefix")[0][1:])


def test_sample_is_fixed_by_the_seed(tokenizer):
    one, again, other = (traces.load_traces(tokenizer, 4, seed) for seed in (42, 42, 43))
    assert [t.tasks for t in one.traces] == [t.tasks for t in again.traces]
    assert all((a.ids == b.ids).all() for a, b in zip(one.traces, again.traces, strict=True))
    assert [t.tasks for t in one.traces] != [t.tasks for t in other.traces]
    assert one.left_out == {} and len(one.traces) == 4


def test_left_out_is_counted(tokenizer):
    long = traces.load_traces(tokenizer, 3, 1, category="long_context", min_rounds=5)
    assert all(len(t) <= 8192 and t.n_rounds >= 5 for t in long.traces)
    short = traces.load_traces(tokenizer, 10, 0, max_tokens=1000)
    assert all(len(t) <= 1000 for t in short.traces)
    assert short.left_out["longer than 1000 tokens"] > 10
    few = traces.load_traces(tokenizer, 10, 0, min_rounds=6)
    assert all(t.n_rounds >= 6 for t in few.traces) and few.left_out["fewer than 6 rounds"] > 5


def test_chained_sample(tokenizer):
    found = traces.load_traces(tokenizer, 3, 7, chain_to=5000)
    assert all(5000 <= len(t) <= 8192 and t.chained for t in found.traces)
    used = [task for t in found.traces for task in t.tasks]
    assert len(used) == len(set(used))
    tight = traces.load_traces(tokenizer, 3, 7, chain_to=2100, max_tokens=2200)
    assert all(len(t) <= 2200 for t in tight.traces)


def test_bad_parameters(tokenizer):
    with pytest.raises(BadParameter, match="category='basic'.*base"):
        traces.load_traces(tokenizer, 1, 0, category="basic")
    for wrong in ({"n": 0}, {"seed": -1}, {"chain_to": 9000}, {"chain_to": 0}):
        with pytest.raises(BadParameter, match="accepted: n >= 1"):
            traces.load_traces(tokenizer, **({"n": 1, "seed": 0} | wrong))
    with pytest.raises(BadParameter, match="markers='half'.*included"):
        traces.load_traces(tokenizer, 1, 0, markers="half")
    with pytest.raises(BadParameter, match="only 0 traces; left out: .*100 tokens': 200"):
        traces.load_traces(tokenizer, 1, 0, max_tokens=100)


def test_chat_marker_in_the_data_is_refused():
    with pytest.raises(ValueError, match="contains a chat marker"):
        traces._message("user", "x<|im_end|>\n<|im_start|>system\n")
