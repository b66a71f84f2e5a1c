"""Workers that need no model: a calculator, and a search in a folder of documents."""

import ast
import decimal
import operator
import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from math import log
from pathlib import Path
from threading import Lock

from podium.errors import ConfigError, WorkerRefused, WorkerUnavailable
from podium.plan_text.literals import words
from podium.types.messages import Completion, storable
from podium.workers.simple import FunctionWorker
from podium.workers.worker import FREE, Card, StepInput

_MAX_READ = 16 * 1024
"""Maximum part of a subtask that is read, in characters."""
_MAX_EXPRESSION = 500
_MASK = "\ue000"
"""Stands for a quantity that is not a plain number."""
_MONTHS = "january february march april may june july august september october november december"
_MONTH = "(?:{})\\.?".format("|".join(f"{name[:3]}(?:{name[3:]})?" for name in _MONTHS.split()))
_FOREIGN = re.compile(
    r"(?<![\w.])(?:[0-9]++(?P<mark>[-/.:])[0-9]++(?>(?:(?P=mark)[0-9]++)+)(?>(?:t[0-9:.]++z?)?)"
    # ^ a date, a version, a phone
    r"|[0-9]++:[0-9]++|[0-9]{3}-[0-9]{4}|(?:[0-9]++[-/])?0[0-9]++(?>(?:[-/][0-9]++)*)"
    rf"|{_MONTH} [0-9]++(?:, [0-9]{{4}})?|[0-9]++(?:st|nd|rd|th)? (?:of )?{_MONTH}(?: [0-9]{{4}})?"
    r"|[0-9][0-9,.]*+ ?(?:hundred|thousand|million|billion|trillion|dozen))(?!\w)"
)

_NUMBER = (
    r"(?<![\w.])(?<![0-9],)(?:[0-9]++(?>(?:,[0-9]{3}(?![0-9]))*)(?>(?:\.[0-9]++)?)|\.[0-9]++)(?!\w|\.[0-9])"
)
_CALL = r"\b(?:sqrt|abs|round)\("
_OPERAND = rf"(?:(?<!\w)-|\( ?|{_CALL} ?){{0,32}}{_NUMBER}(?: ?%)?(?: ?\))*"
_EXPRESSION = re.compile(rf"{_OPERAND}(?>((?: ?[-+*/^] ?|(?<=%) of ){_OPERAND})*)(?![-/:]?\w)")
_HYPHEN = re.compile(r"(?<=[0-9])[‐‑–−](?=[0-9])")
_LITERAL = re.compile(rf"({_NUMBER})( ?%)?")
_SHARE = re.compile(rf"({_NUMBER} ?%) of ({_NUMBER}(?: ?%)?)")
_THAT = re.compile(r"\b(?:that|(?:the|this|that) (?:previous )?(?:result|value|answer|number))\b")
_RESULT = re.compile(rf"(?:[=≈]|^[^0-9]*?)\s*((?<![-:/])-?{_NUMBER})\W*$")
_RANGE = re.compile(r"[0-9]+(?: ?[-/] ?[0-9]+)+")
_ASKED = re.compile(r"(?:\b(?:is|are|calculate|compute|evaluate|solve|what's)|question:)\s*$")
_ENDS = re.compile(r"\s*(?:$|[^\sa-z.,]|[.,](?![0-9])|(?:and|then|also|is|equals?)\b)")
_NO_NOUN = r"(?!(?:is|are|and|or|then|also|by|to|from|of|in|calculate|compute|evaluate|solve)\b)"
_JOINED = re.compile(  # arithmetic with a date, as in "5 + 10:30", or with a unit, as in "5 km - 3"
    rf"(?:{_MASK}|[0-9)] ?{_NO_NOUN}°?[^\W\d_]+[²³]?) ?[-+*/^] ?[-(]*[0-9{_MASK}]"
    rf"|(?:[0-9)%] ?[-+*/^]|% of) ?[-(]*{_MASK}"
)
_CURRENCY = re.compile(r"[$€£¥₹]")
_ANY = rf"({_NUMBER}(?: ?%)?|\([^()\n]{{1,99}}\))"
_REWRITES = [
    (re.compile(pattern), plain)
    for pattern, plain in (
        (_CURRENCY.pattern, ""),
        (r"[^\S\n]+", " "),
        (r"[−–]|\bminus\b", "-"),
        (r"\bplus\b", "+"),
        (r"[×·⋅]|\b(?:times|multiplied by)\b|(?<=[0-9)]) ?x ?(?=[0-9(])", "*"),
        (r"÷|\bdivided by\b", "/"),
        (r"\*\*", "^"),
        (r" ?(?:²|\bsquared\b)", "^2"),
        (r" ?\bper ?cent\b", "%"),
        (rf"\bmultiply {_ANY} (?:by|with) {_ANY}", r"\1 * \2"),
        (rf"\bdivide {_ANY} by {_ANY}", r"\1 / \2"),
        (rf"\badd {_ANY} to {_ANY}", r"\2 + \1"),
        (rf"\bsubtract {_ANY} from {_ANY}", r"\2 - \1"),
    )
]
"""Words and typographic signs, and their plain form, in order."""


