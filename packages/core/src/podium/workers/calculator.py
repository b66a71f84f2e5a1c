"""An offline worker that computes the arithmetic in its subtask."""

import ast
import decimal
import operator
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from decimal import Decimal
from typing import NamedTuple

from podium.errors import WorkerRefused
from podium.types.messages import Completion
from podium.workers.worker import FREE, Card, Request, StepInput, Worker, step_input_of

MASK = "\ue000"
"""Replaces each such quantity in a masked text."""


class Foreign(NamedTuple):
    """A quantity that is not a plain number."""

    text: str
    kind: str
    """Its kind, as in "a date"."""


_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sep(?:t(?:ember)?)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
_DAY = r"[0-9]{1,2}(?:st|nd|rd|th)?"
_UNITS = (
    "nm|mm|cm|dm|m|km|mi|miles?|ft|feet|foot|inch(?:es)?|yards?|yd|km/h|kmh|mph|knots?|m/s|mg|g|kg|lbs?|pounds?"
    "|oz|ounces?|tons?|tonnes?|ml|cl|dl|l|lit(?:er|re)s?|gallons?|cups?|tsp|tbsp|ms|s|secs?|seconds?|mins?"
    "|minutes?|h|hrs?|hours?|days?|weeks?|months?|years?|°[cfk]?|degrees?|kelvin|celsius|fahrenheit|k?hz|mhz|ghz"
    "|k?w|k?wh|mw|m?v|amps?|ma|mah|k?j|k?cal|bits?|bytes?|[kmgt]i?b|px|hundred|thousand|million|billion|trillion"
    "|dozen"
)
_KINDS = {
    "date": (
        "a date",
        (
            r"[0-9]{1,2}(?P<mark>[-/.])[0-9]{1,2}(?P=mark)(?:[0-9]{4}|[0-9]{2})|(?:19|20)[0-9]{2}-(?:0[1-9]|1[0-2])"
            rf"|{_DAY} (?:of )?{_MONTH}(?:,? [0-9]{{4}})?|{_MONTH} {_DAY}(?:,? [0-9]{{4}})?"
        ),
    ),
    "version": ("a version", r"v(?:ersion)? ?[0-9]++(?>(?:\.[0-9]++)+)|[0-9]++(?>(?:\.[0-9]++){2,})"),
    "phone": (
        "a phone number",
        (
            r"(?<![0-9)%])(?<![0-9)%] )\+[0-9][0-9 ()/-]{6,20}[0-9]"
            r"|(?:[0-9]{1,3}[ -])?(?:\([0-9]{2,4}\) ?|[0-9]{3}-)[0-9]{3}-[0-9]{4}|[0-9]{3}-[0-9]{4}"
        ),
    ),
    "zeros": (
        "a number with leading zeros",
        (
            r"0[0-9]++(?>(?:[-/][0-9]++)+)"
            r"|[0-9]++(?>(?:[-/](?!0[0-9])[0-9]++)*)[-/]0[0-9]++(?>(?:[-/][0-9]++)*)"
        ),
    ),
}
# These kinds are also recognized in a chain, as in "2000-10-10-5" or "5-10:30".
_UNMISTAKABLE = {
    "day": ("a date", r"[0-9]{4}(?P<sep>[-/.])[0-9]{1,2}(?P=sep)[0-9]{1,2}"),
    "time": ("a time", r"[0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?(?: ?[ap]\.?m\b\.?)?|[0-9]{1,2} ?[ap]\.?m\b\.?"),
    "unit": ("a quantity with a unit", rf"[0-9][0-9,.]*+(?: ?(?:{_UNITS}))(?:[²³]|(?!\w))"),
}
_NAMES = _KINDS | _UNMISTAKABLE


def _any_of(kinds: dict[str, tuple[str, str]]) -> str:
    return "|".join(f"(?P<{name}>{pattern})" for name, (_, pattern) in kinds.items())


_FOREIGN = re.compile(
    rf"(?<![\w.,])(?:(?:{_any_of(_UNMISTAKABLE)})(?![\w%]|[.,:][0-9])"
    rf"|(?<![0-9][-/])(?:{_any_of(_KINDS)})(?![\w%]|[.,:/-][0-9]))"
)


def mask(text: str) -> tuple[str, list[Foreign]]:
    """Replace each quantity that is not a plain number by `MASK`. Return the text, and these quantities.

    Args:
        text: the text in lower case.
    """
    found: list[Foreign] = []

    def masked(match: re.Match[str]) -> str:
        kind = next(kind for name, (kind, _) in _NAMES.items() if match[name] is not None)
        found.append(Foreign(match[0], kind))
        return MASK

    return _FOREIGN.sub(masked, text.replace(MASK, " ")), found


FUNCTIONS = ("sqrt", "abs", "round", "floor", "ceil", "ln", "log10", "exp")
"""Functions of one number that an expression may have."""
MAX_READ = 16 * 1024
"""Maximum part of a text that is read, in characters."""
MAX_EXPRESSION = 500
"""Longest expression that can be computed, in characters."""

