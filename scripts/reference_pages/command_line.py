"""Writes the page of the command line: the help text of each command and subcommand."""

from collections.abc import Iterator
from typing import Any

from typer.main import get_command
from typer.testing import CliRunner

from podium.cli.root import app
from podium.config import add_ons

Path = tuple[str, ...]


def command_paths() -> Iterator[Path]:
    """Yield the words of each command and subcommand, as in `("runs", "prune")`."""
    group: Any = get_command(app)
    for name in [*group.commands, *add_ons.command_summaries()]:
        command = group.resolve_command(group.make_context("podium", [name, "--help"]), [name])[1]
        yield (name,)
        for nested in getattr(command, "commands", {}):
            yield (name, nested)


def command_line_page() -> str:
    """Return the page, in Markdown.

    Raises:
        RuntimeError: a command cannot show its help.
    """
    parts = ["# Command line", "The text is the output of `--help`.", _help(())]
    parts += [f"## podium {' '.join(path)}\n\n{_help(path)}" for path in dict.fromkeys(command_paths())]
    return "\n\n".join(parts) + "\n"


def _help(path: Path) -> str:
    done = CliRunner().invoke(app, [*path, "--help"], prog_name="podium", terminal_width=100)
    if done.exit_code != 0:
        raise RuntimeError(f"podium {' '.join(path)} --help: {done.output}")
    return f"```text\n{done.stdout.strip()}\n```"
