"""An offline worker that does the arithmetic in its subtask."""

import re
from collections.abc import AsyncGenerator

from podium.errors import ConfigError, WorkerRefused
from podium.messages import Completion
from podium.workers.arithmetic.functions import NoValue
from podium.workers.arithmetic.grammar import Expression, find_expressions
from podium.workers.worker import FREE, Brief, Card, Request, Worker, brief_of

MAX_CHARS = 16 * 1024
"""Longest subtask that is read, in characters."""

_DESCRIPTION = (
    "Exact arithmetic: calculates expressions, percentages, discounts, sums, averages, powers and roots "
    "that stand in its subtask in digits or plain words."
)
_EQUALS = re.compile(r"(?:= ?)(-?[0-9]{1,300}(?:\.[0-9]{1,300}|/[0-9]{1,300})?)(?![\w,]*[0-9])")
_ABOUT = re.compile(r"≈ (-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]{1,3})?)")
_NUMBER = re.compile(r"(?<![\w.,])-?[0-9]{1,300}(?:,[0-9]{3})*(?:\.[0-9]{1,300})?(?![\w,]*[0-9])")


class Calculator(Worker):
    """Finds the arithmetic in its subtask and works it out, exactly where that is possible.

    It answers with one line per expression: the expression as it was understood, and its
    value, as in `17 * 23 + 4 = 395`; a value with `≈` is rounded to 12 digits. "That" and
    "the result" refer to the expression before, or to what the last visible step came to.
    Units are left aside, trigonometric functions take radians, and numbers are written the
    English way (`1,234.5`).

    Args:
        name: what plans call it.

    Raises:
        ConfigError: the extra `offline` is not installed.
    """

    def __init__(self, name: str = "calculator") -> None:
        try:
            from podium.workers.arithmetic.exact import evaluate  # noqa: PLC0415 - needs an extra
        except ImportError as error:
            message = "the calculator needs simpleeval: pip install 'podium[offline]'"
            raise ConfigError(message) from error
        self._evaluate = evaluate
        self.card = Card(name=name, description=_DESCRIPTION, price=FREE)

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Work out the subtask.

        Raises:
            WorkerRefused: there is no arithmetic in it, or none that has a value.
        """
        text = self._answer(brief_of(request))
        if request.stream:
            yield text
        yield Completion(text)

    def _answer(self, brief: Brief) -> str:
        if len(brief.subtask) > MAX_CHARS:
            raise WorkerRefused(f"the subtask has more than {MAX_CHARS:,} characters: ask for less at a time")
        back = _result_of(brief.visible[-1].output) if brief.visible else None
        lines: list[str] = []
        problems: list[str] = []
        for expression in find_expressions(brief.subtask, back=back):
            line, problem = self._line(expression)
            lines.append(line or problem)
            problems += [problem] if problem else []
        if not lines:
            raise WorkerRefused(
                f"no arithmetic found in {brief.subtask[:200]!r}: write it as in '17 * 23' or '15% of 80'"
            )
        if len(problems) == len(lines):
            raise WorkerRefused("; ".join(problems))
        return "\n".join(lines)

    def _line(self, expression: Expression) -> tuple[str, str]:
        """Return the line for an expression, or what is wrong with it."""
        formula = expression.formula
        if formula is None:
            return "", f"an expression is not worked out: {expression.problem}"
        try:
            return f"{formula.shown} {self._evaluate(formula)}", ""
        except NoValue as reason:
            return "", f"{_shortened(formula.shown)} is not worked out: {reason}"


def _result_of(output: str) -> str | None:
    """Return the number an earlier step came to: behind its last sign of equality, or its only one."""
    for line in reversed(output[-MAX_CHARS:].splitlines()):
        stated = _EQUALS.findall(line) or _ABOUT.findall(line)
        if stated:
            return str(stated[-1])
    numbers = _NUMBER.findall(output[:MAX_CHARS])
    return numbers[0].replace(",", "") if len(numbers) == 1 else None


def _shortened(text: str) -> str:
    return text if len(text) <= 80 else text[:79] + "…"
