"""The command `podium` and its list of commands."""

import io
import sys
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from podium import __version__
from podium.cli.screen import Screen, reporting
from podium.config import add_ons
from podium.errors import ConfigError

EXIT_CODES = (
    "Exit codes: 0 success; 1 no answer, or a failed check; 2 invalid command, question, config, plan or "
    "run; 3 partial answer; 4 the run waits for a person; 130 interrupted."
)
COMMANDS = {
    "demo": "Show what Podium is for, in a minute, without a key or network.",
    "init": "Write a podium.toml, with the newest models.",
    "check": "Call each worker and the planner once.",
    "policy": "Test the policy with flows of data.",
    "plan": "Show the plan for a question, and run nothing.",
    "run": "Answer a question, or run a saved plan.",
    "resume": "Continue, change or replay a recorded run.",
    "decide": "Approve or refuse what a run waits for.",
    "runs": "List the recorded runs, or delete some.",
    "show": "Show a recorded run, or how two runs differ.",
    "audit": "Verify recorded runs, anchor and export them.",
    "serve": "Serve the conductor over HTTP, or to an MCP client.",
}
"""The name and the summary of each command of core."""
STORY = {
    "start": ("demo", "init", "check", "policy"),
    "run": ("plan", "run", "resume", "decide", "batch"),
    "look": ("runs", "show", "audit"),
    "serve": ("serve", "keys"),
    "measure": ("evals",),
}
"""The commands in the order of the help."""
_MODULES = {"decide": "resume"}
"""The modules of commands whose module has another name."""


class CommandGroup(TyperGroup):
    """Commands that are imported when they run.

    A package adds a command to the group `evals` by an entry point `evals.NAME`.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.epilog = self.epilog or EXIT_CODES
        self.place = f"{self.name}."

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Import the named command and return it."""
        with reporting():
            if args[0] not in self.commands:
                self.add_others()
            if isinstance(self.commands.get(args[0]), _Later):
                self.commands[args[0]] = _command(self.place, args[0])
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None:
            command.epilog = command.epilog or EXIT_CODES
        return name, command, rest

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the names and summaries of all commands into the help."""
        with reporting():
            self.add_others()
        super().format_commands(ctx, formatter)

    def add_others(self) -> None:
        """List the commands that packages add to this group, whether installed or not."""
        for name, summary in add_ons.command_summaries().items():
            own = name.removeprefix(self.place)
            if name == f"{self.place}{own}" and "." not in own:
                self.commands.setdefault(own, _Later(own, short_help=summary))


class _Root(CommandGroup):
    """All commands."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.place = ""
        self.commands.update({name: _Later(name, short_help=told) for name, told in COMMANDS.items()})

    def invoke(self, ctx: Any) -> Any:
        """Run the command; the error for an argument says what to write in place of the value."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            from pydantic import ValidationError  # noqa: PLC0415 - slow to import, and only errors need it

            from podium.config.complaints import remedy_of  # noqa: PLC0415 - for the same reason

            if isinstance(error.__cause__, ValidationError):
                details = error.__cause__.errors(include_url=False)[0]
                refused = details.get("ctx", {}).get("error")
                error.message = str(refused) if refused else f"{details['input']!r}: {remedy_of(details)}"
            raise

    def format_options(self, _: Any, formatter: Any) -> None:
        """Write one line for each command, below 24 lines in all."""
        with reporting():
            self.add_others()
        known = {name for names in STORY.values() for name in names}
        parts = STORY | {"more": tuple(name for name in self.commands if name not in known)}
        rows = [
            (f"{'' if number else part:9}{name}", self.commands[name].short_help)
            for part, names in parts.items()
            for number, name in enumerate(names)
        ]
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_dl(rows)


class _Later(TyperCommand):
    """A command that is not imported yet."""


def command_group(name: str) -> typer.Typer:
    """Return a group of commands, such as `podium runs`, to which packages can add."""
    return typer.Typer(name=name, cls=CommandGroup, add_completion=False, rich_markup_mode=None)


def _command(place: str, name: str) -> Any:
    """Import a command and return it.

    Raises:
        ConfigError: the command's package is not installed, or its entry point gives something else.
    """
    path, made = f"{place}{name}", None
    announced = {} if path in COMMANDS else add_ons.announced("podium.commands")
    if path in COMMANDS:
        made = getattr(import_module(f"podium.cli.{_MODULES.get(name, name)}"), name)
    elif path in announced:
        made = announced[path].load()
    elif any(each.startswith(f"{path}.") for each in announced):
        made = command_group(name)
        made.callback(help=add_ons.command_summaries().get(path))(lambda: None)
    else:
        raise ConfigError(add_ons.absent("commands", path))
    if not isinstance(made, typer.Typer):
        if not callable(made):
            raise ConfigError(
                f"the entry point of `podium {path}` gives neither a typer.Typer nor a function"
            )
        function, made = made, typer.Typer(add_completion=False, rich_markup_mode=None)
        made.command(name)(function)
    return get_command(made)


app = typer.Typer(
    name="podium",
    cls=_Root,
    help="A conductor for teams of models: it reads a question, writes the plan, and directs the workers.",
    epilog="`podium COMMAND --help` shows the options and exit codes of a command.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _show_version(asked: bool) -> None:  # noqa: FBT001 - typer passes it by position
    if asked:
        Screen().result(f"podium {__version__}")
        raise typer.Exit


@app.callback()
def podium(
    *,
    show_version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Take the options that come before a command."""


def run() -> None:
    """Run the command line on `sys.argv`, and exit with its exit code."""
    for stream in (sys.stdout, sys.stderr):
        # An answer may have characters that the terminal cannot encode; it must be shown all the same.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    app(prog_name="podium")
