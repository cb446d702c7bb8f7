"""Tests never reach for the network, and property tests are the same on every machine."""

import os

from hypothesis import settings

os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", MPLBACKEND="Agg")
settings.register_profile("book", deadline=None, derandomize=True, database=None)
settings.load_profile("book")
