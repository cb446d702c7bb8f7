"""KITE and its Step Scale Transformer (arXiv 2609.27294): one of two towers writes the KV."""
