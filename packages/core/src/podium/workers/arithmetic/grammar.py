"""Finds the arithmetic in a text: "what is 17 * 23 + 4", "take 15% off 80", "add 3, 4 and 5".

Whatever is not arithmetic is passed over. One pass; knows no values.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from podium.workers.arithmetic.formula import Formula
from podium.workers.arithmetic.operands import Operands, TooMuch
from podium.workers.arithmetic.tokens import tokens

_MAX_BACK_OPERATIONS = 40

_REBATES = ("discount", "off", "rebate", "reduction")
_CHARGES = ("tip", "tax", "vat", "commission", "interest", "surcharge", "fee")
_PREPOSITIONS = ("on", "of", "from", "to", "for")


@dataclass(frozen=True, slots=True)
class Expression:
    """One expression of a text."""

    formula: Formula | None
    """What it is; `None` when it is not worked out."""
    problem: str = ""
    """Why it is not worked out, as in "it is nested more than 32 deep"."""


def find_expressions(text: str, *, back: str | None = None) -> list[Expression]:
    """Return the expressions of `text` in order; a bare number is none.

    Args:
        text: any text.
        back: what "that" and "the result" stand for until the text has an expression of
            its own: a number in plain digits, or `None`.
    """
    reader = _Sentences(tokens(text), None if back is None else Formula.number(back))
    return list(_find(reader))


def starts_with_expression(text: str) -> bool:
    """Say whether the first words of `text` are an expression, "that" standing for any number."""
    reader = _Sentences(tokens(text), Formula.number("1"))
    try:
        return any(formula.operations for formula in reader.sentence())
    except TooMuch:
        return True


def _find(reader: "_Sentences") -> Iterator[Expression]:
    while not reader.at_end:
        start = reader.position
        try:
            found = [formula for formula in reader.sentence() if formula.operations]
        except TooMuch as excess:
            yield Expression(None, str(excess))
            reader.restart()
            continue
        if not found:
            reader.position = start + 1
            continue
        for formula in found:
            yield Expression(formula)
        if found[-1].operations <= _MAX_BACK_OPERATIONS:
            reader.back = found[-1]


class _Sentences(Operands):
    """Reads what is asked for in words around the numbers."""

    def restart(self) -> None:
        """Go on behind what was too much to read: at the next end of a sentence."""
        while not self.at_end and self.peek().kind != "end":
            self.position += 1
        self._depth = 0
        self._signs_only = False

    def sentence(self) -> list[Formula]:
        """Read one request for arithmetic; an empty list where none begins."""
        start = self.position
        for rule in (self._order, self._percent_question, self._rebate, self._plain):
            found = rule()
            if found:
                return found
            self.position = start
        return []

    def _plain(self) -> list[Formula]:
        """Read an expression, and what may be asked of it behind it."""
        found = self.expression()
        if found is None:
            return []
        end = self.position
        self.position += self.units()
        if self.take_word("with", "after", "at"):
            self.skip_articles()
            rate = self.percentage()
            if rate and self.take_word(*_REBATES):
                return [Formula.binary("-", found, rate)]
        self.position = end
        if self._in_percent():
            whole = self.expression()
            if whole is not None:
                return [Formula.in_percent(found, whole)]
        self.position = end
        return [found]

    def _in_percent(self) -> bool:
        """Move over "is what percent of", "as a percentage of"."""
        if self.take_word("is"):
            asked = self.take_word("what")
        else:
            asked = self.take_word("as")
            self.skip_articles()
        return asked and self._percent_word() and self.take_word("of")

    def _percent_word(self) -> bool:
        return self.take("postfix", "%") is not None or self.take_word("percentage")

    def _percent_question(self) -> list[Formula]:
        """Read "what percent of 80 is 20"."""
        if not (self.take_word("what") and self._percent_word() and self.take_word("of")):
            return []
        whole = self.expression()
        part = self.expression() if whole and self._is() else None
        return [Formula.in_percent(part, whole)] if part and whole else []

    def _is(self) -> bool:
        self.position += self.units()
        return self.take_word("is", "are")

    def _rebate(self) -> list[Formula]:
        """Read "15% off 80", "a discount of 15% on 80", "a 20% tip on 45": the amount and what is left."""
        self.skip_articles()
        named = self.take_word(*_REBATES) and self.take_word("of")
        rate = self.percentage()
        if rate is None:
            return []
        rebate = bool(named) or self.take_word(*_REBATES)
        if not rebate and not self.take_word(*_CHARGES):
            return []
        self.take_word(*_PREPOSITIONS)
        price = self.expression()
        if price is None:
            return []
        return [Formula.share(rate, price), Formula.binary("-" if rebate else "+", price, rate)]

    def _order(self) -> list[Formula]:
        """Read "add 3 to 4", "subtract 3 from 10", "multiply 6 by 7", "increase 200 by 10%"."""
        verb = self.take("verb")
        if verb is None:
            return []
        items = self.items()
        if not items:
            return []
        if verb.text in ("add", "sum") and len(items) > 1:
            return [Formula.over_list("sum", items)]
        if verb.text == "multiply" and len(items) > 1:
            return [Formula.over_list("product", items)]
        sign, links, swapped = _ORDERS.get(verb.text, ("", (), False))
        link = self.take_after_units("word", *links) if links else None
        other = self.expression() if link else None
        if other is None or len(items) > 1:
            return []
        left, right = (other, items[0]) if swapped else (items[0], other)
        return [Formula.binary(sign, left, right)]


_ORDERS: dict[str, tuple[str, tuple[str, ...], bool]] = {
    "add": ("+", ("to",), True),
    "subtract": ("-", ("from",), True),
    "multiply": ("*", ("by", "with"), False),
    "divide": ("/", ("by",), False),
    "increase": ("+", ("by",), False),
    "decrease": ("-", ("by",), False),
}
"""For each verb its sign, the words that link its operands, and whether the second comes first."""
