"""Splits a question into parts that can be answered separately.

Splits at list items, at ends of sentences, and at an "and" before another question or order. Except for
ends of sentences, it supports only English.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from podium.workers.offline.expression_finder import find_expressions

MAX_READ = 16 * 1024
"""Number of characters of a question that are split; the rest is added to the last part."""

_QUOTED = re.compile(
    r"`[^`\n]{1,500}`|\"[^\"\n]{1,500}\"|“[^“”\n]{1,500}”|(?<!\w)'[^'\n]{1,200}'(?!\w)|\((?![0-9]{1,2}\))[^()\n]{1,500}\)"
)
_LEAD = re.compile(r"[,\s]*(?:(?:and|but|also|then|next|finally|now|so|please)\b,?\s*)*", re.IGNORECASE)
_ASKING = r"(?:who(?:m|se)?|what|which|where|when|why|how)(?:'s|’s)?\b"
_SUMMING = r"(?:add|calculate|compute|divide|multiply|subtract)\b"
_ORDERING = r"(?:compare|describe|explain|find|give|list|search|show|summari[sz]e|tell|translate|write)\b"
_END = re.compile(
    r"(?P<item>(?:^|\n)[ \t]*(?:[-*•]|\(?[0-9]{1,2}[.)])[ \t]+)"
    r"|[?!;]+[\"'”)]*(?=\s)|[。！？；]+|\n(?=[ \t]*\n)|(?:(?<=\w\w\w)|(?<=[0-9)]))\.(?=\s+(?-i:[A-Z(\"“]))"
    rf"|(?P<joint>,?\s(?:and|also|then)\s(?:then |also )?)(?={_ASKING}|{_SUMMING}|{_ORDERING}|[-(]?[0-9])",
    re.IGNORECASE,
)
_ASKS = re.compile(rf"{_ASKING}|{_SUMMING}|{_ORDERING}", re.IGNORECASE)
_SUMS = re.compile(_SUMMING, re.IGNORECASE)
_ORDERS = re.compile(_ORDERING, re.IGNORECASE)
# After "how do I install" or "explain how to read", a bare verb belongs to the same question.
_OPEN = re.compile(r"\b(?:how|to|i|we|you|they|can|could|should|if)\b", re.IGNORECASE)
_BACK = re.compile(
    r"(?:\W*\w+){0,5}?\W+(?:it|its|they|them|the (?:result|answer)|that(?= (?:by|to|from|is)\b|[,.?!]|$))\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a question."""

    text: str
    back: bool = False
    """Whether the part refers to the part before it: "then …", "multiply that by 3"."""


def split(question: str) -> list[Part]:
    """Return the parts of `question` in order, at least one.

    A statement belongs to the request that follows it. Linear in the length of the question.
    """
    found: list[str] = []
    statement = ""
    for piece, is_item in _pieces(question[:MAX_READ]):
        statement = f"{statement} {piece}".strip()
        if is_item or _asks(piece):
            found.append(statement)
            statement = ""
    if len(found) < 2:
        return [Part(question.strip())]
    found[-1] = f"{found[-1]} {statement}{question[MAX_READ:]}".strip()
    return [_part(found[0], first=True), *(_part(text, first=False) for text in found[1:])]


def _pieces(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the pieces of `text` between its boundaries, each with whether it is a list item."""
    masked = _QUOTED.sub(lambda quoted: "_" * len(quoted[0]), text)
    start, is_item = 0, False
    for end in _END.finditer(masked):
        left, right = text[start : end.start()], text[end.end() : end.end() + 300]
        if end["joint"] and not _apart(left[-300:], right):
            continue
        yield (left if end["item"] or end["joint"] else text[start : end.end()]).strip(), is_item
        start, is_item = end.start() if end["joint"] else end.end(), bool(end["item"])
    yield text[start:].strip(), is_item


def _asks(piece: str) -> bool:
    bare = _LEAD.sub("", piece, count=1)
    return bare.endswith(("?", "？")) or _ASKS.match(bare) is not None or _starts_with_sums(bare)


def _starts_with_sums(text: str) -> bool:
    number = re.match(r"[-(]*[0-9.,]+", text)
    return number is not None and any(sums.startswith(number[0]) for sums in find_expressions(text[:80])[:1])


def _apart(left: str, right: str) -> bool:
    """Return whether the texts before and after an "and" are separate requests."""
    if len(left.split()) < 3 and not find_expressions(left):
        return False
    if right[0] in "-(0123456789":
        return _starts_with_sums(right)
    if len(right.split()) < 3 or (_ORDERS.match(right) and _OPEN.search(left)):
        return False
    return _SUMS.match(right) is not None or not _goes_back(right)


def _goes_back(text: str) -> bool:
    return _BACK.match(f" {text[:120]}") is not None


def _part(text: str, *, first: bool) -> Part:
    bare = _LEAD.sub("", text, count=1).rstrip(",; ") or text
    goes_on = "then" in text[: len(text) - len(bare)].lower() or _goes_back(bare)
    return Part(bare[:1].upper() + bare[1:], back=goes_on and not first)
