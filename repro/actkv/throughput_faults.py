"""Deliberate faults in byte counts and in attention on pages."""

from repro.faults import Fault

FAULTS = {
    "keys_only": Fault(
        "a cached token is counted without its values",
        "repro.actkv.roofline:entry_bytes",
        lambda original: lambda *shape: original(*shape) // 2,
    ),
    "weights_ignored": Fault(
        "a step reads keys and values but no weights",
        "repro.actkv.roofline:Load.read",
        lambda original: lambda self, requests: 0.0,
    ),
    "last_block_free": Fault(
        "a block that is not full costs nothing",
        "repro.actkv.roofline:cache_bytes",
        lambda original: (
            lambda load, entries, requests=1, block=16: (
                entries // block * block * requests * load.entry
            )
        ),
    ),
    "unscaled": Fault(
        "attention on the pages leaves out the 1 / sqrt d",
        "repro.actkv.decode:attend",
        lambda original: (
            lambda queries, pages, table, lengths, scale=None: original(
                queries, pages, table, lengths, 1.0
            )
        ),
    ),
    "binary_logarithm": Fault(
        "the log-sum-exp is taken for one of base 2",
        "repro.actkv.decode:recover",
        lambda original: (
            lambda queries, lse, keys, **options: original(queries, lse / 0.6931, keys, **options)
        ),
    ),
    "nothing_evicted": Fault(
        "the cache that is timed at a share holds everything",
        "repro.actkv.study_throughput:filled",
        lambda original: (
            lambda model, arm, new, seed: original(
                model, type(arm)(arm.kind, arm.requests, arm.context, arm.context), new, seed
            )
        ),
    ),
}
