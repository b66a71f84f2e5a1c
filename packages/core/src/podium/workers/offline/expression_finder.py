"""Finds the arithmetic that stands in a text; knows no values.

A few replacements turn words and typographic signs into plain ones; what then looks like
operands with operators between them is an expression.
"""

import re

FUNCTIONS = ("sqrt", "abs", "round", "floor", "ceil", "ln", "log10", "exp")
"""Functions of one number that may stand in an expression."""
MAX_READ = 16 * 1024
"""How much of a text is looked at, in characters."""
MAX_EXPRESSION = 500
"""Longest expression that can be worked out, in characters."""

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
_RANGE = re.compile(r"[0-9]+(?:[-/][0-9]+)+")
_ASKED = re.compile(r"(?:^|\b(?:is|are|calculate|compute|evaluate|solve|work out|what's))\s*$")
_ANY = rf"({_NUMBER}(?: ?%)?|\([^()\n]{{1,99}}\))"
_PLAIN = [
    (re.compile(pattern), plain)
    for pattern, plain in (
        (r"[$€£¥₹]", ""),
        (r"[^\S\n]+", " "),
        (r"[−–]|\bminus\b", "-"),
        (r"\bplus\b", "+"),
        (r"[×·⋅]|\b(?:times|multiplied by)\b|(?<=[0-9)]) ?x ?(?=[0-9(])", "*"),
        (r"÷|\bdivided by\b", "/"),
        (r"\*\*|\b(?:raised )?to the power of\b", "^"),
        (r" ?(?:²|\bsquared\b)", "^2"),
        (r" ?(?:³|\bcubed\b)", "^3"),
        (r" ?\bper ?cent\b", "%"),
        (r"(?<=[0-9)]) ?(?:% ?|\bmodulo )(?=[0-9(])", " mod "),
        (rf"(?:√|\b(?:the )?square root of) ?({_NUMBER})", r"sqrt(\1)"),
        (r"(?:√|\b(?:the )?square root of) ?(?=\()", "sqrt"),
        (rf"({_NUMBER} ?%) (?:discount|reduction|off)(?: on| of| from)? ({_NUMBER})", r"\2 - \1"),
        (rf"\bmultiply {_ANY} (?:by|with) {_ANY}", r"\1 * \2"),
        (rf"\bdivide {_ANY} by {_ANY}", r"\1 / \2"),
        (rf"\badd {_ANY} to {_ANY}", r"\2 + \1"),
        (rf"\bsubtract {_ANY} from {_ANY}", r"\2 - \1"),
    )
]


def find_expressions(text: str, *, that: str | None = None) -> list[str]:
    """Return the expressions in `text`, in order, as they are understood: `17.5% of 2,340`, `2 ^ 10`.

    Args:
        text: any text; beyond `MAX_READ` characters it is not read.
        that: the number meant by "that" and "the result"; `None` means that they mean none.
    """
    plain = text[:MAX_READ].lower()
    if that is not None:
        plain = _THAT.sub(f"({that})" if that.startswith("-") else that, plain)
    for pattern, sign in _PLAIN:
        plain = pattern.sub(sign, plain)
    found: list[str] = []
    for match in _EXPRESSION.finditer(plain):
        # "pages 3-5" and "24/7" are no arithmetic, unless that is what is asked for.
        before = plain[max(0, match.start() - 20) : match.start()]
        prose = _RANGE.fullmatch(match[0]) and not _ASKED.search(before)
        if not prose and (match[1] or re.search(_CALL, match[0])):
            found.append(_balanced(match[0]))
    return found


def formula(expression: str) -> str:
    """Return an expression in Python's syntax, its numbers as `number('…')` and `percent('…')`.

    Raises:
        OverflowError: it is longer than `MAX_EXPRESSION`.
    """
    if len(expression) > MAX_EXPRESSION:
        raise OverflowError
    # "100 / 5% of 80" divides by 4: a share binds closest.
    shared = _SHARE.sub(r"(\1 * \2)", expression)
    called = _LITERAL.sub(lambda found: f"{'percent' if found[2] else 'number'}('{found[1]}')", shared)
    return called.replace(",", "").replace(" of ", " * ").replace("^", "**").replace(" mod ", " % ")


def _balanced(expression: str) -> str:
    """Take off brackets at either end that have no partner; they belong to the prose around."""
    while expression.endswith(")") and expression.count(")") > expression.count("("):
        expression = expression[:-1].rstrip()
    while expression.startswith("(") and expression.count("(") > expression.count(")"):
        expression = expression[1:].lstrip()
    return expression
