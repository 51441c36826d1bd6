"""The interface of a policy: `select` an arm, then `update` with what it earned."""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from helba.bandits.settings import MOST_ROUNDS, Settings
from helba.errors import InvalidInput, require_whole

Array = NDArray[np.float64]

# A context brought to length L in single precision may pass the bound by rounding alone.
ROUNDING = 1 + 1e-6
REAL_KINDS = "biuf"  # numpy's booleans, integers and floats


@dataclass(frozen=True, kw_only=True)
class Decision:
    """One choice of an approximate policy beside that of its exact counterpart on the same history.

    `gap` is by how much, in units of the score, the best exact index exceeds the second best, and
    `tolerance` the certified distance within which the choice may differ: a *tie* is a round with
    `gap <= tolerance`. `loss` is the exact index of the best arm minus that of the chosen one.
    """

    arm: int
    exact_arm: int
    gap: float
    loss: float
    tolerance: float

    @property
    def agrees(self) -> bool:
        """True if the approximate policy plays the arm that the exact one would play."""
        return self.arm == self.exact_arm

    @property
    def missed(self) -> bool:
        """True if the arm is further from the best than the certificate admits."""
        return self.loss > self.tolerance

    @property
    def tie(self) -> bool:
        """True if the certificate admits another arm than the exact policy's."""
        return self.gap <= self.tolerance


class HorizonWarning(UserWarning):
    """More rounds are played than the settings say: bounds of regret and updates do not hold."""

    def __init__(self, horizon: int, *, lost: str) -> None:
        super().__init__(
            f"the horizon of {horizon} rounds is over, and {lost}; "
            f"policy.extend(horizon={2 * horizon}) goes on with what was learned"
        )


class Policy(ABC):
    """Plays one arm a round and learns from its reward.

    `select(contexts)` takes the K x d features of this round's arms (arms may be fewer than
    `settings.arms`, and differ from round to round) and returns a row number. `update(context,
    reward)` takes the played row and its reward. Rewards past `settings.reward_max` are clipped to
    it and counted in `clipped`. Past the horizon no bound holds, and `select` warns once; `extend`
    is the way on. `updates` counts how often the model was recomputed. Two attributes
    are for policies that approximate another one: `decision` describes the last choice (None for
    all others), and `overflows` counts rounds whose scores left their promised range.
    """

    _past_horizon = "with it every bound"  # is over

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.round = 0
        self.updates = 0
        self.clipped = 0
        self.overflows = 0
        self.decision: Decision | None = None

    def select(self, contexts: Array) -> int:
        """Return the row of `contexts` to play. A refused call changes nothing."""
        rows = check_contexts(self.settings, contexts)
        if self.round == self.settings.horizon:
            warning = HorizonWarning(self.settings.horizon, lost=self._past_horizon)
            warnings.warn(warning, stacklevel=2)
        self.round += 1
        try:
            return self._choose(rows)
        except BaseException:
            self.round -= 1
            raise

    @abstractmethod
    def _choose(self, contexts: Array) -> int: ...

    def update(self, context: Array, reward: float) -> None:
        """Learn that playing `context` earned `reward`. A refused call changes nothing."""
        row = check_context(self.settings, context)
        earned, clipped = clip_reward(self.settings, reward)
        self.clipped += clipped
        self._learn(row, earned)

    @abstractmethod
    def _learn(self, context: Array, reward: float) -> None: ...

    def extend(self, horizon: int) -> None:
        """Go on with a longer horizon, with what was learned so far."""
        require_whole("horizon", horizon, least=self.settings.horizon + 1, most=MOST_ROUNDS)
        self.settings = replace(self.settings, horizon=horizon)

    def update_bound(self) -> float:
        """Return a proven bound on `updates` over the horizon."""
        return float(self.settings.horizon)

    def regret_bound(self) -> float | None:
        """Return a bound on the regret with probability 1 - delta over the horizon, or None."""
        return None


def check_contexts(settings: Settings, contexts: object) -> Array:
    """Return 1 to K contexts as rows, or raise `InvalidInput`."""
    rows = _numbers("contexts", contexts)
    if rows.ndim != 2 or rows.shape[1] != settings.dim or not 1 <= rows.shape[0] <= settings.arms:
        allowed = f"a table of 1 to {settings.arms} rows and {settings.dim} columns"
        raise InvalidInput("contexts", f"shape {rows.shape}", allowed)
    _check_length(settings, rows, squared=float(np.einsum("ij,ij->i", rows, rows).max()))
    return rows


def check_context(settings: Settings, context: object) -> Array:
    """Return one context, or raise `InvalidInput`."""
    row = _numbers("context", context)
    if row.shape != (settings.dim,):
        allowed = f"a vector of {settings.dim} numbers"
        raise InvalidInput("context", f"shape {row.shape}", allowed)
    _check_length(settings, row, squared=float(np.einsum("i,i->", row, row)))
    return row


def clip_reward(settings: Settings, reward: object) -> tuple[float, bool]:
    """Return the reward within [-r_max, r_max], and whether it was clipped to it."""
    number = _numbers("reward", reward)
    if number.shape != ():
        raise InvalidInput("reward", f"shape {number.shape}", "one number")
    earned = float(number)
    if not math.isfinite(earned):
        raise InvalidInput("reward", earned, "finite")
    limit = settings.reward_max
    if abs(earned) > limit:
        return math.copysign(limit, earned), True
    return earned, False


def _check_length(settings: Settings, values: Array, *, squared: float) -> None:
    """Refuse values that are not finite, or longer than L; `squared` is the longest's."""
    limit = settings.length
    if squared <= (limit * ROUNDING) ** 2:
        return
    if not np.isfinite(values).all():
        raise InvalidInput("contexts", "a value that is not finite", "finite")
    allowed = f"no longer than the length bound L = {limit:g}"
    raise InvalidInput("contexts", f"a context of length {math.sqrt(squared):g}", allowed)


def _numbers(name: str, values: object) -> Array:
    """Return `values` as an array of real numbers, or raise `InvalidInput`."""
    if type(values) is np.ndarray and values.dtype == np.float64:
        return values
    try:
        array = np.asarray(values)
    except ValueError:
        raise InvalidInput(name, "rows of different lengths", "real numbers") from None
    if array.dtype.kind not in REAL_KINDS:
        raise InvalidInput(name, f"values of type {array.dtype}", "real numbers")
    return array.astype(np.float64, copy=False)
