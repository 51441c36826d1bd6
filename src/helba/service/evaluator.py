"""The process in which a tenant's ciphertexts are computed on. It holds no secret key.

It keeps the server in memory and touches no database: each call returns an `Outcome` with what is
to be sent and the checkpoint that must be stored before any of it leaves. What was folded but not
stored is remembered, so that a report which comes again is not counted again; the caller says up to
which checkpoint all is stored.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from helba.errors import HelbaError, RunFailed
from helba.reference.protocol.enrolment import Enrolment, Rotation, name_key
from helba.reference.protocol.serving.server import Server, Status
from helba.reference.protocol.serving.work import AnswerWork, OpenRound
from helba.reference.protocol.wire.codec import Codec
from helba.reference.protocol.wire.messages import Answer, Receipt, Refusal, Task, TaskReply
from helba.service.checkpoint import Checkpoint, CheckpointWriter
from helba.service.memory import give_memory_back
from helba.service.protocol.child import answer_calls, fail_to_start, prepare_child
from helba.service.protocol.files import (
    DEPLOYMENT,
    PUBLIC_KEY,
    ROTATION,
    delete_file,
    read_deployment,
    read_public,
)
from helba.service.protocol.folderserver import FolderServer
from helba.service.protocol.serverfiles import (
    admit_user,
    drop_rotation,
    drop_user,
    enrolment_path,
    open_server,
    write_rotated_files,
)
from helba.service.protocol.snapshot import join_state
from helba.service.protocol.vault import read_private, write_private


@dataclass(frozen=True, kw_only=True)
class Start:
    """What an evaluator starts from: the last checkpoint that was stored, and the open rounds."""

    number: int = 0
    head: bytes | None = field(default=None, repr=False)
    parts: Sequence[bytes] = field(default=(), repr=False)
    rounds: Mapping[bytes, bytes] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, kw_only=True)
class Reply:
    """A message for a user: its kind, what it is about, and why where it is a refusal.

    A "task" is for the user's own round, which `subject` names where it is the reply to an ask; an
    "update" is one of an update.
    """

    kind: str
    subject: bytes
    data: bytes = field(repr=False)
    reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a call led to. Store `checkpoint`, if there is one, before `replies` leave."""

    replies: tuple[Reply, ...]
    checkpoint: Checkpoint | None
    notice: bytes = field(repr=False)
    batch: int
    key: bytes
    status: Status
    bits: Mapping[bytes, int] = field(repr=False)
    wants_help: bool


