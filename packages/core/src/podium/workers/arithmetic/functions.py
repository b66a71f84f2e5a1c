"""The operations and functions of arithmetic, exact where that is possible and bounded in size.

They take fractions and floating-point numbers; a `float` says that a value is not exact.
"""

import ast
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import reduce
from typing import Final

Number = Fraction | float

MAX_BITS: Final = 3400
"""Largest number that is worked with, in bits: some thousand decimal digits."""
_MAX_FACTORIAL: Final = 450


class NoValue(Exception):
    """What is asked for has no value that could be given; the sentence says why."""


def _bounded(value: object) -> Number:
    """Return what an operation gave, if it is a number of sensible size."""
    if isinstance(value, int):
        value = Fraction(value)
    if isinstance(value, Fraction):
        if max(abs(value.numerator), value.denominator).bit_length() > MAX_BITS:
            raise NoValue("the number gets too large")
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    raise NoValue("that is not defined for this number")


def _bounding(function: Callable[..., object]) -> Callable[..., Number]:
    return lambda *numbers: _bounded(function(*numbers))


def _total(items: Sequence[Number]) -> Number:
    total: Number = Fraction(0)
    for item in items:
        total += item
    return total


def _times(left: Number, right: Number) -> Number:
    return _bounded(left * right)


def _number(text: str) -> Fraction:
    over, _, under = text.partition("/")
    return Fraction(over) / Fraction(under or "1")


def _power(base: Number, exponent: Number) -> object:
    if isinstance(exponent, Fraction) and isinstance(base, Fraction):
        if exponent.denominator == 1:
            size = max(abs(base.numerator), base.denominator).bit_length() - 1
            if size * abs(exponent) > MAX_BITS:
                raise NoValue("the number gets too large")
            return base ** int(exponent)
        if exponent == Fraction(1, 2):
            return _root(base, 2)
    return float(base) ** float(exponent)


def _root(value: Number, degree: int) -> object:
    """Return the root, exact where there is one."""
    if value < 0 and degree == 2:
        raise NoValue("a negative number has no square root")
    if isinstance(value, Fraction):
        top, bottom = _whole_root(abs(value.numerator), degree), _whole_root(value.denominator, degree)
        if top is not None and bottom is not None:
            return Fraction(top if value > 0 else -top, bottom)
    return math.copysign(abs(float(value)) ** (1 / degree), value)


def _whole_root(value: int, degree: int) -> int | None:
    if degree == 2:
        root = math.isqrt(value)
    else:
        low, high = 0, 1 << (value.bit_length() // degree + 1)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if middle**degree <= value else (low, middle - 1)
        root = low
    return root if root**degree == value else None


def _factorial(value: Number) -> object:
    if value != int(value) or value < 0:
        raise NoValue("a factorial is of a whole number from 0")
    if value > _MAX_FACTORIAL:
        raise NoValue("the number gets too large")
    return math.factorial(int(value))


def _logarithm(base: int) -> Callable[[Number], object]:
    """Return the logarithm to `base`, exact for its powers."""

    def logarithm(value: Number) -> object:
        guess = math.log(value) / math.log(base)
        if isinstance(value, Fraction) and Fraction(base) ** round(guess) == value:
            return Fraction(round(guess))
        return math.log(value, base)

    return logarithm


def _whole(function: Callable[[list[int]], int]) -> Callable[..., object]:
    def of_whole_numbers(*numbers: Number) -> object:
        if any(number != int(number) for number in numbers):
            raise NoValue("that is defined for whole numbers only")
        return function([int(number) for number in numbers])

    return of_whole_numbers


def _nearest(value: Number) -> int:
    """Round half away from zero, as people do."""
    size = value if value >= 0 else -value
    nearest = math.floor(size * 2 + 1) // 2
    return nearest if value >= 0 else -nearest


OPERATORS: Mapping[type, Callable[..., Number]] = {
    ast.Add: _bounding(operator.add),
    ast.Sub: _bounding(operator.sub),
    ast.Mult: _bounding(operator.mul),
    ast.Div: _bounding(operator.truediv),
    ast.Mod: _bounding(operator.mod),
    ast.Pow: _bounding(_power),
    ast.USub: _bounding(operator.neg),
}
_EXACT: Mapping[str, Callable[..., object]] = {
    "number": _number,
    "more": lambda value, rate: _times(value, _total((Fraction(1), rate))),
    "fewer": lambda value, rate: _times(value, _total((Fraction(1), -rate))),
    "pi": lambda: math.pi,
    "sum": lambda *items: _total(items),
    "average": lambda *items: _total(items) / len(items),
    "product": lambda *items: reduce(_times, items),
    "max": lambda *items: max(items),
    "min": lambda *items: min(items),
    "gcd": _whole(lambda items: math.gcd(*items)),
    "lcm": _whole(lambda items: math.lcm(*items)),
    "sqrt": lambda value: _root(value, 2),
    "cbrt": lambda value: _root(value, 3),
    "factorial": _factorial,
    "abs": abs,
    "log10": _logarithm(10),
    "log2": _logarithm(2),
    "ln": math.log,
    "exp": math.exp,
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
    "round": _nearest,
    "floor": math.floor,
    "ceil": math.ceil,
}
FUNCTIONS: Mapping[str, Callable[..., Number]] = {name: _bounding(f) for name, f in _EXACT.items()}
