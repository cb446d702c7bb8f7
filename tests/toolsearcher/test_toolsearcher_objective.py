import json
import math
import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_llama import tiny_llama

from repro.errors import BadParameter
from repro.paths import ROOT
from repro.toolsearcher import credit, objective, tokens
from repro.toolsearcher.answer import Answer
from repro.toolsearcher.tokens import NO_TURN, Piece, Row
from repro.toolsearcher.tokens_checks import END, VALUES, pieces

GOLDEN = json.loads((ROOT / "tests/golden/toolsearcher.json").read_text())
PATHS = [
    {"averaging": averaging, "kl_gradient": kl, "beta": beta}
    for averaging in objective.AVERAGING
    for kl in objective.GRADIENTS
    for beta in (0.0, 0.1)
]
KIND = st.sampled_from(tokens.KINDS)
PIECES = st.lists(
    st.builds(Piece, KIND, st.lists(st.integers(0, 9), min_size=1, max_size=4).map(tuple)),
    min_size=1,
    max_size=8,
)


def case(rows, seed=0, **made):
    """Random tensors for `objective.objective` over the padded rows; logp is a leaf."""
    batch = tokens.padded(rows, pad=END)
    draw = torch.Generator().manual_seed(seed)
    logp, old, ref = (
        -torch.rand(batch.ids.shape, generator=draw, dtype=torch.float64) - 0.2 for _ in range(3)
    )
    values = made.get("values") or [np.linspace(-1, 2, r.turns) for r in rows]
    advantage = torch.tensor(tokens.batch_advantage(batch, values))
    return logp.requires_grad_(), old, advantage, torch.tensor(batch.trainable), ref


def gradient(given, **options):
    return torch.autograd.grad(objective.objective(*given, **options).loss, given[0])[0]


def sampled(rows):
    kinds = [torch.tensor(r.kind) for r in rows]
    return torch.nn.utils.rnn.pad_sequence(kinds, True, -1) == tokens.KINDS.index("sampled")


def model(seed=0):
    return tiny_llama(40, 16, heads=2, groups=1, room=64, spread=0.3, seed=seed)


def scores(net, batch):
    ids, read = torch.tensor(batch.ids), torch.tensor(batch.attention)
    logits = net(ids, attention_mask=read.long()).logits
    return objective.token_logprobs(logits, ids)


# Worked numbers


@pytest.mark.parametrize("row", GOLDEN["clip"]["rows"], ids=lambda r: f"A={r['A']} rho={r['rho']}")
def test_golden_clipping(row):
    rho = torch.tensor([row["rho"]], dtype=torch.float64, requires_grad=True)
    advantage = torch.tensor([float(row["A"])], dtype=torch.float64)
    loss = objective.clipped_loss(rho, advantage)
    assert loss.item() == pytest.approx(row["loss"])
    (slope,) = torch.autograd.grad(loss.sum(), rho)
    assert slope.item() == pytest.approx(-row["A"] if row["slope"] else 0)
    assert -row["slope"] == (row["A"] if row["slope"] else 0)
    if "without_dual" in row:
        assert objective.clipped_loss(rho, advantage, dual=None).item() == row["without_dual"]


@pytest.mark.parametrize("row", GOLDEN["kl"]["rows"], ids=lambda r: f"{r['p']} {r['ref']}")
def test_golden_kl(row):
    p, ref = (torch.tensor([math.log(row[k])], dtype=torch.float64) for k in ("p", "ref"))
    for kind in objective.GRADIENTS:
        assert objective.k3(p, ref, kind).item() == pytest.approx(row["k3"], abs=1e-8)


def test_golden_averages():
    golden = GOLDEN["averaging"]
    values = torch.tensor(golden["values"], dtype=torch.float64)
    mask = torch.arange(3) < torch.tensor(golden["lengths"])[:, None]
    for rule in objective.AVERAGING:
        assert objective.average(values, mask, rule).item() == golden[rule]
    alone = [objective.average(values[i : i + 1], mask[i : i + 1], "token") for i in (0, 1)]
    assert sum(alone).item() / 2 == golden["token_per_micro_batch"]


