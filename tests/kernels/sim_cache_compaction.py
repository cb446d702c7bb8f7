"""Under the simulator: Algorithm 4 inside the paged cache, every row moved by the kernel."""

import cache_rounds
import pytest
import torch

from kernels import cache_compaction, compaction
from kernels.vector16 import SIMULATED

assert SIMULATED, "run with NUMBA_ENABLE_CUDASIM=1 (test_kernel_simulated.py does)"


def test_rounds_by_kernel_equal_the_default_by_age(monkeypatch):
    launches = []
    launch = compaction.launch

    def seen(*args):
        launches.append(args[0])
        launch(*args)

    monkeypatch.setattr(compaction, "launch", seen)
    assert cache_rounds.rounds(cache_compaction.compact, 50, seed=3, requests=1) > 20
    assert 20 < len(launches) <= 50  # one for all layers, none where nothing has to move


def test_an_element_type_without_a_kernel_is_refused():
    pages = torch.zeros(2, 2, 6, 4, 1, 8, dtype=torch.float64)
    with pytest.raises(TypeError, match=r"cache\.dtype=torch\.float64"):
        cache_compaction.compact(pages, [5, 0, 3], [[0, 5], [1, 8]], 9)


def test_pages_without_contiguous_rows_are_refused():
    pages = torch.zeros(2, 2, 6, 4, 8, 1).transpose(4, 5)[..., ::2]
    with pytest.raises(ValueError, match="cache has stride 2 in its last dimension"):
        cache_compaction.compact(pages, [5, 0, 3], [[0, 5], [1, 8]], 9)
