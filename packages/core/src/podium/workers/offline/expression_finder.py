"""Finds the arithmetic in a text; computes nothing.

Rewrites turn words and typographic signs into plain arithmetic. Operands with operators
between them are then an expression.
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
REWRITES = (
    ("$5 + €3", r"[$€£¥₹]", ""),
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
"""Rewrites of words and typographic signs into plain arithmetic, in order: a text that is misread or
refused without the rewrite, the pattern, the plain form."""
_REWRITES = [(re.compile(pattern), plain) for _, pattern, plain in REWRITES]


def find_expressions(text: str, *, that: str | None = None) -> list[str]:
    """Return the expressions in `text`, in order, as they are understood: `17.5% of 2,340`, `2 ^ 10`.

    Args:
        text: any text; beyond `MAX_READ` characters it is not read.
        that: the number meant by "that" and "the result"; `None` means that they mean none.
    """
    plain = text[:MAX_READ].lower()
    if that is not None:
        plain = _THAT.sub(f"({that})" if that.startswith("-") else that, plain)
    for pattern, sign in _REWRITES:
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
