"""The figure and the table of the layers say what the build checks."""

from __future__ import annotations

import re
import sys
from typing import Any
from xml.etree import ElementTree

from tests.docs.pages import DOCS, ROOT, read

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SPACE = "{http://www.w3.org/2000/svg}"


def layers() -> list[list[str]]:
    """The layers of the build's contract, from the top down."""
    project: dict[str, Any] = tomllib.loads(read(ROOT / "pyproject.toml"))
    contracts = project["tool"]["importlinter"]["contracts"]
    (contract,) = [each for each in contracts if each["type"] == "layers"]
    return [re.findall(r"\w+", layer) for layer in contract["layers"]]


def test_figure_has_the_layers_of_the_build() -> None:
    svg = ElementTree.parse(DOCS / "figures" / "layers.svg").getroot()
    drawn = [text for text in svg.iter(f"{SPACE}text") if text.get("class") == "head"]
    assert [re.findall(r"\w+", str(text.text)) for text in drawn] == layers()
    heights = [float(text.get("y", "0")) for text in drawn]
    assert heights == sorted(heights)


def test_table_of_contributing_has_the_layers_of_the_build() -> None:
    text = read(ROOT / "CONTRIBUTING.md")
    section = text.partition("\n## The house\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`[^|]*`) \|", section, re.MULTILINE)
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert named == [name for layer in layers() for name in layer]
