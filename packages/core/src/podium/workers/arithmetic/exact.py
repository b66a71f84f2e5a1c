"""Works out formulas, exactly where that is possible, within bounds on time and size.

Whole numbers and fractions stay what they are; only what has no exact value (most roots,
logarithms, pi) becomes a floating-point number.
"""

from decimal import Context, Decimal
from fractions import Fraction
from typing import Final

from simpleeval import InvalidExpression, SimpleEval  # type: ignore[import-untyped]

from podium.workers.arithmetic.formula import Formula
from podium.workers.arithmetic.functions import FUNCTIONS, OPERATORS, NoValue, Number

_SHOWN_DIGITS: Final = 12
_MAX_PLACES: Final = 30


def evaluate(formula: Formula) -> str:
    """Return the value of `formula` behind its sign: `= 395`, `= 1/3 ≈ 0.333333333333`, `≈ 4.44288293816`.

    Raises:
        NoValue: it has none, and why.
    """
    return _written(_worked_out(formula)) + formula.unit


def _worked_out(formula: Formula) -> Number:
    evaluator = SimpleEval(operators=dict(OPERATORS), functions=dict(FUNCTIONS), names={})
    try:
        value = evaluator.eval(formula.shown, previously_parsed=formula.tree)
    except ZeroDivisionError as error:
        raise NoValue("division by zero") from error
    except OverflowError as error:
        raise NoValue("the number gets too large") from error
    except (ValueError, TypeError, InvalidExpression) as error:
        raise NoValue("that is not defined for this number") from error
    assert isinstance(value, Fraction | float)
    return value


def _written(value: Number) -> str:
    if isinstance(value, float):
        return f"≈ {_rounded(Decimal(value))}"
    if value.denominator == 1:
        return f"= {value.numerator}"
    places = _places(value.denominator)
    if places is not None:
        return f"= {_digits(value, places)}"
    rounded = _rounded(Decimal(value.numerator) / Decimal(value.denominator))
    return f"= {value} ≈ {rounded}" if len(str(value)) <= _SHOWN_DIGITS else f"≈ {rounded}"


def _places(denominator: int) -> int | None:
    """Return how many decimals a fraction ends after; `None` when it does not, or after too many."""
    twos = (denominator & -denominator).bit_length() - 1
    rest, fives = denominator >> twos, 0
    while rest % 5 == 0:
        rest, fives = rest // 5, fives + 1
    places = max(twos, fives)
    return places if rest == 1 and places <= _MAX_PLACES else None


def _digits(value: Fraction, places: int) -> str:
    digits = str(abs(int(value * 10**places))).zfill(places + 1)
    return f"{'-' if value < 0 else ''}{digits[:-places]}.{digits[-places:]}"


def _rounded(value: Decimal) -> str:
    return f"{Context(prec=_SHOWN_DIGITS).plus(value).normalize():g}"
