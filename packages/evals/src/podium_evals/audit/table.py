"""Prints a report in a terminal, without wide columns."""

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from podium.cli.screen import Screen
from podium_evals.audit.report import Report
from podium_evals.audit.sections import Section, heading, sections


def draw_report(screen: Screen, report: Report) -> None:
    """Print a report to stdout."""
    drawn: list[RenderableType] = [Text(screen.shown("\n".join(heading(report))))]
    for section in sections(report):
        drawn += [Text(f"\n{section.title}", style="bold"), *_section(screen, section)]
    screen.draw(*drawn)


def _section(screen: Screen, section: Section) -> list[RenderableType]:
    notes = [f"- {note}" if section.is_list else note for note in section.notes]
    drawn: list[RenderableType] = [Text(screen.shown(note)) for note in notes]
    if section.rows:
        drawn.append(_table(screen, section))
    return drawn


def _table(screen: Screen, section: Section) -> Table:
    has_heads = any(column.title for column in section.columns)
    table = Table(box=None, header_style="dim", pad_edge=False, padding=(0, 1, 0, 0), show_header=has_heads)
    shown = [number for number, column in enumerate(section.columns) if not column.is_wide]
    for number in shown:
        column = section.columns[number]
        if column.is_number:
            table.add_column(column.title, justify="right", min_width=4)
        else:
            table.add_column(column.title, overflow="fold", min_width=12)
    for row in section.rows:
        table.add_row(*(Text(screen.shown(row[number])) for number in shown))
    return table