_NUMBER = (
    r"(?<![\w.])(?<![0-9],)(?:[0-9]++(?>(?:,[0-9]{3}(?![0-9]))*)(?>(?:\.[0-9]++)?)|\.[0-9]++)"
    r"(?>(?:e[+-]?[0-9]{1,3}+)?)(?!\w|\.[0-9])"
)
_CALL = rf"\b(?:{'|'.join(FUNCTIONS)})\("
_OPERAND = rf"(?:-|\( ?|{_CALL} ?){{0,32}}(?:{_NUMBER}(?: ?%)?|\bpi\b)(?: ?\))*"
_OPERATOR = r"(?: ?[-+*/^] ?| mod |(?<=%) of )"
_EXPRESSION = re.compile(rf"(?<![\w.])(?<![0-9],){_OPERAND}(?>({_OPERATOR}{_OPERAND})*)")
_LITERAL = re.compile(rf"({_NUMBER})( ?%)?")
_SHARE = re.compile(rf"({_NUMBER} ?%) of ({_NUMBER}(?: ?%)?)")
_THAT = re.compile(r"\b(?:that|(?:the|this|that) (?:previous )?(?:result|value|answer|number))\b")
_RANGE = re.compile(r"[0-9]+(?: ?[-/] ?[0-9]+)+")
_ASKED = re.compile(r"(?:\b(?:is|are|calculate|compute|evaluate|solve|work out|what's)|question:)\s*$")
_ENDS = re.compile(r"\s*(?:$|[^\sa-z.,]|[.,](?![0-9])|(?:and|then|also|is|equals?)\b)")
_JOINED = re.compile(rf"(?:[0-9)%{MASK}] ?[-+*/^]|% of) ?{MASK}|{MASK} ?[-+*/^] ?[-(]?[0-9{MASK}]")
_NO_NOUN = r"(?!(?:is|are|and|or|then|also|by|to|from|of|in|calculate|compute|evaluate|solve|mod)\b)"
_WORD_BEFORE = re.compile(rf"[0-9)] ?{_NO_NOUN}[^\W\d_]+ ?[-+*/^] ?$")
_WORD_AFTER = re.compile(rf" ?{_NO_NOUN}[^\W\d_]+ ?[-+*/^] ?[0-9(]")
_AROUND = 40
"""Length of the context before an expression that is read, in characters."""
_CURRENCY = re.compile(r"[$€£¥₹]")
_ANY = rf"({_NUMBER}(?: ?%)?|\([^()\n]{{1,99}}\))"
REWRITES = (
    ("$5 + $3", r"[$€£¥₹]", ""),
    ("3  +\t4", r"[^\S\n]+", " "),
    ("7 minus 2", r"[−–]|\bminus\b", "-"),
    ("3 plus 4", r"\bplus\b", "+"),
    ("3 times 4", r"[×·⋅]|\b(?:times|multiplied by)\b|(?<=[0-9)]) ?x ?(?=[0-9(])", "*"),
    ("8 divided by 2", r"÷|\bdivided by\b", "/"),
    ("2 to the power of 3", r"\*\*|\b(?:raised )?to the power of\b", "^"),
    ("3 squared", r" ?(?:²|\bsquared\b)", "^2"),
    ("2 cubed", r" ?(?:³|\bcubed\b)", "^3"),
    ("5 percent of 80", r" ?\bper ?cent\b", "%"),
    ("17 % 5", r"(?<=[0-9)]) ?(?:% ?|\bmodulo )(?=[0-9(])", " mod "),
    ("the square root of 9", rf"(?:√|\b(?:the )?square root of) ?({_NUMBER})", r"sqrt(\1)"),
    ("the square root of (9 + 7)", r"(?:√|\b(?:the )?square root of) ?(?=\()", "sqrt"),
    (
        "a 15% discount on 80",
        rf"({_NUMBER} ?%) (?:discount|reduction|off)(?: on| of| from)? ({_NUMBER})",
        r"\2 - \1",
    ),
    ("multiply 6 by 7", rf"\bmultiply {_ANY} (?:by|with) {_ANY}", r"\1 * \2"),
    ("divide 8 by 2", rf"\bdivide {_ANY} by {_ANY}", r"\1 / \2"),
    ("add 3 to 4", rf"\badd {_ANY} to {_ANY}", r"\2 + \1"),
    ("subtract 5 from 12", rf"\bsubtract {_ANY} from {_ANY}", r"\2 - \1"),
)
"""Rewrites of words and typographic signs into plain arithmetic, in order. Each has an example that is
misread without it, a pattern and a replacement."""
_REWRITES = [(re.compile(pattern), plain) for _, pattern, plain in REWRITES]


