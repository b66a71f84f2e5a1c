"""Finds the arithmetic expressions in a text.

Rewrites convert words and typographic signs to plain arithmetic. An expression is then a sequence of operands
with operators between them.
"""

import re

from podium.workers.offline.foreign_quantities import MASK, mask

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
