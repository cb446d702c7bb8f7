"""A tokenizer and a random model small enough for checks that take milliseconds.

One token a character, SmolLM2's turn markers, and its trap: the pad token is the end token, id 2.
Nothing here has been trained; it serves to test equations and alignment, not to show an effect.
"""

import re
from collections.abc import Iterator
from typing import Any

_MARKS = ("<|im_start|>", "<|im_end|>")
_SPLIT = re.compile(r"<\|im_(?:start|end)\|>|.", re.DOTALL)
END = 2
VOCABULARY = 100


class Tokenizer:
    """What the chapter uses of a transformers tokenizer, a character a token."""

    eos_token_id = pad_token_id = END
    all_special_ids = (1, END)
    all_special_tokens = _MARKS

    def __call__(self, text: str, **_: Any) -> dict[str, list]:
        spans = [m.span() for m in _SPLIT.finditer(text)]
        ids = [_number(text[a:b]) for a, b in spans]
        return {"input_ids": ids, "offset_mapping": spans}

    def decode(self, ids: Any, skip_special_tokens: bool = False) -> str:
        kept = [i for i in ids if not (skip_special_tokens and i in self.all_special_ids)]
        return "".join(_text(int(i)) for i in kept)

    def apply_chat_template(self, messages: list[dict], **_: Any) -> str:
        return "".join(_turns(messages)) + "<|im_start|>assistant\n"


def model(seed: int = 0, size: int = 32, context: int = 1024) -> Any:
    """A random Llama of two layers over the toy vocabulary, float32, evaluation mode."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=size,
        intermediate_size=2 * size,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=context,
        initializer_range=0.2,
        bos_token_id=1,
        eos_token_id=END,
        pad_token_id=END,
        tie_word_embeddings=True,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return LlamaForCausalLM(config).eval()


def _turns(messages: list[dict]) -> Iterator[str]:
    for message in messages:
        yield f"<|im_start|>{message['role']}\n{message['content']}<|im_end|>\n"


def _number(piece: str) -> int:
    if piece in _MARKS:
        return 1 + _MARKS.index(piece)
    if piece == "\n":
        return 3
    return ord(piece) - 28 if " " <= piece <= "~" else 0


def _text(number: int) -> str:
    if number in (1, 2):
        return _MARKS[number - 1]
    if number == 3:
        return "\n"
    return chr(number + 28) if 4 <= number <= 98 else "?"
