"""Sampling, exact scores, the training loop and its checkpoints, on a tiny random Llama."""

import json
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from repro import compare
from repro.errors import BadParameter
from repro.mad_rl import policy, rewards, study_arms, study_training, tasks, train
from repro.paths import ROOT

END, VOCABULARY = 0, 8
TARGET = (0.5, 0.3, 0.2)
SETTINGS = train.Settings(seed=3, group=24, cap=3, rate=0.05, every=2)
QUESTIONS = [
    [tasks.Question(f"q{u}", (1 + u % 3, 5, 7), ((2, END), (3, 4, END), (5, END)))]
    for u in range(5)
]


def tiny():
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=3,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=32,
        initializer_range=0.1,
    )
    return policy.with_adapter(LlamaForCausalLM(config).requires_grad_(False), 1, 4, 2)


@pytest.fixture(scope="module")
def model():
    return tiny()


@pytest.fixture(scope="module")
def start(model):
    return policy.snapshot(model)


@pytest.fixture(autouse=True)
def fresh(model, start):
    policy.restore(model, start)


def run(model, arm="js", settings=SETTINGS, questions=QUESTIONS, **options):
    return train.train(model, arm, TARGET, questions, END, settings, **options)


def one_by_one(model, prompt, answer, temperature=1.0):
    logits = model(torch.tensor([[*prompt, *answer]])).logits[0] / temperature
    logp = logits.log_softmax(-1)
    return sum(logp[len(prompt) - 1 + i, token] for i, token in enumerate(answer))


def test_packed_scores_are_those_of_single_passes(model):
    answers = [(2, END), (3, 4, END), (5, END), (END,), (6, 6, 6)]
    for temperature in (1.0, 0.5):
        found = policy.score(model, (1, 5, 7), answers, temperature)
        for value, answer in zip(found, answers, strict=True):
            expected = one_by_one(model, (1, 5, 7), answer, temperature)
            assert value.item() == pytest.approx(expected.item(), abs=1e-5)
    gradients = []
    for total in (found.sum(), sum(one_by_one(model, (1, 5, 7), a, 0.5) for a in answers)):
        model.zero_grad()
        total.backward()
        gradients.append(torch.cat([p.grad.flatten() for p in policy.weights(model).values()]))
    torch.testing.assert_close(*gradients, atol=1e-5, rtol=1e-4)


def test_samples_have_the_probabilities_that_the_scores_say(model):
    drawn = policy.sample(model, (1, 5, 7), 4000, 3, END, torch.Generator().manual_seed(0))
    assert all(len(a) <= 3 and END not in a[:-1] for a in drawn)
    assert all(a[-1] == END or len(a) == 3 for a in drawn)
    common = [a for a, _ in Counter(drawn).most_common(12)]
    with torch.no_grad():
        p = policy.score(model, (1, 5, 7), common).exp().numpy()
    share = np.array([drawn.count(a) for a in common]) / len(drawn)
    assert np.abs(share - p).max() < 4 * np.sqrt(p.max() / len(drawn))
    assert np.corrcoef(share, p)[0, 1] > 0.9


def test_categories_are_exact():
    (question,) = QUESTIONS[0]
    assert [tasks.category(question, a) for a in ((2, END), (3, 4, END), (2,), (3, END))] == [
        0,
        1,
        -1,
        -1,
    ]


def test_arms_draw_the_same_first_answers_and_then_part(model, start):
    made = {}
    for arm in train.ARMS:
        policy.restore(model, start)
        made[arm] = run(model, arm)
    first = {arm: found.first_rollout for arm, found in made.items()}
    assert first.pop("supervised") is None and len(set(first.values())) == 1
    for arm, found in made.items():
        moved = policy.distance(start, found.adapter)
        assert (moved == 0) == (arm == "zero_lr"), arm
        assert len(found.history) == len(QUESTIONS)
        assert all(np.isfinite(list(row.values())).all() for row in found.history)


