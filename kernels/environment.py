"""The device that is here and what surrounds it: class, memory, driver, versions; no host name.

`nominal` finds the data sheet's bandwidth by the name that the runtime gives; for a device that
`kernels.traffic` does not list, the driver's memory clock and bus width give it.
"""

import importlib.metadata
import platform
import shutil
import subprocess
from typing import Any

from kernels.session import Bench, Log
from kernels.traffic import DEVICES

PACKAGES = ("numba", "numba-cuda", "numpy", "torch", "triton", "cuda-bindings", "cuda-core")
SMI = "driver_version,clocks.max.sm,clocks.max.mem,power.limit,mig.mode.current"


def sheet(name: str, memory: int = 0) -> str:
    """Key of `traffic.DEVICES` for a runtime's device name, empty for a device not listed.

    memory: bytes, to tell the two A100 apart where the name does not. The A100 80GB PCIe and the
    H200 NVL have other rates than the listed ones; a MIG slice has a part of them.
    """
    words = name.upper().replace("-", " ").split()
    if "MIG" in words:
        return ""
    if "A30" in words:
        return "A30"
    if "H200" in words and "NVL" not in words:
        return "H200"
    if "A100" in words and not {"80GB", "PCIE"} <= set(words):
        return "A100-80" if "80GB" in words or memory > 60e9 else "A100-40"
    return ""


def nominal(name: str, memory: int, clock_khz: int = 0, bus_bits: int = 0) -> tuple[float, str]:
    """Bytes/s of the main memory and where that figure is from; 0 and "unknown" if it is unknown.

    clock_khz, bus_bits: as the driver reports them; data moves twice a clock.
    """
    if key := sheet(name, memory):
        return DEVICES[key].bandwidth, f"data sheet of {key}"
    if clock_khz and bus_bits and "MIG" not in name.split():
        return 2e3 * clock_khz * bus_bits / 8, "memory clock and bus width from the driver"
    return 0.0, "unknown"


def simulator(where: Any) -> Bench:
    """A bench of Numba's simulator on `where`, a CPU."""
    return Bench(where, simulated=True, name="simulator")


def device(where: Any) -> Bench:
    """The bench of CUDA device `where`, which becomes the current one of torch and of Numba."""
    import torch

    from kernels.backend import cuda

    torch.cuda.set_device(where)
    cuda.select_device(torch.cuda.current_device())
    found = torch.cuda.get_device_properties(where)
    name = found.name.removeprefix("NVIDIA ")
    clock, bus = (getattr(found, a, 0) for a in ("memory_clock_rate", "memory_bus_width"))
    return Bench(
        where,
        simulated=False,
        name=name,
        nominal=nominal(name, found.total_memory, clock, bus)[0] or None,
        cache=getattr(found, "L2_cache_size", 0) or 50_000_000,
        memory=found.total_memory,
        clock=1e3 * getattr(found, "clock_rate", 0),
    )


def report(bench: Bench, log: Log) -> None:
    """Stage: note the device class, its figures, driver and versions."""
    log.facts |= {"device": bench.name, "python": platform.python_version()}
    log.facts["versions"] = {p: v for p in PACKAGES if (v := _version(p))}
    if bench.simulated:
        return
    import torch

    found = torch.cuda.get_device_properties(bench.where)
    clock, bus = (getattr(found, a, 0) for a in ("memory_clock_rate", "memory_bus_width"))
    rate, source = nominal(bench.name, found.total_memory, clock, bus)
    log.facts |= {
        "compute_capability": f"{found.major}.{found.minor}",
        "multiprocessors": found.multi_processor_count,
        "memory_bytes": bench.memory,
        "l2_bytes": bench.cache,
        "nominal_bytes_per_s": rate,
        "nominal_from": source,
        "cuda_of_torch": torch.version.cuda or "none",
    }
    log.facts |= log.attempt("driver", lambda: _driver(str(found.uuid))) or {}


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _driver(uuid: str) -> dict[str, str]:
    """What nvidia-smi says of the device `uuid`; empty without it."""
    command = shutil.which("nvidia-smi")
    if not command:
        return {}
    done = subprocess.run(
        [command, "-i", f"GPU-{uuid}", f"--query-gpu={SMI}", "--format=csv,noheader"],
        capture_output=True,
        text=True,
        timeout=20,
        check=True,
    )
    line = done.stdout.strip().splitlines()[0]
    return dict(zip(SMI.split(","), map(str.strip, line.split(",")), strict=True))
