"""ActKV (arXiv 2609.31395): action-guided KV cache management."""
