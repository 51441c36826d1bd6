"""The part of the server that takes rewards in: one report, or several with one look at the end.

A round has one reward. Reports of one batch are added as they travel, where the profile only adds
them, and an update or a test of its own begins once for all of them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from helba.errors import DamagedData, HelbaError, Refused
from helba.reference.engine import Engine
from helba.reference.protocol.codec import Codec
from helba.reference.protocol.deployment import Deployment
from helba.reference.protocol.directory import Directory, Line
from helba.reference.protocol.learning import Learning
from helba.reference.protocol.messages import Message, Receipt, Refusal, Report
from helba.reference.protocol.summand import Summand, add_summands, read_summand
from helba.reference.protocol.work import AnswerWork, OpenRound

__all__ = ["NOT_YOURS", "UNKNOWN_ROUND", "Rewards"]

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

    def receive_reports(self, reports: Sequence[bytes]) -> tuple[bytes, ...]:
        """Take the rewards of several rounds in, then see once what is due.

        Return a receipt or a refusal for each, in their order, then what else is to be sent. A
        report that does not fit is refused and spoils nobody else's.
        """
        messages = [self._decode(data) for data in reports]
        if not all(isinstance(message, Report) for message in messages):
            raise DamagedData("these are not all reports")
        return self._report([each for each in messages if isinstance(each, Report)], refuse=True)

    def _report(self, reports: Sequence[Report], *, refuse: bool = False) -> tuple[bytes, ...]:
        """Take reports in together; one that does not fit raises, or is refused."""
        replies: list[bytes] = []
        taken: dict[bytes, tuple[bytes, list[Summand]]] = {}
        for report in reports:
            if report.round in taken:  # a report that comes twice is one
                replies.append(self._encode(Receipt(round=report.round, counted=False)))
                continue
            try:
                self.directory.require(report.user)
                reply, summands = self._read_report(report)
            except HelbaError as error:
                if not refuse and not isinstance(error, Refused):
                    raise
                reply, summands = self._refuse(report.round, str(error)), None
            replies.append(reply)
            if summands is not None:
                taken[report.round] = (report.user, summands)
        if not taken:
            return tuple(replies)
        size = self.deployment.users if self.profile.adds_reports else 1
        added, helper = 0, next(iter(taken.values()))[0]
        while taken:
            group = list(taken)[:size]
            added += self._take_group([taken.pop(round)[1] for round in group])
            for round in group:
                self.rounds[round].reported = True
                self.answers.pop(round, None)
        return (*replies, *self._take_in(taken=added, helper=helper))

    def _read_report(self, report: Report) -> tuple[bytes, list[Summand] | None]:
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
        summands = [
            read_summand(part, line=line, collective=self._engine, slots=slots, level=level)
            for part, (slots, level) in zip(report.parts, shapes, strict=True)
        ]
        return self._encode(Receipt(round=report.round, counted=True)), summands

    def _line_from(self, user: bytes) -> Line:
        """The line by which a user's data arrives; its own key matters where data is switched."""
        if self.deployment.keys == "switched":
            return self.directory.line(user)
        return Line(engine=self._engine)

    def _take_group(self, reports: Sequence[Sequence[Summand]]) -> int:
        """Count rewards while there is room and hold the others, as sums; how many were counted."""
        counted = 0
        while reports:
            size = self._room(len(reports)) or self._most_held
            some, reports = reports[:size], reports[size:]
            vectors = [add_summands(self._engine, same) for same in zip(*some, strict=True)]
            counted += self._take(self.profile.absorb(self._engine, vectors), count=len(some))
        return counted

    def _is_in_work(self, round: bytes) -> bool:
        return any(
            isinstance(work, AnswerWork) and round in work.users for work in self.worker.work
        )

    # -- bytes

    def _refuse(self, subject: bytes, reason: str) -> bytes:
        return self._encode(Refusal(subject=subject, reason=reason))

    def _encode(self, message: Message) -> bytes:
        return self._codec.encode(message)

    def _decode(self, data: bytes) -> Message:
        return self._codec.decode(data)
