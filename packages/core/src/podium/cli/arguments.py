"""What commands have in common: arguments and options, questions and plans in files, recorded runs."""

import json
import os
import re
import shlex
import subprocess
import sys
from asyncio import get_running_loop
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory
from time import time
from typing import Annotated, TypeVar

import anyio
import typer

from podium.cli.screen import Screen
from podium.conductor import Conductor
from podium.config.load import load_plan
from podium.config.source import read_text, why_unreadable
from podium.errors import ConfigError, JournalError, PodiumError, QueryError, RunUnknown
from podium.journal import Journal, RunRow, SqlJournal
from podium.plan_text.edits import Change, edit_plan, read_saved_plan, worker_number
from podium.plan_text.saved import SavedPlan
from podium.secrets import scrub
from podium.types.events import RunStarted
from podium.types.messages import MAX_QUERY_CHARS, read_query
from podium.types.plan import Plan

T = TypeVar("T")

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
    """Parse a time span before now, such as 12h, or a local date, such as 2026-11-30; return Unix time."""
    try:
        return time() - span(text)
    except typer.BadParameter:
        pass
    try:
        return datetime.fromisoformat(text.strip()).timestamp()  # without a time zone: the local one
    except (ValueError, OverflowError) as error:
        told = f"{text!r} is neither a time span, as in 12h or 30d, nor a date, as in 2026-11-30"
        raise typer.BadParameter(told) from error


def command(arguments: str, config: Path | None, journal: str | None = None) -> str:
    """Return a command for the user to type, with the `--config` or `--journal` of this command."""
    given = (("--config", config), ("--journal", journal))
    options = [f" {name} {quote(scrub(str(value)))}" for name, value in given if value is not None]
    return f"podium {arguments}{''.join(options)}"


