"""Recursive OPSD (arXiv 2609.30652): distil from the current model with the solution in view."""
