"""Load the small public chat model: converted once from the pinned GGUF, then in a blink.

Transformers de-quantises a GGUF on every load and refuses to save the result, so the first call
copies the weights into a plain Llama model and keeps it, with its tokenizer, in the cache.
"""

import json
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from repro import assets, files, paths
from repro.errors import BadParameter

warnings.filterwarnings("ignore", "IProgress not found")  # tqdm's advice, in every notebook
MODELS = ("smollm2-135m",)
GGUF_BAR = "transformers.modeling_gguf_pytorch_utils.tqdm"  # a bar that no setting switches off
RECIPE = 1  # raise it when the conversion changes: earlier conversions are then made again


def load(name: str = "smollm2-135m", device: str = "auto") -> tuple[Any, Any]:
    """Model (float32, evaluation mode, no gradients, SDPA attention) and tokenizer, offline.

    name: one of `MODELS`. device: ``auto`` (a GPU if there is one), ``cpu``, ``cuda``, ``cuda:N``.
    Raises BadParameter for other values, MissingAsset without the GGUF, ReproError where the
    converted model has to be written and the cache cannot be.
    """
    if name not in MODELS:
        raise BadParameter(f"model={name!r} is not known; accepted: {', '.join(MODELS)}.")
    where = pick_device(device)
    folder = prepare(name)
    from transformers import AutoTokenizer, LlamaForCausalLM

    with _quiet():
        model = LlamaForCausalLM.from_pretrained(
            folder, local_files_only=True, attn_implementation="sdpa"
        )
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    return model.eval().requires_grad_(False).to(where), tokenizer


def pick_device(device: str = "auto") -> Any:
    """The ``torch.device`` for a notebook's `device` parameter."""
    import torch

    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if device == "auto":
        return torch.device("cuda" if gpus else "cpu")
    accepted = ["cpu", *(["cuda"] if gpus else []), *(f"cuda:{i}" for i in range(gpus))]
    if device not in accepted:
        raise BadParameter(f"device={device!r} is not usable here; accepted: auto, {accepted}.")
    return torch.device(device)


def prepare(name: str) -> Path:
    """Folder with the verified converted model, made or repaired if need be."""
    (gguf_sha,) = assets.ASSETS[name].files.values()
    folder = paths.cache_dir() / "models" / f"{name}-{gguf_sha[:12]}"
    if _state(folder) == "good":
        return folder
    from filelock import FileLock

    gguf = assets.path(name)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.parent / f"{folder.name}.lock"):
            state = _state(folder)  # another process may have converted meanwhile
            if state == "damaged":
                warnings.warn(
                    f"The cached model {folder.name} is damaged; converting it again.",
                    stacklevel=3,
                )
            if state != "good":
                _replace(folder, gguf)
    except OSError as error:
        raise assets.unwritable(error) from error
    return folder


def _state(folder: Path) -> str:
    """``good``, ``absent`` (or made by an earlier recipe) or ``damaged``."""
    if not folder.exists():
        return "absent"
    try:
        manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
        if manifest["recipe"] != RECIPE:
            return "absent"
        hashes = dict(manifest["files"])
    except (OSError, ValueError, KeyError, TypeError):
        return "damaged"
    good = bool(hashes) and all(assets.verified(folder / file, hashes[file]) for file in hashes)
    return "good" if good else "damaged"


def _replace(folder: Path, gguf: Path) -> None:
    """Convert into a folder beside `folder`, then swap. The caller holds the lock."""
    for leftover in folder.parent.glob(f".{folder.name}-*"):  # of a conversion that was killed
        shutil.rmtree(leftover)
    fresh = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-"))
    try:
        _convert(gguf, fresh)
        hashes = {file.name: files.sha256(file) for file in sorted(fresh.iterdir())}
        manifest = {"recipe": RECIPE, "source": gguf.name, "files": hashes}
        files.write_atomic(fresh / "manifest.json", json.dumps(manifest, indent=1))
        fresh.chmod(0o755)
        if folder.exists():
            folder.rename(fresh.with_name(f"{fresh.name}.old"))
        fresh.rename(folder)
    finally:
        for scrap in folder.parent.glob(f"{fresh.name}*"):
            shutil.rmtree(scrap, ignore_errors=True)


def _convert(gguf: Path, folder: Path) -> None:
    """Write the model of `gguf` to `folder` as float32 safetensors, with its tokenizer."""
    import torch
    from safetensors import SafetensorError
    from tokenizers import pre_tokenizers
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

    source = {"gguf_file": gguf.name, "local_files_only": True}
    with _quiet(), mock.patch(GGUF_BAR, lambda tensors, **_: tensors):
        loaded = AutoModelForCausalLM.from_pretrained(gguf.parent, dtype=torch.float32, **source)
        config = loaded.config.to_dict()
        config.pop("quantization_config")  # with it, save_pretrained refuses
        plain = LlamaForCausalLM(LlamaConfig(**config))
        plain.load_state_dict(loaded.state_dict())
        tokenizer = AutoTokenizer.from_pretrained(gguf.parent, **source)
        # The GGUF declares the "smollm" pre-tokenizer, which cuts single digits out first;
        # transformers ignores the declaration (it shows on two spaces before a digit).
        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Digits(individual_digits=True),
                pre_tokenizers.ByteLevel(add_prefix_space=False),
            ]
        )
        try:
            plain.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
        except SafetensorError as error:  # how a full disk shows here
            raise OSError(str(error)) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """No progress bars, notes or warnings from transformers inside; as before afterwards."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
