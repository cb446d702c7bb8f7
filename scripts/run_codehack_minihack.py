"""Run the three action spaces on MiniHack, or check the record of a run.

    python scripts/run_codehack_minihack.py --seeds 42,43,44 --max-decisions 8 \
        --primitive-budget 64 --output runs/codehack-minihack-smoke.json
    python scripts/run_codehack_minihack.py --validate runs/codehack-minihack-smoke.json

Exit code: 0 fine, 1 an episode or a check failed, 2 a wrong argument, 3 an engine is not installed.
"""

import sys

from repro.code_skills.command import main

if __name__ == "__main__":
    sys.exit(main())
