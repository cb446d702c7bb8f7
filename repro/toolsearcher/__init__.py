"""ToolSearcher (arXiv 2609.30906): tool selection at scale, learned with credit for each search."""
