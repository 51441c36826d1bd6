"""A deployment: everything public that all parties agree on before the first key is made.

It follows from a plan, travels as JSON, and has a fingerprint that stands in every message: what
belongs to another deployment is refused before it is looked at.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from helba.bandits.settings import Settings
from helba.errors import DamagedData, HelbaError, InvalidInput, require_choice, require_whole
from helba.reference.engine import SCHEMES
from helba.reference.numerics.composite import CompositeSign
from helba.reference.planning.layout.matrix import MatrixLayout
from helba.reference.planning.layout.score import ScoreLayout
from helba.reference.planning.parameters import Parameters, insecure_parameters
from helba.reference.planning.plan import Plan
from helba.reference.planning.request import KEY_MODES, REFRESHES
from helba.reference.twin.paper import PaperTwin
from helba.reference.twin.terms import MOST_RESIDUAL, Accuracy

FINGERPRINT_BYTES = 16
# Rewards that a test may meet since the last one that said no.
UNSEEN_REWARDS = 2
MOST_UNSEEN = 1 << 16
# An update test carries uniform noise of at most this.
NOISE_OF_TEST = 0.5


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """Settings, parameters and circuits of one bandit; nothing in it is secret.

    `refresh` is who gives levels back, `keys` whose keys users have (see `planning.request`).
    `sign` and `method` are None in the paper's profile.
    `comparison_noise` bounds what CKKS adds to an entry of the comparison vector, and `flood` what
    the server adds on purpose before an answer leaves. `unseen` is how many rewards an update test
    may meet beyond the last one that said no: with it the test's range is fixed.
    """

    scheme: str
    settings: Settings
    parameters: Parameters
    refresh: str
    form: str
    rotations: tuple[int, ...]
    bootstrap_slots: int
    round_levels: int
    accuracy: Accuracy
    sign: CompositeSign | None = None
    method: str | None = None
    comparison_noise: float = 0.0
    flood: float = 0.0
    keys: str = "own"
    unseen: int = UNSEEN_REWARDS

    def __post_init__(self) -> None:
        require_choice("scheme", self.scheme, SCHEMES)
        require_choice("refresh", self.refresh, REFRESHES)
        require_choice("keys", self.keys, KEY_MODES)
        require_whole("unseen", self.unseen, least=1, most=MOST_UNSEEN)
        slots = self.settings.profile == "ciphertext"
        if slots != (self.sign is not None) or slots != (self.method is not None):
            raise InvalidInput("sign", "another", "that of the profile")

    @classmethod
    def from_plan(
        cls,
        plan: Plan,
        *,
        scheme: str,
        settings: Settings | None = None,
        parameters: Parameters | None = None,
    ) -> Deployment:
        """Return the deployment of a plan.

        `settings` may differ from the plan's in what a plan does not depend on, like a tuned
        radius; other `parameters` of the same depth serve tests.
        """
        settings = plan.request.settings() if settings is None else settings
        chosen = plan.parameters if parameters is None else parameters
        if chosen.depth != plan.parameters.depth:
            raise InvalidInput("depth", chosen.depth, f"{plan.parameters.depth}, the plan's")
        return cls(
            scheme=scheme,
            settings=settings,
            parameters=chosen,
            refresh=plan.request.refresh,
            form=plan.layout,
            rotations=plan.rotations,
            bootstrap_slots=plan.bootstrap_slots,
            round_levels=plan.round_levels,
            accuracy=plan.accuracy,
            sign=plan.sign,
            method=plan.method,
            comparison_noise=plan.comparison_error,
            flood=plan.flood,
            keys=plan.request.keys,
        )

    @cached_property
    def matrices(self) -> MatrixLayout:
        """Where the matrices of an update sit."""
        return MatrixLayout(dim=self.settings.dim, max_slots=self.parameters.max_slots)

    @cached_property
    def scores(self) -> ScoreLayout:
        """Where contexts and model of the profile `ciphertext` sit."""
        settings = self.settings
        return ScoreLayout(dim=settings.dim, arms=settings.arms, form=self.form)

    @cached_property
    def test_reach(self) -> float:
        """The largest |trace - C| that an update test can meet, and at least C.

        A test that said no saw at most C + band; since then `unseen` rewards came in.
        """
        settings = self.settings
        step = (1.0 + MOST_RESIDUAL) * settings.length**2 / settings.ridge
        return (settings.trace_threshold + self.unseen * step) / (1.0 - self._test_gap)

    @cached_property
    def test_band(self) -> float:
        """How far from C, in units of the trace, an update test may say either.

        The noise on it, 1/2, covers a sign that is smaller.
        """
        return PaperTwin.band if self.sign is None else self.test_reach * self._test_gap

    @property
    def test_disclosure(self) -> float:
        """How far from C, in units of the trace, a user may learn something of |trace - C|.

        Where the sign polynomial has not saturated, its size shows through the noise.
        """
        return 0.0 if self.sign is None else self.test_reach * self.sign.resolution

    @property
    def _test_gap(self) -> float:
        """The same over the reach: where the sign polynomial stands above all noise."""
        if self.sign is None:
            return 0.0
        # the value may be a difference of two entries, and P counts twice what half of it does
        return self.sign.gap_for(NOISE_OF_TEST + 3.0 * (self.comparison_noise + self.flood))

    @cached_property
    def fingerprint(self) -> str:
        """What every message of this deployment carries."""
        text = json.dumps(self.as_json(), sort_keys=True).encode()
        return hashlib.blake2b(text, digest_size=FINGERPRINT_BYTES).hexdigest()

    def as_json(self) -> dict[str, Any]:
        """Return everything in plain types."""
        data = asdict(self)
        del data["parameters"]["_checked"]
        return data

    @classmethod
    def from_json(cls, data: object, *, allow_insecure: bool = False) -> Deployment:
        """Return the deployment that `as_json` described, or raise `DamagedData`.

        Parameters without a security level are for tests, and refused unless allowed.
        """
        if not isinstance(data, dict):
            raise DamagedData("a deployment is a JSON object")
        try:
            sign = data["sign"]
            fields = {
                **data,
                "settings": Settings(**data["settings"]),
                "parameters": _parameters(data["parameters"], allow_insecure=allow_insecure),
                "accuracy": Accuracy(**data["accuracy"]),
                "rotations": tuple(data["rotations"]),
                "sign": None
                if sign is None
                else CompositeSign(
                    **{**sign, "stages": tuple(tuple(stage) for stage in sign["stages"])}
                ),
            }
            return cls(**fields)
        except (KeyError, TypeError, ValueError, HelbaError) as error:
            raise DamagedData("this JSON does not describe a deployment") from error


def _parameters(fields: dict[str, Any], *, allow_insecure: bool) -> Parameters:
    if fields["security"] is None and allow_insecure:
        return insecure_parameters(**{k: v for k, v in fields.items() if k != "security"})
    return Parameters(**fields)
