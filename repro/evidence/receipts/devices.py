"""Device classes: which card computed, read from the runtime and never typed.

evidence/devices.json lists them, with a version. A class is met where the runtime's name, its
memory and its compute capability all fit, so that an A100 with 40 GB is none with 80 GB; whatever
is not listed is ``other``. A slice of a card (Multi-Instance GPU, vGPU) keeps the class of its card
and is marked as a partition.
"""

import json
import re
from functools import cache
from typing import Any

from repro import paths

OTHER = "other"
_VENDOR = re.compile(r"^(?:NVIDIA |Tesla |GRID )+")
_SLICE = re.compile(r" MIG (\d+g\.\d+gb(?:\+me)?)$")
_VIRTUAL = re.compile(r"^(?:NVIDIA |GRID )*[A-Z0-9]+X?-\d+-?\d*[ACQB](?:ME)?$")


def describe(
    name: str,
    memory_bytes: int | None = None,
    compute_capability: str | None = None,
    count: int = 1,
) -> dict[str, Any]:
    """A receipt's ``device`` from what the runtime says.

    memory_bytes: of one device, None for a CPU. compute_capability: such as "8.0".
    """
    return {
        "class": classify(name, memory_bytes, compute_capability),
        "list": listed()["version"],
        "name": plain(name),
        "count": count,
        "memory_bytes": memory_bytes,
        "compute_capability": compute_capability,
        "partition": partition(name),
    }


def here(device: str = "auto") -> dict[str, Any]:
    """`describe` of what a notebook's `device` parameter stands for, as torch's runtime names it.

    Raises BadParameter for a device that is not usable here.
    """
    from repro import models

    where = models.pick_device(device)
    if where.type == "cpu":
        return describe("CPU")
    import torch

    about = torch.cuda.get_device_properties(where)
    return describe(about.name, about.total_memory, f"{about.major}.{about.minor}")


def classify(
    name: str, memory_bytes: int | None = None, compute_capability: str | None = None
) -> str:
    """The class of a device by today's list. A slice may have less memory than its card."""
    bare = _SLICE.sub("", plain(name))
    for entry in listed()["classes"]:
        if not re.fullmatch(entry["device"], bare):
            continue
        if entry["memory_gib"] is None:
            return entry["name"]
        low, high = entry["memory_gib"]
        low = 0 if partition(name) else low
        fits = memory_bytes is not None and low <= memory_bytes / 2**30 <= high
        if fits and compute_capability == entry["compute_capability"]:
            return entry["name"]
    return OTHER


def plain(name: str) -> str:
    """A device's name without its vendor's."""
    return _VENDOR.sub("", name)


def partition(name: str) -> str | None:
    """Which slice of a card `name` (the runtime's) is, None for a whole one."""
    if found := _SLICE.search(name):
        return f"MIG {found[1]}"
    if "MIG" in name.split():
        return "MIG"
    return "vGPU" if _VIRTUAL.match(name) else None


def names() -> list[str]:
    """Every listed class."""
    return [entry["name"] for entry in listed()["classes"]]


@cache
def listed() -> dict[str, Any]:
    return json.loads((paths.EVIDENCE / "devices.json").read_text())
