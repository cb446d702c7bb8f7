"""DeltaS (arXiv 2609.27470): state drift of gated-delta layers decides which KV entries stay."""
