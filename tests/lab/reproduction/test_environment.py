import getpass
import json
import platform
from pathlib import Path

import numpy as np

import helba
from helba.lab.reproduction import environment
from helba.lab.reproduction.environment import describe_environment


def test_environment_names_software_and_machine():
    found = describe_environment()
    assert found["helba"] == helba.__version__
    assert found["numpy"] == np.__version__
    assert platform.python_version() in found["python"]
    assert found["cores"] >= 1
    assert set(found["threads"]) >= {"OMP_NUM_THREADS"}
    assert found["date"].endswith("+00:00")


def test_environment_names_no_person_host_or_path(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    text = json.dumps(describe_environment())
    for secret in (platform.node(), getpass.getuser(), str(Path.home()), str(tmp_path)):
        # A name like "root" or "a" may be part of another word.
        assert f'"{secret}"' not in text
        assert len(secret) < 6 or secret not in text
    assert "/" not in text.replace("GNU/Linux", "")


def test_environment_outside_a_checkout_has_no_commit(tmp_path):
    assert environment._find_commit(tmp_path) is None


def test_environment_survives_missing_programs(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert describe_environment()["commit"] is None


def test_environment_shows_the_threads_that_were_set(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    threads = describe_environment()["threads"]
    assert threads["OMP_NUM_THREADS"] == "7"
    assert threads["MKL_NUM_THREADS"] == "not set"
