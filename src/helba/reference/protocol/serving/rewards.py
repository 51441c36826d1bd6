"""The part of the server that takes rewards in: a round has one."""

from __future__ import annotations

from collections import OrderedDict

from helba.errors import DamagedData, Refused
from helba.reference.engine import EncryptedVector, Engine
from helba.reference.protocol.deployment import Deployment
from helba.reference.protocol.serving.directory import Directory, Line
from helba.reference.protocol.serving.learning import Learning
from helba.reference.protocol.serving.work import AnswerWork, OpenRound
from helba.reference.protocol.wire.codec import Codec
from helba.reference.protocol.wire.messages import Message, Receipt, Refusal, Report

NOT_YOURS = "a round of somebody else"
UNKNOWN_ROUND = "no round of this name was answered"
IN_WORK = "this round is being answered: report what comes of it"


class Rewards(Learning):
    """Rounds that were answered, the answers that are kept, and what is reported of them."""

    def __init__(self, deployment: Deployment, *, engine: Engine, directory: Directory) -> None:
        super().__init__(deployment, engine=engine, directory=directory)
        self._codec = Codec(deployment)
        self.rounds: dict[bytes, OpenRound] = {}
        self.answers: OrderedDict[bytes, bytes] = OrderedDict()

    def _report(self, report: Report) -> tuple[bytes, ...]:
        """Take a reward in: a receipt or a refusal, then what else is to be sent."""
        try:
            self.directory.require(report.user)
            reply, vectors = self._read_report(report)
        except Refused as error:
            return (self._refuse(report.round, str(error)),)
        if vectors is None:
            return (reply,)
        counted = self._take(self.profile.absorb(self._engine, vectors))
        self.rounds[report.round].reported = True
        self.answers.pop(report.round, None)
        return (reply, *self._take_in(taken=counted, helper=report.user))

    def _read_report(self, report: Report) -> tuple[bytes, list[EncryptedVector] | None]:
        """What to say to a report, and its parts where they are to be counted."""
        known = self.rounds.get(report.round)
        if known is None:
            return self._refuse(report.round, UNKNOWN_ROUND), None
        if known.user != report.user:
            return self._refuse(report.round, NOT_YOURS), None
        if self._is_in_work(report.round):
            return self._refuse(report.round, IN_WORK), None
        if known.reported:
            return self._encode(Receipt(round=report.round, counted=False)), None
        shapes, line = self.profile.statistics_shape, self._line_from(report.user)
        if len(report.parts) != len(shapes):
            raise DamagedData(f"a report has {len(shapes)} ciphertexts")
        vectors = [
            line.read(part, collective=self._engine, slots=slots, level=level)
            for part, (slots, level) in zip(report.parts, shapes, strict=True)
        ]
        return self._encode(Receipt(round=report.round, counted=True)), vectors

    def _line_from(self, user: bytes) -> Line:
        """The line by which a user's data arrives; its own key matters where data is switched."""
        if self.deployment.keys == "switched":
            return self.directory.line(user)
        return Line(engine=self._engine)

    def _is_in_work(self, round: bytes) -> bool:
        return any(
            isinstance(work, AnswerWork) and work.asked == round for work in self.worker.work
        )

    # -- bytes

    def _refuse(self, subject: bytes, reason: str) -> bytes:
        return self._encode(Refusal(subject=subject, reason=reason))

    def _encode(self, message: Message) -> bytes:
        return self._codec.encode(message)

    def _decode(self, data: bytes) -> Message:
        return self._codec.decode(data)
