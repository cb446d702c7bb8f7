"""What must hold of `repro.toolsearcher.objective`: exact zeros and worked numbers.

Values by hand from the formulas of the project's notes on arXiv 2609.30906, section 3; the reports
that some checks answer to are listed in its section 7.2. Everything is reached through the module,
so that a planted fault is seen. `CHECKS` holds those of `tokens_checks` as well.
"""

import math

import torch

from repro.toolsearcher import objective, tokens, tokens_checks
from repro.toolsearcher.tokens import Piece
from repro.toolsearcher.tokens_checks import END, VALUES, near, pieces


def _case(rows=None, dtype=torch.float64):
    """logp (a leaf), old, reference, advantage and mask of a small padded batch."""
    rows = rows or _rows()
    batch = tokens.padded(rows, pad=END)
    draw = torch.Generator().manual_seed(0)
    logp, old, ref = (
        -torch.rand(batch.ids.shape, generator=draw, dtype=dtype) - 0.5 for _ in range(3)
    )
    advantage = torch.tensor(tokens.batch_advantage(batch, [VALUES[: r.turns] for r in rows]))
    return logp.requires_grad_(), old, ref, advantage, torch.tensor(batch.trainable)


def _rows() -> list[tokens.Row]:
    """With results, without any, and cut in the middle of the answer."""
    full = tokens.row(pieces())
    return [full, tokens.row(pieces((), ())), tokens.capped(full, 21)]


def _sampled(rows) -> torch.Tensor:
    """What the policy sampled, by hand from the kinds: bool [B, S]. Not the mask under test."""
    kinds = torch.nn.utils.rnn.pad_sequence([torch.tensor(r.kind) for r in rows], True, -1)
    return kinds == tokens.KINDS.index("sampled")


def _gradient(logp, *args, **options) -> torch.Tensor:
    return torch.autograd.grad(objective.objective(logp, *args, **options).loss, logp)[0]


def nothing_outside_the_mask_has_a_gradient() -> None:
    """Gradient exactly 0 on prompt, template, returned text and padding, in every loss path."""
    rows = _rows()
    logp, old, ref, advantage, mask = _case(rows)
    everywhere, sampled = torch.full_like(advantage, 0.7), _sampled(rows)
    for averaging in objective.AVERAGING:
        for kl in objective.GRADIENTS:
            for beta, given in ((0.0, everywhere), (1.0, everywhere * 0), (0.1, everywhere)):
                options = {"averaging": averaging, "kl_gradient": kl, "beta": beta}
                grad = _gradient(logp, old, given, mask, ref, **options)
                leak = grad[~sampled].abs().max()
                assert leak == 0, f"outside what was sampled {leak:.3g} with {options}"
                assert (grad[sampled] != 0).any(), f"no gradient at all with {options}"


def event_boundaries_are_sharp() -> None:
    """The logits before a turn's first token learn; those after its last one do not."""
    rows = _rows()
    batch, sampled = tokens.padded(rows, pad=END), _sampled(rows)
    ids, mask = torch.tensor(batch.ids), torch.tensor(batch.trainable)
    logits = torch.zeros(*ids.shape, 20, dtype=torch.float64, requires_grad=True)
    logp = objective.token_logprobs(logits, ids)
    loss = objective.objective(logp, logp.detach(), torch.ones_like(logp), mask).loss
    learns = torch.autograd.grad(loss, logits)[0].abs().sum(-1) > 0
    near(learns[:, :-1], sampled[:, 1:], "logits that learn, against the next token")
    assert not learns[:, -1].any(), "the last position predicts nothing"


def logprobs_belong_to_their_own_token() -> None:
    """Position u holds the log-probability of token u given those before it."""
    ids = torch.tensor([[0, 2, 1]])
    logits = torch.log(torch.tensor([[[0.2, 0.3, 0.5], [0.1, 0.6, 0.3], [0.3, 0.3, 0.4]]]))
    expected = [[0.0, math.log(0.5), math.log(0.6)]]
    near(objective.token_logprobs(logits, ids), expected, "log-probabilities", 1e-6)