def find_expressions(text: str, *, that: str | None = None) -> list[str]:
    """Return the expressions in `text`, in order and in plain form, as in `17.5% of 2,340` or `2 ^ 10`."""
    plain = _plain(text, that)
    if _JOINED.search(plain) or len(set(_CURRENCY.findall(text))) > 1:
        return []
    matches = (match for match in _EXPRESSION.finditer(plain) if match[1] or re.search(_CALL, match[0]))
    return [_balanced(match[0]) for match in matches if not _is_range(match)]


def computes_quantities(text: str) -> bool:
    """Return whether a text has arithmetic with quantities that are not plain numbers, such as dates."""
    return _JOINED.search(_plain(text)) is not None


def _plain(text: str, that: str | None = None) -> str:
    plain = _HYPHEN.sub("-", text[:_MAX_READ].lower().replace(_MASK, " "))
    plain = _FOREIGN.sub(_MASK, plain)
    if that is not None:
        plain = _THAT.sub(f"({that})" if that.startswith("-") else that, plain)
    for pattern, sign in _REWRITES:
        plain = pattern.sub(sign, plain)
    return plain


def _is_range(match: re.Match[str]) -> bool:
    """Return whether a match is a range or similar, as in "pages 3-5", "3-4 bolts" and "24/7"."""
    if not _RANGE.fullmatch(match[0]):
        return False
    before = match.string[max(0, match.start() - 40) : match.start()]
    asked, ends = _ASKED.search(before), _ENDS.match(match.string, match.end())
    return not (asked or ends) if " " in match[0] else not ((asked or not before.strip()) and ends)


def _balanced(expression: str) -> str:
    """Remove unbalanced brackets at both ends, because they belong to the surrounding prose."""
    while expression.endswith(")") and expression.count(")") > expression.count("("):
        expression = expression[:-1].rstrip()
    while expression.startswith("(") and expression.count("(") > expression.count(")"):
        expression = expression[1:].lstrip()
    return expression


CALCULATES = "Exact arithmetic: calculates expressions, percentages, powers and roots in its subtask."


class Calculator(FunctionWorker):
    """Computes the arithmetic in its subtask, exactly if 100 digits are enough.

    The calculator understands signs and some words ("multiply 6 by 7", "8 squared plus 4"), but no other
    prose ("the sum of 3 and 4"). "That" and "the result" stand for the result of the last visible step. The
    answer has a line for each expression, as in `17.5% of 2,340 = 409.5`; a value after `≈` is rounded to 12
    digits. Numbers have the English format. Arithmetic with dates, times, versions, phone numbers, units or
    two currencies is an error.

    Args:
        name: its name in plans.
        labels: labels for the rules of a policy.
    """

    def __init__(self, name: str = "calculator", *, labels: Iterable[str] = ()) -> None:
        card = Card(name=name, description=CALCULATES, price=FREE, labels=frozenset(labels))
        super().__init__(_computed, card=card)


async def _computed(step_input: StepInput) -> str:
    asked = step_input.subtask
    if len(asked) > _MAX_READ:
        raise WorkerRefused(f"the subtask has more than {_MAX_READ:,} characters: ask for less at a time")
    that = _RESULT.search(step_input.visible[-1].output[-_MAX_READ:]) if step_input.visible else None
    expressions = find_expressions(asked, that=that and that[1])
    if not expressions:
        hint = "write it with plain numbers, as in '17 * 23' or '15% of 80'"
        raise WorkerRefused(f"no arithmetic found in {asked[:200]!r}: {hint}")
    return "\n".join(f"{expression} {_value(expression)}" for expression in expressions)