@pytest.mark.parametrize("rule", objective.AVERAGING)
@pytest.mark.parametrize("beta", [0.0, 0.1])
def test_gradient_is_that_of_finite_differences(rule, beta):
    given = case([tokens.row(pieces()), tokens.row(pieces((), ()))])
    given[0].data += 3  # ratios away from the corners of the clip
    given = (given[0], given[0].detach() + torch.linspace(-0.1, 0.1, given[0].shape[1]), *given[2:])
    assert torch.autograd.gradcheck(
        lambda logp: objective.objective(logp, *given[1:], averaging=rule, beta=beta).loss, given[0]
    )


# The peers' reports of the notes' section 7.2, one test each, and those of 7.3 that apply.


@settings(max_examples=25)
@given(st.lists(PIECES, min_size=1, max_size=3), st.integers(0, 5))
def test_trl_4975_every_loss_path_has_zero_gradient_outside_the_mask(drawn, seed):
    rows = [tokens.row(one) for one in drawn]
    for options in PATHS:
        assert (gradient(case(rows, seed), **options)[~sampled(rows)] == 0).all()


@pytest.mark.parametrize("returned", [(), (5,), (5, END, 6), (5,) * 30], ids=len)
def test_verl_4412_the_mask_counts_sampled_tokens_whatever_came_back(returned):
    rows = [tokens.row(pieces(returned, returned)), tokens.row(pieces())]
    batch = tokens.padded(rows, pad=END)
    assert batch.trainable.sum(1).tolist() == [9, 9]
    assert (torch.tensor(batch.trainable) == sampled(rows)).all()


def test_trl_4974_attention_and_loss_mask_are_two_things_with_pad_equal_to_eos():
    long, short = tokens.row(pieces((END, END, 5))), tokens.row(pieces((), ()))
    batch = tokens.padded([long, short], pad=END)
    for b, one in enumerate((long, short)):
        length = len(one.ids)
        assert batch.attention[b].tolist() == [True] * length + [False] * (23 - length)
        assert (batch.ids[b, length:] == END).all() and not batch.trainable[b, length:].any()
    other = tokens.padded([long, short], pad=0)
    assert (other.attention == batch.attention).all() and (other.turn == batch.turn).all()
    net = model()
    with torch.no_grad():
        kept = torch.tensor(batch.trainable)
        assert torch.allclose(scores(net, batch)[kept], scores(net, other)[kept], atol=1e-5)


def test_verl_3960_ids_are_kept_and_old_logprobs_come_out_again():
    """A rollout token by token, then scored as one padded batch: the ratio is 1."""
    net, context, made, old = model(), [], [], []
    torch.manual_seed(1)
    with torch.no_grad():
        for kind, more in (("prompt", (1, 3)), ("returned", (5, END)), ("returned", ())):
            made.append(Piece(kind, more))
            context, old = context + list(more), old + [0.0] * len(more)
            turn = []
            for _ in range(4):
                chances = net(torch.tensor([context])).logits[0, -1].log_softmax(-1)
                token = int(torch.multinomial(chances.exp(), 1))
                turn.append(token), context.append(token), old.append(float(chances[token]))
            made.append(Piece("sampled", tuple(turn)))
        one = tokens.row(made)
        assert one.ids.tolist() == context and (one.turn >= 0).sum() == 12
        batch = tokens.padded([tokens.row([Piece("prompt", (7,) * 20)]), one], pad=END)
        new = scores(net, batch)[1, : len(context)]
    kept = torch.tensor(one.turn != NO_TURN)
    assert torch.allclose(new[kept], torch.tensor(old)[kept], atol=1e-5)


def test_verl_6376_credit_of_a_turn_does_not_depend_on_the_text_between_turns():
    for length in (0, 1, 7, 200):
        row = tokens.row(pieces((5,) * length, (6,) * length))
        given = tokens.token_advantage(row.turn, VALUES)
        assert [given[row.turn == j].tolist() for j in range(3)] == [
            [value] * count for value, count in zip(VALUES, (3, 2, 4), strict=True)
        ]


