"""All parties of one deployment, in one process and on one network."""

from __future__ import annotations

from random import Random

from helba.authority.authority import Authority
from helba.in_process.network import Ledger, Network, Station
from helba.opener.opener import OpenerParty
from helba.protocol.codec import Codec
from helba.protocol.deployment import SharesDeployment
from helba.protocol.effects import AUTHORITY
from helba.randomness import draw_bytes
from helba.ring import Opener
from helba.server.server import Server
from helba.server.state import ServerState
from helba.user.client import Client
from helba.user.user import User


class Parties:
    """Authority, server and openers; users join.

    In the setting `users` every user opens its own rounds under its own key, and one more user, who
    is online, opens tests and updates. In `authority` the authority opens everything. `seed` fixes
    the simulator's noise and all that its parties draw; with OpenFHE there is none.
    """

    def __init__(self, deployment: SharesDeployment, *, seed: int | None = None) -> None:
        self._draw = draw_bytes if seed is None else Random(seed).randbytes
        self.authority = Authority(deployment, seed=seed, draw=self._draw)
        self._begin(deployment, state=None, ledger=Ledger())

    def _begin(
        self, deployment: SharesDeployment, *, state: ServerState | None, ledger: Ledger
    ) -> None:
        authority = self.authority
        self.deployment = authority.deployment = deployment
        self.server = Server(deployment, ring=authority.make_ring(), state=state, draw=self._draw)
        codec = Codec(deployment, public_key=authority.public_key)
        self.network = Network(self.server, codec=codec, ledger=ledger)
        if deployment.plan.opener == "users":
            helper = self.join(name="opener").user.id
        else:
            helper = AUTHORITY
            opener = OpenerParty(
                deployment,
                opener=authority.make_opener(),
                sealing_key=authority.private_sealing_key,
                draw=self._draw,
            )
            self.network.stations[helper] = Station(
                id=helper, network=self.network, codec=codec, opener=opener, name="opener"
            )
        self.server.add_helper(helper)

    def join(self, *, name: str = "user") -> Client:
        """Enrol a user and return its client; `name` is whose its seconds are."""
        authority, deployment, public = self.authority, self.deployment, self.authority.public_key
        draw, opener = self._draw, None
        if deployment.plan.opener == "authority":
            enrolment, codec = authority.enrol(), self.network.codec
            user = User(deployment, id=enrolment.id, sealing_key=authority.sealing_key, draw=draw)
        else:
            keys = authority.make_user_keys()
            enrolment = authority.enrol(keys.public)
            user = User(deployment, id=enrolment.id, public_key=public, draw=draw)
            codec = Codec(deployment, public_key=public, opener_key=keys.public)
            opener = OpenerParty(
                deployment, opener=Opener(keys.secret, public_key=public), draw=draw
            )
        self.server.enrol(user.id, enrolment.recipient)
        station = Station(id=user.id, network=self.network, codec=codec, opener=opener, name=name)
        self.network.stations[user.id] = station
        return Client(user, transport=station, colours=station.take_colours if opener else None)

    def extend(self, horizon: int) -> None:
        """Go on with a longer horizon; clients of before have to join again."""
        longer = self.deployment.extended(horizon)
        self.network.deliver()
        self._begin(longer, state=self.server.state, ledger=self.network.ledger)
