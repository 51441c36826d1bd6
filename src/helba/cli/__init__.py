"""The command `helba`: results on stdout, progress and prose on stderr.

With `--json` stdout is exactly one JSON object. An exit code other than 0 comes with one line on
stderr:

    0    success
    1    the work could not be done, or not be finished
    2    the command is not well-formed, or asks for what is not possible
    130  interrupted, by Ctrl-C (SIGINT)
    143  told to end (SIGTERM)

`HELBA_TRACEBACK=1` shows the traceback of an unexpected error.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
import threading
from collections.abc import Sequence
from types import FrameType
from typing import Annotated, NoReturn

import typer

from helba import __version__
from helba.cli.service import archive, authority, client, keys, load, serve
from helba.errors import HelbaError, Interrupted, InvalidInput
from helba.extras import explain_missing
from helba.lab.command import bench, paper, plan, play

__all__ = ["app", "main"]

# A shell reports a program that a signal ended as 128 and the signal's number.
INTERRUPTED, TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGTERM

app = typer.Typer(
    name="helba",
    help="Linear contextual bandits that learn from encrypted data.",
    pretty_exceptions_enable=False,
)
for command in (play.run, play.compare, play.sensitivity, plan.plan, serve.serve, load.load):
    app.command()(command)
app.command("export")(archive.export_archive)
app.command("import")(archive.import_archive)
app.add_typer(authority.app, name="authority")
app.add_typer(bench.app, name="bench")
app.add_typer(client.app, name="client")
app.add_typer(keys.app, name="keys")
app.add_typer(paper.app, name="paper")


@app.callback(invoke_without_command=True)
def start(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="print the version")] = False,
) -> None:
    """Linear contextual bandits that learn from encrypted data."""
    if version:
        print(f"helba {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    _prepare_streams()
    ending = _Ending()
    try:
        code = app(args=arguments, prog_name="helba", standalone_mode=False)
        if code == INTERRUPTED:  # what typer makes of Ctrl-C
            return _fail("interrupted", code=ending.code)
        return code if isinstance(code, int) else 0
    except InvalidInput as error:
        return _fail(str(error), code=2)
    except Interrupted as error:
        return _fail(str(error), code=ending.code)
    except HelbaError as error:
        return _fail(str(error), code=1)
    except (KeyboardInterrupt, typer.Abort):
        return _fail("interrupted", code=ending.code)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if hasattr(error, "format_message"):
            text = f"{error.format_message()} (see helba --help)"
            return _fail(text, code=int(getattr(error, "exit_code", 2)))
        if os.environ.get("HELBA_TRACEBACK"):
            raise
        if isinstance(error, ModuleNotFoundError) and (known := explain_missing(error)):
            return _fail(str(known), code=1)
        return _fail(f"{type(error).__name__}: {error}", code=1)


class _Ending:
    """Makes of SIGTERM what Ctrl-C is, and remembers which of the two it was."""

    def __init__(self) -> None:
        self.code = INTERRUPTED
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self._end)

    def _end(self, number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG002
        self.code = TERMINATED
        raise KeyboardInterrupt


def _prepare_streams() -> None:
    """A terminal that lacks a letter shows a question mark."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _fail(text: str, *, code: int) -> int:
    line = " ".join(text.split())
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            print(f"helba: {line}", file=sys.stderr, flush=True)
    return code
