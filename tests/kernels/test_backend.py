"""The simulator runs a kernel without a GPU, and the package's name disturbs nobody."""

import os
import subprocess
import sys

from repro.paths import ROOT

KERNEL = """
import numpy as np
from kernels.backend import cuda

@cuda.jit
def double(values):
    i = cuda.grid(1)
    if i < values.size:
        values[i] *= 2

values = np.arange(100.0)
double[4, 32](values)
assert (values == 2 * np.arange(100.0)).all()
"""


def run(code: str, **environment: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-800:]


def test_simulator_runs_a_kernel():
    run(KERNEL, NUMBA_ENABLE_CUDASIM="1")


def test_transformers_loads_beside_the_local_package():
    run("import kernels, transformers.models.llama.modeling_llama")


def test_import_is_light():
    run(
        "import sys, repro, repro.cli\n"
        "heavy = {'torch', 'numpy', 'transformers', 'papermill', 'matplotlib'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