def exclude(option: str, others: Mapping[str, object]) -> None:
    """Raise `ConfigError` if one of `others`, the values of options by name, is given beside `option`."""
    if given := [name for name, value in others.items() if value not in (None, False, "")]:
        raise ConfigError(f"{option} does not go with {' and '.join(given)}: leave out one of them")


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
JournalPlace = Annotated[
    str | None,
    typer.Option(
        "--journal", metavar="FILE|URL", help="The journal, of SQLite or PostgreSQL. Default: the config's."
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
Cost = Annotated[
    float | None,
    typer.Option("--max-cost", callback=above_zero, metavar="USD", help="Cost limit of the run, in USD."),
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
    str | None,
    typer.Option("--plan", metavar="NAME|FILE", help="Replace the run's last plan with this one."),
]
InEditor = Annotated[bool, typer.Option("--edit", help="Open the run's last plan in $EDITOR.")]
Args = Annotated[
    list[str] | None,
    typer.Option("--arg", metavar="NAME=VALUE", help="With --plan: an argument of the plan. Repeatable."),
]
Step = Annotated[
    str | None,
    typer.Option(
        "--step", metavar="STEP", help="The step of the run's last plan to change; in a block as in 3.0."
    ),
]
Subtask = Annotated[str | None, typer.Option(metavar="TEXT", help="The step's new subtask.")]
Worker = Annotated[str | None, typer.Option(metavar="NAME", help="The step's new worker.")]


_QUESTION_BYTES = 4 * (MAX_QUERY_CHARS + 1)
"""Largest question, in bytes: UTF-8 has at most four per character."""
_TICKS = re.compile("`{3,}")


def read_question(typed: str | None, files: Sequence[Path] = ()) -> str:
    """Return the question, followed by each file in a code fence under its name.

    The question is read from stdin if it is `-`, or missing, there are no files, and stdin is a pipe.
    """
    has_stdin = sys.stdin is not None  # a parent may have closed it
    is_piped = typed is None and not files and has_stdin and not sys.stdin.isatty()
    if is_piped or (typed == "-" and has_stdin):
        typed = read_stdin().strip("\r\n")
    if typed is None and not files:
        raise QueryError("the question is missing: give it as an argument, or pipe it in")
    asked = [typed] if typed else []
    return "\n\n".join([*asked, *(_fenced(file) for file in files)])


def read_stdin() -> str:
    """Return the text at stdin, cut to the longest question and a little more."""
    read = sys.stdin.buffer.read(_QUESTION_BYTES)
    try:
        # The limit may cut a character in two; such a question is refused later, because it is too long.
        return read.decode("utf-8", "replace" if len(read) == _QUESTION_BYTES else "strict")
    except UnicodeDecodeError as error:
        raise QueryError("stdin is not UTF-8 text: pipe in text") from error


def read_file(path: Path, most: int, what: str = "") -> str:
    """Return the text of a file of at most `most` bytes, or raise `QueryError`."""
    try:
        return read_text(path, most)
    except (OSError, ValueError) as error:
        raise QueryError(f"{what}{path} cannot be read: {why_unreadable(error)}") from error


def _fenced(file: Path) -> str:
    text = read_file(file, _QUESTION_BYTES)
    fence = max(["```", *(ticks + "`" for ticks in _TICKS.findall(text))], key=len)
    return f"{file.name}:\n{fence}\n{text.rstrip()}\n{fence}"


_LATEST = 50
"""Number of runs among which an unfinished run of a saved plan is looked for."""
_PLAN_BYTES = 8 * MAX_QUERY_CHARS
"""Largest saved plan, in bytes: it includes its question, whose characters JSON may escape."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanChange:
    """A change of a plan, from command-line options."""

    file: str | None = None
    """A file with a new plan, or the name of a saved plan, which gets the arguments of the run."""
    edit: bool = False
    """Whether to open the plan in an editor."""
    step: str | None = None
    """The step that gets a new subtask or worker."""
    subtask: str | None = None
    worker: str | None = None

    def apply(self, plan: Plan, conductor: Conductor) -> Plan | None:
        """Return the changed plan; `None` for no change."""
        workers, max_steps = conductor.pool.names, conductor.limits.plan_steps
        has_step = self.step is not None
        if has_step != (self.subtask is not None or self.worker is not None):
            raise ConfigError("--step needs --subtask or --worker or both, and these need --step")
        if (self.file is not None) + self.edit + has_step > 1:
            raise ConfigError("--plan, --edit and --step exclude each other: give one of them")
        if self.file is not None:
            if (saved := _saved_plan(conductor, self.file)) is None:
                return replace(read_plan(Path(self.file), workers, max_steps), query=plan.query)
            args = plan.args if plan.name == saved.name else None
            return replace(saved.plan(saved.arguments(args or {}), workers), query=plan.query)
        if self.step is not None:
            worker = None if self.worker is None else worker_number(self.worker, workers, f"step {self.step}")
            return edit_plan(plan, Change(step=self.step, worker=worker, subtask=self.subtask))
        return edited(plan, workers, max_steps) if self.edit else None


def read_plan(path: Path, workers: Sequence[str], max_steps: int) -> Plan:
    """Read a file that `podium plan --json` wrote, or a plan in any of the three spellings.

    A person may have changed the file, so its planner gets a name that says where it was read.
    """
    text = read_file(path, _PLAN_BYTES, "the plan ")
    try:
        plan = read_saved_plan(text, workers, max_steps)
    except PodiumError as error:
        error.add_note(f"this plan is in {path}")
        raise
    if plan.planner is None:
        return plan
    told = f"{plan.planner.name} (according to {path.name})"
    return replace(plan, planner=replace(plan.planner, name=told))


def find_plan(conductor: Conductor, named: str, args: Sequence[str]) -> Plan:
    """Return a saved plan with arguments such as `repo=.`, by its name or file, or another file's plan."""
    if (saved := _saved_plan(conductor, named)) is not None:
        return saved.plan(saved.read_arguments(pairs("--arg", args)), conductor.pool.names)
    told = f"there is no saved plan {named!r}: [plans] has {', '.join(conductor.plans) or 'none'}"
    if args or not Path(named).exists():
        raise ConfigError(told if args else f"{told}; and there is no such file")
    return read_plan(Path(named), conductor.pool.names, conductor.limits.plan_steps)


def _saved_plan(conductor: Conductor, named: str) -> SavedPlan | None:
    """Return the saved plan with this name, or in this file of TOML; `None` for neither."""
    if named in conductor.plans:
        return conductor.plans[named]
    return load_plan(named) if named.endswith(".toml") else None


def read_asked(
    conductor: Conductor,
    named: str | None,
    args: Sequence[str],
    question: str | None,
    files: Sequence[Path] = (),
) -> str | Plan:
    """Return the plan that is named, with the question if there is one; without a plan, the question."""
    if named is None:
        if args:
            raise ConfigError("--arg needs --plan, with the name or the file of a saved plan: leave it out")
        return read_question(question, files)
    plan = find_plan(conductor, named, args)
    if question is None and not files:
        return plan
    return replace(plan, query=read_query(read_question(question, files)))


def tell_unfinished(
    screen: Screen, journal: Journal | None, conductor: Conductor, named: str, config: Path | None
) -> None:
    """Say what a saved plan keeps of its newest run that did not end `ok`, and how to continue that run."""
    if journal is None or (saved := _saved_plan(conductor, named)) is None:
        return

    async def found() -> tuple[RunRow, RunStarted] | None:
        for row in await journal.runs(limit=_LATEST):
            if row.state not in ("ok", "running"):
                first = (await journal.read(row.run_id))[0].event
                if isinstance(first, RunStarted) and first.plan == saved.name:
                    return row, first
        return None

    async def kept(started: RunStarted) -> str:
        now = saved.plan(saved.arguments(started.args or {}), conductor.pool.names)
        return str(await conductor.preview(started.run_id, now, journal=journal))

    if (unfinished := look(journal, found)) is None:
        return
    row, started = unfinished
    short = short_id(row.run_id)
    try:
        told = look(journal, partial(kept, started))
        how = command(f"resume {quote(short)} --plan {quote(named)}", config)
        told += f"; continue it with `{how}`"
    except PodiumError as error:
        told = f"it cannot be continued with the plan as it is: {error}"
    screen.note(f"podium: run {short} of {row.question} ended {row.state}: {told}")


def pairs(option: str, given: Sequence[str]) -> dict[str, str]:
    """Return the values of a repeated option, as in `--arg repo=.`, by name."""
    found: dict[str, str] = {}
    for each in given:
        name, is_pair, value = each.partition("=")
        if not is_pair or not name.strip():
            raise ConfigError(f"{option} {each!r:.60}: write NAME=VALUE")
        if name.strip() in found:
            raise ConfigError(f"{option} {name.strip()} is given twice: give it once")
        found[name.strip()] = value
    return found


def edited(plan: Plan, workers: Sequence[str], max_steps: int) -> Plan | None:
    """Open a plan in the user's editor, and return the changed plan; `None` for no change."""
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    shown = replace(plan, query=(), planner=None).to_json(workers)
    text = json.dumps(shown, indent=2, ensure_ascii=False) + "\n"
    with TemporaryDirectory(prefix="podium-") as folder:
        path = Path(folder) / "plan.json"
        path.write_text(text, encoding="utf-8")
        try:
            subprocess.run([*shlex.split(command), str(path)], check=True)  # noqa: S603 - the user's editor
        except (OSError, ValueError, subprocess.CalledProcessError) as error:
            told = f"the editor {command!r} failed: {error}; set another editor in $EDITOR"
            raise ConfigError(told) from error
        changed = path.read_text(encoding="utf-8", errors="replace")
    if changed == text:
        return None
    return replace(read_saved_plan(changed, workers, max_steps), query=plan.query)


_SHORT = 12
"""Length of the shown part of a generated id, in characters; commands accept it in place of the whole id."""
_QUIET_SECONDS = 1.0
"""Seconds after which a command says that it waits."""
_GENERATED = re.compile("[0-9a-f]{32}")


def short_id(run_id: str) -> str:
    """Return the beginning of a generated id, and an id of the user's whole: its beginning may be common."""
    return run_id[:_SHORT] if _GENERATED.fullmatch(run_id) else run_id


def look(journal: Journal, read: Callable[[], Awaitable[T]]) -> T:
    """Open the journal, call `read`, and return its value."""

    async def reading() -> T:
        async with journal:
            return await read()

    return anyio.run(reading)


def check_journal(screen: Screen, journal: SqlJournal) -> None:
    """Check that the journal works, and say so if the command will wait for it.

    Raises:
        JournalError: the journal cannot be used.
    """
    waits = f"podium: waiting for the journal in {journal.url}"

    async def probing() -> None:
        late = get_running_loop().call_later(_QUIET_SECONDS, screen.note, waits)
        try:
            await journal.probe()
        except JournalError as error:
            if not error.is_busy:
                raise
            screen.note(f"{waits}: {error}")
        finally:
            late.cancel()

    anyio.run(probing)


async def find_run(journal: SqlJournal, typed: str) -> RunRow:
    """Return the one run whose id begins with `typed`.

    Raises:
        RunUnknown: no run or more than one run matches.
    """
    rows = await journal.runs(limit=3, nested=True, prefix=typed) if typed else ()
    exact = [row for row in rows if row.run_id == typed]
    if len(rows) > 1 and not exact:
        told = ", ".join(row.run_id for row in rows)
        raise RunUnknown(f"more than one run begins with {typed!r} ({told}, …): type more of its id")
    if not rows:
        told = f"no run begins with {typed!r} in the journal {journal.url}: see `podium runs`"
        raise RunUnknown(f"{told}, or name another journal (--journal, or [journal] of podium.toml)")
    return (exact or rows)[0]


def local_time(at: float) -> str:
    """Format a Unix time, in seconds, as date and time in the local time zone."""
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M:%S")
