"""An expression as a reader sees it and as a tree, put together piece by piece.

Knows how tightly operations bind, and neither text nor values.
"""

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

SUM, PRODUCT, SIGN, POWER, ATOM = range(5)
"""How tightly a formula's outermost operation binds."""

_BINARY: dict[str, tuple[int, type[ast.operator]]] = {
    "+": (SUM, ast.Add),
    "-": (SUM, ast.Sub),
    "*": (PRODUCT, ast.Mult),
    "/": (PRODUCT, ast.Div),
    "mod": (PRODUCT, ast.Mod),
    "^": (POWER, ast.Pow),
}


@dataclass(frozen=True, slots=True)
class Formula:
    """A number, or operations on numbers."""

    shown: str
    """As it was understood, in the usual signs."""
    tree: ast.expr
    binds: int = ATOM
    operations: int = 0
    percent: bool = False
    """Whether it is a bare percentage, which `+` and `-` take of what stands before them."""
    unit: str = ""
    """What is written behind its value."""

    @classmethod
    def number(cls, text: str) -> Self:
        """Make one of a number in plain digits, or of a fraction such as `-1/3`."""
        binds = PRODUCT if "/" in text else SIGN if text.startswith("-") else ATOM
        return cls(text, _call("number", [ast.Constant(text)]), binds)

    @classmethod
    def binary(cls, sign: str, left: Self, right: Self) -> Self:
        """Combine two; `x + 10%` means a tenth of `x` more."""
        binds, operator = _BINARY[sign]
        # What binds equally stands bare on the side from which its operation is read.
        bare_left, bare_right = (binds + 1, binds) if sign == "^" else (binds, binds + 1)
        shown = f"{left.within(bare_left)} {sign} {right.within(bare_right)}"
        tree: ast.expr = ast.BinOp(left.tree, operator(), right.tree)
        if right.percent and binds == SUM and not left.percent:
            tree = _call("more" if sign == "+" else "fewer", [left.tree, right.tree])
        percent = left.percent and right.percent and binds == SUM
        return cls(shown, tree, binds, left.operations + right.operations + 1, percent)

    @classmethod
    def call(cls, name: str, arguments: Sequence[Self]) -> Self:
        """Apply a function, shown as one."""
        shown = f"{name}({', '.join(argument.shown for argument in arguments)})"
        return cls(shown, _call(name, [a.tree for a in arguments]), ATOM, 1 + _operations(arguments))

    @classmethod
    def constant(cls, name: str) -> Self:
        """Make a number that has a name."""
        return cls(name, _call(name, []))

    @classmethod
    def over_list(cls, name: str, items: Sequence[Self]) -> Self:
        """Make a sum, an average, a product, or any function of a list."""
        tree, operations = _call(name, [item.tree for item in items]), _operations(items) + 1
        if name == "product":
            return cls(" * ".join(item.within(SIGN) for item in items), tree, PRODUCT, operations)
        if name not in ("sum", "average"):
            return cls.call(name, items)
        shown = " + ".join(item.within(PRODUCT) for item in items)
        if name == "sum":
            return cls(shown, tree, SUM, operations)
        return cls(f"({shown}) / {len(items)}", tree, PRODUCT, operations)

    @classmethod
    def share(cls, part: Self, whole: Self) -> Self:
        """Make "`part` of `whole`", a product."""
        tree = ast.BinOp(part.tree, ast.Mult(), whole.tree)
        shown = f"{part.shown} of {whole.within(SIGN)}"
        return cls(shown, tree, PRODUCT, _operations((part, whole)) + 1)

    @classmethod
    def in_percent(cls, part: Self, whole: Self) -> Self:
        """Make "`part` as a percentage of `whole`"; the value is what stands before the sign."""
        tree = ast.BinOp(
            ast.BinOp(part.tree, ast.Div(), whole.tree), ast.Mult(), _call("number", [ast.Constant("100")])
        )
        shown = f"{part.shown} as a percentage of {whole.shown}"
        return cls(shown, tree, SUM, _operations((part, whole)) + 1, unit="%")

    def as_percent(self) -> Self:
        """Take it for a percentage."""
        tree = ast.BinOp(self.tree, ast.Div(), _call("number", [ast.Constant("100")]))
        return type(self)(f"{self.within(ATOM)}%", tree, ATOM, self.operations, percent=True)

    def scaled(self, word: str, factor: int) -> Self:
        """Take it so many times: "3 million", "2 dozen"."""
        tree = ast.BinOp(self.tree, ast.Mult(), _call("number", [ast.Constant(str(factor))]))
        counted = self.operations + (word == "dozen")
        return type(self)(f"{self.within(ATOM)} {word}", tree, ATOM, counted)

    def negated(self) -> Self:
        """Put a minus before it; a negative percentage stays one."""
        shown = f"-{self.within(SIGN)}"
        return type(self)(shown, ast.UnaryOp(ast.USub(), self.tree), SIGN, self.operations, self.percent)

    def in_brackets(self) -> Self:
        """Return it as it stands in brackets, which make an ordinary number of a percentage."""
        return replace(self, percent=False)

    def within(self, binds: int) -> str:
        """Show it as an operand of what binds so tightly."""
        return self.shown if self.binds >= binds else f"({self.shown})"


def _call(name: str, arguments: list[ast.expr]) -> ast.expr:
    return ast.Call(ast.Name(name, ast.Load()), arguments, [])


def _operations(formulas: Sequence[Formula]) -> int:
    return sum(formula.operations for formula in formulas)
