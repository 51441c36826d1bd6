"""An authority and a server as processes of their own, on free ports of the loopback.

They can be stopped, killed, and started again where they were. At full security they are the
commands of helba; with `insecure` they are `launch`.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx

from helba.errors import RunFailed
from helba.service.client.figure import Metrics, read_metrics

ROOT = Path(__file__).parents[3]
HELBA = Path(sys.executable).with_name("helba")
WORDS = "only for this soak"
START_SECONDS = 300.0
LOOK_SECONDS = 0.02
COMPLAINT = re.compile('Traceback|"unexpected error"|"status": 500')
# Where an evaluator has to compute for an answer.
USER_ROUTES = ("/rounds", "/rewards", "/tasks")
VICTIMS = ("server", "authority", "evaluator", "reader")


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What is served; `store` is the server's, a file unless told. With a root, rounds are cut.

    `busy_seconds` is how long a server on a ring without security waits for a store that is locked,
    and at most before it asks again; its own unless told.
    """

    horizon: int = 5_000
    problem: str = "toy"
    bonus: str = "quadratic"
    insecure: bool = False
    store: str | None = None
    busy_seconds: float | None = None


class Service:
    """Authority and server of a setting, in `folder`."""

    def __init__(self, folder: Path, *, setting: Setting) -> None:
        if setting.insecure and setting.problem != "toy":
            raise RunFailed("without security there is the toy problem only")
        if setting.bonus != "quadratic" and not setting.insecure:
            raise RunFailed("helba authority serve makes the quadratic bonus only")
        self.folder = folder
        self.setting = setting
        self.keys = folder / "keys"
        ports = _free_ports(2)
        self.urls = {
            name: f"http://127.0.0.1:{port}"
            for name, port in zip(("server", "authority"), ports, strict=True)
        }
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._http = httpx.Client(timeout=10.0, trust_env=False)

    @property
    def store_url(self) -> str:
        """Where the server stores."""
        return self.setting.store or f"sqlite:///{self.keys / 'server' / 'store.sqlite3'}"

    # -- life

    def start(self, name: str) -> float:
        """Start the authority or the server; return the time at which it began."""
        began = time.time()
        with self.log(name).open("ab") as log:
            self.processes[name] = subprocess.Popen(
                self._command(name), cwd=ROOT, env=_environment(), stdout=log, stderr=log
            )
        return began

    def stop(self, name: str) -> int:
        """Have it end in order; return its exit code."""
        process = self.processes.pop(name)
        process.send_signal(signal.SIGTERM)
        return process.wait(120.0)

    def close(self) -> None:
        """End whatever still runs."""
        for process in self.processes.values():
            process.kill()
            process.wait()
        self.processes.clear()
        self._http.close()

    def run_load(self, out: Path, **request: Any) -> dict[str, Any]:
        """Run the load generator, and return its report."""
        whole = {"authority": self.urls["authority"], "problem": self.setting.problem, **request}
        if self.setting.insecure:
            command = _launch("load", out=str(out), **whole)
        else:
            names = {"alone_seconds": "one-at-a-time"}
            command = [str(HELBA), "load", "--json", "--out", str(out)]
            for key, each in whole.items():
                command += [f"--{names.get(key, key)}", str(each)]
        done = subprocess.run(command, cwd=ROOT, env=_environment(), stdout=subprocess.PIPE)
        if done.returncode != 0:
            raise RunFailed(f"the load generator ended with {done.returncode}")
        return dict(json.loads(done.stdout))

    def _command(self, name: str) -> list[str]:
        setting, keys = self.setting, self.keys
        port = int(self.urls[name].rpartition(":")[2])
        if setting.insecure and name == "authority":
            return _launch(
                "authority",
                folder=str(keys),
                port=port,
                server=self.urls["server"],
                horizon=setting.horizon,
                bonus=setting.bonus,
            )
        if setting.insecure:
            return _launch(
                "server",
                folder=str(keys / "server"),
                port=port,
                store=setting.store,
                busy_seconds=setting.busy_seconds,
            )
        listen = ["--port", str(port)]
        if name == "server":
            store = [] if setting.store is None else ["--store", setting.store]
            return [str(HELBA), "serve", str(keys / "server"), *listen, *store]
        create = ["--create", setting.problem, "--horizon", str(setting.horizon)]
        server = ["--server", self.urls["server"]]
        return [str(HELBA), "authority", "serve", str(keys), "--open", *create, *server, *listen]

    # -- how it is

    def log(self, name: str) -> Path:
        """Where a party's log is."""
        return self.folder / f"{name}.log"

    def first_served(self, *, since: float) -> float | None:
        """When the first request of a user was answered that was sent after a time, by the log."""
        served = [
            event["at"]
            for event in self.events("server", since=since, requests=True)
            if event["route"].endswith(USER_ROUTES)
            and event["status"] < 300
            and event["at"] - event["milliseconds"] / 1000.0 >= since
        ]
        return min(served, default=None)

    def events(
        self, name: str, *, since: float = 0.0, requests: bool = False
    ) -> list[dict[str, Any]]:
        """What a party logged since a time, requests or everything else; `at` is when."""
        found = []
        for line in self.log(name).read_text(errors="replace").splitlines():
            with suppress(ValueError, TypeError, KeyError):
                event = json.loads(line)
                event["at"] = datetime.fromisoformat(event["time"].replace("Z", "+00:00"))
                event["at"] = event["at"].timestamp()
                if (event["event"] == "request") is requests and event["at"] >= since - 0.001:
                    found.append(event)
        return found

    def complaints(self) -> list[str]:
        """Lines of the logs that nobody should ever see."""
        found = []
        for name in ("server", "authority"):
            if not self.log(name).exists():
                continue
            lines = self.log(name).read_text(errors="replace").splitlines()
            found += [f"{name}: {line[:400]}" for line in lines if COMPLAINT.search(line)]
        return found

    def statuses(self) -> dict[str, int]:
        """How many requests of the server had each status, by its log."""
        found: dict[str, int] = {}
        for line in self.log("server").read_text(errors="replace").splitlines():
            with suppress(ValueError, TypeError, KeyError):
                event = json.loads(line)
                if event["event"] == "request" and event["route"] != "/v1/ready":
                    found[str(event["status"])] = found.get(str(event["status"]), 0) + 1
        return dict(sorted(found.items()))

    def get(self, name: str, path: str) -> httpx.Response | None:
        """What it answers; None if it does not."""
        with suppress(httpx.HTTPError):
            return self._http.get(self.urls[name] + path)
        return None

    def answers(self, name: str) -> bool:
        """Whether it answers at all."""
        return self.get(name, "/v1/health") is not None

    def is_ready(self) -> bool:
        """Whether the server serves all its tenants."""
        answer = self.get("server", "/v1/ready")
        return answer is not None and answer.status_code == 200

    def wait(self, name: str, holds: Callable[[], bool], *, seconds: float = START_SECONDS) -> None:
        """Return when it holds; raise if the party ends before, or it takes too long."""
        until = time.monotonic() + seconds
        while not holds():
            process = self.processes.get(name)
            if process is not None and process.poll() is not None:
                last = self.log(name).read_text(errors="replace").splitlines()[-3:]
                raise RunFailed(f"the {name} ended with {process.returncode}: {last}")
            if time.monotonic() > until:
                raise RunFailed(f"the {name} did not come to it in {seconds:.0f} s")
            time.sleep(LOOK_SECONDS)

    def metrics(self) -> Metrics | None:
        """What the server says of its processes."""
        answer = self.get("server", "/metrics")
        return None if answer is None else read_metrics(answer.text)

    def find_processes(self) -> dict[str, int]:
        """The processes that can be killed, by name, as far as they are known at the moment.

        The server names its children by what they use; each is the one whose memory is nearest.
        """
        found = {name: each.pid for name, each in self.processes.items() if each.poll() is None}
        metrics = self.metrics() if "server" in found else None
        if metrics is None:
            return found
        children = {pid: resident_bytes(pid) for pid in children_of(found["server"])}
        names = [each for each in metrics.resident_bytes if each != "front"]
        for name in sorted(names, key=metrics.resident_bytes.__getitem__, reverse=True):
            held = metrics.resident_bytes[name]
            nearest = min(children, key=lambda pid: abs(children[pid] - held), default=None)
            if nearest is not None:
                found[name.partition("-")[0]] = nearest
                del children[nearest]
        return found


