"""An SVG picture as part of an HTML page: ids of its own, a description, no outside reference."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

from helba.errors import RunFailed

SVG = "http://www.w3.org/2000/svg"
XLINK_HREF = "{http://www.w3.org/1999/xlink}href"
# A page has one style sheet: what matplotlib says about all elements is said on the root instead.
INHERITED = "stroke-linejoin: round; stroke-linecap: butt"
DROPPED = ("metadata", "style", "script", "foreignObject")


def inline_svg(path: Path, *, prefix: str, description: str) -> str:
    """Return the picture as an `<svg>` element; every id in it starts with `prefix`."""
    try:
        root = ElementTree.fromstring(path.read_text(encoding="utf-8"))
    except (OSError, ElementTree.ParseError) as error:
        raise RunFailed(f"cannot read the picture {path.name}") from error
    _drop(root)
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        element.attrib = {
            name: value
            for name, value in (
                _rename(name, value, prefix=prefix) for name, value in element.attrib.items()
            )
            if not name.startswith(("{", "on"))
        }
        if element.get("href", "#")[0] != "#":
            del element.attrib["href"]
    title = ElementTree.Element("title", {"id": f"{prefix}title"})
    title.text = description
    root.insert(0, title)
    for name in ("width", "height"):
        root.attrib.pop(name, None)
    root.attrib |= {
        "role": "img",
        "aria-labelledby": f"{prefix}title",
        "style": INHERITED,
    }
    # Elements without content keep their end tag: HTML has no other way to end them.
    return ElementTree.tostring(root, encoding="unicode", short_empty_elements=False)


def _drop(root: ElementTree.Element) -> None:
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag.rpartition("}")[2] in DROPPED:
                parent.remove(child)


def _rename(name: str, value: str, *, prefix: str) -> tuple[str, str]:
    """Return an attribute whose id, or reference to one, has the prefix; xlink is said as HTML."""
    name = "href" if name == XLINK_HREF else name
    if name == "id":
        return name, prefix + value
    if name == "href":
        return name, f"#{prefix}{value[1:]}" if value.startswith("#") else value
    return name, re.sub(r"url\(#", f"url(#{prefix}", value)
