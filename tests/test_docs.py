"""Every Python block of the README and of docs/ runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks() -> list[object]:
    found = []
    for page in PAGES:
        texts = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
        for number, text in enumerate(texts):
            marks = [pytest.mark.ckks] if '"ckks"' in text else []
            found.append(pytest.param(text, marks=marks, id=f"{page.stem}-{number}"))
    return found


@pytest.mark.parametrize("code", blocks())
def test_block_runs_and_prints(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(code, "documentation", "exec"), {})
    assert capsys.readouterr().out.strip()


def test_links_between_pages_lead_somewhere() -> None:
    for page in [*PAGES, *(ROOT / "docs" / "decisions").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
