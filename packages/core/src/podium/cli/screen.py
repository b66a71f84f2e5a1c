"""The output of a command: results on stdout, everything else on stderr.

All text leaves the command line here. It owns exit codes, removes secrets, and removes
control characters from what is shown in a terminal. It knows no command.
"""

import json
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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
_CONTROLS = dict.fromkeys((*range(32), *range(127, 160)), "�")
_CONTROLS |= {ord("\n"): "\n", ord("\t"): "\t"}


class Screen:
    """The two output streams of one command, without secrets."""

    @property
    def interactive(self) -> bool:
        """Whether both streams are terminals."""
        return sys.stdout.isatty() and sys.stderr.isatty()

    @property
    def can_ask(self) -> bool:
        """Whether stdin is a terminal."""
        return sys.stdin is not None and sys.stdin.isatty()

    async def ask(self, question: str) -> str:
        """Write `question` to stderr, and return the line that is typed; empty at the end of input."""
        sys.stderr.write(self.shown(question))
        sys.stderr.flush()
        if sys.platform == "win32":  # where only sockets can be waited for
            return await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
        await anyio.wait_readable(sys.stdin)  # a thread that reads would keep an interrupted process alive
        return sys.stdin.readline()

    def shown(self, text: str) -> str:
        """Return `text` without secrets and control characters, for a terminal."""
        return scrub(text).translate(_CONTROLS)

    def result(self, text: str) -> None:
        """Write `text` to stdout, verbatim but for secrets; in a terminal without control characters."""
        with self._writing():
            self._write(sys.stdout, self.shown(text) if sys.stdout.isatty() else scrub(text))

    def result_json(self, value: object) -> None:
        """Write `value` to stdout as JSON."""
        with self._writing():
            self._write(sys.stdout, scrub(json.dumps(value, indent=2)))

    def note(self, text: str) -> None:
        """Write `text` to stderr."""
        self._write(sys.stderr, self.shown(text))

    def draw(self, *drawings: "RenderableType") -> None:
        """Draw on stdout with rich."""
        console = self.console()
        with self._writing():
            for drawing in drawings:
                console.print(drawing)

    def console(self, *, stderr: bool = False) -> "Console":
        """Return a rich console on stdout, or on stderr."""
        return drawing.console(stderr=stderr)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Exit with a message when stdout fails, unless its reader has closed it."""
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            with suppress(OSError):  # its buffer would be written again at exit
                sys.stdout.close()
            self.note(f"podium: the result cannot be written to stdout: {error}")
            raise typer.Exit(NO_ANSWER) from error

    @staticmethod
    def _write(stream: TextIO, text: str) -> None:
        stream.write(text if text.endswith("\n") else text + "\n")
        stream.flush()


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
