"""Arguments and options that several commands share, and how their text is read."""

import re
from pathlib import Path
from typing import Annotated

import typer

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def above_zero(value: float | None) -> float | None:
    """Refuse a number that is not above 0."""
    if value is not None and not value > 0:  # nan is neither above nor below
        raise typer.BadParameter(f"{value:g} must be above 0")
    return value


def span(text: str) -> float:
    """Read a span of time, as in 30d, in seconds."""
    found = re.fullmatch(r"(\d{1,9})([smhdw])", text.strip())
    if found is None:
        told = f"{text!r} is no span of time: write a number and s, m, h, d or w, as in 30d"
        raise typer.BadParameter(told)
    return float(int(found[1]) * _UNITS[found[2]])


def names(text: str) -> frozenset[str]:
    """Read names that are separated by commas."""
    return frozenset(filter(None, (name.strip() for name in text.split(","))))


Question = Annotated[
    str | None, typer.Argument(help="What to ask; - reads it from stdin, as does leaving it out in a pipe.")
]
ConfigPath = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="The config; else $PODIUM_CONFIG, ./podium.toml, or podium/podium.toml in your config folder.",
    ),
]
Approve = Annotated[
    bool, typer.Option("--approve", help="Show each plan and ask before it runs, at a terminal.")
]
Outputs = Annotated[
    bool,
    typer.Option("--outputs", help="Write the output of each step to stderr; stdout holds the answer alone."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Write JSON, for programs.")]
Labels = Annotated[str, typer.Option(metavar="NAMES", help="Labels the question carries: eu,confidential")]
Steps = Annotated[int | None, typer.Option(min=1, help="Most steps the whole run may start.")]
Rounds = Annotated[
    int | None,
    typer.Option(min=1, help="Most rounds: the first plan, and those that improve its answer."),
]
Seconds = Annotated[float | None, typer.Option(callback=above_zero, help="Longest run, in seconds.")]
MaxCost = Annotated[
    float | None, typer.Option(callback=above_zero, metavar="USD", help="Most the whole run may cost.")
]
Run = Annotated[str, typer.Argument(metavar="RUN", help="The run's id, or the beginning of it.")]
NewPlan = Annotated[
    Path | None, typer.Option("--plan", metavar="FILE", help="A plan in place of the run's last.")
]
Edits = Annotated[
    Path | None,
    typer.Option("--edits", metavar="FILE", help="Changes of the run's last plan, as JSON."),
]
Edit = Annotated[bool, typer.Option("--edit", help="Change the run's last plan in $EDITOR.")]
Step = Annotated[int | None, typer.Option("--step", min=0, help="Change this step of the run's last plan.")]
Subtask = Annotated[str | None, typer.Option(metavar="TEXT", help="The step's new subtask.")]
Worker = Annotated[str | None, typer.Option(metavar="NAME", help="The step's new worker.")]
