"""The files ``sim_*.py`` beside this one, in processes of their own with the simulator on.

The simulator is chosen when Numba is imported, so it cannot be turned on for one test.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from repro.paths import ROOT

FILES = sorted(Path(__file__).parent.glob("sim_*.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_under_the_simulator(file):
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(file)],
        cwd=ROOT,
        env=os.environ | {"NUMBA_ENABLE_CUDASIM": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]


def test_cpu_tensor_without_simulator_is_refused():
    import numpy as np
    import torch

    from kernels import compaction
    from kernels.plan import plan

    with pytest.raises(ValueError, match="cache is on cpu; accepted: a CUDA device"):
        compaction.compact_(
            torch.zeros(1, 2, 2, 4, 1, 8), np.array([[0, 1]]), [plan(np.arange(8) > 3, 8, 4)]
        )
