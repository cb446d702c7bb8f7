"""The converted model: golden values, and a cache that is repaired or left alone, never trusted."""

import subprocess
import sys
import threading
import warnings

import pytest
import torch

from repro import assets, files, models, paths
from repro.errors import BadParameter, ReproError

# Measured on the conversion of the GGUF with this SHA-256, float32, CPU, torch 2.13.0.
GGUF = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
PROMPT = "Name the capital of France and one river that flows through it."
ANSWER = (
    'The capital of France is Paris, not Paris itself, but rather the Latin phrase "Lux Méthane"'
)
TEXT = (
    "A boundary that can be executed is a claim that can be checked. Given the same weights and "
    "the same text, the loss must be the same number."
)
LOSS = 4.476666


@pytest.fixture(scope="module")
def real():
    return models.load("smollm2-135m", device="cpu")


def test_golden_source():
    assert list(assets.ASSETS["smollm2-135m"].files.values()) == [GGUF]


def test_golden_greedy_answer(real):
    model, tokenizer = real
    chat = [{"role": "user", "content": PROMPT}]
    inputs = tokenizer.apply_chat_template(
        chat, add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    out = model.generate(**inputs, max_new_tokens=24, do_sample=False)
    assert tokenizer.decode(out[0, inputs["input_ids"].shape[1] :]) == ANSWER


def test_golden_loss(real):
    model, tokenizer = real
    ids = tokenizer(TEXT, return_tensors="pt").input_ids
    assert ids.shape == (1, 31)
    with torch.no_grad():
        assert float(model(ids, labels=ids).loss) == pytest.approx(LOSS, abs=1e-4)


def test_model_is_ready_to_score(real):
    model, tokenizer = real
    assert model.config._attn_implementation == "sdpa" and not model.training
    assert model.dtype == torch.float32 and not any(p.requires_grad for p in model.parameters())
    assert not hasattr(model.config, "quantization_config")
    assert model.config.max_position_embeddings == 8192
    assert tokenizer.decode([1, 2]) == "<|im_start|><|im_end|>"
    text = "  naïve 漢字 😀\n\n\tx  12 <tool_call>{}</tool_call>\r\n"
    assert tokenizer.decode(tokenizer(text).input_ids) == text
    assert tokenizer.tokenize("a  12") == ["a", "ĠĠ", "1", "2"]  # digits are cut out first


def test_bad_parameters(real):
    with pytest.raises(BadParameter, match="'gpt-9'.*accepted: smollm2-135m"):
        models.load("gpt-9")
    for device in ("gpu", "cuda:99", "meta", 0, ""):
        with pytest.raises(BadParameter, match="device=.*accepted: auto"):
            models.load(device=device)


def test_loads_beside_a_local_package_called_kernels(real, tmp_path):
    """Transformers probes for a package of that name; the repository root has its own."""
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels/__init__.py").write_text("HERE = True\n")
    code = (
        "import sys; sys.path[:0] = sys.argv[1:]; import kernels; assert kernels.HERE\n"
        "from repro import models; model, _ = models.load(device='cpu')\n"
        "import torch; print(tuple(model(torch.tensor([[1, 2]])).logits.shape))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path), str(paths.ROOT)],
        capture_output=True, text=True,
    )  # fmt: skip
    assert run.stdout == "(1, 2, 49152)\n", run.stderr
    assert run.stderr == ""  # no bars, no warnings


# From here on a tiny model stands in for the conversion, in a cache of its own.


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """Counts conversions; `tiny.fail` makes the next ones break off half-way."""
    from tokenizers import Tokenizer
    from tokenizers import models as token_models
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    class Tiny:
        folder = tmp_path / f"cache/models/smollm2-135m-{GGUF[:12]}"
        made, fail = 0, False

    def convert(gguf, folder):
        Tiny.made += 1
        config = LlamaConfig(
            vocab_size=8, hidden_size=8, intermediate_size=16,
            num_hidden_layers=1, num_attention_heads=1, num_key_value_heads=1,
        )  # fmt: skip
        LlamaForCausalLM(config).save_pretrained(folder)
        if Tiny.fail:
            raise OSError(28, "No space left on device")
        words = Tokenizer(token_models.WordLevel({"a": 0, "b": 1}, unk_token="a"))
        PreTrainedTokenizerFast(tokenizer_object=words).save_pretrained(folder)

    monkeypatch.setenv("REPRO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(models, "_convert", convert)
    return Tiny


def load_quietly():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return models.load(device="cpu")


def test_converted_once(tiny):
    for _ in range(3):
        model, tokenizer = load_quietly()
    assert tiny.made == 1 and model.config.hidden_size == 8 and tokenizer("b").input_ids == [1]
    left = sorted(p.name for p in tiny.folder.parent.iterdir())
    assert left == [tiny.folder.name, f"{tiny.folder.name}.lock"]


def truncate(folder):
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1])


