import re
from html.parser import HTMLParser

import pytest

from helba.errors import RunFailed
from helba.lab.reproduction.drawing.html import write_html
from helba.lab.reproduction.drawing.panel import Curve, Panel, draw_panels
from helba.lab.reproduction.section import Section, Table
from helba.ring.security import max_log2_qp

HOSTILE = "<script>alert(1)</script>\"'&<b onclick=x>"
VOID = {"meta", "br", "hr", "img", "link", "input"}
PARAMETERS = {
    "ring_dim": 1 << 15,
    "depth": 11,
    "scale_bits": 46,
    "digits": 2,
    "security": 128,
    "first_bits": 60,
    "secret": "uniform",
    "log2_qp": 850,
}


class Reader(HTMLParser):
    """Collects elements and text, and fails where tags are not nested."""

    def __init__(self):
        super().__init__()
        self.open, self.elements, self.text = [], [], []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> without a start"
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)

    def attributes(self, name):
        return [attributes[name] for _, attributes in self.elements if name in attributes]


def run_of(engine, **changes):
    return {
        "title": f"a run, {engine}",
        "command": f"helba run toy --engine {engine}",
        "engine": engine,
        "rounds": 5,
        "agreement": 1.0,
        "parameters": PARAMETERS,
        **changes,
    }


@pytest.fixture
def figure(tmp_path):
    curve = Curve(label="a", x=[1.0, 2.0, 3.0], y=[1.0, 4.0, 9.0], marked=True)
    panel = Panel(curves=[curve], x="x", y="y", title="squares")
    return draw_panels([panel], name="squares", caption="Squares.", title="t", folder=tmp_path)


@pytest.fixture
def write(tmp_path):
    def write(*sections, environment=None):
        path = tmp_path / "report.html"
        write_html(sections, path=path, environment=environment or {"python": "3"})
        reader = Reader()
        text = path.read_text(encoding="utf-8")
        reader.feed(text)
        reader.close()
        assert reader.open == [], "every element is closed"
        return text, reader

    return write


def test_report_is_well_formed_and_lists_its_sections(write, figure):
    table = Table(name="rows", caption="A table.", columns=("a", "b"), rows=[["x", 1.5]])
    section = Section(name="one", title="First", tables=[table], figures=[figure], runs=[])
    text, reader = write(section)
    assert text.startswith("<!DOCTYPE html>")
    assert ("html", {"lang": "en"}) in reader.elements
    assert {"#section-one", "#environment"} <= set(reader.attributes("href"))
    assert {"section-one", "environment"} <= set(reader.attributes("id"))
    assert "1.5" in reader.text


def test_report_needs_no_network_and_no_script(write, figure):
    section = Section(name="one", title="First", figures=[figure], runs=[run_of("ckks")])
    text, reader = write(section)
    assert "src" not in {name for _, attributes in reader.elements for name in attributes}
    tags = {tag for tag, _ in reader.elements}
    assert not tags & {"script", "link", "img", "iframe", "object", "embed"}
    assert not re.search(r"@import|url\((?!#)", text)
    outside = [
        (tag, attributes["href"])
        for tag, attributes in reader.elements
        if not attributes.get("href", "#").startswith("#")
    ]
    assert outside == [("a", "https://eprint.iacr.org/2024/463")]


def test_report_escapes_hostile_text_everywhere(write, figure):
    table = Table(name=HOSTILE, caption=HOSTILE, columns=(HOSTILE, "b"), rows=[[HOSTILE, HOSTILE]])
    section = Section(
        name=HOSTILE,
        title=HOSTILE,
        paragraphs=[HOSTILE],
        tables=[table],
        figures=[type(figure)(caption=HOSTILE, png=figure.png, svg=figure.svg, rows=figure.rows)],
        runs=[
            run_of("ckks", title=HOSTILE, command=HOSTILE),
            {"title": HOSTILE, "engine": HOSTILE},
        ],
    )
    text, reader = write(section, environment={HOSTILE: HOSTILE, "threads": {HOSTILE: HOSTILE}})
    assert not {"script", "b"} & {tag for tag, _ in reader.elements}
    assert not reader.attributes("onclick")
    assert "<script" not in text
    assert "".join(reader.text).count("alert(1)") >= 12


def test_pictures_do_not_share_ids_and_refer_to_their_own(write, figure):
    one = Section(name="one", title="First", figures=[figure, figure])
    two = Section(name="two", title="Second", figures=[figure])
    text, reader = write(one, two)
    names = reader.attributes("id")
    assert len(names) == len(set(names))
    used = set(re.findall(r"url\(#([^)]+)\)", text))
    used |= {target[1:] for target in reader.attributes("href") if target.startswith("#")}
    assert used <= set(names)
    assert any(name.startswith("section-two-figure-1-") for name in used)


def test_pictures_and_tables_are_described(write, figure):
    table = Table(name="rows", caption="A table.", columns=("a", "b"), rows=[["x", None]])
    _, reader = write(Section(name="one", title="First", tables=[table], figures=[figure]))
    pictures = [attributes for tag, attributes in reader.elements if tag == "svg"]
    assert [picture["role"] for picture in pictures] == ["img"]
    assert pictures[0]["aria-labelledby"] in reader.attributes("id")
    assert "Squares." in reader.text
    headings = [attributes for tag, attributes in reader.elements if tag == "th"]
    assert headings
    assert all(heading["scope"] in ("row", "col") for heading in headings)
    tables = sum(tag == "table" for tag, _ in reader.elements)
    assert sum(tag == "caption" for tag, _ in reader.elements) == tables


def test_run_shows_parameters_level_limit_and_margin(write):
    text, _ = write(Section(name="one", title="First", runs=[run_of("ckks")]))
    limit = max_log2_qp(1 << 15, security=128)
    assert "<td>128 bits</td>" in text
    assert f"limit {limit}, margin {limit - 850} bits" in text
    assert "<td>2^15</td>" in text
    assert "helba run toy --engine ckks" in text


def test_simulated_run_is_labelled_and_claims_no_level(write):
    text, _ = write(Section(name="one", title="First", runs=[run_of("simulate")]))
    assert "simulator: nothing was encrypted" in text
    assert "<td>128 bits</td>" not in text
    assert "none: nothing was encrypted; these parameters would give 128 bits" in text


def test_run_with_a_sparse_secret_says_that_the_table_does_not_cover_it(write):
    sparse = {**PARAMETERS, "secret": "sparse"}
    text, _ = write(Section(name="a", title="A", runs=[run_of("ckks", parameters=sparse)]))
    assert "does not cover sparse secrets" in text


def test_run_without_security_says_so(write):
    insecure = {**PARAMETERS, "security": None, "ring_dim": 1 << 11}
    text, _ = write(Section(name="a", title="A", runs=[run_of("ckks", parameters=insecure)]))
    assert "<td>none</td>" in text
    assert "insecure parameters" in text


def test_plain_run_is_said_to_be_in_the_clear(write):
    plain = {"title": "oful", "engine": "plain", "command": None, "parameters": None}
    text, _ = write(Section(name="one", title="First", runs=[plain]))
    assert "in the clear: nothing was encrypted" in text


def test_picture_that_cannot_be_read_is_a_clear_error(write, figure):
    figure.svg.write_text("<svg", encoding="utf-8")
    with pytest.raises(RunFailed, match=r"squares\.svg"):
        write(Section(name="one", title="First", figures=[figure]))