def clipping_by_hand() -> None:
    """The token loss by hand, on both sides of the clip and at the dual clip."""
    for advantage, rho, loss in (
        (2, 1, -2),
        (2, 0.5, -1),
        (2, 1.5, -2.4),
        (-2, 0.5, 1.6),
        (-2, 1.5, 3),
        (-2, 5, 6),
        (0, 5, 0),
    ):
        given = (torch.tensor([float(v)], dtype=torch.float64) for v in (rho, advantage))
        near(objective.clipped_loss(*given), [loss], f"loss at A = {advantage}, rho = {rho}")
    rho, advantage = (torch.tensor([v], dtype=torch.float64) for v in (5.0, -2.0))
    near(objective.clipped_loss(rho, advantage, dual=None), [10], "loss without the dual clip")


def clipped_tokens_have_no_gradient() -> None:
    """No gradient where the ratio has gone too far in its own direction; elsewhere -A rho."""
    for advantage, rho, slope in ((1, 1.5, 0), (1, 0.5, -1), (-1, 0.5, 0), (-1, 2, 1), (-1, 4, 0)):
        logp = torch.tensor([[math.log(rho)]], dtype=torch.float64, requires_grad=True)
        other = torch.zeros_like(logp.detach())
        mask = torch.ones_like(other, dtype=torch.bool)
        grad = _gradient(logp, other, other + advantage, mask)
        near(grad[0, 0], slope * rho, f"gradient at A = {advantage}, rho = {rho}")


def on_policy_gradient_is_the_plain_one() -> None:
    """At the old weights the gradient of a token is -A / (tokens of its row x rows)."""
    logp, _, _, advantage, mask = _case()
    grad = _gradient(logp, logp.detach(), advantage, mask)
    near(grad, -advantage / mask.sum(1, keepdim=True) / len(mask), "gradient at ratio 1")


def k3_by_hand() -> None:
    """The KL estimate by hand; 0 at equal probabilities and positive on both sides."""
    two = math.log(2)
    for p, q, value in ((0.5, 0.5, 0), (0.5, 0.25, two - 0.5), (0.25, 0.5, 1 - two)):
        given = (torch.tensor([math.log(v)], dtype=torch.float64) for v in (p, q))
        near(objective.k3(*given), [value], f"k3 at {p} against {q}")


def kl_gradients_are_those_of_two_divergences() -> None:
    """Over a small softmax the mean k3 gradient is that of KL(ref|pi), k2's that of KL(pi|ref)."""
    draw = torch.Generator().manual_seed(1)
    weights = (torch.randn(5, generator=draw, dtype=torch.float64) / 2).requires_grad_()
    ref = (torch.randn(5, generator=draw, dtype=torch.float64) / 2).log_softmax(-1)
    logp = weights.log_softmax(-1)
    chance = logp.exp().detach()
    exact = {
        "k3": (ref.exp() * (ref - logp)).sum(),
        "k2": (logp.exp() * (logp - ref)).sum(),
    }
    for name, divergence in exact.items():
        wanted = torch.autograd.grad(divergence, weights, retain_graph=True)[0]
        mean = (chance * objective.k3(weights.log_softmax(-1), ref, name)).sum()
        near(torch.autograd.grad(mean, weights)[0], wanted, f"mean gradient, {name}")


def kl_acts_where_the_advantage_is_zero() -> None:
    """Zero credit is not zero loss: the KL term is there, on the mask only."""
    logp, old, ref, advantage, mask = _case()
    found = objective.objective(logp, old, advantage * 0, mask, ref, beta=0.5)
    assert found.policy == 0, f"policy term {found.policy}"
    by_hand = torch.where(mask, (ref - logp).exp() - (ref - logp) - 1, 0.0)
    expected = (by_hand.sum(1) / mask.sum(1)).mean().detach()
    near(found.kl, expected, "KL term")
    near(found.loss.detach(), 0.5 * expected, "loss")


