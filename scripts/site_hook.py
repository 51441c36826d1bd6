"""What MkDocs needs to be told to make a site of pages that read as well where they are kept.

Three things differ between the two. Pages of the repository's root (`ROOT_PAGES`) are part of the
site under other names. Links that lead out of docs/, to sources and tests, have no target on the
site: their text stays. And `<w, x>` is an inner product here, never a tag.
"""

import posixpath
import re
from pathlib import Path

from markdown import Markdown
from markdown.extensions import Extension
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
ROOT_PAGES = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "reporting.md",
    "LICENSE": "licence.md",
}
FENCE = re.compile(r"(^ *```.*?^ *```$)", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^)#:\s]+)(#[^)\s]*)?\)")


class _NoTags(Extension):
    """Text in angle brackets is text; comments and blocks of HTML are not touched by this."""

    def extendMarkdown(self, md: Markdown) -> None:
        md.inlinePatterns.deregister("html")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Use the extension above."""
    config.markdown_extensions.append(_NoTags())
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the root."""
    for name, page in ROOT_PAGES.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        if name == "LICENSE":
            text = f"# Licence\n```text\n{text}\n```\n"
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Lead links to pages of the site, or leave their text."""
    site_page = page.file.src_uri
    names = {site: name for name, site in ROOT_PAGES.items()}
    here = posixpath.dirname(names.get(site_page, f"docs/{site_page}"))
    there = posixpath.dirname(site_page)

    def lead(match: re.Match[str]) -> str:
        text, link, anchor = match[1], match[2], match[3] or ""
        target = posixpath.normpath(posixpath.join(here, link))
        inside = ROOT_PAGES.get(target)
        if target.startswith("docs/"):
            inside = target.removeprefix("docs/")
        elif target in ("README.md", "."):
            inside = "index.md"
        if inside is None:
            return text
        return f"[{text}]({posixpath.relpath(inside, there or '.')}{anchor})"

    parts = FENCE.split(markdown)  # every other one is a block
    return "".join(part if n % 2 else LINK.sub(lead, part) for n, part in enumerate(parts))
