"""Tests never reach for the network, and property tests are the same on every machine."""

import os
import sys

from hypothesis import settings

os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", MPLBACKEND="Agg")
# `make test` activates nothing: a command that a reader types must still be this environment's.
os.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + os.environ.get("PATH", "")
settings.register_profile("book", deadline=None, derandomize=True, database=None)
settings.load_profile("book")
