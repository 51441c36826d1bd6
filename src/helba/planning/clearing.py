"""What it costs to give each of many users its own answer (`circuits.batch`): levels and noise."""

from __future__ import annotations

from helba.planning.cost import Cost
from helba.planning.noise import NoiseModel
from helba.planning.parameters import Parameters
from helba.planning.score import ScoreLayout

__all__ = ["clearing_cost", "clearing_noise", "leaving_noise"]

# Of a slot that is cleared: a comparison, or an update test with its noise, and the flood.
LARGEST_VALUE = 4.0


def clearing_cost(layout: ScoreLayout) -> Cost:
    """Cost of the answers of all users: one product with 0 and 1 each, at one level."""
    if layout.users == 1:
        return Cost()
    return Cost(levels=1, plain_products=layout.users)


def clearing_noise(layout: ScoreLayout, *, parameters: Parameters) -> float:
    """Return a bound on what clearing adds to an entry, beside the flood itself.

    The flood is encrypted; the product has a mask with an encoding error, and is rescaled; noise is
    encoded once more.
    """
    if layout.users == 1:
        return 0.0
    model, slots = NoiseModel(parameters), layout.compare_slots
    encoded = model.encoding(slots) * (1.0 + LARGEST_VALUE)
    return model.encryption(slots) + encoded + model.rescaling(slots)


def leaving_noise(slots: int, *, parameters: Parameters) -> float:
    """Return a bound on what leaving adds to an entry, beside the flood: both are under one key.

    The vector is re-encrypted to its user on the last level, and the flood is encrypted.
    """
    model = NoiseModel(parameters)
    return model.encryption(slots) + model.reencryption(slots, level=parameters.depth)
