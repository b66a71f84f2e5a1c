"""Writes a report as one HTML page. The page has no scripts and loads no other files."""

from collections.abc import Iterator
from html import escape

from podium_evals.audit.report import Report
from podium_evals.audit.sections import Section, heading, sections

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_STYLE = """
:root { color-scheme: light dark; --text: #1b1f24; --back: #ffffff; --dim: #59636e; --line: #d1d9e0; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6edf3; --back: #0d1117; --dim: #9198a1; --line: #3d444d; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--text); background: var(--back);
  max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
h1 { margin-bottom: 0; } h2 { margin-top: 2.5rem; }
.below { color: var(--dim); margin-top: 0; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; }
th, td { padding: .3rem .8rem .3rem 0; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--line); overflow-wrap: anywhere; }
th { color: var(--dim); font-weight: 600; overflow-wrap: normal; }
td { min-width: 5rem; } td.number { min-width: 0; } td:nth-child(2):not(.number) { min-width: 14rem; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
"""


def html_page(report: Report) -> str:
    """Return the report as an HTML page."""
    title, below = map(escape, heading(report))
    body = "\n".join(line for section in sections(report) for line in _section(section))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f'<h1>{title}</h1>\n<p class="below">{below}</p>\n{body}\n</body>\n</html>\n'
    )


def _section(section: Section) -> Iterator[str]:
    yield f"<h2>{escape(section.title)}</h2>"
    if section.is_list:
        yield "<ul>"
        yield from (f"<li>{escape(note)}</li>" for note in section.notes)
        yield "</ul>"
    else:
        yield from (f"<p>{escape(note)}</p>" for note in section.notes)
    if not section.rows:
        return
    kinds = [' class="number"' if column.is_number else "" for column in section.columns]
    # Keyboards can scroll a region that has the focus.
    yield f'<div class="wide" tabindex="0" role="region" aria-label="{escape(section.title)}"><table>'
    if any(column.title for column in section.columns):
        heads = zip(kinds, section.columns, strict=True)
        yield f"<tr>{''.join(f'<th{kind}>{escape(column.title)}</th>' for kind, column in heads)}</tr>"
    for row in section.rows:
        cells = (f"<td{kind}>{escape(cell)}</td>" for kind, cell in zip(kinds, row, strict=True))
        yield f"<tr>{''.join(cells)}</tr>"
    yield "</table></div>"
