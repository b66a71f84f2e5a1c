"""Print a plan as a table, for verbose crews."""

from collections.abc import Sequence

from crewai.events.event_listener import event_listener
from rich.table import Table
from rich.text import Text

from podium.secrets import scrub
from podium.types import PlanReady
from podium.types.steps import task_of, worker_of


def show_plan(event: PlanReady, workers: Sequence[str]) -> None:
    """Print the plan of a round to the same console as CrewAI's agents.

    Args:
        event: the event with the plan.
        workers: the names of the pool's workers.
    """
    table = Table(title=f"Plan of round {event.round}", title_justify="left", expand=True)
    table.add_column("Step", justify="right", no_wrap=True)
    table.add_column("Worker")
    table.add_column("Sees steps")
    table.add_column("Subtask", ratio=1)
    labels = event.plan.labels
    for path, step, *_ in sorted(event.plan.outline, key=lambda place: place.path):
        sees, number = list(map(str, step.access_list)), ".".join(map(str, path))
        if len(path) == 1:
            words = [each for each in step.access_list if isinstance(each, str)]
            sees, number = [*words, *(str(labels[seen]) for seen in step.access)], str(labels[path[0]])
        table.add_row(*map(_text, (number, worker_of(step, workers), ", ".join(sees), task_of(step))))
    event_listener.formatter.print(table)


def _text(value: str) -> Text:
    """Return a text without secrets and without characters that a terminal would execute."""
    return Text("".join(letter if letter.isprintable() else " " for letter in scrub(value)))
