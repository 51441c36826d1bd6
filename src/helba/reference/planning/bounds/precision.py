"""From the noise of CKKS to certificates: how wrong inverse, bonus and argmax may be.

All bounds are worst cases over the problems that the settings allow: ||V|| <= c = lambda + L^2 T
and ||V^-1|| <= 1/lambda. Errors of slots are independent Gaussians (see `noise`), and bounds of an
entry are eight standard deviations of them; so are those of sums, norms and matrices here: a matrix
of d x d such errors has norm at most (2 sqrt(d) + 8)/8 times the bound of an entry (Davidson and
Szarek 2001, Theorem II.13), but for a probability of 2^-45.

*Inverse.* A factor is rotated, which adds key switching; masked; and each column spread over its
row by adding up rotations, and so is the noise of all the slots that the mask left empty: a copy
carries eta = key switching + sqrt(2p) rescaling, p the padded dimension and 2p the rows of a
stacked product. A product L R of matrices adds at most
eta (||L|| + ||R|| + 1) to an entry: its d terms see copies with noise of their own. V, A and the
factor 2 s I - s^2 M have norms up to c, 1/lambda and sqrt(c/lambda). In the norms of
`numerics.inverse.plan_warm_start`, where V^(-1/2) E V^(1/2) is at most sqrt(c/lambda) ||E|| and
V^(1/2) E V^(1/2) at most c ||E||, every product then adds at most
nu = (2 sqrt(d) + 8)/8 * 3 eta sqrt(c/lambda) max(c, 1/lambda); the drift follows from the
recurrence there. The sum of T encrypted statistics adds sqrt(T) encryptions to V, and more where
data arrives switched: the errors of one user's switches add up in part
(`noise.NoiseModel.arrivals`).

*Renewals.* Giving X or M its levels back is no product: its error E is added to it, so that it
counts with c ||E|| in X and with sqrt(c/lambda) ||E|| in M. A masked refresh adds 2 (encryption +
rescaling) to an entry, whatever the entry is. Bootstrapping adds an error in proportion to the
bound of the vector's entries (`planning.bounds.bootstrap`), and as it is no Gaussian, ||E|| is
taken as d times that of an entry. Between Newton steps M and X share one vector. There V^(1/2) X
V^(1/2) is at most I, so entries of X are at most 1/lambda and those of M = V^(1/2) (V^(1/2) X
V^(1/2)) V^(-1/2) at most sqrt(c/lambda); after V A alone they are 1 + reach times that. At the end
of an update A is renewed, and the model, (w, A, 1), once more: both add to the residual, as c
||E||, and the model's renewal adds sqrt(c d) times the error of an entry to w in the norm of V.
Bounds are `SLACK` larger, for what noise adds to the values.

*Comparison vector.* A product of the sign's circuit adds eta' to a Chebyshev polynomial T_k, which
later ones enlarge by at most k^2 in all (|T_n'| <= n^2); a stage with coefficients c_k adds
eta' sum |c_k| k^2, and later stages enlarge that by their steepest slopes.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

from helba.bandits.radius import confidence_radius
from helba.bandits.settings import Settings
from helba.errors import InvalidInput
from helba.numerics.inverse import InverseNoise, WarmStart, plan_warm_start
from helba.reference.numerics.composite import CompositeSign
from helba.reference.numerics.inverse import MATRIX_PRODUCT_LEVELS
from helba.reference.numerics.stage import steepest
from helba.reference.planning.bounds.bootstrap import bootstrap_error
from helba.reference.planning.bounds.noise import TAILS, NoiseModel
from helba.reference.planning.cost.workload import root_range
from helba.reference.planning.layout.packing import next_power_of_two
from helba.reference.planning.layout.score import ScoreLayout
from helba.reference.planning.parameters import Parameters
from helba.reference.twin.ciphertext import INVERSE_ERROR

# Beyond this residual the regret bound's constant grows and nothing is gained.
MOST_INVERSE_ERROR = 0.1
# Up to this one a smaller residual is not worth a Newton step: the refinement squares it. The
# check of a new model sees ||I - V A||_F, which is up to sqrt(d c/lambda) times as large: it must
# leave as much room, but what is comfortable is good in any case.
GOOD_INVERSE_ERROR = 0.0125
COMFORTABLE_INVERSE = 1e-3
# ||I - V A||_F of a model that is adopted, at most; a wrong share makes it as large as a modulus.
CHECKED_RESIDUAL = 0.25
# A batch's trace test answers one round late, and the round that passes the threshold adds one.
UNSEEN_ROUNDS = 2
ERROR_STEPS_PER_DECADE = 4
# Values that are renewed may pass their bounds by what noise adds to them.
SLACK = 1.0 + MOST_INVERSE_ERROR


def largest_eigenvalue(settings: Settings) -> float:
    """Return c = lambda + L^2 T, a bound on ||V|| over the whole horizon."""
    return settings.ridge + settings.length**2 * settings.horizon


def trace_reach(settings: Settings) -> float:
    """Return a bound on Tr(V_j^-1 (V - V_j)) at any update: from the rules, or from counts."""
    step = settings.length**2 / settings.ridge
    longest_batch = max(2, math.ceil(settings.growth * settings.horizon))
    reach = longest_batch * step
    if settings.schedule == "public":
        return reach
    return min(reach, settings.trace_threshold + UNSEEN_ROUNDS * step)


@dataclass(frozen=True, kw_only=True)
class RenewalBounds:
    """Bounds on what an update renews: [M; X] between Newton steps, the inverse, the model."""

    newton: float
    inverse: float
    model: float


def renewal_bounds(settings: Settings, *, piece: int) -> RenewalBounds:
    """Return the bounds; `piece` products lie between two renewals. See the module."""
    ridge = settings.ridge
    image = math.sqrt(largest_eigenvalue(settings) / ridge)
    if piece == 1:  # V A itself is renewed, before a step has brought it below 1
        image *= 1.0 + trace_reach(settings)
    return RenewalBounds(
        newton=SLACK * max(image, 1.0 / ridge),
        inverse=SLACK / ridge,
        model=SLACK * max(longest_estimate(settings), 1.0 / ridge, 1.0),
    )


def renewal_error(
    *, refresh: str, parameters: Parameters, slots: int, bound: float, copies: int = 1
) -> float:
    """Return what a renewal adds to an entry of a vector of `slots` with entries up to `bound`.

    Bootstrapping fills `slots` with `copies` of it.
    """
    if refresh == "bootstrap":
        return bootstrap_error(parameters, bound=bound, slots=slots, copies=copies)
    if refresh == "client":
        model = NoiseModel(parameters)
        return 2.0 * (model.encryption(slots) + model.rescaling(slots))
    return 0.0


def inverse_noise(
    settings: Settings,
    *,
    parameters: Parameters,
    slots: int,
    refresh: str,
    levels: int = 0,
    renewal_slots: int = 1,
    keys: str = "own",
) -> InverseNoise:
    """Return what CKKS adds to an inverse computed in `slots` slots; see the module.

    `levels` are those that a renewal leaves for products, `renewal_slots` the slots of the largest
    vector that is renewed, and `keys` says how statistics arrive.
    """
    model, d, ridge = NoiseModel(parameters), settings.dim, settings.ridge
    c = largest_eigenvalue(settings)
    spread = math.sqrt(2.0 * next_power_of_two(d))
    entry = 3.0 * (model.key_switching(slots) + spread * model.rescaling(slots))
    product = math.sqrt(c / ridge) * max(c, 1.0 / ridge) * entry
    statistics = model.arrivals(slots, count=settings.horizon, keys=keys) / ridge
    gaussian = (2.0 * math.sqrt(d) + TAILS) / TAILS
    if refresh == "none":
        return InverseNoise(product=gaussian * (product + statistics))
    piece = max(1, levels // MATRIX_PRODUCT_LEVELS)
    bounds = renewal_bounds(settings, piece=piece)
    norm = d if refresh == "bootstrap" else gaussian
    matrices = max(1, renewal_slots // next_power_of_two(d) ** 2)  # that share the slots
    newton, inverse, scoring = (
        norm
        * renewal_error(
            refresh=refresh,
            parameters=parameters,
            slots=renewal_slots,
            bound=bound,
            copies=copies,
        )
        for bound, copies in (
            (bounds.newton, matrices),
            (bounds.inverse, matrices),
            (bounds.model, 1),
        )
    )
    return InverseNoise(
        product=gaussian * (product + statistics),
        renewal=max(c, math.sqrt(c / ridge)) * newton,
        piece=piece,
        ending=c * (inverse + scoring),
    )


def good_inverse_error(settings: Settings) -> float:
    """Return the residual up to which a smaller one is not worth a Newton step."""
    amplified = math.sqrt(settings.dim * largest_eigenvalue(settings) / settings.ridge)
    room = CHECKED_RESIDUAL / (SLACK * amplified)
    return min(GOOD_INVERSE_ERROR, max(COMFORTABLE_INVERSE, room))


def plan_inverse(settings: Settings, *, noise: float | InverseNoise) -> WarmStart | None:
    """Return the warm start of the fewest steps whose error reproduces itself and is good.

    Of several the one with the least error; past a good one the least that there is, or None past
    the most. The error e of one update is where the next one starts: eigenvalues of V A lie in
    [1 - e, 1 + e + (1 + e) reach].
    """
    reach = trace_reach(settings)
    decades = math.log10(MOST_INVERSE_ERROR / INVERSE_ERROR)
    good = good_inverse_error(settings)
    best: WarmStart | None = None
    for index in range(math.floor(decades * ERROR_STEPS_PER_DECADE) + 1):
        error = INVERSE_ERROR * 10.0 ** (index / ERROR_STEPS_PER_DECADE)
        if best is not None and error > good:
            break
        with suppress(InvalidInput):  # noise does not allow it
            found = plan_warm_start(
                low=1.0 - error,
                high=1.0 + error + (1.0 + error) * reach,
                error=error,
                noise=noise,
            )
            if best is None or found.steps < best.steps:
                best = found
    return best


def cold_noise(noise: InverseNoise, *, steps: int) -> float:
    """Return what noise makes of a cold inverse: D <- 2 D + 2 nu a step, while V X is far from I.

    It doubles in every step, to about c/lambda in all: the reason to start warm. A renewal is taken
    to follow every step.
    """
    return 2.0 * (noise.product + noise.renewal) * (2.0**steps - 1.0) + noise.ending


def root_noise(settings: Settings, *, slots: int, parameters: Parameters) -> float:
    """Return what CKKS adds to a root, relative to its range: each step 2 eta, times high/low."""
    model = NoiseModel(parameters)
    low, high = root_range(settings)
    added = 2.0 * (model.rescaling(slots) + model.encryption(slots))
    return float(added * high / low)


def estimate_error(
    settings: Settings,
    *,
    residual: float,
    parameters: Parameters,
    slots: int,
    refresh: str,
    renewal_slots: int = 1,
    renewals: int = 1,
) -> float:
    """Return a bound on ||w - V^-1 g||_V after one refinement w + A (g - V w).

    e^2 r_max sqrt(T) is left of the inverse's error. The noise of V w, at most eta (c + ||w||) in
    an entry (it is spread like the inverse's) and sqrt(d) times that as a vector, goes through A:
    1/sqrt(lambda) in the norm of V. Each of the `renewals` of w or of the model adds sqrt(c d)
    times what it adds to an entry.
    """
    model, ridge = NoiseModel(parameters), settings.ridge
    spread = math.sqrt(2.0 * next_power_of_two(settings.dim))
    entry = 2.0 * spread * (model.pending_key_switching(slots) + model.rescaling(slots))
    c = largest_eigenvalue(settings)
    image = entry * (c + longest_estimate(settings))
    left = residual**2 * settings.reward_max * math.sqrt(settings.horizon)
    bound = renewal_bounds(settings, piece=0).model
    renewed = renewal_error(
        refresh=refresh, parameters=parameters, slots=renewal_slots, bound=bound
    )
    through = (1.0 + residual) * math.sqrt(settings.dim / ridge) * image
    return float(left + through + renewals * math.sqrt(c * settings.dim) * renewed)


def longest_estimate(settings: Settings) -> float:
    """Return a bound on ||w||: S + beta/sqrt(lambda)."""
    radius = confidence_radius(settings, samples=settings.horizon)
    return settings.parameter_bound + radius / math.sqrt(settings.ridge)


def score_noise(
    settings: Settings,
    *,
    layout: ScoreLayout,
    parameters: Parameters,
    scale: float,
    keys: str = "own",
) -> float:
    """Return a bound on what CKKS adds to a difference of scores over `scale`.

    The model and the features carry noise eta each, which the other one's norm multiplies: that of
    (w, A, 1) is at most ||w|| + sqrt(d)/lambda + 1, that of a difference of features over their
    scale at most 2 (L/scale + lambda) + 1. The F terms are added before they are rescaled.
    """
    model, ridge = NoiseModel(parameters), settings.ridge
    fresh = 2.0 * (model.arrival(layout.slots, keys=keys) + model.rescaling(layout.slots))
    weights = longest_estimate(settings) + math.sqrt(settings.dim) / ridge + 1.0
    features = 2.0 * (settings.length / scale + ridge) + 1.0
    moved = layout.features * model.pending_key_switching(layout.slots)
    moved += model.rescaling(layout.slots)
    if layout.form == "arms":  # K scores are rotated at their plain scale, and spread by masks
        moved += model.key_switching(layout.compare_slots)
        moved += model.rescaling(layout.compare_slots)
    return float(fresh * (weights + features) + moved)


def answer_noise(slots: int, *, parameters: Parameters) -> float:
    """Return a bound on what sending an answer adds to an entry, beside the flood itself.

    The vector is re-encrypted to its user on the last level, and the flood is encrypted.
    """
    model = NoiseModel(parameters)
    return model.encryption(slots) + model.reencryption(slots, level=parameters.depth)


def comparison_noise(
    sign: CompositeSign, *, slots: int, parameters: Parameters, renewed: float = 0.0
) -> float:
    """Return a bound on what CKKS adds to P(x) itself, for a given x.

    Where a round is cut, `renewed` is what a renewal adds, and one may come before every stage.
    """
    model = NoiseModel(parameters)
    added = model.rescaling(slots) + model.pending_key_switching(slots)
    total = 0.0
    for stage in sign.stages:
        own = added * sum(abs(c) * (2 * k + 1) ** 2 for k, c in enumerate(stage))
        total = (total + renewed) * _slope(stage) + own
    return total


@lru_cache(maxsize=1024)
def _slope(stage: tuple[float, ...]) -> float:
    return float(steepest(stage))
