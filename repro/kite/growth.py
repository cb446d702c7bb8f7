"""The decisive control: growing in depth without the restriction on keys and values."""

from repro.kite.blocks import copy_block
from repro.kite.config import Config
from repro.kite.model import SST, refuse_second


def stacked(model: SST) -> SST:
    """The grown dense control: a stage-1 model of 2n layers, each block copied, 1..n, 1..n.

    Upcycling without the restriction that new layers write no KV.
    """
    refuse_second(model)
    config = Config(**{**model.config.__dict__, "layers": 2 * len(model.prefiller)})
    grown = SST(config)
    for part in ("embedding", "norm", "head", *(["positions"] * hasattr(model, "positions"))):
        getattr(grown, part).load_state_dict(getattr(model, part).state_dict())
    for layer, block in enumerate(grown.prefiller):
        copy_block(model.prefiller[layer % len(model.prefiller)], block)
    return grown
