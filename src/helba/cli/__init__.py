"""The command `helba`: results on stdout, progress and prose on stderr.

With `--json` stdout is exactly one JSON object. Exit code 0 is success, 2 a usage error, 1 anything
else, with one line on stderr. `HELBA_TRACEBACK=1` shows the traceback of an unexpected error.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
import threading
from collections.abc import Sequence
from typing import Annotated

import typer

from helba import __version__
from helba.cli import bench, paper, plan, play
from helba.cli.service import archive, authority, client, keys, load, serve
from helba.errors import HelbaError, InvalidInput

__all__ = ["app", "main"]

INTERRUPTED = 130

app = typer.Typer(
    name="helba",
    help="Linear contextual bandits that learn from encrypted data.",
    add_completion=False,
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
    try:
        code = app(args=arguments, prog_name="helba", standalone_mode=False)
        if code == INTERRUPTED:  # what typer makes of Ctrl-C
            return _fail("interrupted", code=1)
        return code if isinstance(code, int) else 0
    except InvalidInput as error:
        return _fail(str(error), code=2)
    except HelbaError as error:
        return _fail(str(error), code=1)
    except (KeyboardInterrupt, typer.Abort):
        return _fail("interrupted", code=1)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if hasattr(error, "format_message"):
            text = f"{error.format_message()} (see helba --help)"
            return _fail(text, code=int(getattr(error, "exit_code", 2)))
        if os.environ.get("HELBA_TRACEBACK"):
            raise
        return _fail(f"{type(error).__name__}: {error}", code=1)


def _prepare_streams() -> None:
    """A terminal that lacks a letter shows a question mark; being told to end is like Ctrl-C."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)


def _fail(text: str, *, code: int) -> int:
    line = " ".join(text.split())
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            print(f"helba: {line}", file=sys.stderr, flush=True)
    return code
