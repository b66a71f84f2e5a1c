"""Writes a report as Markdown. Texts from the export are escaped, so that they cannot add markup."""

import re
from collections.abc import Iterable, Iterator
from html import escape

from podium_evals.audit.report import Report
from podium_evals.audit.sections import Section, heading, sections

_MARKS = re.compile(r"([\\`*_\[\]|~#!$@])")


def markdown_page(report: Report) -> str:
    """Return the report as Markdown with tables."""
    title, below = heading(report)
    lines = [f"# {title}", "", _plain(below)]
    for section in sections(report):
        lines += ["", f"## {section.title}", "", *_section(section)]
    return "\n".join(lines) + "\n"


def _section(section: Section) -> Iterator[str]:
    for number, note in enumerate(section.notes):
        if number and not section.is_list:
            yield ""
        yield f"- {_plain(note)}" if section.is_list else _plain(note)
    if section.notes and section.rows:
        yield ""
    if section.rows:
        yield _row(column.title for column in section.columns)
        yield _row("---:" if column.is_number else "---" for column in section.columns)
        yield from (_row(map(_plain, row)) for row in section.rows)


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _plain(text: str) -> str:
    """Return a text on one line, with escapes for all marks of Markdown and HTML."""
    line = " ".join(escape(text, quote=False).split())
    return _MARKS.sub(r"\\\1", line).replace("://", ":\\//")
