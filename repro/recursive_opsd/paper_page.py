"""The paper's run as the chapter's page shows it: a gap card, its gaps, and its computed cost."""

from repro.recursive_opsd import paper_config, paper_cost

CARD = (
    '<div class="eb-gap" role="note"><p><strong>No result on file.</strong> The paper\'s own run '
    "has never been executed with this code, on any GPU. Only its wiring has been tested, on a "
    "tiny random model with two CPU processes. What follows is a plan, and nothing in it is "
    "measured.</p></div>"
)


def text() -> str:
    """Markdown of the card, the gaps in the sources, and the cost."""
    config = paper_config.read()
    cost = paper_cost.of(config)
    return "\n\n".join([CARD, _gaps(config), _cost(cost), _memory(config, cost), _guesses(config)])


def _gaps(config: paper_config.Config) -> str:
    head = ["| no source states | the run takes | remark |", "|---|---|---|"]
    rows = [
        f"| `{name}` | {'nothing' if e.stand_in is None else e.stand_in} | {e.note} |"
        for name, e in config.gaps()
    ]
    return "\n".join(head + rows)


def _cost(cost: paper_cost.Cost) -> str:
    head = ["| part | million tokens | PFLOP | GPU hours |", "|---|---:|---:|---:|"]
    whole = paper_cost.Part("**all**", cost.tokens, cost.operations, cost.hours)
    rows = [
        f"| {p.name} | {p.tokens / 1e6:,.1f} | {p.operations / 1e15:,.0f} | {p.hours:,.1f} |"
        for p in (*cost.parts, whole)
    ]
    return "\n".join(head + rows)


def _memory(config: paper_config.Config, cost: paper_cost.Cost) -> str:
    held = cost.memory
    largest = max(held.moments, key=lambda name: held.moments[name])
    return (
        f"That is {cost.hours / cost.processes:,.0f} hours on {cost.processes} GPUs. A rank needs "
        f"{held.peak:.0f} of the {held.there:.0f} GiB of a device with {config['memory_gb']:g} GB, "
        f"without what the allocator takes; the largest share is {largest} "
        f"({config['eval_rows']} answers at once)."
    )


def _guesses(config: paper_config.Config) -> str:
    share = 100 * config["utilisation"]
    return (
        f"Assumed: a decoding step takes {config['overhead_ms']:g} ms beside what memory at "
        f"{config['bandwidth_tbs']:g} TB/s allows, answers that are written together wait until "
        f"the cap, and passes reach {share:.0f} % of {config['peak_tflops']:g} "
        "TFLOP/s. The first and the third are guesses. A serving engine that refills its rows "
        "would cut most of the hours of the evaluation; this code has none."
    )
