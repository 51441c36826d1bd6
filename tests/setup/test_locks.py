"""The lock files: complete, hashed, and free of addresses."""

import re
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
VERSIONS = ["3.10", "3.11", "3.12", "3.13", "3.14"]
CKKS_VERSIONS = ["3.10", "3.12"]
LOCKS = [*(f"py{version}" for version in VERSIONS), *(f"py{v}-ckks" for v in CKKS_VERSIONS)]

PIN = re.compile(r"([a-z0-9-]+)==([0-9][0-9a-z.]*)((?: --hash=sha256:[0-9a-f]{64})+)")


def read_pins(name: str) -> dict[str, str]:
    """Return the locked version by package; any line that is not a hashed pin fails."""
    text = (ROOT / "locks" / f"{name}.txt").read_text().replace("\\\n", "")
    matches = [PIN.fullmatch(" ".join(line.split())) for line in text.splitlines()]
    assert all(matches)
    return {match[1]: match[2] for match in matches if match}


def resolve_extra(name: str) -> list[str]:
    """Return what an extra asks for; an extra of this project stands for what it asks for."""
    found: list[str] = []
    for text in PROJECT["optional-dependencies"][name]:
        requirement = Requirement(text)
        if requirement.name == PROJECT["name"]:
            found += [each for extra in requirement.extras for each in resolve_extra(extra)]
        else:
            found.append(text)
    return found


def find_unmet(requirements: list[str], *, pins: dict[str, str], version: str) -> list[str]:
    """Return the requirements that the pins do not meet on that Python."""
    unmet = []
    for text in requirements:
        requirement = Requirement(text)
        marker = requirement.marker
        if marker and not marker.evaluate({"python_version": version}):
            continue
        pin = pins.get(canonicalize_name(requirement.name))
        if pin is None or pin not in requirement.specifier:
            unmet.append(text)
    return unmet


def test_every_lock_is_known() -> None:
    assert sorted(path.stem for path in (ROOT / "locks").iterdir()) == sorted(LOCKS)


@pytest.mark.parametrize("name", LOCKS)
def test_lock_holds_hashed_pins_and_no_address(name: str) -> None:
    assert read_pins(name)
    assert "://" not in (ROOT / "locks" / f"{name}.txt").read_text()


@pytest.mark.parametrize("version", VERSIONS)
def test_lock_meets_what_pyproject_asks_for(version: str) -> None:
    requirements = [*PROJECT["dependencies"], *resolve_extra("dev"), *resolve_extra("docs")]
    assert find_unmet(requirements, pins=read_pins(f"py{version}"), version=version) == []


@pytest.mark.parametrize("version", CKKS_VERSIONS)
def test_ckks_lock_holds_openfhe_alone_as_pyproject_asks(version: str) -> None:
    pins = read_pins(f"py{version}-ckks")
    requirements = PROJECT["optional-dependencies"]["ckks"]
    assert list(pins) == ["openfhe"]
    assert find_unmet(requirements, pins=pins, version=version) == []


def test_missing_or_outdated_pin_is_noticed() -> None:
    pins = {"numpy": "1.25.0"}
    requirements = ["numpy>=1.26", "scipy", "openfhe==1; python_version == '3.12'"]
    assert find_unmet(requirements, pins=pins, version="3.10") == ["numpy>=1.26", "scipy"]
