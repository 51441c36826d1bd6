"""A client with its folder: enrolment, restarts, crashes between writing and sending."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from helba.errors import DamagedData, InvalidInput, Refused, RunFailed, Unavailable
from helba.service.client import Client
from helba.service.client import sweep as sweep_module
from helba.service.client.account import read_account, read_token
from helba.service.client.registry import Registry
from helba.service.protocol import vault
from helba.service.protocol.tokens import hash_token, make_token
from tests.reference.protocol.parties import TOY
from tests.service.client.fake import QUICK, Fake, serving, write_certificate

ARMS = [[1.0, 0.2], [-0.5, 0.6]]
WORDS = "correct horse battery staple"


@pytest.fixture(autouse=True)
def _cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vault, "COST", vault.Cost(n=16, r=1, p=1))


@pytest.fixture
def fake() -> Iterator[Fake]:
    with serving(Fake()) as found:
        yield found


def enrol(fake: Fake, folder: Path, **options: Any) -> Client:
    given = {"authority": fake.url, "name": "ann", "passphrase": WORDS, "patience": QUICK}
    return Client.enrol(folder, **{**given, "allow_insecure": True, **options})


def reopen(folder: Path) -> Client:
    return Client.open(folder, passphrase=WORDS, patience=QUICK, allow_insecure=True)


def samples(fake: Fake) -> int:
    return fake.server.samples + len(fake.server.held)


def test_enrolled_client_plays_and_is_found_again_after_a_restart(
    fake: Fake, tmp_path: Path
) -> None:
    with enrol(fake, tmp_path / "ann") as client:
        advice = client.recommend(ARMS)
        assert client.status()["open_rounds"] == [advice.round]
        assert client.status()["service"]["state"] == "serving"
    with reopen(tmp_path / "ann") as client:
        (kept,) = client.open_rounds()
        assert (kept.round, kept.arm, kept.contexts) == (advice.round, advice.arm, ARMS)
        assert client.reward(advice.round, 0.5)
        assert not client.open_rounds()
    assert samples(fake) == 1
    assert not list((tmp_path / "ann" / "rounds").iterdir())
    assert not list((tmp_path / "ann" / "reports").iterdir())


def test_folder_of_a_client_is_private(fake: Fake, tmp_path: Path) -> None:
    with enrol(fake, tmp_path / "ann") as client:
        client.recommend(ARMS)
    for path in (tmp_path / "ann").rglob("*"):
        mode = stat.S_IMODE(path.stat().st_mode)
        public = path.name in ("deployment.json", "collective.key", "public.key")
        assert mode & 0o077 == 0 or public, path


def test_token_is_kept_and_the_authority_gets_its_hash_only(fake: Fake, tmp_path: Path) -> None:
    with enrol(fake, tmp_path / "ann") as client:
        token = read_token(tmp_path / "ann")
        assert token not in repr(client) + repr(client.account) + str(vars(client.account))
    assert fake.names["ann"][1] == hash_token(token)


@pytest.mark.parametrize("moment", ["keys", "enrolment", "lost", "delivery"])
def test_enrolment_goes_on_with_the_same_key_and_token_after_a_crash(
    fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    folder = tmp_path / "ann"
    if moment == "lost":
        fake.order("POST", "enrolments", "lost")
    elif moment == "delivery":
        fake.undelivered = 3
    else:
        with monkeypatch.context() as patch:
            if moment == "keys":
                patch.setattr(Registry, "enrol", _crash)
            else:
                fake.order("POST", "enrolments", *["broken"])
            with pytest.raises((Unavailable, KeyboardInterrupt)):
                enrol(fake, folder)
        with pytest.raises(RunFailed, match="not finished"):
            reopen(folder)
        before = (folder / "public.key").read_bytes(), read_token(folder)
        with enrol(fake, folder):
            assert ((folder / "public.key").read_bytes(), read_token(folder)) == before
    with enrol(fake, folder) as client:
        client.recommend(ARMS)


def _crash(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_enrolment_needs_the_invitation_that_the_authority_gave(fake: Fake, tmp_path: Path) -> None:
    fake.invitation = make_token("invitation")
    with pytest.raises(Refused, match="invitation"):
        enrol(fake, tmp_path / "ann")
    with enrol(fake, tmp_path / "ann", invitation=fake.invitation) as client:
        client.recommend(ARMS)
    for path in (tmp_path / "ann").rglob("*"):
        assert path.is_dir() or fake.invitation.encode() not in path.read_bytes()


def test_pinned_key_is_compared_and_a_rotated_one_is_not_adopted_unasked(
    fake: Fake, tmp_path: Path
) -> None:
    with pytest.raises(Refused, match="not 0000"):
        enrol(fake, tmp_path / "ann", key="00" * 16)
    assert not (tmp_path / "ann" / "secret.key").exists()
    with pytest.raises(InvalidInput, match="hexadecimal"):
        enrol(fake, tmp_path / "ann", key="zz")
    with enrol(fake, tmp_path / "ann", key=fake.key) as client:
        client.recommend(ARMS)
        new = fake.rotate()
        with pytest.raises(Refused, match=f"is {new} now"):
            client.recommend(ARMS)
        with pytest.raises(Refused, match="not 0000"):
            client.adopt("00" * 16)
        assert client.adopt(new) == new
        client.recommend(ARMS)
    with reopen(tmp_path / "ann") as client:
        assert client.key == new
        client.recommend(ARMS)


def test_enrolment_that_is_repeated_takes_the_collective_key_of_today(
    fake: Fake, tmp_path: Path
) -> None:
    enrol(fake, tmp_path / "ann").close()
    new = fake.rotate()
    with enrol(fake, tmp_path / "ann") as client:
        assert client.key == new
        assert not client.account.pinned
    enrol(fake, tmp_path / "ann", key=new).close()
    newest = fake.rotate()
    with pytest.raises(Refused, match=f"is {newest} now"):
        enrol(fake, tmp_path / "ann")
    with enrol(fake, tmp_path / "ann", key=newest) as client:
        assert client.account.pinned
        client.recommend(ARMS)


def test_certificate_is_found_from_another_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = write_certificate(tmp_path / "fake.pem")
    monkeypatch.chdir(tmp_path)
    with serving(Fake(), certificate=certificate) as fake:
        enrol(fake, tmp_path / "ann", ca=Path("fake.pem")).close()
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        with reopen(tmp_path / "ann") as client:
            client.recommend(ARMS)


def test_enrolment_goes_on_with_the_certificates_and_the_consent_of_the_call_that_began_it(
    tmp_path: Path,
) -> None:
    folder, certificate = tmp_path / "ann", write_certificate(tmp_path / "fake.pem")
    with serving(Fake(), certificate=certificate) as fake:
        fake.order("POST", "enrolments", "broken")
        with pytest.raises(Unavailable):
            enrol(fake, folder, ca=certificate, allow_plain_http=True)
        enrol(fake, folder).close()
        account = read_account(folder)
        assert (account.ca, account.allow_plain_http) == (str(certificate), True)
        assert account.enrolled
        other = certificate.rename(tmp_path / "other.pem")
        with enrol(fake, folder, ca=other) as client:
            assert client.account.ca == str(other)


def test_folder_is_not_enrolled_under_two_names(fake: Fake, tmp_path: Path) -> None:
    enrol(fake, tmp_path / "ann").close()
    with pytest.raises(Refused, match="that of ann"):
        enrol(fake, tmp_path / "ann", name="bob")
    with pytest.raises(Refused, match="another key"):
        enrol(fake, tmp_path / "other")


def test_switched_user_brings_its_inward_key(tmp_path: Path) -> None:
    with serving(Fake(replace(TOY, keys="switched"))) as fake:
        with enrol(fake, tmp_path / "ann") as client:
            assert fake.seen["PUT", "inward-key"] == 1
            advice = client.recommend(ARMS)
            assert client.reward(advice.round, 0.5)
        fake.rotate()
        with reopen(tmp_path / "ann") as client:
            client.recommend(ARMS)
            assert fake.seen["PUT", "inward-key"] == 2


def test_folder_that_was_never_enrolled_says_so(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match="helba client enrol"):
        reopen(tmp_path)


# -- crashes


@pytest.mark.parametrize("moment", ["before the report", "before sending", "receipt lost"])
def test_reward_that_a_crash_cut_off_is_sent_by_flush_and_counts_once(
    fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    folder = tmp_path / "ann"
    with enrol(fake, folder) as client:
        advice = client.recommend(ARMS)
        with monkeypatch.context() as patch:
            if moment == "before the report":
                patch.setattr(client._outbox, "put_report", _crash)
            elif moment == "before sending":
                patch.setattr(client._link, "report", _crash)
            else:
                real = client._link.report
                patch.setattr(client._link, "report", lambda data: (real(data), _crash()))
            with pytest.raises(KeyboardInterrupt):
                client.reward(advice.round, 0.5)
    kept = sorted((folder / "reports").iterdir())
    assert len(kept) == (moment != "before the report")
    before = [path.read_bytes() for path in kept]
    with reopen(folder) as client:
        found = client.flush()
        assert (found.sent, found.refused, found.given_up) == (1, 0, 0)
        assert client.flush().sent == 0
    assert samples(fake) == 1
    assert set(before) <= set(fake.bodies["rewards"])
    assert not list((folder / "rounds").iterdir())


def test_refused_reward_stays_in_the_folder_with_its_reason(fake: Fake, tmp_path: Path) -> None:
    with enrol(fake, tmp_path / "ann") as client:
        advice = client.recommend(ARMS)
        fake.server.rounds.clear()
        fake.order("POST", "rewards", "broken")
        with pytest.raises(Unavailable):
            client.reward(advice.round, 0.5)
        found = client.flush()
        assert (found.sent, found.refused) == (0, 1)
    with reopen(tmp_path / "ann") as client:
        assert "no round" in client.refused()[advice.round]
        assert not client.open_rounds()


@pytest.mark.parametrize("moment", ["taken back", "sent"])
def test_refused_reward_that_a_crash_cut_off_is_sent_and_counts_once(
    fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    folder = tmp_path / "ann"
    with enrol(fake, folder) as client:
        advice = client.recommend(ARMS)
        fake.order("POST", "rewards", "helba 409")
        with pytest.raises(Refused, match="ordered"):
            client.reward(advice.round, 0.5)
        assert not list((folder / "rounds").iterdir())
        with monkeypatch.context() as patch:
            if moment == "taken back":
                patch.setattr(client._outbox, "_drop_aside", _crash)
            else:
                patch.setattr(client._outbox, "drop", _crash)
            with pytest.raises(KeyboardInterrupt):
                client.flush(refused=True)
    with reopen(folder) as client:
        assert client.flush().sent == 1
        assert not client.refused()
        assert client.flush(refused=True).sent == 0
    assert samples(fake) == 1
    for name in ("rounds", "reports", "refused"):
        assert not list((folder / name).iterdir())


def test_refused_report_of_a_round_that_is_not_known_comes_back_as_it_was(
    fake: Fake, tmp_path: Path
) -> None:
    folder = tmp_path / "ann"
    with enrol(fake, folder) as client:
        advice = client.recommend(ARMS)
        fake.order("POST", "rewards", "broken", "helba 409")
        with pytest.raises(Unavailable):
            client.reward(advice.round, 0.5)
        before = (folder / "reports" / f"{advice.round}.bin").read_bytes()
        (folder / "rounds" / f"{advice.round}.json").unlink()
        assert client.flush().refused == 1
        assert client.flush(refused=True).sent == 1
    assert fake.bodies["rewards"][-1] == before
    assert not list((folder / "refused").iterdir())


def test_refused_reward_of_which_nothing_is_known_stays_aside(fake: Fake, tmp_path: Path) -> None:
    with enrol(fake, tmp_path / "ann") as client:
        round = "ab" * 16
        client._outbox.set_aside(round, reason="none")
        assert client.flush(refused=True).sent == 0
        assert client.refused() == {round: "none"}
        assert client.forget(round)
        assert not client.refused()


def test_report_that_another_process_delivered_is_neither_sent_nor_refused(
    fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with enrol(fake, tmp_path / "ann") as client:
        monkeypatch.setattr(client._outbox, "reports", lambda: ["ab" * 16])
        found = client.flush()
        assert (found.sent, found.refused) == (0, 0)
        assert not client.refused()


def test_round_whose_answer_never_came_is_given_up_later(
    fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with enrol(fake, tmp_path / "ann") as client:
        with monkeypatch.context() as patch:
            patch.setattr(client._user, "read", _crash)
            with pytest.raises(KeyboardInterrupt):
                client.recommend(ARMS)
        assert len(fake.server.rounds) == 1
        assert not client.open_rounds()
        assert client.flush().given_up == 0
        monkeypatch.setattr(sweep_module, "ANSWER_SECONDS", 0.0)
        assert client.flush().given_up == 1
        assert not fake.server.rounds


@pytest.mark.parametrize(
    "text", ["[]", "{}", '{"authority": 1, "name": "", "server": "", "tenant": ""}']
)
def test_damaged_account_names_its_file(tmp_path: Path, text: str) -> None:
    vault.write_private(tmp_path / "client.json", text.encode())
    with pytest.raises(DamagedData, match=r"client\.json"):
        read_account(tmp_path)


def test_damaged_round_names_its_file(fake: Fake, tmp_path: Path) -> None:
    with enrol(fake, tmp_path / "ann") as client:
        advice = client.recommend(ARMS)
        path = tmp_path / "ann" / "rounds" / f"{advice.round}.json"
        path.write_text('{"round": "x"}')
        with pytest.raises(DamagedData, match=path.name):
            client.open_rounds()