class Evaluator(FolderServer):
    """The calls of the process."""

    def __init__(self, server: Server, *, folder: Path, start: Start) -> None:
        super().__init__(server, folder=folder)
        server.rounds = {round: OpenRound(user=user) for round, user in start.rounds.items()}
        self._codec = Codec(server.deployment)
        self._writer = CheckpointWriter(server, number=start.number)
        self._reported: dict[bytes, int] = {}
        self._number = start.number
        self._lost = set(start.rounds)  # their answers
        self._renewed: dict[bytes, OpenRound] = {}

    # -- what users send

    def begin(self) -> Outcome:
        """Return the state at the start."""
        return self._outcome(())

    def ask(self, round: bytes, user: bytes, data: bytes) -> Outcome:
        """Answer what `user` asks in `round`.

        Of a round that waits for its user, the task is returned. One whose answer was lost with
        the process that made it is answered anew.
        """
        with self._forgetting(round, user):
            replies = [self._describe(each) for each in self.server.receive(data)]
        task = None if replies else self.server.task_of(round)
        if task is not None:
            replies.append(Reply(kind="task", subject=round, data=task))
        return self._outcome(replies)

    def fold(self, reports: Mapping[bytes, bytes]) -> Outcome:
        """Add rewards to the statistics, by round; one that does not fit is refused."""
        replies = []
        for round, data in reports.items():
            try:
                said = self.server.receive(data)
            except HelbaError as error:
                known = self.server.rounds.get(round)
                if known is not None and known.reported:  # it is in the sums
                    raise
                refusal = Refusal(subject=round, reason=str(error))
                said = (self._codec.encode(refusal),)
            replies += [self._describe(each) for each in said]
        outcome = self._outcome(replies)
        for reply in replies:
            if reply.kind == "receipt":
                self._reported[reply.subject] = self._number
        return outcome

    def receive(self, data: bytes) -> Outcome:
        """Take the reply to an update test in."""
        return self._outcome([self._describe(each) for each in self.server.receive(data)])

    def help(self, data: bytes) -> Outcome:
        """Take the reply to a task in; what follows for the helper is of the same computation."""
        message = self._codec.decode(data)
        work = self.server.worker.find(message) if isinstance(message, TaskReply) else None
        kind = "task" if isinstance(work, AnswerWork) else "update"
        return self._outcome(
            [self._describe(each, task=kind) for each in self.server.receive_help(data)]
        )

    def update_tasks(self, user: bytes) -> Outcome:
        """Return what updates wait for, for one helper."""
        tasks = self.server.update_tasks(user)
        return self._outcome([self._describe(each, task="update") for each in tasks])

    def round_tasks(self, user: bytes) -> Outcome:
        """Return what a user's own rounds wait for."""
        return self._outcome([self._describe(each) for each in self.server.round_tasks(user)])

    # -- what the authority says

    def take_rotation(self, rotation: bytes) -> Outcome:
        """Go on under a new collective key.

        The folder keeps the way from the old key until `settle`: a state that was stored before
        still opens.
        """
        given = Rotation.from_bytes(rotation, deployment=self.server.deployment)
        if given.public_key == self.public_key():
            return self._outcome(())  # taken before
        waited = (self.folder / ROTATION).exists()
        write_private(self.folder / ROTATION, rotation)
        try:
            self.server.rotate(rotation)
        except HelbaError:
            if not waited:
                delete_file(self.folder / ROTATION)
            raise
        try:
            if read_public(self.folder / PUBLIC_KEY) != given.public_key:
                write_rotated_files(rotation, self.folder, deployment=self.server.deployment)
            for user in self.server.directory.users:
                self._admit(user)
        except (HelbaError, OSError):  # memory is ahead of the folder; the next start ends it
            os._exit(1)
        return self._outcome(())

    def enrol(self, data: bytes) -> None:
        """Serve a user from now on; its keys are read from the folder when they are needed."""
        super().enrol(data)
        self._admit(Enrolment.from_bytes(data, deployment=self.server.deployment).user)

    def introduce(self, user: bytes, inward_key: bytes) -> None:
        """Take the user's key for data that arrives under its own."""
        super().introduce(user, inward_key)
        self._admit(user)

    def _admit(self, user: bytes) -> None:
        key = name_key(self.server._engine.public_key)
        admit_user(self.server.directory, user, self.folder, key=key)

    def bar(self, user: bytes) -> Outcome:
        """Revoke a user; one that is not enrolled is barred already, but for its files."""
        if user in self.server.directory.users:
            self.revoke(user)
        elif enrolment_path(self.folder, user).exists():  # deleting them failed the first time
            drop_user(self.folder, user)
        return self._outcome(())

    def public_key(self) -> bytes:
        """Return the collective public key."""
        engine = self.server._engine
        return self.server.directory._scheme.public_key_to_bytes(engine.public_key)

    # -- what the caller has stored

    def settle(self, number: int) -> None:
        """Forget what was needed until checkpoint `number` was stored."""
        for round in [round for round, at in self._reported.items() if at <= number]:
            del self._reported[round]
            self.server.rounds.pop(round, None)
        if number >= self._number and (self.folder / ROTATION).exists():
            given = Rotation.from_bytes(
                read_private(self.folder / ROTATION), deployment=self.server.deployment
            )
            if given.public_key == self.public_key():
                drop_rotation(self.folder)

    def forget(self, rounds: Sequence[bytes]) -> None:
        """Drop rounds that will have no reward."""
        for round in rounds:
            if self._is_open(round):
                del self.server.rounds[round]

    # -- parts

    def _is_open(self, round: bytes) -> bool:
        """Whether a round was answered, and no reward has come."""
        known = self.server.rounds.get(round)
        return known is not None and not known.reported and self.server.task_of(round) is None

    @contextmanager
    def _forgetting(self, round: bytes, user: bytes) -> Iterator[None]:
        """Let a round be answered again, once, whose answer went with the process that made it.

        One that is refused, or given up later, stays as it was: answered, and without a reward.
        """
        server = self.server
        known = server.rounds.get(round)
        mine = known is not None and known.user == user and round not in server.answers
        if mine and self._is_open(round) and round in self._lost:
            self._lost.discard(round)
            self._renewed[round] = server.rounds.pop(round)
            server.round -= 1
        try:
            yield
        finally:
            self._restore()

    def _restore(self) -> None:
        """Bring rounds back that were to be answered again, and were not."""
        server = self.server
        for round, known in list(self._renewed.items()):
            if server.task_of(round) is not None:
                continue
            del self._renewed[round]
            if round not in server.rounds:
                server.rounds[round] = known
                server.round += 1

    def _describe(self, data: bytes, *, task: str = "task") -> Reply:
        message = self._codec.decode(data)
        if isinstance(message, Refusal):
            return Reply(kind="refusal", subject=message.subject, data=data, reason=message.reason)
        if isinstance(message, Answer):
            return Reply(kind="answer", subject=message.round, data=data)
        if isinstance(message, Receipt):
            return Reply(kind="receipt", subject=message.round, data=data)
        assert isinstance(message, Task)
        return Reply(kind=task, subject=message.task, data=data)

    def _outcome(self, replies: Sequence[Reply]) -> Outcome:
        server = self.server
        self._restore()
        checkpoint = self._writer.write()
        if checkpoint is not None:
            self._number = checkpoint.number
        with suppress(HelbaError, OSError):  # the store has it as well
            self.count_new()
        return Outcome(
            replies=tuple(replies),
            checkpoint=checkpoint,
            notice=server.notice(),
            batch=server.terms.number,
            key=name_key(server._engine.public_key),
            status=server.status(),
            bits=server.ledger.as_dict(),
            wants_help=server.wants_help,
        )


