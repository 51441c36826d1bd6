"""What the bytes of a key may make this process set up.

OpenFHE keeps every context, and every set-up for bootstrapping, until the process ends: tens to
hundreds of megabytes each. Keys bring their parameters along, so whoever sends keys would decide
how many there are. A payload that is too short for its parameters is refused before anything is set
up, and parameters that nobody here has chosen are set up `MOST_STRANGE` times at most.
"""

from __future__ import annotations

import math

from helba.errors import DamagedData, EngineError
from helba.reference.engine.ckks.context import open_context
from helba.reference.engine.ckks.residue import LEAST_SHARE
from helba.reference.engine.wire.description import Description
from helba.reference.planning.parameters import Parameters

MOST_STRANGE = 16

_Setup = tuple[Parameters, int]  # with the slots of its bootstrapping, 0 without
_chosen: set[_Setup] = set()
_strange: set[_Setup] = set()


def admit_choice(parameters: Parameters, *, bootstrap_slots: int = 0) -> None:
    """Note what the caller itself asks for: it has no limit."""
    _chosen.update({(parameters, 0), (parameters, bootstrap_slots)})


def admit_key(kind: str, description: Description, payload_bytes: int, *, chosen: bool) -> None:
    """Open the context of a key that came as bytes, or refuse it.

    `DamagedData` if the payload is too short or OpenFHE refuses the parameters; `EngineError` if
    too many others were set up before.
    """
    if payload_bytes < _least_bytes(kind, description):
        raise DamagedData(f"{payload_bytes} bytes are too few for the {kind} of its parameters")
    to = description.leads_to
    if not description.identity or (to is not None and not to.identity):
        raise DamagedData(f"the {kind} does not name its public key")
    parameters, slots = description.parameters, description.bootstrap_slots
    if chosen:
        admit_choice(parameters, bootstrap_slots=slots)
    elif not {(parameters, 0), (parameters, slots)} <= _chosen:
        _admit_stranger((parameters, slots))
    try:
        open_context(parameters)
    except EngineError as error:
        raise DamagedData(f"the {kind} describes parameters that OpenFHE refuses") from error


def _admit_stranger(setup: _Setup) -> None:
    if setup not in _strange and len(_strange) >= MOST_STRANGE:
        raise EngineError(
            f"keys of {MOST_STRANGE} different parameters were read already: name the expected ones"
        )
    _strange.add(setup)


def _least_bytes(kind: str, description: Description) -> float:
    """Bytes that residues modulo Q alone take; key switching has some modulo P on top of them."""
    parameters = description.parameters
    level = 0 if description.leads_to is None else description.leads_to.level
    bits = parameters.first_bits + (parameters.depth - level) * parameters.scale_bits
    digits = math.ceil((parameters.depth + 1 - level) / parameters.digit_width)
    polynomials = {"public key": 2, "secret key": 1}.get(kind, 2 * digits)
    if kind == "evaluation key":
        polynomials *= 1 + len(description.rotations)
    return LEAST_SHARE * polynomials * parameters.ring_dim * bits / 8
