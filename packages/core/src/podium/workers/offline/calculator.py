"""An offline worker that computes the arithmetic in its subtask."""

import ast
import decimal
import operator
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from decimal import Decimal

from podium.errors import ConfigError, WorkerRefused
from podium.installing import install_hint
from podium.types.messages import Completion
from podium.workers.offline.expression_finder import MAX_READ, find_expressions, formula
from podium.workers.offline.foreign_quantities import mask
from podium.workers.worker import FREE, Card, Request, StepInput, Worker, step_input_of

DESCRIPTION = "Exact arithmetic: calculates expressions, percentages, powers and roots in its subtask."
_VALUE = r"(-?[0-9][0-9,]*(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?)"
_PI = Decimal("3.14159265358979323846264338327950288419716939937511")


class Calculator(Worker):
    """Computes the arithmetic in its subtask, exactly if 100 digits are enough.

    The calculator understands signs and some words ("8 squared plus the square root of 16"), but no other
    prose ("the sum of 3 and 4"). "That" and "the result" stand for the result of the last visible step. The
    answer has a line for each expression, as in `17.5% of 2,340 = 409.5`; a value after `≈` is rounded to 12
    digits. Numbers have the English format. Arithmetic with dates, times, versions, phone numbers, units or
    two currencies is an error.

    Args:
        name: its name in plans.
        labels: labels for the rules of a policy.

    Raises:
        ConfigError: the extra `offline` is not installed.
    """

    uses_tokens = False
    reads_prose = False

    def __init__(self, name: str = "calculator", *, labels: Iterable[str] = ()) -> None:
        try:
            import simpleeval  # type: ignore[import-untyped] # noqa: PLC0415 - needs an extra
        except ImportError as error:
            hint = install_hint("core[offline]")
            raise ConfigError(f"the calculator needs simpleeval: {hint}") from error
        self._library = simpleeval
        self.card = Card(name=name, description=DESCRIPTION, price=FREE, labels=frozenset(labels))

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Compute the subtask.

        Raises:
            WorkerRefused: the subtask has no arithmetic, or an expression has no value.
        """
        text = self._answer(step_input_of(request))
        if request.stream:
            yield text
        yield Completion(text)

    def _answer(self, step_input: StepInput) -> str:
        if len(step_input.subtask) > MAX_READ:
            raise WorkerRefused(f"the subtask has more than {MAX_READ:,} characters: ask for less at a time")
        that = _result_of(step_input.visible[-1].output) if step_input.visible else None
        expressions = find_expressions(step_input.subtask, that=that)
        if not expressions:
            _, foreign = mask(step_input.subtask.lower())
            fault = f"{foreign[0].text!r} is {foreign[0].kind}, not a plain number; " if foreign else ""
            hint = f"{fault}write it as in '17 * 23' or '15% of 80'"
            raise WorkerRefused(f"no arithmetic found in {step_input.subtask[:200]!r}: {hint}")
        return "\n".join(f"{expression} {self._value(expression)}" for expression in expressions)

    def _value(self, expression: str) -> str:
        """Return the value after its sign, as in `= 409.5` or `≈ 0.333333333333`."""
        evaluator = self._library.SimpleEval(_OPERATORS, _FUNCTIONS, names={"pi": _PI})
        try:
            with decimal.localcontext(_CONTEXT) as context:
                value: Decimal = evaluator.eval(formula(expression)) or Decimal(0)
                exact = not context.flags[decimal.Inexact] and "pi" not in expression
        except ZeroDivisionError as error:
            raise WorkerRefused(f"{expression[:80]} is a division by zero") from error
        except (decimal.Overflow, OverflowError, RecursionError) as error:
            raise WorkerRefused(f"{expression[:80]} is too large or too long to compute") from error
        except (decimal.InvalidOperation, SyntaxError, TypeError, self._library.InvalidExpression) as error:
            raise WorkerRefused(f"{expression[:80]} has no value: check its brackets and numbers") from error
        if not value.is_finite():
            raise WorkerRefused(f"{expression[:80]} has no finite value")
        return f"= {value.normalize(_CONTEXT):f}" if exact else f"≈ {value.normalize(_ROUNDING):g}"


def _result_of(output: str) -> str | None:
    """Return the result of an earlier step: the number after its last `=` or `≈`, or its only number.

    `None` if this text is not a plain number, for example a date or a quantity with a unit.
    """
    end, _ = mask(output[-MAX_READ:].lower())
    start, foreign = mask(output[:MAX_READ].lower())
    found = re.findall(f"[=≈] ?{_VALUE}", end)[-1:] or ([] if foreign else re.findall(_VALUE, start))
    return found[0] if len(found) == 1 else None


class _Percent(Decimal):
    """A percentage. Adding it to a number adds this share of the number: 100 + 5% is 105."""


def _plus(left: Decimal, right: Decimal, sign: int = 1) -> Decimal:
    as_part = isinstance(right, _Percent) and not isinstance(left, _Percent)
    return left * (1 + sign * right) if as_part else left + sign * right


# The context limits the time and size of every operation, and shows whether the result is exact.
_CONTEXT = decimal.Context(prec=100, Emax=999, Emin=-999)
_ROUNDING = decimal.Context(prec=12)
_OPERATORS: Mapping[type, Callable[..., Decimal]] = {
    ast.Add: _plus,
    ast.Sub: lambda left, right: _plus(left, right, -1),
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Mod: lambda left, right: (left % right + right) % right,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
}
_FUNCTIONS: Mapping[str, Callable[..., Decimal]] = {
    "number": Decimal,
    "percent": lambda digits: _Percent(Decimal(digits) / 100),
    "sqrt": Decimal.sqrt,
    "abs": abs,
    "round": lambda value: value.to_integral_value(decimal.ROUND_HALF_UP),
    "floor": lambda value: value.to_integral_value(decimal.ROUND_FLOOR),
    "ceil": lambda value: value.to_integral_value(decimal.ROUND_CEILING),
    "ln": Decimal.ln,
    "log10": Decimal.log10,
    "exp": Decimal.exp,
}
