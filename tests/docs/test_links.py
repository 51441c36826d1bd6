"""Links lead somewhere, on the pages as they are kept; pictures say what they show."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.docs.pages import DOCS, FENCE, PAGES, ROOT, name_of, prose_of, read

LINK = re.compile(r"\]\(([^)#:\s]*)(#[^)\s]*)?\)")
DRAWN = ("enrolment", "layers", "parties", "reference-parties", "round", "update")


def anchors_of(page: Path) -> set[str]:
    """The anchors of headings, as GitHub and MkDocs make them of letters without accents."""
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", read(page)), flags=re.MULTILINE)
    plain = [re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings]
    return {re.sub(r"[^\w\- ]", "", text.lower()).strip().replace(" ", "-") for text in plain}


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=name_of)
def test_links_of_page_lead_somewhere(page: Path) -> None:
    for target, anchor in LINK.findall(prose_of(page)):
        leads_to = (page.parent / target).resolve() if target else page
        assert leads_to.exists(), target
        assert leads_to.is_relative_to(ROOT), target
        if anchor and leads_to.suffix == ".md":
            assert anchor[1:] in anchors_of(leads_to), f"{target}{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_pictures_of_page_are_described(page: Path) -> None:
    for text in re.findall(r"!\[([^\]]*)\]\(", prose_of(page)):
        assert len(text.split()) >= 4, text


@pytest.mark.parametrize("name", DRAWN)
def test_diagram_has_title_and_description_and_is_shown(name: str) -> None:
    svg = ElementTree.parse(DOCS / "figures" / f"{name}.svg").getroot()
    space = "{http://www.w3.org/2000/svg}"
    title, description = svg.find(f"{space}title"), svg.find(f"{space}desc")
    assert title is not None
    assert title.text
    assert description is not None
    assert len(str(description.text).split()) > 10
    assert any(f"figures/{name}.svg" in read(page) for page in PAGES)