@settings(max_examples=60)
@given(PIECES, st.integers(1, 20))
def test_rllm_575_a_cap_keeps_turns_and_values_aligned_and_names_the_lost(drawn, limit):
    full = tokens.row(drawn)
    cut = tokens.capped(full, limit)
    values = np.arange(1.0, full.turns + 1)
    assert len(cut.ids) <= limit and cut.lost == tuple(range(cut.turns, full.turns))
    kept = tokens.token_advantage(cut.turn, values[: cut.turns])
    assert kept.tolist() == tokens.token_advantage(full.turn, values)[: len(cut.ids)].tolist()
    for turn in range(cut.turns):  # whole turns only
        assert (cut.turn == turn).sum() == (full.turn == turn).sum()
    assert tokens.capped(cut, limit).lost == cut.lost


def test_trl_4976_one_mark_of_a_cut_drives_mask_and_credit():
    full = tokens.row(pieces())
    cut = tokens.capped(full, 20)
    one = credit.Trajectory("q", ({"A"}, {"B"}), Answer(frozenset("AB"), 1))
    other = credit.Trajectory("q", ({"A"},), Answer(frozenset("A"), 1))
    found = credit.group_credit([one.without(cut.lost), other], ["A", "B"])[0]
    given = tokens.token_advantage(cut.turn, found.turns)
    assert cut.lost == (2,) and found.selection is None and given[cut.turn == 1].min() > 0
    stale = credit.group_credit([one, other], ["A", "B"])[0]  # the mark forgotten
    with pytest.raises(BadParameter, match="values has 3 entries for the turns"):
        tokens.token_advantage(cut.turn, stale.turns)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e30, -1e30])
def test_nemo_rl_4120_placeholders_outside_the_mask_reach_nothing(bad):
    rows = [tokens.row(pieces()), tokens.row(pieces((), ()))]
    logp, old, advantage, mask, ref = case(rows)
    clean = objective.objective(logp, old, advantage, mask, ref)
    dirty = [torch.where(mask, v.detach(), bad) for v in (logp, old, advantage, ref)]
    dirty[0].requires_grad_()
    given = (*dirty[:3], mask, dirty[3])
    found = objective.objective(*given)
    assert found.loss.item() == clean.loss.item() and found.kl == clean.kl
    assert torch.equal(gradient(given), gradient((logp, old, advantage, mask, ref)))


def test_nemo_rl_158_an_empty_mask_gives_zero_and_not_nan():
    given = case([tokens.row([Piece("prompt", (1, 2))]), tokens.row([Piece("returned", (3,))])])
    for options in PATHS:
        found = objective.objective(*given, **options)
        assert found.loss.item() == 0 and (gradient(given, **options) == 0).all()
        assert found.coverage == found.clipped == 0


def test_far_ratios_stay_finite_in_the_mask():
    given = list(case([tokens.row([Piece("sampled", (1, 2))])], values=[np.array([-1.0])]))
    given[1] = given[0].detach() - 1e4
    found = objective.objective(*given)
    assert found.loss.item() == pytest.approx(3, abs=0.02) and torch.isfinite(gradient(given)).all()


def test_trl_7068_a_group_without_spread_has_kl_and_counts_but_no_policy_signal():
    rows = [tokens.row(pieces()) for _ in range(4)]
    logp, old, advantage, mask, ref = case(rows)
    advantage[:2] = 0  # two trajectories of a group in which all did the same
    for rule in objective.AVERAGING:
        grad = gradient((logp, old, advantage, mask, ref), averaging=rule, beta=0.0)
        assert (grad[:2] == 0).all()
        alone = [v[2:] for v in (old, advantage, mask, ref)]
        half = objective.objective(logp[2:], *alone, averaging=rule, beta=0.0).loss
        assert torch.allclose(2 * grad, torch.autograd.grad(half, logp)[0])
        grad = gradient((logp, old, advantage, mask, ref), averaging=rule, beta=0.1)
        assert (grad[:2][mask[:2]] != 0).all()


