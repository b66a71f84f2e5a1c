"""The output of a command: results on stdout, everything else on stderr."""

import json
import os
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from io import StringIO
from typing import TYPE_CHECKING, Any, TextIO

import anyio
import anyio.to_thread
import typer

from podium.config.source import in_toml
from podium.errors import (
    ConfigError,
    JournalError,
    JournalVersion,
    PlanError,
    PlannerError,
    PodiumError,
    QueryError,
    RunDead,
    RunExists,
    RunHeld,
    RunUnknown,
)
from podium.secrets import escaped, printable, scrub

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


def money(cost: float | None, *, at_most: bool = False) -> str:
    """Format a cost in USD; `None` as `unknown`, and one that is `at_most` billed as in ≤$0.0123."""
    if cost is None:
        return "unknown"
    if not cost:
        return "$0"
    if cost < 0.00005:
        return "<$0.0001"
    return ("≤" if at_most else "") + (f"${cost:.4f}" if cost < 0.99995 else f"${cost:,.2f}")


def short_count(count: int) -> str:
    """Format a count in at most six characters, as in 9,999, 12.3k, 123k and 1.2M."""
    if count < 10_000:
        return f"{count:,}"
    if count < 99_950:
        return f"{count / 1_000:.1f}k"
    if count < 999_500:
        return f"{count / 1_000:.0f}k"
    return f"{count / 1_000_000:.1f}M"


def duration(seconds: float) -> str:
    """Format a time span, as in 1.2 s, 2 min 5 s and 1 h 2 min."""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60:,} h {minutes % 60} min"


def counted(count: int, what: str) -> str:
    """Format a count with its noun, as in 1 run and 2,000 runs."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


_EXCERPT = 200
"""Longest excerpt of a planner's text, in characters."""


def remedies(error: PodiumError) -> Iterator[str]:
    """Yield the lines that follow the message of an error."""
    if error.code in (JournalError.code, JournalVersion.code):  # not the errors about one run
        do = "name another file with" if isinstance(error, JournalVersion) else "check"
        where = "`path` in [journal] of podium.toml, or `url`, or --journal"
        yield f"{do} {where}; `podium run --no-journal` records nothing"
    if isinstance(error, PlannerError) and error.code == "planner_unusable":
        yield from _of_unusable(error)


def _of_unusable(error: PlannerError) -> Iterator[str]:
    own = [call for call in error.calls if call.role != "fallback"]
    written = next((call for call in reversed(own) if call.text.strip()), None)
    if written is not None:
        text = " ".join(written.text.split())
        cut = "…" if len(text) > _EXCERPT else ""
        yield f"the text of planner {written.planner!r} begins: {text[:_EXCERPT]}{cut}"
    problems = [call.problem for call in own if call.problem is not None]
    # If the limits of the run cut the text, its message names them.
    if any(each.code == "truncated" and "Limits." not in each.message for each in problems):
        yield "raise `max_tokens` in `sampling` of [planner]"
    if len(own) == len(error.calls):  # else there is a fallback planner, and it failed too
        yield 'let another worker plan (`worker` in [planner]), or let rules plan then (`fallback = "rule"`)'


NO_ANSWER, BAD_INPUT, PARTIAL, WAITING, INTERRUPTED = 1, 2, 3, 4, 130
_WRONG_INPUT = (ConfigError, QueryError, PlanError, RunUnknown, RunExists, RunHeld, RunDead)
"""Errors in the user's input: the command, question, config, plan or run."""


