from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time

import pytest

from tests.sweep import in_soak

HELBA = [sys.executable, "-m", "helba"]


def heed_interrupts() -> None:
    """A test run in the background hands down that SIGINT is ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_command_exit_codes_and_streams():
    good = subprocess.run(
        [*HELBA, "run", "toy", "--horizon", "20", "--json"], capture_output=True, text=True
    )
    assert good.returncode == 0
    assert json.loads(good.stdout)["problem"] == "toy"
    bad = subprocess.run([*HELBA, "run", "nowhere"], capture_output=True, text=True)
    assert bad.returncode == 2
    assert not bad.stdout
    assert bad.stderr.count("\n") == 1


def test_command_line_loads_nothing_heavy():
    code = (
        "import sys, helba, helba.cli;"
        "heavy = {'openfhe', 'matplotlib', 'sklearn'} & set(sys.modules); assert not heavy, heavy;"
        "import helba.lab.comparison.compare, helba.lab.play.single; helba.EncryptedBandit;"
        "heavy = {'openfhe', 'matplotlib', 'sklearn'} & set(sys.modules); assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.skipif(os.name == "nt", reason="signals are POSIX")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_command_that_is_told_to_stop_says_so_in_one_line(number, code, tmp_path):
    mark = tmp_path / "tuning"
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from helba.lab.play import single\n"
        "tune_radius = single.tune_radius\n"
        "def tune_and_tell(*arguments, **options):\n"
        f"    Path({str(mark)!r}).touch()\n"
        "    return tune_radius(*arguments, **options)\n"
        "single.tune_radius = tune_and_tell\n"
        "from helba.__main__ import main\n"
        "sys.exit(main())"
    )
    command = [sys.executable, "-c", script, "run", "synthetic", "--algorithm", "oful-tuned"]
    process = subprocess.Popen(
        [*command, "--horizon", "1000000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_interrupts,
    )
    give_up = time.monotonic() + 60
    try:
        while not mark.exists():
            assert time.monotonic() < give_up
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, stdout, stderr) == (code, "", "helba: interrupted\n")


@pytest.mark.skipif(os.name == "nt", reason="signals are POSIX")
@pytest.mark.parametrize(
    ("number", "code", "engine"),
    [
        (signal.SIGINT, 130, "plain"),
        (signal.SIGTERM, 143, "simulate"),
        in_soak(signal.SIGINT, 130, "simulate"),
        in_soak(signal.SIGTERM, 143, "plain"),
    ],
)
def test_run_that_is_interrupted_keeps_its_rows(number, code, engine, tmp_path):
    command = [*HELBA, "run", "toy", "--engine", engine, "--horizon", "100000", "--json"]
    process = subprocess.Popen(
        [*command, "--out", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_interrupts,
    )
    rows = tmp_path / "rows.csv"
    give_up = time.monotonic() + 60
    try:
        while not rows.exists() or rows.read_text().count("\n") < 4:
            assert time.monotonic() < give_up
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, stdout) == (code, "")
    assert "Traceback" not in stderr
    last = stderr.splitlines()[-1]
    assert last.startswith("helba: interrupted after ")
    assert last.endswith(f"of 100000 rounds; their rows are in {rows}")
    kept = int(last.split()[3])
    assert rows.read_text().count("\n") - 1 in (kept, kept + 1)


@pytest.mark.skipif(os.name == "nt", reason="terminals and signals are POSIX")
def test_interrupt_takes_the_bar_off_the_terminal():
    import pty

    terminal, end = pty.openpty()
    process = subprocess.Popen(
        [*HELBA, "run", "toy", "--engine", "simulate", "--horizon", "100000"],
        stdout=subprocess.DEVNULL,
        stderr=end,
        env={**os.environ, "TERM": "xterm"},
        preexec_fn=heed_interrupts,
    )
    os.close(end)
    shown = b""
    try:
        while b"regret" not in shown:
            shown += os.read(terminal, 4096)
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(OSError):  # the other end is closed
            while part := os.read(terminal, 4096):
                shown += part
        assert process.wait(timeout=60) == 130
    finally:
        process.kill()
        os.close(terminal)
    text = shown.decode()
    assert "Traceback" not in text
    assert "\x1b[?25h" in text  # the cursor is back
    assert "helba: interrupted after" in text.rstrip().splitlines()[-1]


@pytest.mark.skipif(os.name == "nt", reason="shell redirections are POSIX")
def test_command_works_without_stderr_and_without_unicode():
    shell = shlex.join(HELBA)
    closed = subprocess.run(
        f"{shell} run toy --horizon 5 --json 2>&-", shell=True, capture_output=True, text=True
    )
    assert json.loads(closed.stdout)["horizon"] == 5
    refused = subprocess.run(f"{shell} run nowhere 2>&-", shell=True, capture_output=True)
    assert (refused.returncode, refused.stdout) == (2, b"")
    silent = subprocess.run(f"{shell} run toy --horizon 5 >&-", shell=True, capture_output=True)
    assert (silent.returncode, silent.stderr) == (0, b"")
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    ascii_only = subprocess.run(
        [*HELBA, "paper", "depth"], capture_output=True, env={**os.environ, **plain}
    )
    assert ascii_only.returncode == 0


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="process groups and SIGINT are POSIX")
def test_interrupted_comparison_keeps_its_rows_and_resumes(tmp_path):
    command = [*HELBA, "compare", "toy", "--horizon", "200", "--algorithms", "uniform"]
    command += ["--jobs", "2", "--out", str(tmp_path), "--json", "--repetitions"]
    process = subprocess.Popen(
        [*command, "20000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=heed_interrupts,
    )
    give_up = time.monotonic() + 60
    try:
        while len(list(tmp_path.glob("rows/*.csv"))) < 2:
            assert time.monotonic() < give_up
            assert process.poll() is None
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGINT)  # the whole group, as a terminal does
        stdout, stderr = process.communicate(timeout=60)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 130
    assert not stdout
    assert "Traceback" not in stderr
    last = stderr.splitlines()[-1]
    assert last.endswith("of 20000 runs are finished and kept; the same command resumes")
    kept = len(json.loads((tmp_path / "manifest.json").read_text())["finished"])
    assert 1 <= kept < 20000
    assert not list(tmp_path.glob("rows/.*"))

    # Runs go in the order of their repetitions, so that the first ones are the kept ones.
    again = subprocess.run([*command, str(kept + 8)], capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    report = json.loads(again.stdout)
    assert report["resumed"] == kept
    assert report["algorithms"]["uniform"]["regret"] > 0


def test_interrupt_while_the_command_is_loaded_is_one_line():
    code = (
        "import sys\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'typer':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupt())\n"
        "from helba.__main__ import main\n"
        "sys.exit(main())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "helba: interrupted\n")
