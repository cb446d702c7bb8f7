"""Deliberate faults in interests, score, loss and fusion: mistakes that a reader could make."""

from repro.faults import Fault


def _softmax_over_candidates(original):
    def score(cos, tau):
        import torch

        if tau == 0:
            return original(cos, tau)
        return (torch.softmax(cos / tau, -1) * cos).sum(-2)

    return score


def _diagonal_kept(original):
    return lambda interests: original(interests) + interests.shape[-2]


def _nearest(original):
    def match(long, short):
        from repro.muser import interests

        return interests.cosines(long, short).argmax(-1)

    return match


FAULTS = {
    "no_scale": Fault(
        "the attention's logits are not divided by the root of d",
        "repro.muser.interests:attend",
        lambda original: lambda queries, encoded, mask=None, sizes=None: original(
            queries * encoded.shape[-1] ** 0.5, encoded, mask, sizes
        ),
    ),
    "mask_dropped": Fault(
        "padded places are attended to",
        "repro.muser.interests:attend",
        lambda original: lambda queries, encoded, mask=None, sizes=None: original(
            queries, encoded, None, sizes
        ),
    ),
    "weights_over_candidates": Fault(
        "the weights sum to 1 over candidates, not over interests",
        "repro.muser.interests:score",
        _softmax_over_candidates,
    ),
    "dot_for_cosine": Fault(
        "the score uses inner products",
        "repro.muser.interests:cosines",
        lambda original: lambda interests, items: interests @ items.transpose(-1, -2),
    ),
    "diagonal_kept": Fault(
        "an interest is punished for its product with itself",
        "repro.muser.interests:orthogonality",
        _diagonal_kept,
    ),
    "attracts": Fault(
        "the penalty rewards equal interests",
        "repro.muser.interests:orthogonality",
        lambda original: lambda interests: -original(interests),
    ),
    "log_q_alone": Fault(
        "the correction forgets the number of draws",
        "repro.muser.interests:next_k",
        lambda original: (
            lambda positive, negative, log_q, hit=None, correction="nq": original(
                positive, negative, log_q, hit, {"nq": "q"}.get(correction, correction)
            )
        ),
    ),
    "hits_kept": Fault(
        "the positive is also counted among the negatives",
        "repro.muser.interests:next_k",
        lambda original: (
            lambda positive, negative, log_q, hit=None, correction="nq": original(
                positive, negative, log_q, None, correction
            )
        ),
    ),
    "first_action_only": Fault(
        "only the next action is predicted",
        "repro.muser.interests:next_k",
        lambda original: lambda positive, *rest: original(positive[:, :1], *rest),
    ),
    "matched_twice": Fault(
        "several long-term interests take the same short-term one",
        "repro.muser.interests:match",
        _nearest,
    ),
    "fusion_swapped": Fault(
        "the share is that of the cached part",
        "repro.muser.interests:fuse",
        lambda original: lambda long, short, age, new, w, bias=0: original(
            long, short, age, new, -w, -bias
        ),
    ),
}  # fmt: skip
