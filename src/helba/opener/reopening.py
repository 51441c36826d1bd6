"""The opener's part of a reopening."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from helba.errors import InvalidInput
from helba.learning.exchange import Exchange
from helba.ring import Ciphertext, Opening, Share
from helba.ring.secret import Opener


def reopen_shares(
    opener: Opener, openings: Sequence[Opening], exchange: Exchange
) -> list[Ciphertext]:
    """Encrypt the opener's share again, target by target."""
    if len(openings) != len(exchange.places):
        raise InvalidInput("openings", len(openings), f"{len(exchange.places)}, by the plan")
    shares = opener.run_all(
        [
            partial(opener.receive, opening, places=places)
            for opening, places in zip(openings, exchange.places.values(), strict=True)
        ]
    )
    share = Share.join(dict(zip(exchange.places, shares, strict=True)))
    moved = []
    for target, parts in zip(exchange.targets, exchange.rearrangements, strict=True):
        noisy = opener.add_noise(share, deviation=target.deviation) if target.deviation else share
        moved += [(noisy, each) for each in parts.values()]
    return opener.reopen(moved)
