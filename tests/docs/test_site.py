"""The site: all pages are in it, it builds without a warning, and fetches nothing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import yaml
from markdown_it import MarkdownIt

import helba
from tests.docs.pages import DOCS, ROOT
from tests.sweep import SOAK

GENERATED = {"changelog.md", "contributing.md", "reporting.md", "licence.md"}
CONFIG = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
FETCHED = re.compile(
    r"<(?:script|img|iframe|source)[^>]*\bsrc=[\"']?(?:https?:)?//[^>]*>"
    r"|<link[^>]*rel=[\"']?(?:stylesheet|preconnect|preload)[^>]*(?:https?:)?//[^>]*>"
)


def pages_in(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    parts = nav.values() if isinstance(nav, dict) else nav
    return [page for part in parts for page in pages_in(part)]


def test_navigation_names_every_page_once() -> None:
    named = pages_in(CONFIG["nav"])
    there = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    assert sorted(named) == sorted(there | GENERATED)


def test_readers_find_their_pages_first() -> None:
    start = next(part["Start here"] for part in CONFIG["nav"] if "Start here" in part)
    assert pages_in(start)[:2] == ["for-bandit-people.md", "for-cryptographers.md"]


def test_api_reference_has_all_public_packages() -> None:
    said = "".join(path.read_text() for path in (DOCS / "api").glob("*.md"))
    core = ("bandits", "problems", "learning", "ring", "garbling", "protocol", "in_process")
    parties = ("server", "opener", "user", "authority")
    reference = ("protocol", "engine", "planning", "numerics", "circuits", "twin")
    for name in (*core, *parties, "service", "lab", *(f"reference.{each}" for each in reference)):
        assert f"::: helba.{name}." in said, name


def test_api_pages_describe_the_package_in_their_title() -> None:
    for page in (DOCS / "api").glob("*.md"):
        title, *lines = page.read_text().splitlines()
        described = [line.removeprefix("::: ") for line in lines if line.startswith("::: ")]
        if (package := title.removeprefix("# ")).startswith("helba"):
            assert [name for name in described if not name.startswith(f"{package}.")] == []


def test_api_reference_has_every_public_name_and_page() -> None:
    names = (DOCS / "api" / "helba.md").read_text()
    assert [name for name in helba.__all__ if f"`{name}`" not in names] == []
    index = (DOCS / "api" / "index.md").read_text()
    pages = {page.name for page in (DOCS / "api").glob("*.md")} - {"index.md"}
    assert set(re.findall(r"\]\((\w[\w-]*\.md)\)", index)) == pages


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; building it fails at any warning.

    To fill in the API from docstrings takes nine tenths of the time: `make docs` does, and a soak.
    """
    folder = tmp_path_factory.mktemp("site")
    config = ROOT / "mkdocs.yml"
    if not SOAK:
        bare = {
            "INHERIT": str(config),
            "docs_dir": str(DOCS),
            "hooks": [str(ROOT / hook) for hook in CONFIG["hooks"]],
            "plugins": [each for each in CONFIG["plugins"] if isinstance(each, str)],
        }
        config = tmp_path_factory.mktemp("config") / "mkdocs.yml"
        config.write_text(yaml.safe_dump(bare), encoding="utf-8")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "mkdocs", "build", "--strict"),
            *("--config-file", str(config), "--site-dir", str(folder)),
        ],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


class Outline(HTMLParser):
    """How many there are of each kind of element."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.count: Counter[str] = Counter()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        if tag in ("em", "h2", "h3", "li", "ol", "pre", "strong", "table", "tr", "ul"):
            self.count[tag] += 1


@pytest.mark.slow
def test_site_fetches_nothing(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 40
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert not FETCHED.search(text), page.name
        assert "fonts.g" not in text


@pytest.mark.slow
def test_inner_products_are_no_tags(site: Path) -> None:
    assert "&lt;theta, x_t&gt;" in (site / "theory.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_pages_look_the_same_on_the_site_and_where_they_are_kept(site: Path) -> None:
    """MkDocs reads lists and emphasis a little differently from CommonMark."""
    commonmark = MarkdownIt("commonmark").enable("table")
    for page in DOCS.rglob("*.md"):
        if page.parent.name == "api":  # filled in from docstrings
            continue
        place = site / page.relative_to(DOCS).with_suffix(".html")
        if page.name == "README.md":
            place = place.with_name("index.html")
        article = re.search(r"<article.*?>(.*)</article>", place.read_text("utf-8"), re.DOTALL)
        assert article is not None
        kept = Outline(commonmark.render(page.read_text(encoding="utf-8")))
        assert Outline(article[1]).count == kept.count, page.name
