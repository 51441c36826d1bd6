"""CITATION.cff says what this is, and which paper it implements."""

from __future__ import annotations

import sys

import yaml

from tests.docs.pages import ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_citation_has_what_the_format_requires() -> None:
    assert CITATION["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= set(CITATION)
    assert CITATION["authors"] == [{"name": "The helba authors"}]


def test_citation_agrees_with_the_project() -> None:
    assert CITATION["version"] == PROJECT["version"]
    assert CITATION["title"] == PROJECT["name"]
    assert CITATION["license"] == PROJECT["license"]


def test_citation_names_the_paper() -> None:
    (paper,) = CITATION["references"]
    assert paper["title"] == "Encrypted Linear Contextual Bandit"
    assert [one["family-names"] for one in paper["authors"]] == ["Garcelon", "Perchet", "Pirotta"]
    assert paper["year"] == 2022
