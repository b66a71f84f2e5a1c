"""Writes the page of the command line: the help text of each command and subcommand."""

from collections.abc import Iterator
from typing import Any

from typer.main import get_command
from typer.testing import CliRunner

from podium.cli.root import CommandGroup, app

Path = tuple[str, ...]


def command_paths(group: Any = None, path: Path = ()) -> Iterator[Path]:
    """Yield the words of each command and subcommand, as in `("runs", "prune")`."""
    group = group or get_command(app)
    group.add_others()
    context = group.make_context("podium", ["--help"], resilient_parsing=True)
    for name in list(group.commands):
        yield (*path, name)
        command = group.resolve_command(context, [name])[1]
        if isinstance(command, CommandGroup):
            yield from command_paths(command, (*path, name))


def command_line_page() -> str:
    """Return the page, in Markdown.

    Raises:
        RuntimeError: a command cannot show its help.
    """
    parts = ["# Command line", "The text is the output of `--help`.", _help(())]
    parts += [f"## podium {' '.join(path)}\n\n{_help(path)}" for path in command_paths()]
    return "\n\n".join(parts) + "\n"


def _help(path: Path) -> str:
    done = CliRunner().invoke(app, [*path, "--help"], prog_name="podium", terminal_width=100)
    if done.exit_code != 0:
        raise RuntimeError(f"podium {' '.join(path)} --help: {done.output}")
    return f"```text\n{done.stdout.strip()}\n```"