def test_training_moves_the_mix_towards_the_target(model):
    """The tiny model cannot go far: its output layer is frozen."""
    question = QUESTIONS[0][0]
    measure = lambda: study_training.measured(  # noqa: E731
        study_training.probabilities(model, [question]), (0.8, 0.1, 0.1)
    )
    before = measure()
    train.train(model, "js", (0.8, 0.1, 0.1), [[question]] * 30, END, train.Settings(3, 24, 3, 0.2))
    after = measure()
    assert after.unconditional[0] < before.unconditional[0] - 0.08
    assert after.conditional[0] < before.conditional[0]
    assert after.invalid[0] < before.invalid[0] - 0.05


def test_equal_rewards_leave_the_weights_bit_for_bit(model, start, monkeypatch):
    monkeypatch.setattr(rewards, "group", lambda *_, **__: np.full(SETTINGS.group, 0.1))
    made = run(model)
    assert policy.fingerprint(made.adapter) == policy.fingerprint(start)
    assert {row["silent"] for row in made.history} == {1.0}


def test_more_passes_on_one_draw_are_clipped(model):
    """With many passes and no clipping to speak of, the policy goes further than with clipping."""
    moved = {}
    for clip in (0.05, 0.99):
        policy.restore(model, moved.setdefault("start", policy.snapshot(model)))
        settings = train.Settings(3, 24, 3, 0.05, passes=4, clip=clip)
        made = run(model, "js", settings, QUESTIONS[:3])
        moved[clip] = policy.distance(moved["start"], made.adapter)
    assert moved[0.05] < moved[0.99]


class Killed(Exception):
    pass


def test_a_resumed_run_equals_an_uninterrupted_one(model, start, tmp_path):
    whole = run(model, checkpoint=tmp_path / "whole.pt")

    def kill(update, _):
        if update == 2:
            raise Killed

    policy.restore(model, start)
    with pytest.raises(Killed):
        run(model, checkpoint=tmp_path / "cut.pt", watch=kill)
    policy.restore(model, start)
    seen = []
    resumed = run(model, checkpoint=tmp_path / "cut.pt", watch=lambda u, _: seen.append(u))
    assert seen == [2, 3, 4]  # the checkpoint is of the second update
    for one, other in zip(whole.history, resumed.history, strict=True):
        assert one == pytest.approx(other, abs=1e-6)
    assert policy.distance(whole.adapter, resumed.adapter) < 1e-6
    assert resumed.first_rollout == whole.first_rollout
    for name in ("generated_tokens", "trained_tokens", "forward_passes"):
        assert resumed.used[name] == whole.used[name]
    policy.restore(model, start)
    again = run(model, checkpoint=tmp_path / "cut.pt", watch=lambda *_: pytest.fail("ran again"))
    assert policy.distance(whole.adapter, again.adapter) < 1e-6


KILLED = """
import os, signal, sys
sys.path.insert(0, "tests/mad_rl")
import test_mad_rl_training as t
from pathlib import Path
model, writes, replace = t.tiny(), [], os.replace
def dying(*paths):
    writes.append(paths)
    if len(writes) == 2:
        os.kill(os.getpid(), signal.SIGKILL)  # the second checkpoint is written, not yet in place
    replace(*paths)
os.replace = dying
t.run(model, checkpoint=Path(sys.argv[1]))
"""


def test_a_killed_run_leaves_a_usable_checkpoint(model, start, tmp_path):
    path = tmp_path / "killed.pt"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", KILLED, str(path)], cwd=ROOT)
    assert done.returncode == -9
    seen = []
    resumed = run(model, checkpoint=path, watch=lambda u, _: seen.append(u))
    assert seen == [2, 3, 4]
    policy.restore(model, start)
    whole = run(model)
    for one, other in zip(whole.history, resumed.history, strict=True):
        assert one == pytest.approx(other, abs=1e-6)


def test_a_foreign_or_broken_checkpoint_is_refused(model, tmp_path):
    path = tmp_path / "c.pt"
    run(model, checkpoint=path, questions=QUESTIONS[:2])
    with pytest.raises(BadParameter, match="c.pt is of another run; accepted"):
        run(model, "l2", checkpoint=path, questions=QUESTIONS[:2])
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(BadParameter, match="c.pt is not readable"):
        run(model, checkpoint=path, questions=QUESTIONS[:2])


