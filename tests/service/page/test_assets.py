"""The page's files as they are kept: nothing inline, nothing from elsewhere, legible colours."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.service.page.canned import FOLDER

FILES = sorted(path for path in FOLDER.iterdir() if path.suffix in (".html", ".js", ".css", ".svg"))
SCHEMES = ("light", "dark")
NAMESPACE = "http://www.w3.org/2000/svg"
LEAST_CONTRAST = 4.5  # WCAG 2, level AA


def colours_of(scheme: str) -> dict[str, str]:
    light, dark = re.findall(r":root \{(.*?)\}", (FOLDER / "page.css").read_text(), re.DOTALL)
    found = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", light))
    if scheme == "dark":
        found.update(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", dark))
    return found


def brightness_of(colour: str) -> float:
    parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast_of(one: str, two: str) -> float:
    low, high = sorted((brightness_of(one), brightness_of(two)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_file_names_no_other_host(path: Path) -> None:
    text = path.read_text(encoding="utf-8").replace(NAMESPACE, "")
    assert not re.search(r"https?:|//\w+\.\w|@import|url\(", text)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_file_makes_no_markup_of_text(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\(", text)


def test_page_has_nothing_inline() -> None:
    text = (FOLDER / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=", text)
    assert re.findall(r"<script[^>]*>(.*?)</script>", text, re.DOTALL) == [""]
    assert "<noscript>" in text


def test_page_names_files_that_exist() -> None:
    text = (FOLDER / "index.html").read_text(encoding="utf-8")
    named = re.findall(r'"page/([^"]+)"', text)
    named += re.findall(r'from "\./([^"]+)"', "".join(p.read_text("utf-8") for p in FILES))
    assert {*named, "index.html"} == {path.name for path in FILES}


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(
    ("ink", "paper"),
    [
        *((ink, "paper") for ink in ("ink", "soft", "accent", "good", "warn", "bad")),
        ("ink", "well"),
        ("ink", "warn-well"),
        ("ink", "bad-well"),
        ("ink", "loud-well"),
        ("loud", "loud-well"),
    ],
)
def test_colours_are_legible(scheme: str, ink: str, paper: str) -> None:
    colours = colours_of(scheme)
    assert contrast_of(colours[ink], colours[paper]) >= LEAST_CONTRAST
