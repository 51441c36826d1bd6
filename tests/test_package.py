"""The public surface of the package."""

import subprocess
import sys

import helba


def test_public_names_are_these():
    assert helba.__all__ == [
        "ALGORITHMS",
        "PROBLEMS",
        "HelbaError",
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


def test_importing_helba_loads_nothing_heavy():
    heavy = "openfhe", "matplotlib", "sklearn"
    code = f"import sys, helba, helba.cli; print([m for m in {heavy!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_ten_lines_of_the_readme_run(capsys):
    from pathlib import Path

    readme = Path(__file__).parent.parent / "README.md"
    code = readme.read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    exec(compile(code, "README.md", "exec"), {})
    assert "updates of the model" in capsys.readouterr().out
