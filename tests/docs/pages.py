"""The pages of the documentation, and what is in them: blocks, inline code, sections."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
ROOT_PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
PAGES = [*ROOT_PAGES, *sorted(DOCS.rglob("*.md"))]

FENCE = re.compile(r"^( *)```([^\n`]*)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
COMMENTS = re.compile(r"((?:^ *<!--[^\n]*-->\n)*)\Z", re.MULTILINE)
SPAN = re.compile(r"(?<!`)`([^`]+)`(?!`)")


@dataclass(frozen=True, kw_only=True)
class Block:
    """A fenced block: its language, its text without indentation, and the comments above it."""

    page: str
    line: int
    language: str
    text: str
    comments: str

    @property
    def where(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def numbers_vary(self) -> bool:
        return "numbers vary" in self.comments

    @property
    def is_output(self) -> bool:
        return "<!-- output" in self.comments


@dataclass(frozen=True, kw_only=True)
class Story:
    """Blocks of a page that build on one another, in order."""

    name: str
    blocks: list[Block] = field(default_factory=list)

    @property
    def needs_openfhe(self) -> bool:
        code = "\n".join(re.sub(r"#.*", "", block.text) for block in self._run)
        return '"ckks"' in code or any("<!-- ckks" in block.comments for block in self._run)

    @property
    def _run(self) -> list[Block]:
        return [b for b in self.blocks if b.language in ("python", "console")]


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def blocks_of(page: Path) -> list[Block]:
    text = read(page)
    found = []
    for match in FENCE.finditer(text):
        above = COMMENTS.search(text[: match.start()])
        lines = match[3].splitlines()
        indent = len(match[1])
        found.append(
            Block(
                page=name_of(page),
                line=text.count("\n", 0, match.start()) + 1,
                language=match[2].strip(),
                text="\n".join(line[indent:] for line in lines) + "\n",
                comments=above[1] if above else "",
            )
        )
    return found


def stories_of(page: Path) -> list[Story]:
    """Cut a page where a Python block begins with `import helba`; leave out what runs nothing."""
    stories: list[Story] = []
    for block in blocks_of(page):
        anew = block.language == "python" and block.text.startswith("import helba\n")
        if not stories or (anew and stories[-1]._run):
            stories.append(Story(name=f"{name_of(page)}-{len(stories)}"))
        stories[-1].blocks.append(block)
    return [story for story in stories if story._run]


def prose_of(page: Path) -> str:
    """A page without its fenced blocks."""
    return FENCE.sub("", read(page))


def spans_of(page: Path) -> list[str]:
    """Inline code, each on one line."""
    return [" ".join(span.split()) for span in SPAN.findall(prose_of(page))]


def sections_of(page: Path) -> list[str]:
    """A page cut at its headings; fenced blocks stay in."""
    return re.split(r"^(?=#{1,3} )", read(page), flags=re.MULTILINE)
