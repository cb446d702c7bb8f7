"""The process behind `verifier`: reads [prediction, gold] a line, answers what `math-verify` says.

Run as ``python -m``. It sets itself a memory limit; its time limit is the caller's.
"""

import json
import logging
import resource
import sys
from typing import Any

MEMORY = 4 * 2**30  # bytes of address space
CLOSE = 1e-5  # relative: the library compares 6 decimals, so that all tiny numbers are alike


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    logging.disable(logging.CRITICAL)
    import math_verify  # noqa: F401  (slow; before the caller's clock runs)

    print("{}", flush=True)
    for line in sys.stdin:
        given, wanted = json.loads(line)
        print(json.dumps(answer(given, wanted)), flush=True)


def answer(given: str, wanted: str) -> dict[str, bool]:
    """parsed: both could be read; equal: the library says so, and numbers agree relatively."""
    from math_verify import parse, verify

    try:
        read = [parse(rf"\boxed{{{text}}}", parsing_timeout=None) for text in (given, wanted)]
        if not all(read):
            return {"parsed": False, "equal": False}
        prediction, gold = read
        equal = bool(verify(gold, prediction, timeout_seconds=None))
        return {"parsed": True, "equal": equal and near(prediction[0], gold[0])}
    except (MemoryError, RecursionError, OverflowError, ValueError, TypeError):
        return {"parsed": False, "equal": False}


def near(given: Any, wanted: Any) -> bool:
    """Whether two numbers agree to `CLOSE` of their size; True for what is no number."""
    if not all(getattr(x, "is_number", False) for x in (given, wanted)):
        return True
    if getattr(wanted, "is_zero", False):
        return True
    ratio = (given / wanted).doit().evalf(20)
    return bool(abs(ratio - 1) <= CLOSE)


if __name__ == "__main__":
    main()
