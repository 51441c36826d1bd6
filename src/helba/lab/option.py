"""Options that belong to something else than what was chosen."""

from __future__ import annotations

from collections.abc import Mapping

from helba.errors import InvalidInput


class DoesNotApply(InvalidInput):
    """An option was given that the chosen algorithm, engine or profile does not have."""

    def __str__(self) -> str:
        return f"--{self.name.replace('_', '-')} does not apply to the {self.allowed}"


def refuse_options(options: Mapping[str, object], *, chosen: str) -> None:
    """Raise `DoesNotApply` if one of these options was given; `chosen` has none of them."""
    for name, value in options.items():
        if value is not None:
            raise DoesNotApply(name, value, chosen)
