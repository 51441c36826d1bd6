"""A server from folders to a port: locks, starting in the background, and stopping in order."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from helba.errors import HelbaError, InvalidInput, RunFailed
from helba.service import run
from helba.service.protocol.files import DEPLOYMENT
from helba.service.run import LOCK, STORE, TenantSpec, hold_folder, serve
from helba.service.settings import Limits
from tests.service.app.calling import SECONDS, serving, wait_until
from tests.service.app.faking import FakeTenant
from tests.service.app.test_listen import fail_if_ready


class LivingTenant(FakeTenant):
    """A fake that starts when it is let, and notes in which order things happen."""

    def __init__(self, spec: TenantSpec, **options: Any) -> None:
        super().__init__(spec.name)
        self.options = options
        self.state = "starting"
        self.go = threading.Event()
        self.error: Exception | None = None
        self.ended = threading.Event()

    def start(self) -> None:
        assert self.go.wait(SECONDS)
        if self.error is not None:
            self.state = "failed"
            raise self.error
        self.state = "serving"

    def stop(self) -> None:
        self.state = "stopped"
        self.ended.set()


def folder_of(path: Path) -> Path:
    path.mkdir(parents=True)
    (path / DEPLOYMENT).write_text("{}")
    return path


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> dict[str, LivingTenant]:
    found: dict[str, LivingTenant] = {}

    def open_tenant(name: str, folder: Path, **options: Any) -> LivingTenant:
        found[name] = LivingTenant(TenantSpec(name=name, folder=folder), **options)
        return found[name]

    monkeypatch.setattr(run, "Tenant", open_tenant)
    return found


def specs_in(folder: Path, *names: str) -> list[TenantSpec]:
    return [TenantSpec(name=name, folder=folder_of(folder / name)) for name in names]


def test_server_says_how_it_is_while_tenants_start(tmp_path: Path, opened) -> None:
    with serving(*specs_in(tmp_path, "one", "two")) as url:
        health = f"{url}/v1/health"
        assert httpx.get(health, timeout=SECONDS).json()["status"] == "starting"
        opened["one"].go.set()
        wait_until(
            lambda: (
                httpx.get(health, timeout=SECONDS).json()["tenants"]
                == {"one": "serving", "two": "starting"}
            )
        )
        opened["two"].go.set()
        wait_until(lambda: httpx.get(f"{url}/v1/ready", timeout=SECONDS).status_code == 200)
    assert all(tenant.ended.is_set() for tenant in opened.values())


@pytest.mark.parametrize("error", [RunFailed("no keys"), ValueError("secret")])
def test_tenant_that_cannot_start_leaves_the_others_alone(tmp_path, opened, error) -> None:
    with serving(*specs_in(tmp_path, "one", "two")) as url:
        opened["one"].error = error
        for tenant in opened.values():
            tenant.go.set()
        wait_until(
            lambda: (
                httpx.get(f"{url}/v1/health", timeout=SECONDS).json()
                == {"status": "degraded", "tenants": {"one": "failed", "two": "serving"}}
            )
        )


def test_store_is_a_file_of_each_folder_unless_told(tmp_path: Path, opened) -> None:
    one, two = specs_in(tmp_path, "one", "two")
    with serving(one, two):
        assert (one.folder / STORE).exists()
        assert opened["one"].options["store"] is not opened["two"].options["store"]
    with serving(one, two, store=f"sqlite:///{tmp_path / 'all.sqlite3'}"):
        assert opened["one"].options["store"] is opened["two"].options["store"]
    assert (tmp_path / "all.sqlite3").exists()


def test_folder_is_served_by_one_server_only(tmp_path: Path, opened) -> None:
    (spec,) = specs_in(tmp_path, "one")
    with serving(spec):
        with pytest.raises(RunFailed, match="another server serves"), serving(spec):
            raise AssertionError("it is served twice")
        assert not opened["one"].ended.is_set()
    with serving(spec):
        assert (spec.folder / LOCK).stat().st_mode & 0o777 == 0o600


def test_folder_cannot_be_two_tenants(tmp_path: Path, opened) -> None:
    (spec,) = specs_in(tmp_path, "one")
    again = TenantSpec(name="again", folder=spec.folder)
    with pytest.raises(RunFailed, match="another server serves"), serving(spec, again):
        raise AssertionError("it is served twice")
    assert opened == {}


def test_names_of_tenants_are_different(tmp_path: Path) -> None:
    for specs in ([], [TenantSpec(name="a", folder=tmp_path)] * 2):
        with pytest.raises(InvalidInput), serving(*specs):
            raise AssertionError("it is served")


@pytest.mark.parametrize("name", ["", ".", "a/b", "-a", "a" * 65, "ü", "a b", "a\n"])
def test_name_of_a_tenant_fits_a_path(name: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="name of a tenant"):
        TenantSpec(name=name, folder=tmp_path)


def test_folder_that_is_no_servers_is_not_touched(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match="no server's folder"), hold_folder(tmp_path):
        raise AssertionError("it is held")
    assert list(tmp_path.iterdir()) == []


def test_authoritys_folder_names_the_one_that_is_meant(tmp_path: Path) -> None:
    folder_of(tmp_path / "server")
    with pytest.raises(RunFailed, match="the server's folder is"), hold_folder(tmp_path):
        raise AssertionError("it is held")


def test_port_that_is_taken_starts_no_tenant(tmp_path: Path, opened) -> None:
    (spec,) = specs_in(tmp_path, "one")
    options: dict[str, Any] = {"limits": Limits(), "ready": fail_if_ready}
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(RunFailed, match="cannot listen"):
            serve([spec], host="127.0.0.1", port=port, **options)
    assert opened["one"].state == "stopped"
    with hold_folder(spec.folder):
        assert opened["one"].ended.is_set()


def test_store_that_cannot_be_opened_does_not_show_its_password(tmp_path: Path, opened) -> None:
    specs = specs_in(tmp_path, "one")
    url = "postgresql://someone:secret@127.0.0.1:1/none"
    with pytest.raises(HelbaError) as caught, serving(*specs, store=url):
        raise AssertionError("it is served")
    assert "secret" not in str(caught.value)
    assert opened == {}
