"""A machine made of fakes: shell scripts that answer as interpreters, and a bare PATH."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

TOOLS = ("bash", "cat", "cksum", "cp", "dirname", "env", "grep", "mkdir", "rm", "sort", "timeout")

# Answers the question of find-python, makes a virtual environment of itself, and plays pip
# and imports: each is noted in a log, and fails if its words are in the file `failing`.
FAKE_PYTHON = r"""#!/usr/bin/env bash
case "$*" in
-Es*) printf '%s\t%s\t%s\t%s\n' "{kind}" "{version}" "{pip}" "$0" ;;
"-m venv "*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
-c\ ?*|"-m pip "*)
    echo "$*" >>"$MACHINE/log"
    if grep -qFf "$MACHINE/failing" <<<"$*"; then echo "fake failure" >&2; exit 1; fi ;;
esac
"""


class Machine:
    """A directory with a copy of the set-up, and the environment to run it in."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.checkout = directory / "a checkout"
        self.bin = directory / "bin"
        self.environment = {
            "PATH": f"{self.bin}{os.pathsep}{directory / 'tools'}",
            "HOME": str(directory / "home"),
            "MACHINE": str(directory),
        }
        shutil.copytree(ROOT / "scripts", self.checkout / "scripts")
        shutil.copytree(ROOT / "locks", self.checkout / "locks")
        shutil.copy(ROOT / "pyproject.toml", self.checkout)
        (directory / "tools").mkdir()
        for tool in TOOLS:
            (directory / "tools" / tool).symlink_to(shutil.which(tool) or "missing")
        self.be("Linux x86_64", glibc="2.36")
        self.fail_at()

    def write(self, path: Path, text: str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        return path

    def be(self, system: str, *, glibc: str) -> None:
        """Choose the operating system and its C library."""
        self.write(self.bin / "uname", f"#!/usr/bin/env bash\necho {system}\n")
        self.write(self.bin / "getconf", f"#!/usr/bin/env bash\necho glibc {glibc}\n")

    def add_python(
        self, path: str, *, version: str, kind: str = "cpython", pip: str = "pip"
    ) -> Path:
        """Put an interpreter at a path under the machine's directory."""
        text = FAKE_PYTHON.replace("{version}", version).replace("{kind}", kind)
        return self.write(self.directory / path, text.replace("{pip}", pip))

    def add_failing_shim(self, path: str) -> Path:
        """Put a command that exists and does not run, as pyenv leaves them on the PATH."""
        return self.write(self.directory / path, "#!/usr/bin/env bash\nexit 127\n")

    def fail_at(self, *words: str) -> None:
        """Let every call of an interpreter fail whose arguments contain one of the words."""
        (self.directory / "failing").write_text("".join(f"{word}\n" for word in words))

    def run(
        self, script: str, *arguments: str | Path, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a script of the checkout, from a directory elsewhere and without stdin."""
        return subprocess.run(
            [self.checkout / "scripts" / script, *arguments],
            cwd=self.directory,
            env={**self.environment, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def find(self, *arguments: str, **environment: str) -> list[str]:
        """Run find-python and return the fields that it prints."""
        result = self.run("find-python", *arguments, **environment)
        assert result.returncode == 0, result.stderr
        return result.stdout.rstrip("\n").split("\t")

    def take_log(self) -> list[str]:
        """Return the calls of pip and the imports so far, and forget them."""
        log = self.directory / "log"
        lines = log.read_text().splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return lines


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)
