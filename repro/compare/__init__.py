"""Paired comparison of methods: fair sets only, chosen on validation, one opening of the test.

    from repro import compare

    manifest = compare.manifest.freeze(...)          # before anything runs; its hash is in each run
    choice = compare.choice.seal(manifest, runs)     # from validation alone
    compare.choice.open_test(choice, folder)         # once; a second choice is refused
    report = compare.report.report(manifest, runs_with_test, choice)

`rules` lists what is refused and why, `paired` holds the statistics, which are usable on their own.
Nothing here trains: a run is what somebody's training left behind. On the command line:
``repro compare A.json B.json``. Follows the public protocol described in book/evidence.md, made
stricter.
"""

from repro.compare import choice, load, manifest, paired, report, rules
from repro.compare.refused import Refused

__all__ = ["Refused", "choice", "load", "manifest", "paired", "report", "rules"]
