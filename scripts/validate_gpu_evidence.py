"""Check receipts, their lists, records, executed notebooks and claims: `repro evidence validate`.

    python scripts/validate_gpu_evidence.py
    python scripts/validate_gpu_evidence.py --level schema|integrity|inputs|rerun

Exit codes: 0 all consistent, with one line that says what was looked at; 1 something is not, with a
list; 2 arguments that cannot be used. Needs no GPU and no network.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from repro.cli import main  # noqa: E402

if __name__ == "__main__":
    main(["evidence", "validate", *sys.argv[1:]], prog_name="validate_gpu_evidence.py")
