"""The command `podium` and its list of commands."""

import io
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from podium import __version__
from podium.cli.screen import EXIT_CODES, Screen, reporting
from podium.config import add_ons
from podium.errors import ConfigError


@contextmanager
def plain_usage_errors() -> Iterator[None]:
    """Reword the `typer.BadParameter` of the block: the value, and what to write."""
    try:
        yield
    except typer.BadParameter as error:
        from pydantic import ValidationError  # noqa: PLC0415 - slow to import, and only errors need it

        from podium.config.complaints import remedy_of  # noqa: PLC0415 - for the same reason

        if isinstance(error.__cause__, ValidationError):
            details = error.__cause__.errors(include_url=False)[0]
            refused = details.get("ctx", {}).get("error")
            error.message = str(refused) if refused else f"{details['input']!r}: {remedy_of(details)}"
        raise


COMMANDS = {
    "run": "Answer a question, or run a saved plan.",
    "plan": "Show the plan for a question, as a table and a flowchart, and run nothing.",
    "parse": "Parse a plan text and show its steps, or the position and cause of the error.",
    "check": "Call each worker and the planner, open the journal, and show what works.",
    "policy": "Test the policy with flows of data that it must refuse or allow.",
    "init": "Write a commented podium.toml to start from.",
    "demo": "Answer a question without a model, key or network.",
    "runs": "List the recorded runs, or delete some.",
    "show": "Show a recorded run: plans, steps, calls, costs and the reasons for decisions.",
    "diff": "Show how two runs differ: plans, outputs, costs.",
    "resume": "Continue an interrupted, failed or waiting run; recorded results are reused.",
    "decide": "Approve or refuse what a run waits for, or say whether an action happened.",
    "replay": "Repeat a run from its recorded outputs, or with a changed plan.",
    "cache": "Delete cached answers.",
    "mcp": "Serve the conductor to MCP clients, on stdio or over HTTP.",
    "audit": "Verify recorded runs, print their anchors, or export them.",
}
"""The name and the summary of each command of core."""


class CommandGroup(TyperGroup):
    """The commands of core and of add-ons. Listing them imports none of them."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._list(COMMANDS)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Import the named command and return it."""
        with reporting():
            if args[0] not in COMMANDS:
                self._list(add_ons.command_summaries())
            if args[0] in self.commands:
                self.commands[args[0]] = _command(args[0])
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Parse the arguments of the command and run it."""
        with plain_usage_errors():
            return super().invoke(ctx)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the names and summaries of all commands into the help."""
        with reporting():
            self._list(add_ons.command_summaries())
        super().format_commands(ctx, formatter)

    def get_help_option(self, ctx: Any) -> Any:
        """Return the option `--help`, which writes to stdout through `Screen`."""
        option = super().get_help_option(ctx)
        if option is not None:
            option.callback = _show_help
        return option

    def _list(self, summaries: Mapping[str, str]) -> None:
        for name, summary in summaries.items():
            self.commands.setdefault(name, TyperCommand(name, short_help=summary))


def _show_help(context: Any, _: Any, asked: bool) -> None:  # noqa: FBT001 - typer passes it by position
    if asked and not context.resilient_parsing:
        if text := context.get_help():
            Screen().result(text)
        raise typer.Exit


def _with_help(command: Any) -> Any:
    """Make the help of a command and of its subcommands go through `Screen`, and return the command."""
    find = command.get_help_option

    def get_help_option(context: Any) -> Any:
        option = find(context)
        if option is not None:
            option.callback = _show_help
        return option

    command.get_help_option = get_help_option
    for each in getattr(command, "commands", {}).values():
        _with_help(each)
    return command


def _command(name: str) -> Any:
    """Import a command and return it.

    Raises:
        ConfigError: the command's package is not installed, or its entry point gives no `typer.Typer`.
    """
    if name in COMMANDS:
        made = getattr(import_module(f"podium.cli.commands.{name}"), name)
        return _with_help(get_command(made if isinstance(made, typer.Typer) else _of_function(name, made)))
    entry = add_ons.announced("podium.commands").get(name)
    if entry is None:
        raise ConfigError(
            add_ons.absent("commands", name)
            or f"no installed package has an entry point for the command {name!r}"
        )
    made = entry.load()
    made = made if isinstance(made, typer.Typer) or not callable(made) else made()
    if not isinstance(made, typer.Typer):
        raise ConfigError(
            f"the entry point {entry.value!r} of the command {name!r} does not give a typer.Typer"
        )
    return _with_help(get_command(made))


def _of_function(name: str, function: Any) -> typer.Typer:
    single = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    single.command(name, epilog=EXIT_CODES)(function)
    return single


app = typer.Typer(
    cls=CommandGroup,
    help="A conductor for teams of models: it reads a question, writes the plan, and directs the workers.",
    epilog=EXIT_CODES,
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
