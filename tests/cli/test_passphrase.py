"""Where a passphrase comes from, and which ones are refused."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from helba.cli.service import passphrase
from helba.cli.service.passphrase import VARIABLE, read_passphrase
from helba.errors import HelbaError, InvalidInput, RunFailed

WORDS = "correct horse battery staple"
Typing = Callable[..., list[str]]


class Stdin(io.StringIO):
    def __init__(self, *, terminal: bool) -> None:
        super().__init__(WORDS)
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


@pytest.fixture(autouse=True)
def _no_passphrase(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable, no terminal, and a prompt fails."""
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr("sys.stdin", Stdin(terminal=False))
    monkeypatch.setattr(passphrase, "getpass", lambda _: pytest.fail("asked"))


@pytest.fixture
def typing(monkeypatch: pytest.MonkeyPatch) -> Typing:
    """Answer the prompts with these; the list returned fills with the prompts."""

    def answer(*answers: str) -> list[str]:
        prompts: list[str] = []
        left = list(answers)

        def getpass(prompt: str) -> str:
            prompts.append(prompt)
            if not left:
                raise EOFError
            return left.pop(0)

        monkeypatch.setattr("sys.stdin", Stdin(terminal=True))
        monkeypatch.setattr(passphrase, "getpass", getpass)
        return prompts

    return answer


def written(folder: Path, data: bytes) -> Path:
    path = folder / "words"
    path.write_bytes(data)
    return path


def require_refused(*, match: str, file: Path | None = None, confirm: bool = False) -> None:
    with pytest.raises(InvalidInput, match=match) as caught:
        read_passphrase(file=file, confirm=confirm)
    error: BaseException | None = caught.value
    while error is not None:
        for text in (str(error), repr(error), repr(error.args), repr(vars(error))):
            assert "\n" not in text
            assert "horse" not in text
        error = error.__cause__ or error.__context__


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n", b"\nsecond line\n", b"\n\xff"])
def test_passphrase_is_the_first_line_of_the_file(tmp_path: Path, end: bytes) -> None:
    for words in (WORDS, "  blanks count \t", "pa\u00dfwort \u2603 \ufffd"):
        assert read_passphrase(file=written(tmp_path, words.encode() + end)) == words


def test_passphrase_can_come_through_a_pipe() -> None:
    out, into = os.pipe()
    os.write(into, WORDS.encode() + b"\n")
    os.close(into)
    try:
        assert read_passphrase(file=Path(f"/dev/fd/{out}")) == WORDS
    finally:
        os.close(out)


def test_file_goes_before_variable_and_variable_before_prompt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typing: Typing
) -> None:
    prompts = typing("typed words")
    monkeypatch.setenv(VARIABLE, "words of the environment")
    assert read_passphrase(file=written(tmp_path, b"words of the file\n")) == "words of the file"
    assert read_passphrase(file=None) == "words of the environment"
    assert not prompts
    monkeypatch.setenv(VARIABLE, "")
    assert read_passphrase(file=None) == "typed words"
    assert len(prompts) == 1


@pytest.mark.parametrize("data", [b"", b"\n", b"\r\n", b"\nhorse\n"])
def test_empty_first_line_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes
) -> None:
    monkeypatch.setenv(VARIABLE, WORDS)
    require_refused(file=written(tmp_path, data), match="got an empty one$")


def test_line_that_is_no_text_or_too_long_is_refused(tmp_path: Path) -> None:
    require_refused(file=written(tmp_path, b"horse \xff\n"), match="must be UTF-8 text")
    require_refused(file=written(tmp_path, b"horse " * 1000), match="at most 4096 bytes long")


def test_file_that_cannot_be_read_fails_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match=r"^cannot read .*missing: No such file or directory$"):
        read_passphrase(file=tmp_path / "missing")
    with pytest.raises(RunFailed, match=r"Is a directory$"):
        read_passphrase(file=tmp_path)


def test_without_any_way_the_error_names_all_three() -> None:
    require_refused(match=f"in a file, in the environment variable {VARIABLE}, or .* a terminal")


def test_without_stdin_nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    require_refused(match="got none$")


def test_new_passphrase_is_typed_twice(typing: Typing) -> None:
    prompts = typing(WORDS, WORDS)
    assert read_passphrase(file=None, confirm=True) == WORDS
    assert len(set(prompts)) == 2
    prompts = typing(WORDS)
    assert read_passphrase(file=None) == WORDS
    assert len(prompts) == 1


def test_new_passphrase_must_be_the_same_twice(typing: Typing) -> None:
    typing(WORDS, WORDS + "s")
    require_refused(match="the same both times", confirm=True)


def test_end_of_input_at_the_prompt_is_refused(typing: Typing) -> None:
    for answers in ((), (WORDS,)):
        typing(*answers)
        require_refused(match="typed at the terminal, got none$", confirm=True)


def test_new_passphrase_has_at_least_eight_characters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typing: Typing
) -> None:
    line = "at least 8 characters long, got a shorter one$"
    require_refused(file=written(tmp_path, b"horse 1\n"), match=line, confirm=True)
    assert read_passphrase(file=written(tmp_path, b"horse 12\n"), confirm=True) == "horse 12"
    assert read_passphrase(file=written(tmp_path, b"1\n")) == "1"  # an old one may be short
    typing("horse 1", "horse 1")
    require_refused(match=line, confirm=True)
    typing("", "")
    require_refused(match="got an empty one$", confirm=True)
    monkeypatch.setenv(VARIABLE, "horse 1")
    require_refused(match=line, confirm=True)


def test_errors_of_the_passphrase_are_errors_of_helba() -> None:
    with pytest.raises(HelbaError):
        read_passphrase(file=None)
