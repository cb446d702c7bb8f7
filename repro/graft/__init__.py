"""GRAFT: step-level credit from a graph over a group's rollouts (arXiv 2609.28963)."""