def flip_a_byte(folder):
    file = folder / "model.safetensors"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)


@pytest.mark.parametrize(
    "damage",
    [
        truncate,
        flip_a_byte,
        lambda folder: (folder / "tokenizer.json").unlink(),
        lambda folder: (folder / "config.json").write_text("{}"),
        lambda folder: (folder / "manifest.json").write_text("{"),
        lambda folder: (folder / "manifest.json").write_text('{"recipe": 1, "files": {}}'),
        lambda folder: (folder / "manifest.json").unlink(),
    ],
    ids=["truncated", "flipped", "missing", "edited", "manifest", "empty manifest", "no manifest"],
)
def test_damaged_cache_is_repaired_with_a_warning(tiny, damage):
    load_quietly()
    damage(tiny.folder)
    with pytest.warns(UserWarning, match="is damaged; converting it again") as caught:
        models.load(device="cpu")
    assert len(caught) == 1 and tiny.made == 2
    load_quietly()
    assert tiny.made == 2


def test_older_recipe_is_made_again(tiny, monkeypatch):
    load_quietly()
    monkeypatch.setattr(models, "RECIPE", models.RECIPE + 1)
    load_quietly()
    assert tiny.made == 2


def test_broken_off_conversion_leaves_nothing(tiny):
    tiny.fail = True
    with pytest.raises(ReproError, match="No space left.*REPRO_CACHE"):
        models.load(device="cpu")
    assert [p.name for p in tiny.folder.parent.iterdir()] == [f"{tiny.folder.name}.lock"]
    killed = tiny.folder.parent / f".{tiny.folder.name}-killed"
    killed.mkdir()
    tiny.fail = False
    load_quietly()
    assert not killed.exists()


def test_two_at_once_convert_once(tiny):
    folders = []
    threads = [
        threading.Thread(target=lambda: folders.append(models.prepare("smollm2-135m")))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert folders == [tiny.folder] * 4 and tiny.made == 1


def test_unwritable_cache_with_nothing_in_it(tiny, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")  # a folder cannot be made below it, even by root
    monkeypatch.setenv("REPRO_CACHE", str(tmp_path / "file/cache"))
    with pytest.raises(ReproError, match="cannot be written.*set REPRO_CACHE"):
        models.load(device="cpu")


def test_read_only_cache_with_a_good_model(tiny, monkeypatch):
    load_quietly()
    (tiny.folder.parents[1] / "verified.json").unlink()

    def refuse(*_):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(files, "write_atomic", refuse)
    monkeypatch.setattr("filelock.FileLock.acquire", refuse)
    load_quietly()
    truncate(tiny.folder)
    with pytest.raises(ReproError, match="Read-only file system.*set REPRO_CACHE"):
        models.load(device="cpu")
    assert tiny.made == 1


def test_log_settings_are_left_as_they_were(tiny):
    from transformers.utils import logging

    before = logging.get_verbosity(), logging.is_progress_bar_enabled()
    load_quietly()
    assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == before
