"""Reads expressions: operands, what is applied to them, and the operators between them.

By descent, each rule a method that returns `None` where nothing of its kind stands.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from podium.workers.arithmetic.formula import Formula
from podium.workers.arithmetic.numerals import SCALES
from podium.workers.arithmetic.reader import Reader
from podium.workers.arithmetic.tokens import MAX_DIGITS, Token

MAX_DEPTH = 32
"""Deepest nesting of brackets, signs and powers that is read."""
MAX_OPERATIONS = 200
"""Most operations in one expression."""
MAX_ITEMS = 1000
"""Longest list that is read, as in "the sum of 3, 4 and 5"."""

_Read = TypeVar("_Read")

_FACTORS = {
    "double": ("*", "2"),
    "triple": ("*", "3"),
    "half": ("/", "2"),
    "third": ("/", "3"),
    "quarter": ("/", "4"),
}
_POWERS = {"square": "2", "squared": "2", "cube": "3", "cubed": "3"}


class TooMuch(Exception):
    """An expression is beyond what is read."""


class Operands(Reader):
    """Reads expressions out of tokens.

    Args:
        tokens: what is read.
        back: what "that" and "the result" refer to; `None` when there is nothing before.
    """

    def __init__(self, tokens: Sequence[Token], back: Formula | None = None) -> None:
        super().__init__(tokens)
        self.back = back
        self._depth = 0
        self._signs_only = False

    def expression(self) -> Formula | None:
        """Read an expression as far as it goes."""
        return self._chain(("+", "-"), self._product)

    def percentage(self) -> Formula | None:
        """Read a number that is followed by a percent sign or word."""
        start = self.position
        found = self._applied()
        if found is None or not found.percent:
            self.position = start
            return None
        return found

    def _product(self) -> Formula | None:
        return self._chain(("*", "/", "mod"), self._share)

    def _chain(self, signs: tuple[str, ...], operand: Callable[[], Formula | None]) -> Formula | None:
        found = operand()
        while found is not None:
            start = self.position
            sign = self._operator(signs)
            right = operand() if sign else None
            if sign is None or right is None:
                self.position = start
                break
            found = _within_bounds(Formula.binary(sign, found, right))
        return found

    def _operator(self, signs: tuple[str, ...]) -> str | None:
        """Move over an operator, and over the unit of the operand or a comma before a spelled one."""
        if self.peek().text == "," and self.peek(1).spelled:
            self.position += 1
        found = self.take_after_units("operator", *signs)
        return found.text if found and not (self._signs_only and found.spelled) else None

    def _share(self) -> Formula | None:
        """Read an operand, or a share of one: "12% of 80", "1/4 of 80"."""
        start = self.position
        ratio = self._ratio()
        found = ratio or self._signed()
        if found is None or not (ratio or found.percent):
            return found
        middle = self.position
        whole = self._deeper(self._share) if self.take_word("of") else None
        if whole is not None:
            return Formula.share(found, whole)
        self.position = start if ratio else middle
        return self._signed() if ratio else found

    def _ratio(self) -> Formula | None:
        """Read a part of one before "of": "1/4", "0.25"."""
        ahead = [self.peek(index) for index in range(4)]
        kinds = [token.kind for token in ahead]
        if kinds[:2] == ["number", "word"] and ahead[0].text.startswith("0.") and ahead[1].text == "of":
            self.position += 1
            return self._number(ahead[0])
        if kinds != ["number", "operator", "number", "word"] or (ahead[1].text, ahead[3].text) != ("/", "of"):
            return None
        self.position += 3
        return Formula.number(f"{self._number(ahead[0]).shown}/{self._number(ahead[2]).shown}")

    def _signed(self) -> Formula | None:
        start = self.position
        sign = self.take("operator", "-", "+")
        if sign is None:
            return self._power()
        found = self._deeper(self._signed)
        if found is None:
            self.position = start
            return None
        return found.negated() if sign.text == "-" else found

    def _power(self) -> Formula | None:
        found = self._applied()
        start = self.position
        if found is None or self._operator(("^",)) is None:
            self.position = start
            return found
        exponent = self._deeper(self._signed)
        if exponent is None:
            self.position = start
            return found
        return Formula.binary("^", found, exponent)

    def _applied(self) -> Formula | None:
        """Read an operand and what is written behind it: `%`, "squared", "million"."""
        found = self._operand()
        while found is not None:
            mark = self.take("postfix")
            if mark is None:
                break
            if mark.text == "%":
                found = found.as_percent()
            elif mark.text == "!":
                found = Formula.call("factorial", [found])
            elif mark.text in SCALES:
                found = found.scaled(mark.text, SCALES[mark.text])
            else:
                found = Formula.binary("^", found, Formula.number(_POWERS[mark.text]))
            found = _within_bounds(found)
        return found

    def _operand(self) -> Formula | None:
        start = self.position
        self.skip_articles()
        token = self.peek()
        self.position += 1
        found: Formula | None = None
        if token.kind == "number":
            found = self._number(token)
        elif token.kind == "back":
            found = self.back
        elif token.kind == "prefix":
            found = self._function(token.text)
        elif token.kind == "list":
            found = self._list(token.text)
        elif token == Token("word", "pi"):
            found = Formula.constant("pi")
        elif token == Token("mark", "("):
            found = self._deeper(self._bracketed)
        if found is None:
            self.position = start
        return found

    def _number(self, token: Token) -> Formula:
        if len(token.text) > MAX_DIGITS:
            raise TooMuch(f"it has a number of more than {MAX_DIGITS} digits")
        return Formula.number(token.text.replace(",", ""))

    def _bracketed(self) -> Formula | None:
        signs_only, self._signs_only = self._signs_only, False
        found = self.expression()
        self._signs_only = signs_only
        return found.in_brackets() if found and self.take("mark", ")") else None

    def _function(self, name: str) -> Formula | None:
        found = self._deeper(self._share if name in _FACTORS else self._applied)
        if found is None:
            return None
        if name in _FACTORS:
            sign, factor = _FACTORS[name]
            return Formula.binary(sign, found, Formula.number(factor))
        if name in _POWERS:
            return Formula.binary("^", found, Formula.number(_POWERS[name]))
        return Formula.call(name, [found])

    def _list(self, name: str) -> Formula | None:
        items = self._deeper(self.items)
        if not items:
            return None
        if name == "difference":
            return Formula.binary("-", *items) if len(items) == 2 else None
        return Formula.over_list(name, items)

    def items(self) -> list[Formula]:
        """Read numbers with commas or "and" between them, in brackets or not."""
        start = self.position
        bracketed = self.take("mark", "(") is not None
        # In "the sum of 3 and 4 times 2" the words go with the sum; `3 * 2` goes with its item.
        signs_only, self._signs_only = self._signs_only, not bracketed
        first, found = self.peek(), []
        while (item := self.expression()) is not None:
            found.append(item)
            if len(found) > MAX_ITEMS:
                raise TooMuch(f"it lists more than {MAX_ITEMS} numbers")
            end = self.position
            comma = self.take("mark", ",") is not None
            if not (self.take_word("and") or comma):
                break
        else:
            self.position = end if found else start
        self._signs_only = signs_only
        if len(found) == 1 and "," in first.text and not found[0].operations:
            found = [self._number(Token("number", text)) for text in first.text.split(",")]
        if bracketed and not self.take("mark", ")"):
            self.position = start
            return []
        return found

    def _deeper(self, rule: Callable[[], _Read]) -> _Read:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise TooMuch(f"it is nested more than {MAX_DEPTH} deep")
        found = rule()
        self._depth -= 1
        return found


def _within_bounds(formula: Formula) -> Formula:
    if formula.operations > MAX_OPERATIONS:
        raise TooMuch(f"it has more than {MAX_OPERATIONS} operations")
    return formula