@pytest.mark.parametrize("options", PATHS, ids=str)
def test_trl_3138_averages_are_distinct_and_micro_batches_add_up(options):
    rows = [tokens.row(pieces((5,) * n, (6,) * n)) for n in (0, 3, 1)]
    rows += [tokens.row([Piece("prompt", (1,)), Piece("sampled", (4,))]), tokens.row(pieces()[:4])]
    given = case(rows)
    whole, of = gradient(given, **options), objective.totals(given[3])
    for size in (1, 2, 3):
        parts = [
            objective.objective(*(v[at : at + size] for v in given), of=of, **options).loss
            for at in range(0, len(rows), size)
        ]
        assert torch.allclose(torch.autograd.grad(sum(parts), given[0])[0], whole, atol=1e-12)
    other = {"averaging": "token" if options["averaging"] == "trajectory" else "trajectory"}
    assert not torch.allclose(gradient(given, **options | other), whole)
    order = torch.tensor([3, 0, 4, 2, 1])
    mixed = objective.objective(*(v[order] for v in given), **options).loss
    assert torch.allclose(torch.autograd.grad(mixed, given[0])[0], whole)


@pytest.mark.parametrize("kind", objective.GRADIENTS)
def test_open_instruct_534_which_divergence_each_kl_gradient_follows(kind):
    """Every mean over samples of the policy is taken exactly, over a softmax of six tokens."""
    draw = torch.Generator().manual_seed(3)
    weights = (torch.randn(6, generator=draw, dtype=torch.float64) / 2).requires_grad_()
    ref = (torch.randn(6, generator=draw, dtype=torch.float64) / 2).log_softmax(-1)
    logp = weights.log_softmax(-1)
    chance = logp.exp()
    to_ref, from_ref = (chance * (logp - ref)).sum(), (ref.exp() * (ref - logp)).sum()
    value = (chance * objective.k3(logp, ref, kind)).sum()
    assert value.item() == pytest.approx(to_ref.item())  # an unbiased estimate of KL(pi || ref)

    def mean_gradient(estimate):
        held = (chance.detach() * estimate).sum()
        return torch.autograd.grad(held, weights, retain_graph=True)[0]

    wanted = torch.autograd.grad(from_ref if kind == "k3" else to_ref, weights, retain_graph=True)
    assert torch.allclose(mean_gradient(objective.k3(logp, ref, kind)), wanted[0])
    assert torch.allclose(mean_gradient(logp - ref), torch.zeros(6, dtype=torch.float64))  # k1


def test_search_r1_108_what_is_trained_on_is_named_and_counted():
    row = tokens.row(pieces())
    by_kind = {
        name: tokens.trainable(row.turn)[row.kind == k] for k, name in enumerate(tokens.KINDS)
    }
    assert by_kind["sampled"].all() and row.ids[row.turn == 0][-1] == END  # end of turn is on
    assert not any(by_kind[name].any() for name in ("prompt", "template", "returned"))
    found = objective.objective(*case([row]))
    assert found.coverage == pytest.approx(9 / 23)
    assert objective.objective(*case([row, tokens.row(pieces((), ()))])).coverage < 18 / 43


@pytest.mark.parametrize("count", [0, 1, 2, 4, 9])
def test_notes_73d_turns_and_values_must_be_one_to_one(count):
    with pytest.raises(
        BadParameter, match=rf"values has {count} entries for the turns \[0, 1, 2\]"
    ):
        tokens.token_advantage(tokens.row(pieces()).turn, np.zeros(count))


def test_notes_73d_a_gap_in_the_turns_is_refused():
    with pytest.raises(BadParameter, match="accepted: one for each turn"):
        tokens.token_advantage(np.array([0, 0, 2]), np.zeros(2))


