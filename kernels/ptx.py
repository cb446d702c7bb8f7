"""What the compiler makes of a kernel, without a GPU: memory instructions, registers, spills.

``python -m kernels.ptx`` prints one JSON object. The notebook and the tests run it in a process of
its own, since a process with the simulator on cannot compile.
"""

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

from repro.paths import ROOT

TARGETS = ((8, 0), (9, 0))
KERNELS = {  # name: module, and the arguments of its factory
    "copy_rows": ("kernels.compaction", None),
    "stream": ("kernels.streaming", None),
    "recover float32": ("kernels.paged_scores", ("float32", 128, 16)),
    "recover float16": ("kernels.paged_scores", ("float16", 128, 16)),
    "recover bfloat16": ("kernels.paged_scores", ("bfloat16", 128, 16)),
    "decode float32": ("kernels.paged_decode", ("float32", 128, 16)),
    "decode float16": ("kernels.paged_decode", ("float16", 128, 16)),
    "decode bfloat16": ("kernels.paged_decode", ("bfloat16", 128, 16)),
    "combine": ("kernels.paged_decode", None),
}


def missing() -> str:
    """Why no PTX can be made here; empty if it can."""
    try:
        from cuda.pathfinder import load_nvidia_dynamic_lib

        for library in ("nvvm", "nvrtc"):
            load_nvidia_dynamic_lib(library)
    except Exception:  # the finder's own classes differ from version to version
        return "no NVVM or NVRTC: pip install nvidia-nvvm nvidia-cuda-nvrtc (CUDA 13)"
    return ""


def assembler() -> str | None:
    """Path of ptxas: from the wheel nvidia-cuda-nvcc, else from PATH; None without one."""
    site = Path(sysconfig.get_paths()["purelib"])
    found = sorted(site.glob("nvidia/cu*/bin/ptxas*")) + sorted(
        site.glob("nvidia/cuda_nvcc/bin/ptxas*")
    )
    return str(found[0]) if found else shutil.which("ptxas")


def instructions(ptx: str) -> dict[str, int]:
    """How often each load and store occurs, such as ``ld.global.v4.u32``."""
    return dict(Counter(re.findall(r"\b(?:ld|st)\.(?:global|shared|local)[.\w]*", ptx)))


def assemble(ptx: str, target: tuple[int, int]) -> dict[str, int]:
    """Registers, spill bytes, stack bytes and shared bytes that ``ptxas -v`` reports."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "kernel.ptx")
        source.write_text(ptx, "utf-8")
        arch = "sm_{}{}".format(*target)
        done = subprocess.run(
            [assembler(), "-v", f"-arch={arch}", str(source), "-o", str(Path(folder, "out"))],
            capture_output=True,
            text=True,
            check=True,
        )
    patterns = {
        "registers": r"Used (\d+) registers",
        "spill_stores": r"(\d+) bytes spill stores",
        "spill_loads": r"(\d+) bytes spill loads",
        "stack": r"(\d+) bytes stack frame",
        "shared": r"(\d+) bytes smem",
    }
    log = done.stdout + done.stderr
    return {name: sum(map(int, re.findall(pattern, log))) for name, pattern in patterns.items()}


def compiled(name: str, target: tuple[int, int]) -> str:
    """PTX of kernel `name` for compute capability `target`."""
    from kernels.backend import cuda

    if name not in KERNELS:
        raise ValueError(f"name={name!r}; accepted: {', '.join(KERNELS)}.")
    home, key = KERNELS[name]
    module = importlib.import_module(home)
    if key is None:
        kernel, signature = module.PLAIN[name]
    else:
        kernel, signature = module.kernel(*key), module.SIGNATURE
    # A device function asks the GPU of this machine for its generation; here is none to ask.
    stand_in = SimpleNamespace(compute_capability=target)
    with mock.patch("numba.cuda.dispatcher.get_current_device", lambda: stand_in):
        return cuda.compile_ptx(kernel.py_func, signature, cc=target)[0]


def report() -> dict:
    """Instructions and, where a ptxas is found, its figures, per kernel and target."""
    if reason := missing():
        return {"missing": reason, "kernels": {}}
    found = {}
    for name in KERNELS:
        for target in TARGETS:
            ptx = compiled(name, target)
            entry = {"instructions": instructions(ptx)}
            if assembler():
                entry |= assemble(ptx, target)
            found.setdefault(name, {})["sm_{}{}".format(*target)] = entry
    return {"missing": "", "assembler": bool(assembler()), "kernels": found}


def report_from_process() -> dict:
    """`report` from a new process with the simulator off, whatever this process uses."""
    done = subprocess.run(
        [sys.executable, "-m", "kernels.ptx"],
        cwd=ROOT,
        env=os.environ | {"NUMBA_ENABLE_CUDASIM": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


if __name__ == "__main__":
    json.dump(report(), sys.stdout, indent=1)
