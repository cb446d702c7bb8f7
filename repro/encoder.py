"""Sentence vectors from all-MiniLM-L6-v2, offline: mean over tokens, then unit length.

The model is read straight from the pinned wheel: mean pooling without padding, no pooling layer, as
its own configuration says. Vectors of many texts can be kept in the cache, named by their content.
"""

import hashlib
import io
from collections.abc import Sequence
from functools import cache
from typing import Any

from repro import assets, files, paths
from repro.errors import BadParameter

WIDTH = 384
MAX_TOKENS = 256  # what the encoder was set up for; longer texts lose their tail
RECIPE = 1  # raise it when the vectors of a text change: kept ones are then made again


def encode(texts: Sequence[str], batch: int = 32, max_tokens: int = MAX_TOKENS) -> Any:
    """Vectors of `texts`, float32 [n, 384], each of length 1.

    Texts of like length share a batch; how they are batched changes the last digits only.
    Raises BadParameter for a single text, something that is no text, or sizes below 1 (max_tokens:
    3 to 512), MissingAsset without the model.
    """
    import numpy as np
    import torch

    if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
        raise BadParameter("texts is refused; accepted: a list of texts.")
    if batch < 1 or not 3 <= max_tokens <= 512:
        raise BadParameter(
            f"batch={batch!r}, max_tokens={max_tokens!r} is refused; accepted: >= 1, 3 to 512."
        )
    model, tokenizer = _load()
    tokenizer.enable_truncation(max_tokens)
    ids = [encoding.ids for encoding in tokenizer.encode_batch(list(texts))]
    order = np.argsort([len(row) for row in ids], kind="stable")
    found = np.empty((len(ids), WIDTH), dtype=np.float32)
    with torch.inference_mode():
        for first in range(0, len(ids), batch):
            rows = order[first : first + batch]
            width = len(ids[rows[-1]])
            padded = torch.tensor([ids[r] + [0] * (width - len(ids[r])) for r in rows])
            mask = torch.tensor([[1] * len(ids[r]) + [0] * (width - len(ids[r])) for r in rows])
            hidden = model(input_ids=padded, attention_mask=mask).last_hidden_state
            found[rows] = pooled(hidden, mask).numpy()
    return found


def pooled(hidden: Any, mask: Any) -> Any:
    """Mean of `hidden` [n, s, d] over the tokens that `mask` [n, s] marks, scaled to length 1."""
    import torch

    mean = (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
    return torch.nn.functional.normalize(mean, dim=-1)


def encode_cached(texts: Sequence[str], max_tokens: int = MAX_TOKENS) -> Any:
    """`encode`, kept in the cache under the hash of texts, model and recipe.

    A damaged file is made again; a cache that cannot be written only makes this slower.
    """
    import numpy as np

    key = files.digest([RECIPE, assets.digest("minilm-l6-v2"), max_tokens, list(texts)])
    path = paths.cache_dir() / "embeddings" / f"{key}.npy"
    assets.path("minilm-l6-v2")  # names the asset as used, whether or not the file is there
    if (kept := _read(path)) is not None and kept.shape == (len(texts), WIDTH):
        return kept
    found = encode(texts, max_tokens=max_tokens)
    buffer = io.BytesIO()
    np.save(buffer, found, allow_pickle=False)
    data = buffer.getvalue()
    try:
        files.write_atomic(path, hashlib.sha256(data).digest() + data)
    except OSError:
        pass
    return found


def _read(path: Any) -> Any:
    """The array in `path`, or None where its first 32 bytes are not the hash of the rest."""
    import numpy as np

    try:
        content = path.read_bytes()
    except OSError:
        return None
    if hashlib.sha256(content[32:]).digest() != content[:32]:
        return None
    return np.load(io.BytesIO(content[32:]), allow_pickle=False)


@cache
def _load() -> tuple[Any, Any]:
    """Model (float32, evaluation mode) and tokenizer. Every weight is there and has its place."""
    from safetensors.torch import load_file
    from tokenizers import Tokenizer
    from transformers import BertConfig, BertModel

    folder = assets.path("minilm-l6-v2") / "model"
    config = BertConfig.from_json_file(folder / "config.json")
    model = BertModel(config, add_pooling_layer=False)
    weights = load_file(folder / "model.safetensors")
    unused = ("pooler.", "embeddings.position_ids")
    model.load_state_dict({k: v for k, v in weights.items() if not k.startswith(unused)})
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    return model.float().eval().requires_grad_(False), tokenizer
