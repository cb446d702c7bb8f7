"""Code-based skills for language agents (arXiv 2609.31076): own library over NLE and MiniHack."""
