"""The process that executes one notebook: ``python -m repro.worker REQUEST.json``.

It runs apart from the runner, so that a dead kernel, a full memory or a kill ends one run only.
It writes the executed notebook and an outcome beside the request and decides nothing: whether the
run counts is judged in `repro.runs`.
"""

import ctypes
import json
import signal
import sys
from pathlib import Path
from typing import Any

from jupyter_client.manager import AsyncKernelManager
from jupyter_core.paths import jupyter_runtime_dir
from traitlets import default


class LocalKernelManager(AsyncKernelManager):
    """Kernels reached through local sockets: no port races, nothing listening on the network."""

    @default("transport")
    def _transport_default(self) -> str:
        return "ipc"

    @default("ip")
    def _ip_default(self) -> str:
        # Jupyter's own default is one name in the working directory, which two kernels share.
        return str(Path(jupyter_runtime_dir()) / "socket")


def execute(request: dict[str, Any]) -> dict[str, Any]:
    """Run ``request["source"]`` into ``request["output"]``; return what went wrong, if anything."""
    sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]  # as in repro.book: 2 s
    import papermill
    from nbclient.exceptions import CellTimeoutError, DeadKernelError

    try:
        papermill.execute_notebook(
            request["source"],
            request["output"],
            parameters=request["parameters"],
            kernel_name="python3",
            cwd=request["folder"],
            progress_bar=False,
            request_save_on_cell_execute=False,
            execution_timeout=request["cell_timeout"],
            kernel_manager_class=f"{__spec__.name}.{LocalKernelManager.__name__}",
        )
    except papermill.PapermillExecutionError as error:
        return {
            "status": "failed",
            "cell": error.source.strip().splitlines()[0],
            "error": f"{error.ename}: {error.evalue}",
        }
    except (DeadKernelError, CellTimeoutError) as error:
        return {"status": "failed", "cell": None, "error": _first_line(error)}
    except OSError as error:
        return {"status": "failed", "cell": None, "error": f"{type(error).__name__}: {error}"}
    return {"status": "executed"}


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"


def main() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: do not outlive the runner
    path = Path(sys.argv[1])
    outcome = execute(json.loads(path.read_text()))
    path.with_suffix(".outcome").write_text(json.dumps(outcome))


if __name__ == "__main__":
    main()