class Screen:
    """The two output streams of one command; secrets are removed from what a command writes."""

    @property
    def interactive(self) -> bool:
        """Whether stdout and stderr are terminals."""
        return all(stream is not None and stream.isatty() for stream in (sys.stdout, sys.stderr))

    @property
    def can_ask(self) -> bool:
        """Whether stdin is a terminal."""
        return sys.stdin is not None and sys.stdin.isatty()

    async def ask(self, question: str) -> str:
        """Write `question` to stderr and return the typed line; empty at the end of input."""
        self._write(sys.stderr, self.shown(question))
        if sys.platform == "win32":  # Windows can wait for sockets only
            return await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
        await anyio.wait_readable(sys.stdin)  # a reading thread would keep the process alive after Ctrl-C
        return sys.stdin.readline()

    def shown(self, text: str) -> str:
        """Return `text` without secrets and control characters."""
        return printable(scrub(text))

    def result(self, text: str) -> None:
        """Write lines to stdout, without secrets and control characters."""
        self._result(_line(self.shown(text)))

    def result_json(self, value: object, *, indent: int | None = 2) -> None:
        """Write `value` to stdout as JSON, without secrets; on one line if `indent` is `None`."""
        self.result_record(scrub(json.dumps(value, indent=indent)))

    def result_record(self, text: str) -> None:
        """Write JSON to stdout, with control characters escaped."""
        self._result(_line(escaped(text)))

    def secret(self, text: str) -> None:
        """Write lines with a secret to stdout: a key that the user creates and that is shown only once."""
        self._result(_line(printable(text)))

    def note(self, text: str) -> None:
        """Write lines to stderr, without secrets and control characters."""
        self._write(sys.stderr, _line(self.shown(text)))

    def warn(self, warnings: Iterable[str]) -> None:
        """Write each warning to stderr."""
        for warning in warnings:
            self.note(f"podium: warning: {warning}")

    def draw(self, *drawings: "RenderableType", stderr: bool = False) -> None:
        """Draw on stdout or stderr with rich; the caller has passed the texts in a drawing through `shown`.

        A string is one line that the terminal wraps, so that a URL in it can be copied.
        """
        if text := self._drawn(self.console(stderr=stderr), drawings):
            if stderr:
                self._write(sys.stderr, self.shown(text))
            else:
                self._result(self.shown(text))

    @staticmethod
    def _drawn(console: "Console", drawings: Sequence["RenderableType"]) -> str:
        """Draw on the console if it is a terminal; otherwise return the drawings as text."""
        drawn = StringIO()
        if not console.is_terminal:
            console = Screen._console(file=drawn, width=console.width)
        for each in drawings:
            console.print(each, soft_wrap=isinstance(each, str))
        return "".join(f"{line.rstrip()}\n" for line in drawn.getvalue().splitlines())

    def console(self, *, stderr: bool = False) -> "Console":
        """Return a rich console on stdout, or on stderr."""
        return self._console(stderr=stderr)

    @staticmethod
    def _console(**settings: Any) -> "Console":
        from rich.console import Console  # noqa: PLC0415 - it is slow to import

        return Console(highlight=False, markup=False, **settings)

    def _result(self, text: str) -> None:
        """Write to stdout; if that fails, exit with a message, except when the reader closed the pipe."""
        if sys.stdout is None:
            self.note("podium: the result cannot be written: stdout is closed")
            raise typer.Exit(NO_ANSWER)
        try:
            self._write(sys.stdout, text)
        except OSError as error:
            with suppress(OSError):  # else Python writes its buffer again at exit
                sys.stdout.close()
            self.note(f"podium: the result cannot be written to stdout: {error}")
            raise typer.Exit(NO_ANSWER) from error

    @staticmethod
    def _write(stream: TextIO | None, text: str) -> None:
        """Write to a stream; if the reader closed the pipe, discard this and all later output."""
        if stream is None:  # the parent process closed it
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
    """Yield a screen for a command, and turn the command's errors into a message and an exit code."""
    screen = Screen()
    try:
        yield screen
    except KeyboardInterrupt as interrupt:
        notes = (f"podium: {note}" for note in getattr(interrupt, "__notes__", ()))
        screen.note("\n".join(["podium: interrupted", *notes]))
        raise typer.Exit(INTERRUPTED) from None
    except PodiumError as error:
        lines = in_toml(str(error)).splitlines() or [""]
        told = [*lines, *remedies(error), *getattr(error, "__notes__", ())]
        screen.note("\n".join(f"podium: {line}" for line in told))
        raise typer.Exit(BAD_INPUT if isinstance(error, _WRONG_INPUT) else NO_ANSWER) from error
    except (typer.Exit, OSError):
        raise
    except Exception as error:  # a bug: `note` removes secrets from its traceback
        screen.note(traceback.format_exc() + "podium: this is a bug; please report it with the lines above")
        raise typer.Exit(NO_ANSWER) from error
