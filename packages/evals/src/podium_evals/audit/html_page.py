"""Writes a report as one HTML page. The page has no scripts and loads no other files."""

from collections.abc import Iterator
from html import escape

from podium_evals.audit.report import Report
from podium_evals.audit.sections import Column, Section, heading, sections

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
table { border-collapse: collapse; }
th, td { padding: .3rem .8rem .3rem 0; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--line); overflow-wrap: anywhere; }
th { font-weight: 400; }
thead th { color: var(--dim); font-weight: 600; overflow-wrap: normal; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
@media (max-width: 48rem) {
  table, tr, th, td { display: block; border: 0; padding: 0; }
  thead.heads { display: none; }
  tr { border-bottom: 1px solid var(--line); padding: .4rem 0; }
  tbody th { font-weight: 600; }
  td.number { display: inline-block; margin-right: 1rem; white-space: normal; }
  td[data-title]::before { content: attr(data-title) "\\a0"; color: var(--dim); }
}
"""


def html_page(report: Report) -> str:
    """Return the report as an HTML page."""
    title, below = map(escape, heading(report))
    body = "\n".join(line for section in sections(report) for line in _section(section))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n"
        f'<h1>{title}</h1>\n<p class="below">{below}</p>\n{body}\n</main>\n</body>\n</html>\n'
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
    yield "<table>"
    if any(column.title for column in section.columns):
        heads = "".join(f'<th scope="col"{_kind(each)}>{escape(each.title)}</th>' for each in section.columns)
        yield f'<thead class="heads"><tr>{heads}</tr></thead>'
    yield "<tbody>"
    for name, *rest in section.rows:
        cells = "".join(map(_cell, section.columns[1:], rest))
        yield f'<tr><th scope="row">{escape(name)}</th>{cells}</tr>'
    yield "</tbody></table>"


def _cell(column: Column, text: str) -> str:
    """Return a cell with the title of its column, which a narrow screen shows beside it."""
    title = f' data-title="{escape(column.title)}"' if column.title else ""
    return f"<td{_kind(column)}{title}>{escape(text)}</td>"


def _kind(column: Column) -> str:
    return ' class="number"' if column.is_number else ""
