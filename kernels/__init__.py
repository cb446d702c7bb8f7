"""Numba-CUDA kernels, each beside a plain reference with the same signature.

Importable from the repository root only: an installed package of this name would be taken for
another library by transformers.
"""
