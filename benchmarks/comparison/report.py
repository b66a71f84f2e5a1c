"""Formats the figures as Markdown tables."""

from collections.abc import Sequence

from benchmarks.comparison.arm_process import Cell

_CORE = "podium"


def tables(cells: Sequence[Cell]) -> str:
    """Return two tables: tokens with their multiple of Podium's core, and all figures."""
    return "\n\n".join((_table(cells, _ratio), _table(cells, _figures)))


def _table(cells: Sequence[Cell], show: object) -> str:
    assert callable(show)
    sizes = sorted({cell.units for cell in cells})
    arms = list(dict.fromkeys((cell.host, cell.arm) for cell in cells))
    found = {(cell.host, cell.arm, cell.units): cell for cell in cells}
    core = {cell.units: cell.tokens for cell in cells if cell.host == _CORE}
    rows = ["| host | arm | " + " | ".join(f"N = {n}" for n in sizes) + " |", "|---" * (len(sizes) + 2) + "|"]
    for host, arm in arms:
        shown = [show(found[host, arm, n], core.get(n)) for n in sizes]
        rows.append(f"| {host} | {arm} | " + " | ".join(shown) + " |")
    return "\n".join(rows)


def _ratio(cell: Cell, core: int | None) -> str:
    if cell.missing:
        return "incomplete"
    return f"{cell.tokens:,} ({cell.tokens / core:.2f})" if core else f"{cell.tokens:,}"


def _figures(cell: Cell, _: int | None) -> str:
    lacks = f", {len(cell.missing)} units missing" if cell.missing else ""
    return f"{cell.calls}, {cell.read:,} + {cell.written:,}, {cell.seconds:.1f} s{lacks}"
