"""Draws plans as tables."""

from collections.abc import Callable, Collection, Sequence

from rich.table import Table
from rich.text import Text

from podium.types.plan import Plan


def plan_table(
    plan: Plan, workers: Sequence[str] | None, shown: Callable[[str], str], actions: Collection[int] = ()
) -> Table:
    """Draw `plan`, one row per step.

    Args:
        plan: the plan.
        workers: the workers' names in the pool's order; `None` to show their numbers.
        shown: makes foreign text safe for a terminal.
        actions: indices of the steps that are actions, which are marked.
    """
    table = Table("step", "worker", "subtask", "sees", box=None, header_style="dim", pad_edge=False)
    for index, step in enumerate(plan.steps):
        who = str(step.worker) if workers is None else workers[step.worker]
        who += " (acts)" if index in actions else ""
        sees = ", ".join(map(str, step.access_list)) or "-"
        sees += "" if step.enough is None else f" ({step.enough} of them)"
        table.add_row(plan.numbered(index), Text(shown(who)), Text(shown(step.subtask)), sees)
    if not plan.steps:
        table.add_row("-", "-", Text("keep the previous answer"), "-")
    return table
