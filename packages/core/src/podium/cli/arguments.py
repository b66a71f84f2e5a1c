"""Arguments and options that several commands share, and the parsers of their values."""

import re
from datetime import datetime
from pathlib import Path
from shlex import quote
from time import time
from typing import Annotated

import typer

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def above_zero(value: float | None) -> float | None:
    """Return the number, or raise `typer.BadParameter` if it is not above 0."""
    if value is not None and not value > 0:  # true for nan, which `value <= 0` is not
        raise typer.BadParameter(f"{value:g} must be above 0")
    return value


def span(text: str) -> float:
    """Parse a time span such as 30d, and return it in seconds."""
    found = re.fullmatch(r"(\d{1,9})([smhdw])", text.strip())
    if found is None:
        told = f"{text!r} is not a time span: write a number and s, m, h, d or w, as in 30d"
        raise typer.BadParameter(told)
    return float(int(found[1]) * _UNITS[found[2]])


def age(text: str) -> float:
    """Parse the minimum age of what is deleted, such as 30d, and return it in seconds.

    `m` is refused, because a reader may mean months, and `s` has no use.
    """
    if re.fullmatch(r"\d{1,9}[hdw]", text.strip()) is None:
        told = f"{text!r} is not an age: write a number and h (hours), d (days) or w (weeks), as in 30d"
        raise typer.BadParameter(told)
    return span(text)


def moment(text: str) -> float:
    """Parse a time span before now, such as 12h, or a local date, such as 2026-11-30 or 2026-11-30T15:00.

    Returns:
        Seconds of Unix time.
    """
    try:
        return time() - span(text)
    except typer.BadParameter:
        pass
    try:
        return datetime.fromisoformat(text.strip()).timestamp()  # without a time zone: the local one
    except (ValueError, OverflowError) as error:
        told = f"{text!r} is neither a time span, as in 12h or 30d, nor a date, as in 2026-11-30"
        raise typer.BadParameter(told) from error


def command(arguments: str, config: Path | None) -> str:
    """Return a command for the user to type, with the `--config` that this command was given.

    Args:
        arguments: the name of the command and its arguments.
        config: the value of `--config`.
    """
    return f"podium {arguments}" if config is None else f"podium {arguments} --config {quote(str(config))}"


def names(text: str) -> frozenset[str]:
    """Parse names that are separated by commas."""
    return frozenset(filter(None, (name.strip() for name in text.split(","))))


Question = Annotated[
    str | None, typer.Argument(help="The question, or - for stdin. In a pipe, the default is stdin.")
]
Since = Annotated[
    float | None,
    typer.Option(
        parser=moment,
        metavar="TIME",
        help="Only runs since this time: 12h, 30d, or a date such as 2026-11-30.",
    ),
]
ConfigPath = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="The config file. Default: $PODIUM_CONFIG, ./podium.toml, or podium/podium.toml in your "
        "config folder.",
    ),
]
Approve = Annotated[
    bool, typer.Option("--approve", help="Show each plan and ask for approval at the terminal.")
]
Outputs = Annotated[
    bool,
    typer.Option("--outputs", help="Write the output of each step to stderr."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Write JSON.")]
Labels = Annotated[str, typer.Option(metavar="NAMES", help="Labels of the question, as in eu,confidential.")]
Steps = Annotated[int | None, typer.Option(min=1, help="Maximum number of steps in the whole run.")]
Calls = Annotated[
    int | None, typer.Option(min=1, help="Maximum number of calls in the whole run, with those of planners.")
]
Rounds = Annotated[
    int | None,
    typer.Option(min=1, help="Maximum number of rounds, including the first plan."),
]
Seconds = Annotated[
    float | None, typer.Option(callback=above_zero, help="Time limit of the run, in seconds.")
]
MaxCost = Annotated[
    float | None, typer.Option(callback=above_zero, metavar="USD", help="Cost limit of the run, in USD.")
]
InputTokens = Annotated[
    int | None, typer.Option(min=1, help="Maximum tokens that all calls of the run read.")
]
OutputTokens = Annotated[
    int | None, typer.Option(min=1, help="Maximum tokens that all calls of the run write.")
]
OPTION_OF_LIMIT = {
    "calls": "--calls",
    "cost": "--max-cost",
    "input_tokens": "--input-tokens",
    "output_tokens": "--output-tokens",
    "rounds": "--rounds",
    "seconds": "--seconds",
    "steps": "--steps",
}
"""The option of each limit of the whole run that has one."""
Run = Annotated[str, typer.Argument(metavar="RUN", help="The run's id, or its first characters.")]
NewPlan = Annotated[
    Path | None, typer.Option("--plan", metavar="FILE", help="Replace the run's last plan with this one.")
]
Edits = Annotated[
    Path | None,
    typer.Option("--edits", metavar="FILE", help="Apply these edits (JSON) to the run's last plan."),
]
InEditor = Annotated[bool, typer.Option("--edit", help="Open the run's last plan in $EDITOR.")]
Step = Annotated[int | None, typer.Option("--step", min=0, help="The step of the run's last plan to change.")]
Subtask = Annotated[str | None, typer.Option(metavar="TEXT", help="The step's new subtask.")]
Worker = Annotated[str | None, typer.Option(metavar="NAME", help="The step's new worker.")]