@contextmanager
def serving(folder: Path, *, setting: Setting) -> Iterator[Service]:
    """A service that is ready; whatever runs in the end is ended."""
    service = Service(folder, setting=setting)
    try:
        service.start("authority")
        service.wait("authority", lambda: service.answers("authority"))
        service.start("server")
        service.wait("server", service.is_ready)
        yield service
    finally:
        service.close()


def children_of(pid: int) -> list[int]:
    """The children of a process that compute."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            text = path.read_text()
            state, parent = text[text.rindex(")") + 2 :].split()[:2]
            words = (path.parent / "cmdline").read_bytes()
            if int(parent) == pid and state != "Z" and b"spawn_main" in words:
                found.append(int(path.parent.name))
    return found


def resident_bytes(pid: int) -> float:
    """The memory of a process; 0 if it is gone."""
    with suppress(OSError, IndexError, ValueError):
        pages = int((Path("/proc") / str(pid) / "statm").read_text().split()[1])
        return float(pages * os.sysconf("SC_PAGE_SIZE"))
    return 0.0


def is_alive(pid: int) -> bool:
    """Whether a process runs."""
    try:
        text = (Path("/proc") / str(pid) / "stat").read_text()
    except OSError:
        return False
    return text[text.rindex(")") + 2] != "Z"


def _launch(what: str, **options: Any) -> list[str]:
    return [sys.executable, "-m", "tests.service.soak.launch", what, json.dumps(options)]


def _environment() -> dict[str, str]:
    one = {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
    return {**os.environ, **one, "HELBA_PASSPHRASE": WORDS, "PYTHONPATH": str(ROOT)}


def _free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
