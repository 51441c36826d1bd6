"""A user of the service: asks for a recommendation, reports what it earned, and helps.

    with Client.open(folder, passphrase=words) as client:
        advice = client.recommend(contexts)
        client.reward(advice.round, play(advice.arm))

The secret key, the contexts and the rewards stay on this side; what leaves is encrypted. One thread
at a time uses a client. Several processes may use one folder: every round has files of its own.

*Nothing is lost and nothing counts twice.* A round is kept in the folder before its arm is
returned, and a report before it is sent; the same bytes are sent until the server has acknowledged
them, and the server counts a round once. What a crash left is sent by `flush`.

Which collective key counts, and who must vouch for it, is in `keyring`.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from helba.bandits.policy import Array, check_context, check_contexts, clip_reward
from helba.errors import DamagedData, HelbaError, InvalidInput, RunFailed
from helba.reference.protocol.user import User
from helba.service.client.account import Account, read_account, read_token
from helba.service.client.dialogue import CONFLICT, Dialogue
from helba.service.client.keyring import Keyring
from helba.service.client.link import ServerLink
from helba.service.client.outbox import (
    FolderOutbox,
    MemoryOutbox,
    Outbox,
    PendingRound,
    check_round,
)
from helba.service.client.sweep import Flushed, is_final, is_orphan
from helba.service.client.transport import Patience, Rejected, find_refusal
from helba.service.protocol.userstore import open_user

# An ask may meet an update; more often than this nothing is right.
MOST_RETRIES = 8
# The bit of an update test is welcome, and so is the word that a round is given up; none is needed.
BRIEF_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True)
class Advice:
    """The arm to play in a round; `overflow` says that it was drawn at random (see `User`)."""

    round: str
    arm: int = field(repr=False)
    overflow: bool = field(default=False, repr=False)


class Client:
    """One user, the server it asks, and the authority that vouches for the collective key.

    Without a `folder` everything is in memory and ends with the process. With `helps` the client
    does what an update needs whenever the reply to a reward says that one waits.
    """

    def __init__(
        self,
        user: User,
        *,
        account: Account,
        token: str,
        folder: Path | None = None,
        patience: Patience | None = None,
        helps: bool = True,
        allow_insecure: bool = False,
    ) -> None:
        self.account = account
        self.helps = helps
        self.deployment = user.deployment
        self.transport = account.connect(account.server, token=token, patience=patience)
        self._user = user
        self._link = ServerLink(self.transport, tenant=account.tenant)
        self._dialogue = Dialogue(user, self._link)
        self._outbox: Outbox = MemoryOutbox() if folder is None else FolderOutbox(folder)
        self._keyring = Keyring(
            user,
            account=account,
            link=self._link,
            folder=folder,
            patience=patience,
            allow_insecure=allow_insecure,
        )

    @classmethod
    def open(
        cls,
        folder: Path | str,
        *,
        passphrase: str,
        patience: Patience | None = None,
        helps: bool = True,
        allow_insecure: bool = False,
    ) -> Client:
        """Return the client whose keys and token are in `folder`, where it was enrolled."""
        folder = Path(folder)
        account = read_account(folder)
        if not account.enrolled:
            raise RunFailed(f"the enrolment of {folder} is not finished: run it again")
        user = open_user(folder, passphrase=passphrase, allow_insecure=allow_insecure)
        return cls(
            user,
            account=account,
            token=read_token(folder),
            folder=folder,
            patience=patience,
            helps=helps,
            allow_insecure=allow_insecure,
        )

    @classmethod
    def enrol(
        cls,
        folder: Path | str,
        *,
        authority: str,
        name: str,
        passphrase: str,
        invitation: str | None = None,
        key: str | None = None,
        patience: Patience | None = None,
        helps: bool = True,
        allow_insecure: bool = False,
        **options: Any,
    ) -> Client:
        """Make keys and a token in `folder`, have the authority take the user in, and open it.

        After a crash the same call goes on with the same keys and token. `key` is the id that the
        collective key must have. All options are those of `helba.service.client.enrolment.enrol`.
        """
        from helba.service.client.enrolment import enrol

        user = enrol(
            Path(folder),
            authority=authority,
            name=name,
            passphrase=passphrase,
            invitation=invitation,
            key=key,
            patience=patience,
            allow_insecure=allow_insecure,
            **options,
        )
        return cls(
            user,
            account=read_account(Path(folder)),
            token=read_token(Path(folder)),
            folder=Path(folder),
            patience=patience,
            helps=helps,
            allow_insecure=allow_insecure,
        )

    def __repr__(self) -> str:
        return f"<Client {self.account.name!r} of {self.account.tenant} at {self.account.server}>"

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let the connections go; what is kept in the folder stays."""
        self.transport.close()

    @property
    def id(self) -> str:
        """The id of the user's public key."""
        return self._user.id.hex()

    @property
    def key(self) -> str | None:
        """The id of the collective key, as far as it is known."""
        return self._keyring.key

    @property
    def help_wanted(self) -> bool:
        """Whether the last reply of the server said that an update waits for help."""
        return self._link.help_wanted

    # -- rounds

    def recommend(self, contexts: object) -> Advice:
        """Return the arm for 1 to K contexts, and the round to report its reward in.

        A round that meets an update is asked for again, a few times at most. `Unavailable` where
        the server is out of reach: a round that it may have begun is given up by `flush`.
        """
        rows, reason = check_contexts(self.deployment.settings, contexts), ""
        for attempt in range(MOST_RETRIES):
            try:
                return self._ask(rows)
            except Rejected as error:
                if error.status != CONFLICT:
                    raise
                reason = str(error)
            except DamagedData as error:  # so is a round under a key that was rotated meanwhile
                asked = self.key
                self._keyring.terms()
                if self.key == asked:
                    raise
                reason = str(error)
            if attempt == 0 and self.deployment.keys == "switched":
                self.introduce()  # the server may have lost it, or never had it
        raise RunFailed(f"the server keeps refusing this round: {reason}")

    def reward(self, round: str, reward: object, *, context: object = None) -> bool:
        """Report what a round earned, now or much later; return once the server has counted it.

        The context is that of the recommended arm unless another was played. False says that an
        earlier report of this round had been counted. The error is raised of a report that fails:
        one that the server refused for good is kept aside with the reason, any other stays unsent.
        """
        kept = self._outbox.find_round(check_round(round))
        if kept is None or kept.reward is None:
            self._prepare(round, kept=kept, reward=reward, context=context)
        elif clip_reward(self.deployment.settings, reward)[0] != kept.reward:
            raise InvalidInput("reward", "another", "that which was reported first in this round")
        counted = self._deliver(round)
        if counted is None:
            raise InvalidInput("round", "one that is not kept here", "a round with a report")
        if isinstance(counted, HelbaError):
            raise counted
        if self.helps and self._link.help_wanted:
            with suppress(HelbaError):  # the reward is counted, whatever becomes of the update
                self.help(once=True)
        return counted

    def help(self, most: int | None = None, *, once: bool = False) -> int:
        """Do what the server asks for, `most` tasks if given; return how many were done.

        With `once` it ends with the update that is under way, and a next one is left to others.
        What is decrypted for it is noise (see `User.help`).
        """
        return self._dialogue.help(most=most, once=once)

    def flush(self, *, refused: bool = False) -> Flushed:
        """Send the reports that a crash or an outage left, and give up rounds without an answer.

        With `refused` those that the server refused before are sent once more. What it refuses is
        kept aside. `Unavailable` where the server is still out of reach.
        """
        aside = list(self._outbox.refused()) if refused else []
        waiting = {each.round for each in self._outbox.rounds() if each.reward is not None}
        found = [self._deliver(round) for round in sorted(waiting | set(self._outbox.reports()))]
        found += [self._deliver(round) for round in aside if self._outbox.take_back(round)]
        orphans = [each.round for each in self._outbox.rounds() if is_orphan(each)]
        for round in orphans:
            self.forget(round)
        return Flushed(
            sent=sum(isinstance(each, bool) for each in found),
            refused=sum(isinstance(each, HelbaError) for each in found),
            given_up=len(orphans),
        )

    def open_rounds(self) -> list[PendingRound]:
        """Return the rounds that wait for a reward, the oldest first."""
        return [each for each in self._outbox.rounds() if each.arm is not None]

    def forget(self, round: str) -> bool:
        """Give a round up, here and at the server: no reward will be reported.

        False if neither knows such a round.
        """
        known = self._link.drop_round(check_round(round))
        known = known or self._outbox.find_round(round) is not None or round in self.refused()
        self._outbox.drop(round)
        return known

    def refused(self) -> dict[str, str]:
        """Return the rounds whose reports the server refused, and why."""
        return self._outbox.refused()

    def status(self) -> dict[str, Any]:
        """Return what is kept here, and what the server says of itself."""
        return {
            "name": self.account.name,
            "id": self.id,
            "authority": self.account.authority,
            "server": self.account.server,
            "tenant": self.account.tenant,
            "key": self.key,
            "pinned": self.account.pinned,
            "open_rounds": [each.round for each in self.open_rounds()],
            "unsent_reports": self._outbox.reports(),
            "refused_reports": self.refused(),
            "service": self._link.report_of_tenant(),
        }

    # -- keys

    def adopt(self, key: str | None = None) -> str:
        """Take the collective key that server and authority name, and return its id.

        It must be `key`, if that is given.
        """
        return self._keyring.adopt(key)

    def introduce(self) -> None:
        """Give the server the key that switches this user's data, where it arrives switched."""
        self._keyring.introduce()

    # -- parts

    def _ask(self, rows: Array) -> Advice:
        """One round; `Rejected` if the server does not answer it, and then it is forgotten."""
        ask = self._user.ask(rows, terms=self._keyring.terms())
        kept = PendingRound(round=self._dialogue.round_of(ask), contexts=rows.tolist())
        self._outbox.put_round(kept)
        try:
            found = self._user.read(self._dialogue.answer_to(ask))
        except BaseException as error:
            self._user.forget(ask)
            refusal = find_refusal(error)
            if refusal is not None and refusal.by_helba:
                self._give_up(kept.round)
            raise
        self._outbox.put_round(replace(kept, arm=found.arm))
        self._send_bit(found.reply)
        return Advice(round=kept.round, arm=found.arm, overflow=found.overflow)

    def _give_up(self, round: str) -> None:
        """Forget a round that the server refused: an earlier try may have been answered there.

        Where that does not come to pass now, `flush` does it.
        """
        with suppress(HelbaError):
            self._link.drop_round(round, deadline_seconds=BRIEF_SECONDS)
            self._outbox.drop(round)

    def _prepare(
        self, round: str, *, kept: PendingRound | None, reward: object, context: object
    ) -> None:
        """Keep what is to be reported, and the report."""
        settings = self.deployment.settings
        if context is None:
            if kept is None or kept.arm is None:
                raise InvalidInput("round", "one that is not kept here", "a round that is open")
            context = kept.contexts[kept.arm]
        row = check_context(settings, context)
        earned, _ = clip_reward(settings, reward)
        found = PendingRound(round=round, contexts=[row.tolist()], arm=0) if kept is None else kept
        self._build(replace(found, context=row.tolist(), reward=earned))

    def _build(self, kept: PendingRound) -> bytes:
        report = self._user.report(
            bytes.fromhex(kept.round), context=kept.context, reward=kept.reward
        )
        self._outbox.put_round(replace(kept, key=self.key))
        self._outbox.put_report(kept.round, report)
        return report

    def _deliver(self, round: str) -> bool | HelbaError | None:
        """Send the report of a round until it is acknowledged, and forget the round.

        Return whether it was counted now; or the final refusal, for which it is kept aside; or
        None if nothing is kept of it: another process was faster.
        """
        kept, report = self._outbox.find_round(round), self._outbox.find_report(round)
        if kept is not None and (report is None or self.key != kept.key):
            report = self._build(kept)  # a crash came before, or the key was rotated
        if report is None:
            return None
        try:
            counted = self._dialogue.report(report)
        except HelbaError as error:
            if not is_final(error):
                raise
            if kept is not None and self._is_outdated(kept):
                self._build(kept)
                return self._deliver(round)
            self._outbox.set_aside(round, reason=str(error))
            return error
        self._outbox.drop(round)
        return counted

    def _is_outdated(self, kept: PendingRound) -> bool:
        """Whether the collective key was rotated after the report was made; adopts the new one."""
        self._keyring.terms()
        return kept.key != self.key

    def _send_bit(self, reply: bytes | None) -> None:
        """Send the bit of an update test; without it the test just rides again."""
        if reply is not None:
            with suppress(HelbaError):
                self._link.send_test(reply, deadline_seconds=BRIEF_SECONDS)
