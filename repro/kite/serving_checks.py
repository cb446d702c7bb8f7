"""What must hold of the execution modes: one answer in all of them (notes 3.4 and 11)."""

import torch

from repro.kite import rows, serve
from repro.kite.tiny import STYLES, near, refused, tiny, tokens


def four_modes_agree() -> None:
    """Train, last-only, chunked and token-by-token give the same last logits."""
    for style in STYLES:
        model, ids = tiny(style), tokens()
        expected = model(ids)[0][:, -1]
        for chunk in (0, 1, 5, 11, 12, 13):
            near(serve.prefill(model, ids, chunk=chunk)[0], expected, f"{style}, chunk {chunk}")
        past = None
        for t in range(ids.shape[1]):
            logits, past = model(ids[:, t : t + 1], past, 1)
        near(logits[:, -1], expected, f"{style}, token by token")


def several_new_tokens_after_a_past() -> None:
    """1, 2 or 17 new tokens after a past give the logits of one pass; so do the last k of them."""
    model, ids = tiny(), tokens(25)
    expected = model(ids)[0]
    for new in (1, 2, 17):
        with torch.no_grad():
            past = model(ids[:, :-new], None, 0)[1]
            near(model(ids[:, -new:], past.copy())[0], expected[:, -new:], f"{new} new tokens")
            for keep in {1, new}:
                found = model(ids[:, -new:], past.copy(), keep)[0]
                near(found, expected[:, -keep:], f"the last {keep} of {new}")


def ragged_rows_are_alone() -> None:
    """A padded row gives the logits that it gives alone, in the prompt and in later tokens."""
    model, ids, ends = tiny(), tokens(9, batch=3), [9, 4, 1]
    for chunk in (0, 4):
        found, past = serve.prefill(model, ids, ends, chunk)
        assert past.rows == ends, f"{past.rows} tokens cached"
        following = model(ids[:, :1], past, 1)[0][:, 0]
        for row, end in enumerate(ends):
            alone = model(torch.cat([ids[row : row + 1, :end], ids[row : row + 1, :1]], 1))[0][0]
            near(found[row], alone[-2], f"row {row}, chunk {chunk}")
            near(following[row], alone[-1], f"row {row}, the token after")


def mixed_batch_by_row_index() -> None:
    """One prompt and two decoding rows in one forward; padding the index changes nothing."""
    model, ids = tiny(), tokens(8, batch=3)
    with torch.no_grad():
        _, past = model(ids[:, :5], None, 0, [1, 5, 4])
        new = [6, 1, 2]
        index = rows.needed(new, [False, True, True])
        assert index.tolist() == [[0, 5], [1, 0], [2, 0], [2, 1]], f"index {index.tolist()}"
        fed = torch.stack([ids[0, 1:7], ids[1, 5:6].expand(6), ids[2, 4:6].repeat(3)])
        found = model(fed, past.copy(), index, new)[0]
        longer = model(fed, past.copy(), rows.padded(index, [2, 8]), new)[0]
        assert len(longer) == 8, f"{len(longer)} rows"
        near(longer[:4], found, "padded index")
        wholes = [model(ids[b : b + 1, :end])[0][0] for b, end in enumerate((7, 6, 6))]
    near(found, torch.stack([wholes[0][6], wholes[1][5], wholes[2][4], wholes[2][5]]), "rows")


def prompt_scores_are_refused_in_last_only_mode() -> None:
    """Prompt log-probs: refused where the prompt has no logits, right in score mode."""
    model, ids = tiny(), tokens(4)
    refused(lambda: serve.prefill(model, ids, prompt_logprobs=True), "prompt log-probs in prefill")
    refused(lambda: serve.prompt_scores(model, ids, 1), "prompt log-probs from last-only logits")
    found = serve.prompt_scores(model, ids)
    logits = model(ids)[0].log_softmax(-1)
    near(found[0], torch.stack([logits[0, t, ids[0, t + 1]] for t in range(3)]), "scores")


CHECKS = {
    check.__name__: check
    for check in (
        four_modes_agree,
        several_new_tokens_after_a_past,
        ragged_rows_are_alone,
        mixed_batch_by_row_index,
        prompt_scores_are_refused_in_last_only_mode,
    )
}