def test_measures_by_hand():
    p = np.array([[0.25, 0.25], [0.5, 0.0]])
    found = study_training.measured(p, (0.5, 0.5))
    assert found.invalid == pytest.approx([0.5, 0.5])
    assert found.conditional == pytest.approx([0, 0.21576], abs=1e-5)
    # invalid with 1/2 against (1/2, 1/2, 0): worked by hand
    assert found.unconditional[0] == pytest.approx(0.21576, abs=1e-5)
    assert found.kinds == pytest.approx([2, 1])
    assert found.pooled == pytest.approx(
        study_training.measured(np.array([[0.75, 0.25]]), (0.5, 0.5)).conditional[0]
    )


def test_verdict_words():
    rng = np.random.default_rng(0)
    base = rng.uniform(0.2, 0.4, 30)
    noise = rng.normal(0, 0.02, 30)
    assert study_training.verdict(base, base, 0.03, 1.0)[0] == "uninformative"
    assert study_training.verdict(base, base - 0.1, 0.03, 0.0)[0] == "uninformative"
    assert study_training.verdict(base, base - 0.1 + noise, 0.03, 1.0)[0] == "better"
    assert study_training.verdict(base, base + 0.1 + noise, 0.03, 1.0)[0] == "worse"
    assert study_training.verdict(base[:5], base[:5] - 0.1, 0.03, 1.0)[0] == "uninformative"
    flat = noise - noise.mean()
    assert study_training.verdict(base, base + flat, 0.03, 1.0)[0] == "not distinguished"
    assert study_training.verdict(base, base + 10 * flat, 0.03, 1.0)[0] == "uninformative"


class Letters:
    """A tokenizer of single characters."""

    def encode(self, text, add_special_tokens):
        return [ord(c) for c in text]


def test_questions_are_drawn_by_the_seed_and_splits_share_no_word():
    one, same, other = (tasks.drawn(Letters(), s, 8, 4) for s in (1, 1, 2))
    assert one == same != other
    topics = [q.id.split("/")[0] for step in one[:6] for q in step]
    assert len(set(topics)) == 24  # every topic once before any comes again
    words = {
        split: {w for t in table.values() for w in t.lower().split(", ")}
        | {n.lower() for n in table}
        for split, table in tasks.TOPICS.items()
    }
    assert all(len(t.split(", ")) == tasks.KINDS for s in tasks.TOPICS.values() for t in s.values())
    for a, b in (("train", "validation"), ("train", "test"), ("validation", "test")):
        assert words[a].isdisjoint(words[b])
    fixed = tasks.fixed(Letters(), "test", 2, 3)
    assert [q.id for q in fixed[:2]] == ["oceans/0", "oceans/1"] and len(fixed) == 6
    assert fixed[0].text.endswith("Pick:") and len(fixed[0].answers) == 4
    json.dumps([q.text for q in fixed])


def test_plan_trains_blind_arms_once():
    wishes = study_arms.targets("uniform, peaked", "0.7, 0.1, 0.1, 0.1")
    assert study_arms.plan("js, zero_lr", wishes) == [
        ("correctness", "any"),
        ("js", "uniform"),
        ("js", "peaked"),
        ("zero_lr", "any"),
    ]


def test_runs_are_trained_from_one_start_which_is_put_back(model, start):
    wishes = {"peaked": np.array(TARGET)}
    plan = study_arms.plan("js, supervised", wishes)
    made = study_arms.train_all(model, plan, wishes, QUESTIONS[:2], END, SETTINGS)
    assert policy.fingerprint(policy.snapshot(model)) == policy.fingerprint(start)
    policy.restore(model, start)
    alone = run(model, "js", questions=QUESTIONS[:2])
    assert policy.fingerprint(made["js", "peaked"].adapter) == policy.fingerprint(alone.adapter)
    policy.restore(model, start)
    p = study_arms.judged(model, {k: t.adapter for k, t in made.items()}, QUESTIONS[0])
    assert {arm for arm, _ in study_arms.of_target(p, "peaked")} == {
        "js",
        "supervised",
        "correctness",
    }
    assert not np.allclose(p["js", "peaked"], p["supervised", "peaked"])


