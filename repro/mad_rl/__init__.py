"""MaD-RL (arXiv 2609.31644): rewards that move the mix of a model's outputs to a chosen target."""