def the_two_averages_differ() -> None:
    """Rows of 1 and 3 tokens by hand: 2.5 by trajectory, 1.75 by token."""
    values = torch.tensor([[4.0, 9, 9], [0, 1, 2]])
    mask = torch.tensor([[True, False, False], [True, True, True]])
    for averaging, expected in (("trajectory", 2.5), ("token", 1.75)):
        near(objective.average(values, mask, averaging), expected, averaging)


def micro_batches_add_up() -> None:
    """However a batch is split, loss and gradient are those of the whole."""
    rows = [tokens.row(pieces((5,) * n, (6,) * m)) for n, m in ((3, 0), (0, 0), (9, 4))]
    rows += [tokens.row([Piece("prompt", (1,)), Piece("sampled", (4,))])]
    logp, old, ref, advantage, mask = _case(rows)
    for averaging in objective.AVERAGING:
        options = {"averaging": averaging, "beta": 0.1}
        whole = _gradient(logp, old, advantage, mask, ref, **options)
        of = objective.totals(mask)
        for cuts in ((0, 1, 4), (0, 2, 3, 4)):
            split = torch.zeros_like(whole)
            for part in map(slice, cuts, cuts[1:]):
                given = (v[part] for v in (logp, old, advantage, mask, ref))
                loss = objective.objective(*given, of=of, **options).loss
                split += torch.autograd.grad(loss, logp)[0]
            near(split, whole, f"gradient of micro-batches {cuts}, {averaging}")


def infinities_outside_the_mask_leave_no_trace() -> None:
    """NaN, infinite or far placeholders at masked positions change neither loss nor gradient."""
    logp, old, ref, advantage, mask = _case()
    clean = _gradient(logp, old, advantage, mask, ref)
    loss = objective.objective(logp, old, advantage, mask, ref).loss.detach()
    for bad in (math.nan, math.inf, -math.inf, 1e4):
        dirty = [torch.where(mask, v, bad) for v in (logp.detach(), old, ref, advantage)]
        leaf = dirty[0].requires_grad_()
        found = objective.objective(leaf, dirty[1], dirty[3], mask, dirty[2]).loss
        near(found.detach(), loss, f"loss with {bad} outside the mask")
        grad = torch.autograd.grad(found, leaf)[0]
        near(grad, clean, f"gradient with {bad} outside the mask")


def a_row_without_tokens_adds_nothing() -> None:
    """A row with nothing sampled adds 0 and counts as a row; a batch of such rows gives 0."""
    rows = [tokens.row(pieces()), tokens.row([Piece("prompt", (1, 2))])]
    logp, old, ref, advantage, mask = _case(rows)
    grad = _gradient(logp, old, advantage, mask, ref)
    alone = _gradient(logp, old, advantage, mask, ref, of=objective.Totals(1, 9))
    near(grad, alone / 2, "gradient beside an empty row")
    empty = objective.objective(logp, old, advantage, mask & False, ref)
    assert empty.loss == 0, f"loss without any token {empty.loss}"


CHECKS = tokens_checks.CHECKS | {
    check.__name__: check
    for check in (
        nothing_outside_the_mask_has_a_gradient,
        event_boundaries_are_sharp,
        logprobs_belong_to_their_own_token,
        clipping_by_hand,
        clipped_tokens_have_no_gradient,
        on_policy_gradient_is_the_plain_one,
        k3_by_hand,
        kl_gradients_are_those_of_two_divergences,
        kl_acts_where_the_advantage_is_zero,
        the_two_averages_differ,
        micro_batches_add_up,
        infinities_outside_the_mask_leave_no_trace,
        a_row_without_tokens_adds_nothing,
    )
}