def find_expressions(text: str, *, that: str | None = None) -> list[str]:
    """Return the expressions in `text`, in order and in plain form, as in `17.5% of 2,340` or `2 ^ 10`.

    The result is empty if the text computes with dates, times, units or amounts of two currencies.

    Args:
        text: the text, of which only the first `MAX_READ` characters are read.
        that: the number for "that" and "the result"; `None` if they have no meaning.
    """
    masked, _ = mask(text[:MAX_READ].lower())
    if len(set(_CURRENCY.findall(masked))) > 1:
        return []
    if that is not None:
        masked = _THAT.sub(f"({that})" if that.startswith("-") else that, masked)
    plain = _rewritten(masked)
    if _JOINED.search(plain):
        return []
    found: list[str] = []
    for match in _EXPRESSION.finditer(plain):
        before = plain[max(0, match.start() - _AROUND) : match.start()]
        if not (match[1] or re.search(_CALL, match[0])) or _is_range(match, before):
            continue
        sign = "-" if match[0].startswith("-") else ""
        if _WORD_BEFORE.search(before + sign) or _WORD_AFTER.match(plain, match.end()):
            return []  # "5 apples + 3 * 4": a part of it is not understood
        found.append(_balanced(match[0]))
    return found


def computes_quantities(text: str) -> bool:
    """Return whether a text has arithmetic with quantities that are not plain numbers, such as dates.

    Args:
        text: the text, of which only the first `MAX_READ` characters are read.
    """
    masked, _ = mask(text[:MAX_READ].lower())
    return _JOINED.search(_rewritten(masked)) is not None


def _rewritten(text: str) -> str:
    for pattern, sign in _REWRITES:
        text = pattern.sub(sign, text)
    return text


def _is_range(match: re.Match[str], before: str) -> bool:
    """Return whether a match is a range or similar, as in "pages 3-5", "3-4 bolts" and "24/7"."""
    if not _RANGE.fullmatch(match[0]):
        return False
    asked, ends = _ASKED.search(before), _ENDS.match(match.string, match.end())
    if " " in match[0]:
        return not (asked or ends)
    return not ((asked or not before.strip()) and ends)


def formula(expression: str) -> str:
    """Return an expression in Python's syntax, with numbers as `number('…')` and `percent('…')`.

    Raises:
        OverflowError: the expression is longer than `MAX_EXPRESSION`.
    """
    if len(expression) > MAX_EXPRESSION:
        raise OverflowError
    # "100 / 5% of 80" divides by 4, because `of` has the highest precedence.
    shared = _SHARE.sub(r"(\1 * \2)", expression)
    called = _LITERAL.sub(lambda found: f"{'percent' if found[2] else 'number'}('{found[1]}')", shared)
    return called.replace(",", "").replace(" of ", " * ").replace("^", "**").replace(" mod ", " % ")


def _balanced(expression: str) -> str:
    """Remove unbalanced brackets at both ends, because they belong to the surrounding prose."""
    while expression.endswith(")") and expression.count(")") > expression.count("("):
        expression = expression[:-1].rstrip()
    while expression.startswith("(") and expression.count("(") > expression.count(")"):
        expression = expression[1:].lstrip()
    return expression


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
    """

    uses_tokens = False
    reads_prose = False

    def __init__(self, name: str = "calculator", *, labels: Iterable[str] = ()) -> None:
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
        try:
            with decimal.localcontext(_CONTEXT) as context:
                value = _evaluated(ast.parse(formula(expression), mode="eval").body) or Decimal(0)
                exact = not context.flags[decimal.Inexact] and "pi" not in expression
        except ZeroDivisionError as error:
            raise WorkerRefused(f"{expression[:80]} is a division by zero") from error
        except (decimal.Overflow, OverflowError, RecursionError) as error:
            raise WorkerRefused(f"{expression[:80]} is too large or too long to compute") from error
        except (decimal.InvalidOperation, SyntaxError) as error:
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
}
_FUNCTIONS: Mapping[str, Callable[..., Decimal]] = {
    "sqrt": Decimal.sqrt,
    "abs": abs,
    "round": lambda value: value.to_integral_value(decimal.ROUND_HALF_UP),
    "floor": lambda value: value.to_integral_value(decimal.ROUND_FLOOR),
    "ceil": lambda value: value.to_integral_value(decimal.ROUND_CEILING),
    "ln": Decimal.ln,
    "log10": Decimal.log10,
    "exp": Decimal.exp,
}


def _evaluated(node: ast.expr) -> Decimal:
    """Return the value of an expression of `formula`, which has numbers, signs and `FUNCTIONS` only."""
    match node:
        case ast.BinOp(left, sign, right) if type(sign) in _OPERATORS:
            return _OPERATORS[type(sign)](_evaluated(left), _evaluated(right))
        case ast.UnaryOp(ast.USub(), operand):
            return -_evaluated(operand)
        case ast.Call(ast.Name("number" | "percent" as name), [ast.Constant(str(digits))]):
            return Decimal(digits) if name == "number" else _Percent(Decimal(digits) / 100)
        case ast.Call(ast.Name(name), [argument]) if name in _FUNCTIONS:
            return _FUNCTIONS[name](_evaluated(argument))
        case ast.Name("pi"):
            return _PI
    raise SyntaxError(ast.unparse(node))
