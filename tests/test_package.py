"""The public surface of the package."""

import rlcompleter
import subprocess
import sys

import helba


def test_public_names_are_these():
    assert helba.__all__ == [
        "ALGORITHMS",
        "PROBLEMS",
        "Client",
        "EncryptedBandit",
        "HelbaError",
        "HorizonWarning",
        "InvalidInput",
        "Policy",
        "Problem",
        "Round",
        "RunFailed",
        "Settings",
        "__version__",
        "make_policy",
        "make_problem",
        "run_policy",
        "settings_for",
    ]
    assert all(hasattr(helba, name) for name in helba.__all__)


def test_listing_the_package_shows_its_public_names_and_nothing_else():
    helba.make_problem("toy")  # loaded names and modules do not show either
    assert dir(helba) == sorted(helba.__all__)


def test_tab_shows_the_public_names():
    completer = rlcompleter.Completer({"helba": helba})
    found = []
    while (match := completer.complete("helba.", len(found))) is not None:
        found.append(match.removeprefix("helba.").rstrip("()"))
    assert set(found) == set(helba.__all__) - {"__version__"}


def test_importing_the_package_takes_no_time():
    code = "import sys; import helba; print({'numpy', 'typer', 'rich'} & set(sys.modules))"
    command = [sys.executable, "-X", "importtime", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
    line = next(line for line in done.stderr.splitlines() if line.endswith("| helba"))
    assert int(line.split("|")[1]) < 300_000  # microseconds
