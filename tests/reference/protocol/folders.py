"""Authorities, users and servers in folders, of small deployments; the passphrase costs little."""

from __future__ import annotations

import shutil
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

from helba.problems.toy import Toy
from helba.reference.protocol.authority import Authority
from helba.reference.protocol.deployment import Deployment
from helba.reference.protocol.user import User
from helba.reference.protocol.wire.codec import Codec
from helba.reference.protocol.wire.messages import Answer, Receipt, Refusal
from helba.service.protocol import vault
from helba.service.protocol.keystore import (
    create_authority,
    enrol_member,
    open_authority,
    rotate_authority,
)
from helba.service.protocol.process import ServerProcess
from helba.service.protocol.serverfiles import write_server_files
from helba.service.protocol.userstore import create_user, open_user
from tests.reference.protocol.parties import TOY, deployment_of

WORDS = "correct horse battery staple"
CHEAP = vault.Cost(n=16, r=1, p=1)


def insecure_deployment(scheme: str = "simulate", *, keys: str = "own") -> Deployment:
    return deployment_of(replace(TOY, keys=keys), scheme=scheme)


def insecure_authority(
    folder: Path, *, scheme: str = "simulate", keys: str = "own", users: tuple[str, ...] = ()
) -> Authority:
    """An authority in `folder`, with the server's folder, and users in folders beside it."""
    authority = create_authority(folder, insecure_deployment(scheme, keys=keys), passphrase=WORDS)
    write_server_files(authority, folder / "server")
    for name in users:
        new_user(folder, name)
        enrol(folder, name)
    return authority


def new_user(folder: Path, name: str, *, home: str | None = None) -> User:
    """A user with a pair of its own, in a folder beside the authority's."""
    return create_user(
        folder.parent / (home or name),
        deployment_folder=folder,
        passphrase=f"{WORDS} of {name}",
        allow_insecure=True,
    )


def enrol(folder: Path, name: str, *, home: str | None = None, replace: bool = False) -> bytes:
    """Enrol the user of that folder; its id."""
    record = enrol_member(
        folder,
        name,
        public_key=(folder.parent / (home or name) / "public.key").read_bytes(),
        passphrase=WORDS,
        replace=replace,
        allow_insecure=True,
    )
    return record.id


def reopen(folder: Path, *, passphrase: str = WORDS) -> Authority:
    """An authority as it starts again."""
    return open_authority(folder, passphrase=passphrase, allow_insecure=True)


def rotate(folder: Path) -> Authority:
    """Its next collective key."""
    return rotate_authority(folder, passphrase=WORDS, allow_insecure=True)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def files_of(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def copy_of(folder: Path, place: Path) -> Path:
    """A copy of an authority's folder and of its users' beside it."""
    shutil.copytree(folder.parent, place)
    return place / folder.name


def opened(folder: Path, name: str, *, home: str | None = None) -> User:
    """A user as it starts on its device."""
    words = f"{WORDS} of {name}"
    return open_user(folder.parent / (home or name), passphrase=words, allow_insecure=True)


def started(folder: Path, **options: Any) -> ServerProcess:
    return ServerProcess(folder / "server", allow_insecure=True, **options)


class Players:
    """Plays users against a server."""

    def __init__(self, server: ServerProcess, *, scheme: str, keys: str = "own") -> None:
        self.server = server
        self.codec = Codec(insecure_deployment(scheme, keys=keys))

    def ask(self, user: User, contexts: Any) -> Any:
        """The server's reply to an ask, as a message, and as it came."""
        ask = user.ask(contexts, terms=user.read_notice(self.server.notice()))
        (reply,) = self.server.receive(ask)
        return self.codec.decode(reply), reply

    def choose(self, user: User, contexts: Any) -> int:
        """The arm for these contexts; nothing is learnt."""
        message, reply = self.ask(user, contexts)
        assert isinstance(message, Answer), message
        return user.read(reply).arm

    def refusal(self, user: User) -> str:
        message, _ = self.ask(user, [[0.5, 0.2], [0.1, 0.1]])
        assert isinstance(message, Refusal)
        return message.reason

    def play(self, users: list[User], *, rounds: int, seed: int = 0) -> list[int]:
        """Whole rounds, the users in turn."""
        arms = []
        for number, each in enumerate(Toy(seed=seed).rounds(rounds)):
            user = users[number % len(users)]
            _, reply = self.ask(user, each.contexts)
            found = user.read(reply)
            if found.reply is not None:
                assert self.server.receive(found.reply) == ()
            report = user.report(
                found.round, context=each.contexts[found.arm], reward=each.rewards[found.arm]
            )
            receipt, *_ = self.server.receive(report)
            assert isinstance(self.codec.decode(receipt), Receipt)
            while tasks := self.server.tasks(user.id):
                for task in tasks:
                    self.server.receive(user.help(task))
            arms.append(found.arm)
        return arms
