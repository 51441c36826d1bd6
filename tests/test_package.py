"""The public surface of the package."""

from pathlib import Path

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


def test_ten_lines_of_the_readme_run(capsys):
    readme = Path(__file__).parent.parent / "README.md"
    code = readme.read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    exec(compile(code, "README.md", "exec"), {})
    assert "updates of the model" in capsys.readouterr().out
