"""What an engine does together with a helper: masked refresh and masked opening.

Each takes three steps: the server begins and keeps a mask, the helper answers, the server finishes.
The helper sees a uniform value; see `refresh` and `opening` for what the server gets.

The helper is whoever owns the secret key of `public_key`, or, with a re-encryption key, somebody
with a key of their own: the request then goes out `to` them under their key, and the reply comes
back under that of the vector.
"""

from __future__ import annotations

import secrets

from helba.errors import EngineError, InvalidInput, LevelsExhausted, WrongVector
from helba.reference.engine.bookkeeping import Bookkeeping
from helba.reference.engine.exchanges.exchange import (
    EXCHANGE_BITS,
    EXCHANGE_FAILURE,
    EXCHANGE_ID_BYTES,
    EXCHANGE_LEVELS,
    Message,
    Pending,
)
from helba.reference.engine.exchanges.opening import (
    OPENING_FLOOD,
    OpeningReply,
    OpeningRequest,
    PendingOpening,
)
from helba.reference.engine.exchanges.refresh import PendingRefresh, RefreshReply, RefreshRequest
from helba.reference.engine.keys import PublicKey, Recipient, SecretKey
from helba.reference.engine.primitives import Array
from helba.reference.engine.vector import Body, EncryptedVector


class Masking(Bookkeeping):
    """The exchanges of vectors under `public_key`."""

    @property
    def most_masked(self) -> float:
        """Values beyond this may wrap around in a refresh, and are not opened."""
        parameters = self.parameters
        return float(2.0**parameters.first_bits * EXCHANGE_FAILURE / parameters.ring_dim)

    # -- refresh

    def begin_refresh(
        self, vector: EncryptedVector, *, to: Recipient | None = None
    ) -> tuple[RefreshRequest, PendingRefresh]:
        """Server: mask and re-randomise a vector that has `REFRESH_LEVELS` levels left.

        Without `to` the request is for the owner of the vector's own key.
        """
        body = self._maskable(vector, exchange="refresh", to=to)
        request, mask = self._begin_refresh(body, to)
        named = secrets.token_bytes(EXCHANGE_ID_BYTES)
        tag = vector.tag if to is None else to.public_key.tag
        return (
            RefreshRequest(request, slots=vector.slots, tag=tag, id=named),
            PendingRefresh(mask, slots=vector.slots, tag=vector.tag, id=named),
        )

    def answer_refresh(
        self, request: RefreshRequest, *, secret_key: SecretKey, under: PublicKey | None = None
    ) -> RefreshReply:
        """Helper: decrypt what is uniform, and encrypt it again at the top level.

        The reply is encrypted `under` the key of the vector, this engine's own unless told.
        """
        key = self._require_owner(request, kind=RefreshRequest, secret_key=secret_key, under=under)
        reply = self._answer_refresh(request.payload, secret_key, key)
        return RefreshReply(reply, slots=request.slots, tag=key.tag, id=request.id)

    def finish_refresh(self, reply: RefreshReply, pending: PendingRefresh) -> EncryptedVector:
        """Server: take the mask off; the value of before, with all its levels."""
        self._require_match(reply, pending, kinds=(RefreshReply, PendingRefresh))
        payload = self._finish_refresh(reply.payload, pending.show())
        pending.take()
        return self._vector(Body(payload, 0), slots=reply.slots)

    def refresh(self, vector: EncryptedVector, *, secret_key: SecretKey) -> EncryptedVector:
        """All three steps of the masked refresh in one place, for whoever holds every key."""
        request, pending = self.begin_refresh(vector)
        return self.finish_refresh(self.answer_refresh(request, secret_key=secret_key), pending)

    # -- opening

    def begin_opening(
        self, vector: EncryptedVector, *, to: Recipient | None = None
    ) -> tuple[OpeningRequest, PendingOpening]:
        """Server: mask and re-randomise a vector that has `REFRESH_LEVELS` levels left.

        Without `to` the request is for the owner of the vector's own key.
        """
        body = self._maskable(vector, exchange="opening", to=to)
        request, mask = self._begin_opening(body, vector.slots, to)
        named = secrets.token_bytes(EXCHANGE_ID_BYTES)
        tag = vector.tag if to is None else to.public_key.tag
        return (
            OpeningRequest(request, slots=vector.slots, tag=tag, id=named),
            PendingOpening(mask, slots=vector.slots, tag=vector.tag, id=named),
        )

    def answer_opening(
        self,
        request: OpeningRequest,
        *,
        secret_key: SecretKey,
        flood: float = OPENING_FLOOD,
        under: PublicKey | None = None,
    ) -> OpeningReply:
        """Helper: decrypt what is uniform, and return it in the clear, off by `flood` at most.

        The server will read the vector, and the helper cannot see which one: see `opening`. `under`
        is the key of the vector, as for a refresh.
        """
        key = self._require_owner(request, kind=OpeningRequest, secret_key=secret_key, under=under)
        if not 0.0 < flood <= 1.0:
            raise InvalidInput("flood", flood, "positive and at most 1")
        reply = self._answer_opening(request.payload, secret_key, request.slots, flood)
        return OpeningReply(reply, slots=request.slots, tag=key.tag, id=request.id)

    def finish_opening(self, reply: OpeningReply, pending: PendingOpening) -> Array:
        """Server: take the mask off and read the numbers; `DamagedData` if they make no sense.

        No secret key takes part.
        """
        self._require_match(reply, pending, kinds=(OpeningReply, PendingOpening))
        values = self._finish_opening(reply.payload, pending.show())
        pending.take()
        return values

    # -- checks

    def _maskable(self, vector: EncryptedVector, *, exchange: str, to: Recipient | None) -> Body:
        self._require_own(vector)
        if to is not None:
            self._require_way(to.key, level=self.parameters.depth - EXCHANGE_LEVELS)
        article = "a" if exchange == "refresh" else "an"
        if vector.levels_left < EXCHANGE_LEVELS:
            raise LevelsExhausted(
                f"{article} {exchange} needs {EXCHANGE_LEVELS} levels, {vector.levels_left} left"
            )
        bits = self.parameters.first_bits + self.parameters.scale_bits
        if bits < EXCHANGE_BITS:
            raise EngineError(
                f"{article} {exchange} needs {EXCHANGE_BITS} bits in the last two primes, "
                f"not {bits}: with fewer the masked value may wrap around"
            )
        body = self._settled(vector)
        self.tally.add(exchange, level=body.level)
        return body

    def _require_owner(
        self,
        request: Message,
        *,
        kind: type[Message],
        secret_key: SecretKey,
        under: PublicKey | None,
    ) -> PublicKey:
        """The key that the reply belongs to, if the request is one to this engine's owner."""
        if not isinstance(request, kind):
            raise WrongVector(f"a {type(request).__name__} is no {kind.__name__}")
        if request.tag != self.public_key.tag or not secret_key.belongs_to(self.public_key):
            raise WrongVector("the request belongs to another key")
        if under is not None and under.parameters != self.parameters:
            raise WrongVector("the reply would be of other parameters")
        return self.public_key if under is None else under

    def _require_match(
        self, reply: Message, pending: Pending, *, kinds: tuple[type[Message], type[Pending]]
    ) -> None:
        if not isinstance(reply, kinds[0]) or not isinstance(pending, kinds[1]):
            names = type(reply).__name__, type(pending).__name__
            raise WrongVector(f"a {names[0]} does not finish a {names[1]}")
        if (reply.tag, reply.slots, reply.id) != (pending.tag, pending.slots, pending.id):
            raise WrongVector(f"the reply belongs to another {pending.exchange}")
        if reply.tag != self.public_key.tag:
            raise WrongVector("the reply belongs to another key")
