"""What the compiler makes of the kernels for sm_80 and sm_90, without a GPU."""

from collections import Counter

import pytest

from kernels import ptx

REASON = ptx.missing()
pytestmark = pytest.mark.skipif(bool(REASON), reason=REASON or "compiler found")
CASES = [(name, "sm_{}{}".format(*target)) for name in ptx.KERNELS for target in ptx.TARGETS]


@pytest.fixture(scope="module")
def kernels():
    return ptx.report_from_process()["kernels"]


@pytest.mark.parametrize(("name", "target"), CASES)
def test_no_local_memory(kernels, name, target):
    entry = kernels[name][target]
    assert not [i for i in entry["instructions"] if ".local" in i]
    if ptx.assembler() is None:
        pytest.skip("no ptxas: install the wheel nvidia-cuda-nvcc to see registers and spills")
    assert entry["spill_stores"] == entry["spill_loads"] == entry["stack"] == 0
    assert 0 < entry["registers"] <= 168
    assert entry["shared"] <= 48 * 1024


def narrow(instructions, kind):
    """Global loads or stores of a kernel that are not 16 bytes wide."""
    return {i for i in instructions if i.startswith(kind + ".global") and ".v4." not in i}


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", ["copy_rows", "stream"])
def test_copies_move_16_bytes(kernels, name, target):
    found = kernels[name][target]["instructions"]
    wide = Counter(i.rpartition(".")[0] for i in found for _ in range(found[i]) if ".v4." in i)
    assert wide["ld.global.v4"] == wide["st.global.v4"] > 0  # u32 or b32, by compiler version
    assert narrow(found, "st") == set()
    moves = {"ld.global.u64", "ld.global.b64"} if name == "copy_rows" else set()
    assert narrow(found, "ld") <= moves


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", [n for n in ptx.KERNELS if "float" in n])
def test_keys_and_values_come_in_16_bytes(kernels, name, target):
    found = kernels[name][target]["instructions"]
    wide = [i for i in found if i.startswith("ld.global.v4.")]
    assert wide and any(i.startswith("st.shared.v4.") for i in found)
    assert any(i.startswith("ld.shared.v4.f32") for i in found)
    # What is narrower are tables, lengths, strides, log-sum-exps and the mean, all 4 or 8 bytes.
    assert all(i.endswith(("32", "64")) for i in narrow(found, "ld"))
