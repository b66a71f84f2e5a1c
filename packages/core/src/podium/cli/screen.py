"""The output of a command: results on stdout, everything else on stderr.

All text leaves the command line here. It owns exit codes, and removes secrets and control characters, into
a terminal, a pipe and a file alike. It knows no command.
"""

import json
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from io import StringIO
from typing import TYPE_CHECKING, TextIO

import anyio
import anyio.to_thread
import typer

from podium.cli import drawing
from podium.errors import (
    ConfigError,
    PlanError,
    PodiumError,
    QueryError,
    RunDead,
    RunExists,
    RunHeld,
    RunUnknown,
)
from podium.secrets import scrub
from podium.types.controls import escaped, printable

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

NO_ANSWER, BAD_INPUT, PARTIAL, WAITING, INTERRUPTED = 1, 2, 3, 4, 130
EXIT_CODES = (
    "Exit codes: 0 all went well; 1 there is no answer, or a check failed; 2 the command, the question, "
    "the config, a plan or the run that is named is wrong; 3 the answer is partial; 4 a plan waits for "
    "approval; 130 interrupted."
)

_WRONG_INPUT = (ConfigError, QueryError, PlanError, RunUnknown, RunExists, RunHeld, RunDead)
"""Errors that another command, question or config avoids."""


class Screen:
    """The two output streams of one command, without secrets."""

    @property
    def interactive(self) -> bool:
        """Whether both streams are terminals."""
        return all(stream is not None and stream.isatty() for stream in (sys.stdout, sys.stderr))

    @property
    def can_ask(self) -> bool:
        """Whether stdin is a terminal."""
        return sys.stdin is not None and sys.stdin.isatty()

    async def ask(self, question: str) -> str:
        """Write `question` to stderr, and return the line that is typed; empty at the end of input."""
        self._write(sys.stderr, self.shown(question))
        if sys.platform == "win32":  # where only sockets can be waited for
            return await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
        await anyio.wait_readable(sys.stdin)  # a thread that reads would keep an interrupted process alive
        return sys.stdin.readline()

    def shown(self, text: str) -> str:
        """Return `text` without secrets and control characters."""
        return printable(scrub(text))

    def result(self, text: str) -> None:
        """Write a line or more to stdout, without secrets and control characters."""
        self._result(_line(self.shown(text)))

    def result_json(self, value: object, *, indent: int | None = 2) -> None:
        """Write `value` to stdout as JSON, without secrets; in one line if `indent` is `None`."""
        self.result_record(scrub(json.dumps(value, indent=indent)))

    def result_record(self, text: str) -> None:
        """Write JSON to stdout; control characters in it are escaped."""
        self._result(_line(escaped(text)))

    def note(self, text: str) -> None:
        """Write a line or more to stderr."""
        self._write(sys.stderr, _line(self.shown(text)))

    def draw(self, *drawings: "RenderableType") -> None:
        """Draw on stdout with rich. The texts in a drawing have passed `shown`.

        A string is one line, which the terminal wraps: a URL in it stays whole.
        """
        if text := self._drawn(self.console(), drawings):
            self._result(self.shown(text))

    def draw_note(self, *drawings: "RenderableType") -> None:
        """Draw on stderr with rich, as `draw` does on stdout."""
        if text := self._drawn(self.console(stderr=True), drawings):
            self._write(sys.stderr, self.shown(text))

    @staticmethod
    def _drawn(console: "Console", drawings: Sequence["RenderableType"]) -> str:
        """Draw on a console that is a terminal; for another one, return the drawings as text."""
        drawn = StringIO()
        if not console.is_terminal:
            console = drawing.console(file=drawn, width=console.width)
        for each in drawings:
            console.print(each, soft_wrap=isinstance(each, str))
        return drawn.getvalue()

    def console(self, *, stderr: bool = False) -> "Console":
        """Return a rich console on stdout, or on stderr."""
        return drawing.console(stderr=stderr)

    def _result(self, text: str) -> None:
        """Write to stdout; exit with a message if that fails, unless the reader has gone."""
        if sys.stdout is None:
            self.note("podium: the result cannot be written to stdout: it is closed")
            raise typer.Exit(NO_ANSWER)
        try:
            self._write(sys.stdout, text)
        except OSError as error:
            with suppress(OSError):  # its buffer would be written again at exit
                sys.stdout.close()
            self.note(f"podium: the result cannot be written to stdout: {error}")
            raise typer.Exit(NO_ANSWER) from error

    @staticmethod
    def _write(stream: TextIO | None, text: str) -> None:
        """Write to a stream, and nothing more to it once its reader has gone."""
        if stream is None:  # the parent has closed it
            return
        try:
            stream.write(text)
            stream.flush()
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)


def _line(text: str) -> str:
    return text if text.endswith("\n") else text + "\n"


@contextmanager
def reporting() -> Iterator[Screen]:
    """Give a command a screen, and turn its errors into a message and an exit code."""
    screen = Screen()
    try:
        yield screen
    except KeyboardInterrupt as interrupt:
        screen.note("\n".join(["podium: interrupted", *_notes(interrupt)]))
        raise typer.Exit(INTERRUPTED) from None
    except PodiumError as error:
        screen.note("\n".join([f"podium: {error}", *_notes(error)]))
        raise typer.Exit(BAD_INPUT if isinstance(error, _WRONG_INPUT) else NO_ANSWER) from error
    except (typer.Exit, OSError):
        raise
    except Exception as error:  # the outermost edge: a bug is reported without the secrets in its traceback
        screen.note(traceback.format_exc() + "podium: this is a bug; please report it with the lines above")
        raise typer.Exit(NO_ANSWER) from error


def _notes(error: BaseException) -> list[str]:
    return [f"podium: {note}" for note in getattr(error, "__notes__", ())]
