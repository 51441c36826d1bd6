"""Where the scores of K arms sit in the slots, and what they cost.

The score of arm a is <w, x_a> + (gamma/2) x_a^T A x_a: an inner product of F features of the model
with F of the context (see `score_packing`). A slot has a major index f, the feature, and a minor
one, so that rotations by multiples of the minor size sum over features cyclically: every slot ends
with the full sum, and none needs masking. Two forms, for K padded to a power of two, Kp:

- "pairs": the minor index q = c Kp + a stands for arm a against arm b = (a + c) mod Kp; the user
  encrypts differences. 1 level, F Kp^2 slots. The diagonal c = 0 is left free, for the update test.
  Of two arms only a = 0 is kept, q = c: the other difference is its negative.
- "arms": the minor index is the arm. F Kp slots, and one level more to spread the K scores over
  the grid of Kp^2 pairs, by the rotations 0..Kp-1 in baby and giant steps.

Both end with differences in the grid q, repeated at least twice over `compare_slots`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from helba.errors import InvalidInput, require_choice, require_whole
from helba.reference.planning.cost.cost import Cost
from helba.reference.planning.layout.packing import (
    RADIX,
    cyclic_cost,
    cyclic_stages,
    next_power_of_two,
)
from helba.reference.planning.layout.stages import baby_steps, steps_of

FORMS = ("pairs", "arms")
MOST_ARMS = 1 << 10
MOST_DIM = 1 << 10


@dataclass(frozen=True, kw_only=True)
class ScoreLayout:
    """The slots of `arms` arms with contexts of dimension `dim`; `radix` is that of the sums."""

    dim: int
    arms: int
    form: str = "pairs"
    radix: int = RADIX

    def __post_init__(self) -> None:
        require_whole("dim", self.dim, least=1, most=MOST_DIM)
        require_whole("arms", self.arms, least=2, most=MOST_ARMS)
        require_choice("form", self.form, FORMS)
        cyclic_stages(stride=1, count=1, radix=self.radix)

    @property
    def padded_arms(self) -> int:
        """Kp: the arms, padded to a power of two."""
        return next_power_of_two(self.arms)

    @property
    def columns(self) -> int:
        """Arms that slots compare with their opponents: Kp, or the first of two by pairs."""
        return 1 if self.form == "pairs" and self.arms == 2 else self.padded_arms

    @property
    def constant_feature(self) -> int:
        """Index of the feature that is 1 on the model's side: after x and svec."""
        return self.dim + self.dim * (self.dim + 1) // 2

    @property
    def features(self) -> int:
        """F: x, svec and the constant, padded to a power of two.

        The model is made from a matrix, d padded, and has slots for it: F Kp at least p^2. Of two
        arms that takes more padding for some d (9 and 17, for instance), of more arms never.
        """
        needed = next_power_of_two(self.constant_feature + 1)
        return max(needed, next_power_of_two(self.dim) ** 2 // self.padded_arms)

    @property
    def grid(self) -> int:
        """Slots of one grid of pairs, Kp^2; of two arms 2."""
        return self.columns * self.padded_arms

    @property
    def pairs(self) -> int:
        """P, the minor size: the grid of pairs, or Kp arms."""
        return self.grid if self.form == "pairs" else self.padded_arms

    @property
    def slots(self) -> int:
        """Slots of contexts and model."""
        return self.features * self.pairs

    @property
    def compare_slots(self) -> int:
        """Slots of the differences: two copies of the grid at least."""
        return max(self.slots, 2 * self.grid)

    @property
    def baby_steps(self) -> int:
        """Rotations that the spreading of the arms' scores shares, no rotation included."""
        return baby_steps(self.padded_arms)

    @property
    def score_rotations(self) -> tuple[int, ...]:
        """Steps that lead to differences of scores."""
        steps = steps_of(cyclic_stages(stride=self.pairs, count=self.features, radix=self.radix))
        if self.form == "arms":
            steps.update(range(1, self.baby_steps))
            steps.update(range(self.baby_steps, self.padded_arms, self.baby_steps))
        return tuple(sorted(steps))

    @property
    def rotations(self) -> tuple[int, ...]:
        """Steps of the scores and of the argmax by either method."""
        return self.rotations_for("sum")  # those of the product are among them

    def rotations_for(self, method: str) -> tuple[int, ...]:
        """Steps of the scores and of the argmax by `method`."""
        return tuple(sorted({*self.score_rotations, *self.argmax_rotations(method)}))

    def argmax_rotations(self, method: str) -> tuple[int, ...]:
        """Steps from differences to the comparison vector: the product needs fewer keys."""
        require_choice("method", method, ("product", "sum"))
        if self.columns == 1:
            return ()
        radix = self.radix if method == "sum" or self.arms == 2 else 2
        stages = cyclic_stages(stride=self.columns, count=self.padded_arms, radix=radix)
        return tuple(sorted(steps_of(stages)))

    def compared_arms(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return a and b of every slot of the grid."""
        slots = np.arange(self.grid, dtype=np.int64)
        a, c = slots % self.columns, slots // self.columns
        return a, (a + c) % self.padded_arms

    def compared_pairs(self) -> NDArray[np.bool_]:
        """Return which slots of the grid compare two different arms, neither of them padding."""
        a, b = self.compared_arms()
        compared: NDArray[np.bool_] = (a != b) & (a < self.arms) & (b < self.arms)
        return compared


def choose_score_layout(*, dim: int, arms: int, max_slots: int) -> ScoreLayout:
    """Return the layout by pairs where it fits, else by arms, else raise `InvalidInput`."""
    for form in FORMS:
        layout = ScoreLayout(dim=dim, arms=arms, form=form)
        if layout.compare_slots <= max_slots:
            return layout
    needed = ScoreLayout(dim=dim, arms=arms, form="arms").compare_slots
    raise InvalidInput(
        "max_slots", max_slots, f"at least {needed} for {dim} dimensions, {arms} arms"
    )


def score_cost(layout: ScoreLayout, *, riding: bool = False) -> Cost:
    """Cost of the differences of scores, with the trace of the update test among them or not.

    By pairs it rides for nothing; by arms it is a score of its own beside the others.
    """
    scores = Cost(levels=1, products=1) + cyclic_cost(count=layout.features, radix=layout.radix)
    if layout.form == "pairs":
        return scores
    if riding:
        scores |= scores
    giants = layout.padded_arms // layout.baby_steps
    spread = Cost(
        levels=1,
        plain_products=layout.padded_arms + (1 if riding else 0),
        rotations=layout.baby_steps + giants - 2,
    )
    return scores + spread