def test_notes_73e_adjacent_turns_stay_two():
    row = tokens.row([Piece("sampled", (4, END)), Piece("sampled", (5,)), Piece("returned", ())])
    assert row.turn.tolist() == [0, 0, 1] and row.turns == 2
    assert tokens.token_advantage(row.turn, [1.0, -1.0]).tolist() == [1, 1, -1]


# The model in between


def test_returned_text_is_read_but_not_scored():
    """Its embeddings do get a gradient, through attention; the logits that score it do not."""
    rows = [tokens.row(pieces())]
    batch, net = tokens.padded(rows, pad=END), model()
    embedded = net.get_input_embeddings()(torch.tensor(batch.ids)).detach().requires_grad_()
    logits = net(inputs_embeds=embedded).logits
    logp = objective.token_logprobs(logits, torch.tensor(batch.ids))
    mask = torch.tensor(batch.trainable)
    loss = objective.objective(logp, logp, torch.ones_like(logp), mask).loss
    at_logits, at_inputs = torch.autograd.grad(loss, (logits, embedded))
    scored = at_logits.abs().sum(-1)[0] > 0
    assert scored[:-1].tolist() == batch.trainable[0, 1:].tolist() and not scored[-1]
    returned = rows[0].kind == tokens.KINDS.index("returned")
    assert (at_inputs[0].abs().sum(-1)[returned] > 0).all()
    assert (at_inputs[0, -1] == 0).all()  # nothing is predicted from the last token


def test_a_step_down_the_loss_raises_what_was_credited_and_lowers_the_rest():
    rows = [tokens.row(pieces())]
    batch, net = tokens.padded(rows, pad=END), model()
    advantage = torch.tensor(tokens.batch_advantage(batch, [np.array([1.0, 0.0, -1.0])])).float()
    mask, old = torch.tensor(batch.trainable), scores(net, batch).detach()
    objective.objective(scores(net, batch), old, advantage, mask).loss.backward()
    with torch.no_grad():
        for p in net.parameters():
            p -= 0.02 * p.grad
        moved = (scores(net, batch) - old)[0]
    assert moved[rows[0].turn == 0].mean() > 0 > moved[rows[0].turn == 2].mean()


# Bad input

ROW = Row(*(np.zeros(0, dtype=np.int64) for _ in range(3)))
T = torch.zeros(1, 2)
B = torch.ones(1, 2, dtype=torch.bool)
BAD = [
    (lambda: tokens.row([Piece("tool", (1,))]), "pieces[0].kind='tool'", "returned"),
    (lambda: tokens.row([Piece("sampled", ())]), "pieces[0].ids=()", "1 or more"),
    (lambda: tokens.capped(ROW, 0), "limit=0", ">= 1"),
    (lambda: tokens.capped(ROW, True), "limit=True", "integer"),
    (lambda: tokens.padded([], 0), "rows=[]", "one or more"),
    (
        lambda: objective.token_logprobs(torch.zeros(1, 3, 5), torch.zeros(1, 2)),
        "(1, 3, 5)",
        "S, V",
    ),
    (lambda: objective.clipped_loss(T, T, low=1.0), "low=1.0", "low < 1"),
    (lambda: objective.clipped_loss(T, T, high=-0.1), "high=-0.1", "high >= 0"),
    (lambda: objective.clipped_loss(T, T, dual=1.0), "dual=1.0", "> 1, or None"),
    (lambda: objective.k3(T, T, "k1"), "gradient='k1'", "k3"),
    (lambda: objective.average(T, B, "mean"), "averaging='mean'", "trajectory"),
    (lambda: objective.objective(T, T, T, B.float()), "torch.float32", "torch.bool"),
    (lambda: objective.objective(T, T[:, :1], T, B), "old has shape (1, 1)", "(1, 2)"),
    (lambda: objective.objective(T, T, T, B, T[0]), "reference has shape (2,)", "(1, 2)"),
]


@pytest.mark.parametrize(("call", "names", "accepts"), BAD)
def test_bad_input_names_the_argument_and_what_is_accepted(call, names, accepts):
    with pytest.raises(BadParameter, match=re.escape(names)) as caught:
        call()
    assert accepts in str(caught.value)
