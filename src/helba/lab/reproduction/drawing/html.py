"""The report as one HTML file that needs no other: pictures inside, no script, no network.

Readable on a phone and in print, in light and dark, and with a screen reader. Every text from
outside is escaped. A run says what it was: parameters, and the security level with the table that
it was checked against; a simulated one says that nothing was encrypted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from helba.lab.reproduction.drawing.vector import inline_svg
from helba.lab.reproduction.section import Figure, Section, Table
from helba.lab.rows import write_text
from helba.ring.security import describe_ring, max_log2_qp

TITLE = "HELBA, reproduced and measured"
SECURITY_TABLE = "https://eprint.iacr.org/2024/463"
STYLE = """
:root { color-scheme: light dark; --text: #1b1b1b; --back: #ffffff; --line: #c8c8c8;
  --quiet: #555555; --stripe: #f4f4f4; --link: #0b57a4; }
@media (prefers-color-scheme: dark) { :root { --text: #e6e6e6; --back: #161616; --line: #444444;
  --quiet: #a8a8a8; --stripe: #202020; --link: #8ab8f0; } }
* { box-sizing: border-box; }
body { color: var(--text); background: var(--back); font: 1rem/1.5 system-ui, sans-serif;
  margin: 0 auto; padding: 1rem; max-width: 72rem; }
a { color: var(--link); }
h1, h2, h3 { line-height: 1.2; }
h2 { border-top: 1px solid var(--line); padding-top: 1rem; margin-top: 2.5rem; }
p { max-width: 46rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: 1rem 0; font-size: 0.875rem; }
caption { text-align: left; color: var(--quiet); padding-bottom: 0.4rem; max-width: 46rem; }
th, td { border: 1px solid var(--line); padding: 0.3rem 0.5rem; text-align: left;
  vertical-align: top; }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
tbody tr:nth-child(even) { background: var(--stripe); }
figure { margin: 1.5rem 0; }
figure svg { width: 100%; height: auto; max-width: 68rem; background: #ffffff; display: block; }
figcaption { color: var(--quiet); font-size: 0.875rem; max-width: 46rem; margin-top: 0.4rem; }
code { font-size: 0.85em; overflow-wrap: anywhere; }
@media print { :root { --text: #000000; --back: #ffffff; --line: #999999; --quiet: #333333;
  --stripe: #ffffff; --link: #000000; } body { max-width: none; font-size: 10pt; }
  nav { display: none; } .wide { overflow: visible; } table { font-size: 7pt; }
  figure, tr { break-inside: avoid; } }
"""
RUN_COLUMNS = (
    "run",
    "engine",
    "profile",
    "bonus",
    "seed",
    "rounds",
    "updates",
    "agreement with the twin",
    "security",
    "limit and margin",
    "N",
    "log2 QP",
    "depth",
    "scale bits",
    "digits",
    "secret",
    "keys",
    "refresh",
    "command",
)
PLAIN_COLUMNS = ("run", "engine", "command")
ENGINES = {
    "ckks": "CKKS (OpenFHE)",
    "simulate": "simulator: nothing was encrypted",
    "plain": "in the clear: nothing was encrypted",
}


@dataclass(frozen=True, kw_only=True)
class _Command:
    """A command that a person types, shown as such."""

    text: str


def write_html(sections: Sequence[Section], *, path: Path, environment: dict[str, Any]) -> None:
    """Write the report to `path`, whole or not at all."""
    contents = "".join(
        f'<li><a href="#{_anchor(section.name)}">{escape(section.title)}</a></li>'
        for section in sections
    )
    body = "".join(_write_section(section) for section in sections)
    write_text(
        path,
        text=(
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{TITLE}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
            f"<header><h1>{TITLE}</h1></header>\n"
            f'<nav aria-label="Contents"><h2>Contents</h2><ul>{contents}'
            '<li><a href="#environment">Environment</a></li></ul></nav>\n'
            f"<main>\n{body}{_write_environment(environment)}</main>\n</body>\n</html>\n"
        ),
    )


def _write_section(section: Section) -> str:
    anchor = _anchor(section.name)
    parts = [f'<section id="{anchor}">\n<h2>{escape(section.title)}</h2>\n']
    parts += [f"<p>{escape(text)}</p>\n" for text in section.paragraphs]
    parts += [
        _write_figure(figure, prefix=f"{anchor}-figure-{number}-")
        for number, figure in enumerate(section.figures, start=1)
    ]
    parts += [_write_table(table, folder=section.name) for table in section.tables]
    parts.append(_write_runs(section.runs))
    return "".join([*parts, "</section>\n"])


def _write_figure(figure: Figure, *, prefix: str) -> str:
    picture = inline_svg(figure.svg, prefix=prefix, description=figure.caption)
    rows = escape(f"{figure.rows.parent.name}/{figure.rows.name}")
    return (
        f"<figure>{picture}<figcaption>{escape(figure.caption)} "
        f"Its rows: <code>{rows}</code>.</figcaption></figure>\n"
    )


def _write_table(table: Table, *, folder: str) -> str:
    file = escape(f"{folder}/{table.name}.csv")
    caption = f"{escape(table.caption)} Its rows: <code>{file}</code>."
    return _grid(caption, columns=table.columns, rows=table.rows)


def _write_runs(runs: Sequence[Mapping[str, Any]]) -> str:
    """Return the runs with their parameters; those in the clear have none, and a table apart."""
    encrypted = [run for run in runs if run.get("parameters")]
    plain = [run for run in runs if not run.get("parameters")]
    text = "<h3>Runs</h3>\n" if runs else ""
    if encrypted:
        caption = (
            "Runs of the encrypted algorithm. The level is checked against table 5.2 of "
            f'<a href="{SECURITY_TABLE}">ePrint 2024/463</a>: the limit is the largest log2 QP of '
            "the ring at that level, for uniform ternary secrets and classical attacks."
        )
        rows = [_describe_run(run) for run in encrypted]
        text += _grid(caption, columns=RUN_COLUMNS, rows=rows)
    if plain:
        rows = [[run.get("title"), _engine(run), _command(run)] for run in plain]
        text += _grid("Runs in the clear.", columns=PLAIN_COLUMNS, rows=rows)
    return text


def _describe_run(run: Mapping[str, Any]) -> list[Any]:
    parameters = run["parameters"]
    names = ("ring_dim", "log2_qp", "depth", "scale_bits", "digits", "secret")
    shown = {name: parameters.get(name) for name in names}
    if shown["ring_dim"] is not None:
        shown["ring_dim"] = describe_ring(shown["ring_dim"])
    security, margin = _security(run)
    return [
        run.get("title"),
        _engine(run),
        *(run.get(name) for name in ("profile", "bonus", "seed")),
        run.get("rounds", run.get("horizon")),
        run.get("updates"),
        run.get("agreement"),
        security,
        margin,
        *shown.values(),
        run.get("keys"),
        run.get("refresh"),
        _command(run),
    ]


def _security(run: Mapping[str, Any]) -> tuple[str, str]:
    """Return the level of a run and how far its modulus is from the table's limit, in words."""
    parameters = run["parameters"]
    level = parameters.get("security")
    if level is None:
        return "none", "insecure parameters, for tests only"
    limit = max_log2_qp(parameters["ring_dim"], security=level)
    margin = f"limit {limit}, margin {limit - parameters['log2_qp']} bits"
    if parameters.get("secret") != "uniform":
        margin += "; the table does not cover sparse secrets"
    if run.get("engine") != "ckks":
        return f"none: nothing was encrypted; these parameters would give {level} bits", margin
    return f"{level} bits", margin


def _engine(run: Mapping[str, Any]) -> str:
    engine = str(run.get("engine"))
    return ENGINES.get(engine, engine)


def _command(run: Mapping[str, Any]) -> _Command | None:
    command = run.get("command")
    return None if command is None else _Command(text=str(command))


def _write_environment(environment: Mapping[str, Any]) -> str:
    rows = []
    for name, value in environment.items():
        if isinstance(value, Mapping):
            value = ", ".join(f"{key} {item}" for key, item in value.items())
        if isinstance(value, (list, tuple)):
            value = ", ".join(map(str, value))
        rows.append([name.replace("_", " "), value])
    table = _grid("What the results may depend on.", columns=("what", "value"), rows=rows)
    return f'<section id="environment">\n<h2>Environment</h2>\n{table}</section>\n'


def _grid(caption: str, *, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return a table of plain values; the caption is HTML."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in columns)
    body = []
    for first, *others in rows:
        cells = "".join(_cell(value) for value in others)
        body.append(f'<tr><th scope="row">{_show(first)}</th>{cells}</tr>\n')
    return (
        '<div class="wide" role="region" tabindex="0" aria-label="table"><table>\n'
        f"<caption>{caption}</caption>\n<thead><tr>{head}</tr></thead>\n"
        f"<tbody>\n{''.join(body)}</tbody>\n</table></div>\n"
    )


def _cell(value: Any) -> str:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return f'<td class="number">{_show(value)}</td>' if number else f"<td>{_show(value)}</td>"


def _show(value: Any) -> str:
    """Return a value as HTML."""
    if value is None:
        return "–"
    if isinstance(value, _Command):
        return f"<code>{escape(value.text)}</code>"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return _number(value) if isinstance(value, float) else escape(str(value))


def _number(value: float) -> str:
    if value and abs(value) >= 1e4:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def _anchor(name: str) -> str:
    """Return a name that is fit for an id."""
    return "section-" + "".join(letter if letter.isalnum() else "-" for letter in name)
