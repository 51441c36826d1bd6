from __future__ import annotations

import json

import pytest

from helba.cli import main
from helba.reference.planning.cost.calibration import calibration_path

SHARES = ["plan", "--dim", "2", "--arms", "2", "--horizon", "130"]
PLAN = [*SHARES, "--profile", "ciphertext"]
KEYS = {
    "ring_dim",
    "log2_qp",
    "max_log2_qp",
    "security",
    "depth",
    "scale_bits",
    "digits",
    "refreshes_per_update",
    "bytes_up",
    "bytes_down",
    "evaluation_key_bytes",
    "estimated_seconds_per_round",
    "certificates",
}


SHARES_KEYS = {
    "ring_dim",
    "log2_qp",
    "max_log2_qp",
    "security",
    "primes",
    "share_bits",
    "newton_steps",
    "blocks",
    "products_per_update",
    "reopenings_per_update",
    "users_per_product",
    "bytes_up",
    "bytes_down",
    "memory_bytes",
    "evaluation_key_bytes",
    "estimated_seconds_per_round",
    "estimated_seconds_per_update",
    "failure_probability",
    "resolution",
}


def reject_constant(name: str) -> None:
    raise AssertionError(f"{name} is not strict JSON")


@pytest.mark.parametrize(
    "options",
    [[], ["--profile", "paper"], ["--refresh", "bootstrap"], ["--schedule", "public"]],
    ids=str,
)
def test_plan_json_is_one_object_with_every_promised_key(options, capsys):
    assert main([*PLAN, *options, "--json"]) == 0
    found = json.loads(capsys.readouterr().out, parse_constant=reject_constant)
    assert found.keys() >= KEYS
    assert set(found["certificates"]) == {"inverse", "argmax", "bonus"}
    assert found["log2_qp"] <= found["max_log2_qp"]
    assert found["rotation_keys"] == len(found["rotations"])


@pytest.mark.parametrize("opener", ["users", "authority"])
@pytest.mark.parametrize("options", [[], ["--schedule", "public"], ["--security", "256"]], ids=str)
def test_plan_of_shares_is_one_object_with_every_promised_key(options, opener, capsys):
    assert main([*SHARES, *options, "--opener", opener, "--json"]) == 0
    found = json.loads(capsys.readouterr().out, parse_constant=reject_constant)
    assert found.keys() >= SHARES_KEYS
    assert set(found["certificates"]) == {"inverse", "estimate", "score"}
    assert found["log2_qp"] <= found["max_log2_qp"]
    assert found["resolution"] <= 1e-4
    assert found["failure_probability"] < 2.0**-15


def test_plan_of_shares_gives_people_a_reason_for_each_choice(capsys):
    assert main(SHARES) == 0
    captured = capsys.readouterr()
    for word in ("ring", "primes", "contexts", "score", "share", "Newton", "blocks", "2024/463"):
        assert word in captured.out
    assert not captured.err
    assert "probability that an opened share wraps" in captured.out
    shown = " ".join(captured.out.replace("│", " ").split())
    assert "1 ask and 1 report in one product" in shown


@pytest.mark.parametrize(
    "options", [["--length", "1e-300"], ["--length", "1e300"], ["--ridge", "1e-300"]], ids=str
)
def test_plan_refuses_bounds_that_doubles_cannot_hold(options, capsys):
    assert main([*SHARES, *options]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "length^2/ridge" in line


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--profile", "shares", "--ring-dim", "8192"], "--ring-dim does not apply to the profile"),
        (["--profile", "paper", "--opener", "users"], "--opener does not apply to the profile"),
        (["--profile", "shares", "--bonus", "sqrt"], "quadratic on shares"),
        (["--opener", "nobody"], "one of users, authority"),
    ],
)
def test_plan_refuses_options_of_another_profile(options, told, capsys):
    assert main([*SHARES, *options]) == 2
    assert told in capsys.readouterr().err


def test_plan_for_people_gives_a_reason_for_each_choice(capsys):
    assert main(PLAN) == 0
    captured = capsys.readouterr()
    for word in ("ring", "depth", "scale", "digits", "sign", "refresh", "2024/463", "inverse"):
        assert word in captured.out
    assert not captured.err


def test_plan_says_where_the_table_ends(capsys):
    assert main([*PLAN, "--refresh", "bootstrap"]) == 0
    assert "does not cover" in capsys.readouterr().out


@pytest.mark.parametrize(
    "options",
    [
        ["--security", "100"],
        ["--refresh", "never"],
        ["--profile", "slow"],
        ["--ring-dim", "65536", "--depth", "100", "--scale-bits", "49"],
        ["--refresh", "none"],
        ["--security", "256", "--ring-dim", "16384"],
        ["--security", "256", "--ring-dim", "32768"],
        ["--security", "192", "--depth", "60"],
        ["--security", "192", "--refresh", "none"],
        ["--length", "-1"],
    ],
    ids=str,
)
def test_plan_refuses_in_one_line(options, capsys):
    assert main([*PLAN, *options]) == 2
    captured = capsys.readouterr()
    assert not captured.out
    assert len(captured.err.splitlines()) == 1


def test_plan_without_sizes_is_a_usage_error(capsys):
    assert main(["plan", "--dim", "2"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_plan_notes_a_damaged_calibration(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("HELBA_CACHE_DIR", str(tmp_path))
    calibration_path().write_text("{", encoding="utf-8")
    assert main([*PLAN, "--json"]) == 0
    captured = capsys.readouterr()
    assert "cannot be read" in captured.err
    assert "shipped" in json.loads(captured.out)["calibration"]
