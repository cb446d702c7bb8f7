"""What must hold of the compression: lengths, alignment, pooling, incremental update, masks.

Sources: arXiv 2609.23677 as the project's notes give it, section 3.2. Everything is reached
through its module, so that a planted fault is seen.
"""

import numpy as np
import torch

from repro.errors import BadParameter
from repro.muser import compression, interests, transformer

SHORT = (0, 1, 7, 8, 9, 11, 12, 13, 39, 40, 41, 56, 57, 200)


def lengths_by_hand() -> None:
    """512 + 256 + 232 = 1,000 tokens for 19,456 actions, and 2,259 for 100,000."""
    for length, expected in ((19_456, (232, 256, 512)), (100_000, (1_491, 256, 512))):
        found = compression.plan(length).tokens()
        assert found == expected, f"{length} actions: {found} != {expected}"


def lengths_follow_the_formula() -> None:
    """Lc = Lr + ceil(Lm / 16) + ceil(Le / 64) around every boundary, with small segments too."""
    for length in SHORT:
        p = compression.plan(length, 8, 32, (4, 16))
        recent, middle = min(length, 8), min(max(length - 8, 0), 32)
        expected = recent - (-middle // 4) - (-(length - recent - middle) // 16)
        assert len(p) == expected, f"{length} actions: {len(p)} tokens != {expected}"


def every_action_is_in_one_token() -> None:
    """Blocks follow each other without gap or overlap, old to new, whatever the alignment."""
    for align in compression.ALIGNMENTS:
        for length in SHORT:
            p = compression.plan(length, 8, 32, (4, 16), align)
            covered = np.concatenate(
                [np.arange(a, b) for a, b in zip(p.start, p.stop, strict=True)] or [[]]
            )
            assert np.array_equal(covered, np.arange(length)), f"{align}, {length}: {covered}"
            assert (np.diff(p.segment) >= 0).all(), f"{align}, {length}: segments are mixed up"


def short_blocks_are_the_oldest() -> None:
    """Counted back from the newest end, only the oldest block of a segment may be short."""
    p = compression.plan(8 + 10 + 0, 8, 10, (4, 16))
    sizes = (p.stop - p.start).tolist()
    assert sizes == [2, 4, 4] + [1] * 8, f"block sizes {sizes}"


def recent_actions_stay() -> None:
    """The newest Lr tokens are the newest Lr actions, bit for bit."""
    x = torch.randn(50, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = compression.pool(x, compression.plan(50, 8, 32, (4, 16)))
    assert torch.equal(found[-8:], x[-8:]), "a recent action was changed"


def mean_of_a_block_by_hand() -> None:
    """Four actions 1, 2, 3, 6 in one block pool to 3, and two raw ones stay."""
    x = torch.tensor([[1.0], [2], [3], [6], [7], [8]])
    found = compression.pool(x, compression.plan(6, 2, 4, (4, 16)))
    assert found[:, 0].tolist() == [3, 7, 8], f"pooled to {found[:, 0].tolist()}"


def attention_by_hand() -> None:
    """Weights 3 to 1 inside a block: logits log 3 and 0 pool 4 and 8 to 5."""
    x = torch.tensor([[4.0], [8.0]], dtype=torch.float64)
    logits = torch.tensor([np.log(3.0), 0.0], dtype=torch.float64)
    found = compression.pool(x, compression.plan(2, 0, 2, (2, 4)), logits).item()
    assert abs(found - 5) < 1e-12, f"pooled to {found}"


def absolute_blocks_never_change() -> None:
    """Cut at absolute places, a middle block stays until four of them become an early one."""
    last = compression.plan(0, 20, 128, align="absolute")
    for length in range(1, 600):
        now = compression.plan(length, 20, 128, align="absolute")
        gone = last.pooled() - now.pooled()
        assert len(gone) in (0, 4), f"action {length} ends {len(gone)} blocks"
        assert 20 <= now.tokens()[2] <= 35 or length < 20, f"{now.tokens()[2]} recent tokens"
        last = now


def newest_blocks_always_change() -> None:
    """Counted from the newest end, one new action leaves no block; 64 leave all but the short."""
    p = compression.plan(2_000, 32, 256)
    assert not p.pooled() & compression.plan(2_001, 32, 256).pooled(), "a block survived"
    later = compression.plan(2_064, 32, 256).pooled()
    early = {s for s in p.pooled() if s[1] - s[0] == 64}
    assert early <= later, "an early block of 64 is gone after 64 actions"


def update_equals_recompute() -> None:
    """Adding actions and pooling only what is new gives the tokens of the full computation."""
    draw = torch.Generator().manual_seed(1)
    x = torch.randn(400, 4, generator=draw, dtype=torch.float64)
    a = [torch.randn(*s, generator=draw, dtype=torch.float64) for s in ((5,), (5, 4), (5,))]
    times = np.cumsum(np.random.default_rng(2).exponential(60, 400))
    attention, last, tokens = compression.Attention(*a), None, None
    for length in (150, 151, 170, 320, 400):
        now = compression.plan(length, 20, 128, align="absolute")
        logits = attention.logits(x[:length], compression.gaps(times[:length], now))
        full = compression.pool(x[:length], now, logits)
        if last is not None:
            part = compression.extend(x[:length], now, last, tokens, logits=logits)
            gap = (part - full).abs().max()
            assert gap < 1e-12, f"{length} actions: off by {gap}"
            tokens = part
        last, tokens = now, full if tokens is None else tokens


def age_cuts_by_hand() -> None:
    """Ages 100, 50, 10, 5 and 0 with bounds 5 and 50: two recent, two middle, one early."""
    found = compression.by_age(np.array([0, 50, 90, 95, 100.0]), 100.0, 5.0, 50.0)
    assert found == (2, 2), f"{found} != (2, 2)"


def backward_clock_is_refused() -> None:
    """Times that fall, or a present before the last action, are an error."""
    for times, now in (([0, 5, 3.0], 9.0), ([0, 5.0], 4.0)):
        try:
            compression.by_age(np.array(times), now, 1.0, 2.0)
        except BadParameter as error:
            assert "backwards" in str(error)
        else:
            raise AssertionError(f"times {times} at {now} were accepted")


def sizes_make_equal_actions_exact() -> None:
    """Where a block holds one action repeated, log sizes give the interests of the full history."""
    draw = torch.Generator().manual_seed(3)
    p = compression.plan(100, 8, 32, (4, 16))
    tokens = torch.randn(len(p), 6, generator=draw, dtype=torch.float64)
    queries = torch.randn(3, 6, generator=draw, dtype=torch.float64)
    full = interests.attend(queries, tokens[p.block()][None])
    sizes = torch.from_numpy(p.stop - p.start)[None]
    gap = (interests.attend(queries, tokens[None], None, sizes) - full).abs().max()
    assert gap < 1e-12, f"off by {gap}"


def padding_is_ignored() -> None:
    """A user's encoding and interests are the same alone and beside a longer history."""
    torch.manual_seed(0)
    light = transformer.Light(8, heads=2).eval()
    parts = [torch.randn(n, 8) for n in (3, 9)]
    ages = [torch.arange(n).flip(0) for n in (3, 9)]
    queries = torch.randn(2, 8)

    def seen(users):
        tokens, mask = transformer.pad([parts[i] for i in users])
        age = transformer.pad([ages[i] for i in users])[0]
        encoded = light(tokens, age, torch.full_like(age, 2), mask)
        return interests.attend(queries, encoded, mask)[0]

    with torch.no_grad():
        gap = (seen([0]) - seen([0, 1])).abs().max()
    assert gap < 1e-5, f"padding moves an interest by {gap}"


CHECKS = {
    check.__name__: check
    for check in (
        lengths_by_hand, lengths_follow_the_formula, every_action_is_in_one_token,
        short_blocks_are_the_oldest, recent_actions_stay, mean_of_a_block_by_hand,
        attention_by_hand, absolute_blocks_never_change, newest_blocks_always_change,
        update_equals_recompute, age_cuts_by_hand, backward_clock_is_refused,
        sizes_make_equal_actions_exact, padding_is_ignored,
    )
}  # fmt: skip