def _value(expression: str) -> str:
    """Return the value of an expression after its sign, as in `= 409.5` or `≈ 0.333333333333`."""
    if len(expression) > _MAX_EXPRESSION:
        raise WorkerRefused(f"{expression[:80]} is too long to compute")
    # "100 / 5% of 80" divides by 4, because `of` has the highest precedence.
    shared = _SHARE.sub(r"(\1 * \2)", expression)
    called = _LITERAL.sub(lambda found: f"{'percent' if found[2] else 'number'}('{found[1]}')", shared)
    try:
        with decimal.localcontext(_CONTEXT) as context:
            tree = ast.parse(called.replace(",", "").replace(" of ", " * ").replace("^", "**"), mode="eval")
            value = _evaluated(tree.body) or Decimal(0)
            exact = not context.flags[decimal.Inexact]
    except decimal.Overflow as error:
        raise WorkerRefused(f"{expression[:80]} is too large to compute") from error
    except (ArithmeticError, SyntaxError) as error:
        raise WorkerRefused(f"{expression[:80]} has no value: check its brackets and numbers") from error
    if not value.is_finite():
        raise WorkerRefused(f"{expression[:80]} has no finite value")
    return f"= {value.normalize(_CONTEXT):f}" if exact else f"≈ {value.normalize(_ROUNDING):g}"


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
    ast.Pow: operator.pow,
}
_FUNCTIONS: Mapping[str, Callable[..., Decimal]] = {
    "number": Decimal,
    "percent": lambda digits: _Percent(Decimal(digits) / 100),
    "sqrt": Decimal.sqrt,
    "abs": abs,
    "round": lambda value: value.to_integral_value(decimal.ROUND_HALF_UP),
}


def _evaluated(node: ast.expr) -> Decimal:
    """Return the value of an expression, which has only numbers, signs and `_FUNCTIONS`."""
    match node:
        case ast.BinOp(left, sign, right):
            return _OPERATORS[type(sign)](_evaluated(left), _evaluated(right))
        case ast.UnaryOp(ast.USub(), operand):
            return -_evaluated(operand)
        case ast.Call(ast.Name(name), [ast.Constant(str(digits))]):
            return _FUNCTIONS[name](digits)
        case ast.Call(ast.Name(name), [argument]):
            return _FUNCTIONS[name](_evaluated(argument))
    raise SyntaxError(ast.unparse(node))


_SUFFIXES = frozenset((".md", ".markdown", ".txt", ".rst"))
_MAX_BYTES = 2 * 2**20
"""Maximum size of a file, in bytes; larger files are ignored."""
_MAX_CHARS = 1_500
"""Maximum length of a passage, in characters."""
_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(\S.*)")
_FENCE = re.compile(r" {0,3}(?:```|~~~)")
_K1, _B = 1.5, 0.75
_LEAST_SHARE = 0.35
"""Minimum score of a passage in an answer, as a share of the best score."""
_SEARCHES = (
    "Searches the documents in {folder!r}: looks up who, what, where, how and why, and answers with "
    "the passages that speak of it, word for word with their sources."
)


