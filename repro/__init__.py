"""Thin package behind the notebooks of Executable Boundaries: one mechanism a module."""

__version__ = "0.1.0"
