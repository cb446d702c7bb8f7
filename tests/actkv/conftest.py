"""Property tests here are the same on every machine: fixed examples, no clock, no stored state."""

from hypothesis import settings

settings.register_profile("actkv", deadline=None, derandomize=True, database=None)
settings.load_profile("actkv")
