"""The one place that imports CUDA for Python, so that a change of compiler is one line.

numba-cuda is in maintenance mode and its successor has no CPU simulator, which the tests without
a GPU need (``NUMBA_ENABLE_CUDASIM=1``).
"""

from numba import cuda

__all__ = ["cuda"]
