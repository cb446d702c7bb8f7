"""A Llama of a few thousand random weights, the same for a seed: shapes and gradients are real."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM


def tiny_llama(
    vocabulary, width=32, heads=4, groups=2, layers=2, room=128, spread=0.2, seed=0, hidden=None
):
    """groups: key-value heads. room: positions. spread: of the weights. hidden: of the FFN."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        intermediate_size=hidden or 3 * width // 2,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=groups,
        max_position_embeddings=room,
        initializer_range=spread,
    )
    return LlamaForCausalLM(config).eval()
