"""What every test relies on: the `ckks` marker, and an environment of the session's own."""

import importlib.metadata
import os
import tempfile
from collections.abc import Generator

import hypothesis
import pytest

from tests.sweep import SOAK

os.environ["MPLBACKEND"] = "Agg"
if "PYTEST_XDIST_WORKER" in os.environ:
    # One thread in each of several workers beats all cores in all of them.
    os.environ.setdefault("OMP_NUM_THREADS", "1")


def _find_obstacle() -> str:
    """Return why OpenFHE cannot be loaded, or nothing if it can."""
    try:
        import openfhe  # noqa: F401
    except Exception as error:  # a wheel for another Python or glibc fails in several ways
        return str(error).strip().splitlines()[0] if str(error).strip() else repr(error)
    return ""


OBSTACLE = _find_obstacle()

# Timings vary between machines, results must not: the same cases everywhere, and a failure comes
# back on the next run. HYPOTHESIS_PROFILE=explore looks for new ones.
hypothesis.settings.register_profile("repeat", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.register_profile("explore", deadline=None, print_blob=True)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeat"))


@pytest.hookimpl(wrapper=True)
def pytest_cmdline_main() -> Generator[None, object, object]:
    """Give the session a cache directory of its own; its workers inherit it."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        return (yield)
    with tempfile.TemporaryDirectory(prefix="helba-cache-") as directory:
        os.environ["HELBA_CACHE_DIR"] = directory
        return (yield)


def pytest_report_header() -> str:
    """Say which engine the CKKS tests run on."""
    if OBSTACLE:
        return f"helba: NO CKKS ENGINE - ckks tests are skipped: {OBSTACLE}"
    version = ".".join(importlib.metadata.version("openfhe").split(".")[:3])
    return f"helba: CKKS tests run on OpenFHE {version}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out cases of soaks, skip CKKS where it cannot be loaded, mark what has a store."""
    if not SOAK:
        long = [item for item in items if item.get_closest_marker("soak")]
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if not item.get_closest_marker("soak")]
    skip = pytest.mark.skip(reason=f"OpenFHE cannot be loaded: {OBSTACLE}")
    for item in items:
        if OBSTACLE and item.get_closest_marker("ckks"):
            item.add_marker(skip)
        if "store_url" in getattr(item, "fixturenames", ()):
            item.add_marker("database")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say once more, where it is read, that CKKS was not tested."""
    if OBSTACLE:
        terminalreporter.write_line(
            f"helba: NO CKKS ENGINE - ckks tests were skipped: {OBSTACLE}", yellow=True, bold=True
        )
