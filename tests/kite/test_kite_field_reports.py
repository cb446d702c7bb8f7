"""The field reports of the notes, section 11, where they apply to this code; one test a report."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from repro.errors import BadParameter
from repro.kite import flops, rows, serve
from repro.kite.config import Config
from repro.kite.study_towers import _counting
from repro.kite.tiny import STYLES, near, tiny, tokens


def test_report_1_prompt_logprobs_in_last_only_mode_vllm_22628():
    model = tiny()
    for call in (
        lambda: serve.prefill(model, tokens(), prompt_logprobs=True),
        lambda: serve.prefill(model, tokens(), last_only=False, prompt_logprobs=True),
        lambda: serve.prompt_scores(model, tokens(), logits_to_keep=1),
        lambda: serve.prompt_scores(model, tokens(), torch.tensor([[0, 3]])),
    ):
        with pytest.raises(BadParameter, match="prompt_logprobs.*accepted: prompt_scores"):
            call()
    assert serve.prompt_scores(model, tokens()).shape == (2, 11)


@pytest.mark.parametrize("length", [1, 7, 8, 9, 16, 17])
def test_report_2_prompts_below_at_and_above_the_chunk_run_the_tail_once_mlx_vlm_2155(length):
    model, ids = tiny(), tokens(length)
    expected = model(ids)[0][:, -1]
    for chunk in (0, 8):
        with _counting(model) as seen:
            found, _ = serve.prefill(model, ids, chunk=chunk)
        near(found, expected, f"chunk {chunk}")
        assert seen == [2], f"the Decoder ran at {seen} positions"


def test_report_3_the_decoder_reads_the_writer_s_cache_itself_vllm_43185():
    model = tiny()
    with torch.no_grad():
        _, cache = model(tokens(), None, 1)
        model(tokens(1), cache, 1)
    assert len(cache.keys) == len(model.prefiller) == 2
    view, _ = cache.layer(0)
    assert view.untyped_storage().data_ptr() == cache.keys[0].untyped_storage().data_ptr()
    read = []
    for block in model.decoder:
        original = block.read
        block.read = lambda z, k, v, *rest, call=original: (read.append(k), call(z, k, v, *rest))[1]
    with torch.no_grad():
        model(tokens(1, batch=2), cache, 1)
    stored = [k.untyped_storage().data_ptr() for k in cache.keys]
    assert [k.untyped_storage().data_ptr() for k in read] == stored


def test_report_4_a_row_index_serves_mixed_batches_and_captured_sizes_vllm_19719():
    model, ids = tiny(), tokens(9, batch=4)
    with torch.no_grad():
        _, cache = model(ids[:, :6], None, 0, [6, 2, 4, 1])
        new, fed = [1, 3, 1, 2], ids[:, 6:9]
        index = rows.needed(new, [True, False, True, True])
        assert index.tolist() == [[0, 0], [1, 2], [2, 0], [3, 0], [3, 1]]
        with _counting(model) as seen:
            found = model(fed, cache.copy(), index, new)[0]
        assert seen == [4 * 2]  # a padded grid, not four prompts of three
        everything = model(fed, cache.copy(), None, new)[0]
        near(found, everything[index[:, 0], index[:, 1]], "indexed rows")
        captured = rows.padded(index, [1, 2, 4, 8])
        assert captured.shape == (8, 2)
        near(model(fed, cache.copy(), captured, new)[0][:5], found, "padded index")
        shuffled = index[[3, 0, 4, 2, 1]]
        near(model(fed, cache.copy(), shuffled, new)[0], found[[3, 0, 4, 2, 1]], "any order")


@pytest.mark.parametrize("style", STYLES)
def test_report_5_a_ragged_row_goes_on_from_its_own_length_comfyui_15698(style):
    model, ids, ends = tiny(style), tokens(11, batch=3), [11, 3, 6]
    _, cache = serve.prefill(model, ids, ends)
    for step in range(4):
        fed = tokens(3, batch=3)[:, :1] if not step else found.argmax(-1)  # noqa: F821
        found = model(fed, cache, 1)[0]
        ids = torch.cat([ids, ids.new_zeros(3, 1)], 1)
        for row, end in enumerate(ends):
            ids[row, end + step] = fed[row]
            alone = model(ids[row : row + 1, : end + step + 1])[0][:, -1]
            near(found[row], alone, f"row {row}, step {step}")
    assert cache.rows == [end + 4 for end in ends]


def test_report_6_the_formula_holds_where_the_counter_drops_attention_pytorch_195460():
    config, ids = Config(width=32, heads=2, vocab=31), tokens(16)
    counted = {}
    for kind in ("explicit", "fused"):
        model = tiny()
        model = type(model)(config).use_attention(kind)
        model.expand()
        with torch.no_grad(), FlopCounterMode(display=False) as seen:
            model(ids)
        counted[kind] = seen.get_total_flops()
    whole = 32 * flops.forward(config, 16, 2, square=True)
    inside = 32 * 4 * flops.attention(config, 16)
    assert counted["explicit"] == whole
    assert counted["fused"] in (whole, whole - inside)  # a later counter may see it, once


def test_report_10_several_new_tokens_after_a_past_transformers_45513():
    model, ids = tiny(), tokens(40)
    with torch.no_grad():
        whole = model(ids)[0]
        for new in (1, 2, 17):
            cache = model(ids[:, : 40 - new], None, 0)[1]
            one = cache.copy()
            near(model(ids[:, 40 - new :], cache)[0], whole[:, -new:], f"{new} tokens at once")
            for t in range(40 - new, 40):
                near(model(ids[:, t : t + 1], one, 1)[0], whole[:, t : t + 1], f"token {t}")