def run_evaluator(pipe: Connection, folder: Path, allow_insecure: bool, start: Start) -> None:
    """The process: open the folder and the state, then answer calls until told to stop."""
    prepare_child()
    give_memory_back()
    try:
        evaluator = _open(folder, allow_insecure=allow_insecure, start=start)
    except (HelbaError, OSError, ValueError) as error:
        fail_to_start(pipe, RunFailed(f"the tenant cannot start: {error}"))
        return
    names = (
        "begin ask fold receive help update_tasks round_tasks "
        "enrol introduce bar take_rotation settle forget public_key"
    )
    calls: dict[str, Callable[..., Any]] = {
        name: getattr(evaluator, name) for name in names.split()
    }
    answer_calls(pipe, calls, what="tenant", finish=evaluator.count)


def _open(folder: Path, *, allow_insecure: bool, start: Start) -> Evaluator:
    waiting = folder / ROTATION
    if waiting.exists():  # end what broke off: the files of a rotation that was begun
        deployment = read_deployment(folder / DEPLOYMENT, allow_insecure=allow_insecure)
        rotation = read_private(waiting)
        given = Rotation.from_bytes(rotation, deployment=deployment)
        if read_public(folder / PUBLIC_KEY) != given.public_key:
            write_rotated_files(rotation, folder, deployment=deployment)
    state = None if start.head is None else join_state(start.head, start.parts)
    server = open_server(folder, allow_insecure=allow_insecure, state=state, lasting=True)
    return Evaluator(server, folder=folder, start=start)