@pytest.fixture
def three_seeds(tmp_path, start):
    """Files of three seeds in which js is better than correctness by 0.2 on every question."""
    asked = {s: tasks.fixed(Letters(), s, 2) for s in ("validation", "test")}
    names = ["correctness", "js", "shuffled", "zero_lr", "untrained"]
    level = {"js": 0.1, "correctness": 0.3, "shuffled": 0.31}
    for seed in (42, 43, 44):
        settings = train.Settings(seed)
        caps = study_arms.caps(settings, 2, 1)
        frozen = study_arms.manifest("peaked", names, [42, 43, 44], caps, asked)
        rng, runs, tests = np.random.default_rng(seed), [], {}
        noise = {s: rng.uniform(0, 0.05, len(asked[s])) for s in asked}
        for arm in names:
            moved = {n: p + (arm in level) for n, p in start.items()}
            own = train.Trained(moved, [], dict.fromkeys(train.USED, 1.0), "a" * 64)
            own = train.Trained(start) if arm == "untrained" else own
            scores = {
                s: {q.id: level.get(arm, 0.5) + x for q, x in zip(asked[s], noise[s], strict=True)}
                for s in asked
            }
            tests[arm] = scores.pop("test")
            runs.append(study_arms.as_run(frozen, arm, settings, own, start, QUESTIONS, scores))
        study_arms.write(tmp_path, "peaked", frozen, runs, tests)
    return tmp_path


def test_three_seeds_pass_the_rules_and_the_test_is_opened_once(three_seeds):
    joined = study_arms.open_test(three_seeds, "peaked")
    frozen, runs, choice = compare.load.load([joined])
    assert choice["arm"] == "js"
    found = compare.report.report(frozen, runs, choice)
    assert found.arms["js"].verdict == "better"
    assert found.arms["shuffled"].verdict != "better"
    assert study_arms.open_test(three_seeds, "peaked") == joined  # the same choice, again


def test_a_changed_validation_does_not_open_the_test_again(three_seeds):
    study_arms.open_test(three_seeds, "peaked")
    for path in three_seeds.glob("peaked-4?.json"):
        value = json.loads(path.read_text())
        for one in value["runs"]:
            if one["arm"] == "js":
                one["validation"]["scores"] = dict.fromkeys(one["validation"]["scores"], 0.6)
        path.write_text(json.dumps(value))
    with pytest.raises(compare.Refused, match="test_opened_once"):
        study_arms.open_test(three_seeds, "peaked")


BAD = [
    (lambda: study_arms.plan("ppo", {}), "arms=['ppo']", "supervised"),
    (lambda: study_arms.targets("skewed", "0.7, 0.1, 0.1, 0.1"), "targets='skewed'", "uniform"),
    (lambda: study_arms.targets("peaked", "0.7, 0.3"), "peaked='0.7, 0.3'", "4 entries"),
    (lambda: study_arms.targets("peaked", "0.7, 0.1, 0.1"), "peaked sums to", "sum to 1"),
    (lambda: study_arms.open_test(ROOT / "book", "peaked"), "folder='book'", "peaked-*.json"),
    (lambda: train.Settings(group=1), "group=1", "2 or more"),
    (lambda: train.Settings(cap=0), "cap=0", "1 or more"),
    (lambda: train.Settings(rate=-0.1), "rate=-0.1", "below 1"),
    (lambda: run(None, "ppo"), "arm='ppo'", "supervised"),
    (lambda: policy.with_adapter(tiny(), 0, 2, 4), "layers=4", "1 to 3"),
    (lambda: policy.score(None, (1,), [(2,)], 0.0), "temperature=0.0", "above 0"),
    (lambda: tasks.fixed(Letters(), "dev", 1), "split='dev'", "validation"),
    (lambda: tasks.fixed(Letters(), "test", 0), "orders=0", ">= 1"),
    (lambda: tasks.drawn(Letters(), 0, 1, 0), "prompts=0", ">= 1"),
    (lambda: tasks.question(Letters(), "T", ["a", "a"], "t"), "things=['a', 'a']", "all different"),
]


@pytest.mark.parametrize(("call", "names", "accepts"), BAD)
def test_bad_input_names_the_argument_and_what_is_accepted(call, names, accepts):
    with pytest.raises(BadParameter) as caught:
        call()
    assert names in str(caught.value) and accepts in str(caught.value)


def test_an_adapter_of_another_shape_is_refused(model, start):
    with pytest.raises(BadParameter, match="another shape"):
        policy.restore(model, {name: p[..., :1] for name, p in start.items()})
