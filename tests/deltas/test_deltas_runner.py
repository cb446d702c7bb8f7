"""The runner on the small hybrid: positions, padding, questions, memory, bad input."""

import re

import numpy as np
import pytest
import torch

from repro.deltas import arms, runner, streams, study_streaming, train
from repro.deltas.hybrid import SmallHybrid
from repro.deltas.retention import RetentionPolicy
from repro.deltas.runner import StreamRunner


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(1)
    return SmallHybrid(8, 4, 16, 2, 4).eval().requires_grad_(False)


def frames(count, batch=1, seed=0, tokens=4):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(count, batch, tokens, 8, generator=g)


POLICY = RetentionPolicy(16, 2, 4, 2)


def test_memory_is_flat_over_a_long_stream(model):
    read = StreamRunner(model, POLICY)
    sizes = []
    for frame in frames(40):  # ten times the budget
        read.feed(frame)
        sizes.append((read.stats()["kv_mib"], read.stats()["state_mib"]))
    assert len(set(sizes[4:])) == 1
    stats = read.stats()
    assert stats["tokens"] == 160 and stats["cached"] == 16 and stats["evictions"] == 36
    assert stats["ages"].sum() == 16 and stats["bucket_share"].sum() == pytest.approx(1)
    assert read.next_position.tolist() == [160]


def test_arrival_numbers_go_on_when_the_newest_tokens_are_evicted(model):
    read = StreamRunner(model, RetentionPolicy(8, 2, 0, 2))  # no window: nothing protects them
    for frame in frames(10):
        read.feed(frame)
    assert read.index.max() < 39, "the newest token stayed, so nothing is tested"
    assert read.index[0].tolist() == read.position[0, 0].tolist()
    assert read.stats()["tokens"] == 40 == read.next_position[0]


def test_a_neighbour_changes_nothing(model):
    pair = StreamRunner(model, POLICY, batch=2)
    alone = [StreamRunner(model, POLICY) for _ in range(2)]
    for frame in frames(9, 2):
        both = pair.feed(frame)
        for row in range(2):
            torch.testing.assert_close(both[[row]], alone[row].feed(frame[[row]]))
    for row in range(2):
        np.testing.assert_allclose(pair.score[row], alone[row].score[0], rtol=1e-4)
        assert pair.index[row].tolist() == alone[row].index[0].tolist()


def test_padding_leaks_nothing(model):
    """A padded row reads, drifts and evicts as it does alone; also beside a longer neighbour."""
    first = frames(1, 2, tokens=6)[0]
    real = np.array([[False, False, True, True, True, True], [True] * 6])
    first[0, :2] = 50.0  # whatever stands there
    pair, alone = StreamRunner(model, POLICY, batch=2), StreamRunner(model, POLICY)
    both, one = pair.feed(first, real=real), alone.feed(first[[0], 2:])
    torch.testing.assert_close(both[[0], 2:], one)
    for frame in frames(6, 2, seed=3):
        both, one = pair.feed(frame), alone.feed(frame[[0]])
        torch.testing.assert_close(both[[0]], one, atol=1e-5, rtol=1e-4)
        np.testing.assert_allclose(pair.scores[-1][0], alone.scores[-1][0], rtol=1e-4)
    assert pair.next_position.tolist() == [28, 30]
    kept = pair.position[0, 0][pair.real[0]]
    assert kept.tolist() == alone.position[0, 0].tolist()


def test_rows_of_different_length_are_filled_with_unseen_entries(model):
    policy = RetentionPolicy(18, 0, 0, 3, "whole")  # 18 is no multiple of 4
    lots = np.random.default_rng(0)
    pair = StreamRunner(model, policy, lambda seen: lots.random(2), batch=2)
    for frame in frames(9, 2):
        pair.feed(frame)
    assert pair.real.sum(1).max() <= 18
    question = frames(1, 2, seed=9)[0]
    answer = pair.ask(question)
    for _, values in pair.memory.attended():  # what is not real must not be seen
        values[torch.from_numpy(~pair.real)[:, None].expand(values.shape[:3])] = 1e4
    torch.testing.assert_close(pair.ask(question), answer)


def test_given_positions_and_the_next_one(model):
    read = StreamRunner(model, POLICY)
    read.feed(frames(1)[0], positions=[10, 11, 12, 13])
    assert read.next_position.tolist() == [14]
    read.feed(frames(1)[0])
    assert read.position[0, 0].tolist() == list(range(10, 18))
    axes = StreamRunner(model, POLICY)
    grid = np.array([[[0] * 4], [[0, 0, 1, 1]], [[0, 1, 0, 1]]])  # time, height, width
    axes.feed(frames(1)[0], positions=grid)
    assert axes.next_position.tolist() == [2]  # the largest of all axes + 1, not the token count
    axes.feed(frames(1)[0])
    assert axes.position[:, 0, 4:].tolist() == [[2, 3, 4, 5]] * 3


def test_asking_between_all_chunks_changes_nothing(model):
    asked, never = (StreamRunner(model, POLICY) for _ in range(2))
    for frame in frames(8):
        asked.feed(frame), never.feed(frame)
        asked.ask(frames(1, seed=7)[0]), asked.ask(frames(1, seed=8)[0])
        assert runner.same(asked.state(), never.state())


def test_state_is_a_copy(model):
    read = StreamRunner(model, POLICY)
    for frame in frames(3):
        read.feed(frame)
    before = read.state()
    read.feed(frames(1, seed=5)[0])
    assert not runner.same(before, read.state())
    assert len(before["meta"][0][0]) == 12


def test_same_tells_a_single_bit():
    one = {"memory": [(torch.zeros(2),)], "meta": [np.zeros(2)]}
    other = {"memory": [(torch.tensor([0.0, 1e-45]),)], "meta": [np.zeros(2)]}
    assert runner.same(one, one) and not runner.same(one, other)