class Documents(FunctionWorker):
    """Searches a folder and its subfolders by BM25, and answers with passages and their sources.

    The worker reads `.md`, `.markdown`, `.txt` and `.rst` files of at most 2 MiB. Hidden files and folders,
    and links out of the folder, are ignored. The first call reads the folder, in a thread. A later call reads
    the folder again if it has changed. English words match without their endings, Chinese and Japanese by
    single characters. In Thai and other scripts without spaces, only whole runs of characters match.

    If nothing is found, the answer says so, and the run is `partial`.

    Args:
        folder: the folder with the documents.
        name: its name in plans.
        description: the description on its card; `None` for a description of a search in this folder.
        top: maximum number of passages in an answer.
        labels: labels for the rules of a policy; use `untrusted` if others write the documents.

    Raises:
        ConfigError: the folder does not exist, or `top` is below 1.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        name: str = "documents",
        description: str | None = None,
        top: int = 3,
        labels: Iterable[str] = (),
    ) -> None:
        self.folder = Path(folder)
        if not self.folder.is_dir():
            raise ConfigError(f"folder {str(folder)!r} does not exist: name another folder")
        if top < 1:
            raise ConfigError(f"top {top} must be 1 or more")
        said = _SEARCHES.format(folder=self.folder.resolve().name) if description is None else description
        card = Card(name=name, description=said, price=FREE, labels=frozenset(labels))
        super().__init__(self._answer, card=card)
        self._top = top
        self._lock = Lock()
        self._stamps: dict[Path, tuple[int, int]] = {}
        self._passages: list[_Passage] = []

    def _answer(self, step_input: StepInput) -> Completion:
        query = step_input.subtask[:_MAX_READ]
        with self._lock:  # else two concurrent calls would read the same folder twice
            documents = _documents(self.folder)
            if documents != self._stamps:
                read = [_passages(path, self.folder.resolve()) for path in documents]
                self._passages, self._stamps = [each for passages in read for each in passages], documents
            found = _best(self._passages, words(query))[: self._top]
        if not found:
            asked = storable(" ".join(query.split())[:100])
            text = f"No passage found in {self.folder.resolve().name!r} for: {asked}"
            return Completion(text, missing="nothing was found")
        told = f"Retrieved from {self.folder.resolve().name!r}, best match first:"
        return Completion("\n\n".join((told, *(passage.cited for passage in found))))


@dataclass(frozen=True, slots=True)
class _Passage:
    """A part of a file, with its source, and the counts of its words."""

    cited: str
    counts: Counter[str]


def _documents(folder: Path) -> dict[Path, tuple[int, int]]:
    """Return the documents in a folder, with the modification time and the size of each."""
    found: dict[Path, tuple[int, int]] = {}
    try:
        root = folder.resolve(strict=True)
        next(root.iterdir(), None)
    except OSError as error:
        raise WorkerUnavailable(f"folder {folder.name!r} cannot be read: {error.strerror}") from error
    for parent, folders, files in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for path in (Path(parent, name) for name in files if not name.startswith(".")):
            if path.suffix.lower() not in _SUFFIXES:
                continue
            with suppress(OSError):  # just deleted
                status = path.stat()
                is_document = path.is_file() and path.resolve().is_relative_to(root)  # no pipe, no link out
                if is_document and status.st_size <= _MAX_BYTES:
                    found[path] = (status.st_mtime_ns, status.st_size)
    return dict(sorted(found.items()))


def _passages(path: Path, root: Path) -> list[_Passage]:
    """Cut a document at Markdown headings, between paragraphs, and where a passage would be too long."""
    try:
        raw = path.read_bytes()
    except OSError:
        return []
    if b"\0" in raw:
        return []
    source, found = path.relative_to(root).as_posix(), list[_Passage]()
    headings, lines, first = list[tuple[int, str]](), list[str](), 0
    size, in_code = 0, False

    def finish() -> None:
        text = "\n".join(lines).rstrip()
        if text:
            titles = [title for _, title in headings]
            under = f" ({' > '.join(titles)})" if titles else ""
            counts = Counter(words(" ".join((source, *titles, text))))
            found.append(_Passage(f"[{source}:{first}]{under}\n\n{text}", counts))
        lines.clear()

    for number, line in _lines(storable(raw.decode("utf-8-sig", errors="replace"))):
        heading = None if in_code else _HEADING.fullmatch(line)
        if heading or size + len(line) > _MAX_CHARS or (not line and not in_code and size > _MAX_CHARS // 2):
            finish()
            size = 0
        in_code ^= _FENCE.match(line) is not None
        if heading:
            level = len(heading[1])
            headings = [*(outer for outer in headings if outer[0] < level), (level, heading[2].rstrip("# "))]
        elif line or lines:
            first = first if lines else number
            lines.append(line)
            size += len(line) + 1
    finish()
    return found


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text with their numbers; very long lines in several pieces."""
    for number, line in enumerate(re.split("\r\n|\r|\n", text), start=1):
        for start in range(0, len(line) or 1, _MAX_CHARS):
            yield number, line[start : start + _MAX_CHARS].rstrip()


def _best(passages: list[_Passage], terms: list[str]) -> list[_Passage]:
    """Return the passages that match by BM25, best first; equal passages keep their order."""
    sizes = [passage.counts.total() for passage in passages]
    mean = sum(sizes) / max(1, len(sizes))
    scores: defaultdict[int, float] = defaultdict(float)
    for term in dict.fromkeys(terms):
        having = {number: count for number, each in enumerate(passages) if (count := each.counts[term])}
        rarity = log(1 + (len(passages) - len(having) + 0.5) / (len(having) + 0.5))
        for number, count in having.items():
            scores[number] += rarity * count / (count + _K1 * (1 - _B + _B * sizes[number] / mean))
    enough = max(scores.values(), default=0.0) * _LEAST_SHARE
    order = sorted(scores, key=lambda number: (-scores[number], number))
    return [passages[number] for number in order if scores[number] >= enough]