def test_named_signals_and_arms_give_one_number_a_token(model):
    for name in runner.SIGNALS:
        read = StreamRunner(model, POLICY, name, batch=2)
        for frame in frames(6, 2):
            read.feed(frame)
        assert read.scores[-1].shape == (2, 4) and np.isfinite(read.scores[-1]).all()
        ties = name != "residual"
        assert (np.ptp(read.scores[-1], axis=1) == 0).all() == ties


@pytest.mark.parametrize("arm", ["survivors", "window-attention"])
def test_some_arms_judge_old_tokens_anew(model, arm):
    place = np.zeros((1, 1), int)
    context = arms.Context(POLICY, place, np.random.default_rng(0))
    read = StreamRunner(model, POLICY, arms.ARMS[arm][0](context))
    for frame in frames(6):
        read.feed(frame)
    assert not np.array_equal(read.score[0], np.concatenate(read.scores, 1)[0, read.index[0]])


def test_uniform_and_window_arms_by_hand(model):
    context = arms.Context(RetentionPolicy(9, 0, 0, 1), np.zeros((1, 1), int), None)
    for arm, kept in (("uniform", list(range(0, 27, 3))), ("window", list(range(18, 27)))):
        read = StreamRunner(model, context.policy, arms.ARMS[arm][0](context))
        for frame in frames(9, tokens=3):
            read.feed(frame)
        assert read.index[0].tolist() == kept


def test_training_repeats_itself_bit_by_bit():
    world = streams.World.draw(0, keys=8, values=4, features=12)
    plan = train.Plan(train.Stage(6, 4, 4, 2), train.Stage(2, 4, 8, 2))
    trained, losses = train.fit(world, plan, 1)
    assert len(losses) == 8 and np.isfinite(losses).all()
    again, same = train.fit(world, plan, 1)
    assert losses == same and not trained.training
    found = study_streaming.play(trained, streams.draw(world, 5, 2, 6, 2), "full", POLICY, 0)
    assert found.right.shape == found.kept.shape == (2,)


@pytest.mark.parametrize("arm", arms.ARMS)
def test_every_arm_fills_the_budget_and_no_more(model, arm):
    world = streams.World.draw(0, keys=8, values=4, features=8)
    found = study_streaming.play(model, streams.draw(world, 5, 2, 8, 2), arm, POLICY, 0)
    assert found.stats["cached"] == POLICY.budget and len(arms.ARMS[arm][2]) > 5


def test_streams_are_a_function_of_their_seed():
    world = streams.World.draw(0)
    one, same, other = (streams.draw(world, s, 3, 30, 5, "noise") for s in (1, 1, 2))
    assert torch.equal(one.frames, same.frames) and not torch.equal(one.frames, other.frames)
    assert (one.kind == 2).sum(1).tolist() == [5, 5, 5]
    assert len({len(set(row)) for row in one.place // 4}) == 1  # no frame twice


def nan_state(model):
    read = StreamRunner(model, POLICY)
    read.feed(frames(1)[0])
    read.memory.states()[0][0, 0, 0, 0] = torch.nan
    read.feed(frames(1)[0])


def shuffled_alone(model):
    world = streams.World.draw(0, keys=8, values=4, features=8)
    study_streaming.play(model, streams.draw(world, 5, 1, 8, 2), "drift-shuffled", POLICY, 0)


PAD = np.array([[True, True, True, False]])
BAD = [
    (nan_state, "before[0] holds NaN", "finite"),
    (lambda m: StreamRunner(m, POLICY, "attention"), "signal='attention'", "drift"),
    (lambda m: StreamRunner(m, 16), "policy=16", "RetentionPolicy"),
    (lambda m: StreamRunner(m, POLICY, batch=2).feed(frames(1)[0]), "inputs has shape", "[2, T"),
    (lambda m: StreamRunner(m, POLICY).feed(frames(1)[0][:, :0]), "inputs has shape", "T >= 1"),
    (lambda m: StreamRunner(m, POLICY).feed(frames(1)[0], real=PAD), "real marks", "to the left"),
    (lambda m: StreamRunner(m, POLICY).feed(frames(1)[0], real=PAD[:, :2]), "(1, 2)", "(1, 4)"),
    (lambda m: StreamRunner(m, POLICY).feed(frames(1)[0], [0, 1]), "positions", "[axes, B, T]"),
    (lambda m: StreamRunner(m, POLICY).feed(frames(1)[0], [-1, 0, 1, 2]), "begins at -1", "0 and"),
    (
        lambda m: StreamRunner(m, POLICY, lambda seen: np.full(1, np.nan)).feed(frames(1)[0]),
        "4 NaN",
        "without NaN",
    ),
    (lambda m: SmallHybrid(layers="ddx"), "layers='ddx'", "'d' and 'a'"),
    (lambda m: SmallHybrid(layers="dd"), "layers='dd'", "both"),
    (lambda m: streams.draw(streams.World.draw(0), 0, 1, 9, 2, "zoom"), "kind='zoom'", "static"),
    (lambda m: streams.draw(streams.World.draw(0), 0, 1, 9, 5), "objects=5", "1 to 4"),
    (lambda m: study_streaming.play(m, None, "best", POLICY, 0), "arm='best'", "oracle"),
    (lambda m: shuffled_alone(m), "arm='drift-shuffled' has 1 stream", "at least 2"),
]


@pytest.mark.parametrize(("call", "names", "accepts"), BAD)
def test_bad_input_names_the_argument_and_what_is_accepted(model, call, names, accepts):
    with pytest.raises(ValueError, match=re.escape(names)) as caught:
        call(model)
    assert accepts in str(caught.value)
