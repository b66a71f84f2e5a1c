"""Splits a question into the parts that can be answered apart; knows no workers.

At list items, sentences, and an "and" before something that asks. English, but for the
ends of sentences.
"""

import re
from dataclasses import dataclass

from podium.workers.arithmetic import find_expressions

MAX_READ = 16 * 1024
"""How much of a question is looked at, in characters; the rest goes with the last part."""

_QUOTED = re.compile(
    r"`[^`\n]{1,500}`|\"[^\"\n]{1,500}\"|“[^“”\n]{1,500}”|(?<!\w)'[^'\n]{1,200}'(?!\w)|\([^()\n]{1,500}\)"
)
_LEAD = re.compile(r"(?:(?:and|but|also|then|next|finally|now|so|please)\b,? ?)*", re.IGNORECASE)
_ASKING = r"(?:who|whom|whose|what|which|where|when|why|how)(?:'s|’s)?\b"
_SUMMING = r"(?:add|calculate|compute|divide|multiply|subtract)\b"
_ORDERING = r"(?:compare|describe|explain|find|give|list|search|show|summari[sz]e|tell|translate|write)\b"
_END = re.compile(
    r"(?P<item>(?:^|\n)[ \t]*(?:[-*•]|\(?[0-9]{1,2}[.)])[ \t]+)"
    r"|[?!;]+[\"'”)]*(?=\s)|[。！？；]+|\n(?=[ \t]*\n)|(?:(?<=\w\w\w)|(?<=[0-9)]))\.(?=\s+(?-i:[A-Z(\"“]))"
    rf"|(?P<joint>,?\s(?:and|also|then)\s(?:then |also )?)(?={_ASKING}|{_SUMMING}|{_ORDERING}|[-(]?[0-9])",
    re.IGNORECASE,
)
_ASKS = re.compile(rf"{_LEAD.pattern}(?:{_ASKING}|{_SUMMING}|{_ORDERING})", re.IGNORECASE)
_ASKS_AT_ONCE = re.compile(rf"{_ASKING}|{_SUMMING}", re.IGNORECASE)
# After "how do I install" or "explain how to read", a bare verb belongs to the same question.
_OPEN = re.compile(r"\b(?:how|to|i|we|you|they|can|could|should|if)\b", re.IGNORECASE)
_BACK = re.compile(
    r"(?:\W*\w+){0,5}?\W+(?:it|its|they|them|the (?:result|answer)|that(?= (?:by|to|from|is)\b|[,.?!]|$))\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Part:
    """One thing that is asked for."""

    text: str
    back: bool = False
    """Whether it goes on from the part before it: "then …", "multiply that by 3"."""


def split(question: str) -> list[Part]:
    """Return the parts of `question` in order, at least one.

    Statements stay with the request that follows them. Linear in the length of the question.
    """
    found: list[str] = []
    statement = ""
    for piece, is_item in _pieces(question[:MAX_READ]):
        if is_item or _asks(piece):
            found.append(f"{statement} {piece}".strip())
            statement = ""
        else:
            statement = f"{statement} {piece}".strip()
    if len(found) < 2:
        return [Part(question.strip())]
    found[-1] = f"{found[-1]} {statement}{question[MAX_READ:]}".strip()
    return [_part(text, first=number == 0) for number, text in enumerate(found)]


def _pieces(text: str) -> list[tuple[str, bool]]:
    """Cut `text` at every boundary; say of each piece whether it is a list item."""
    masked = _QUOTED.sub(lambda quoted: "_" * len(quoted[0]), text)
    pieces: list[tuple[str, bool]] = []
    start, is_item = 0, False
    for end in _END.finditer(masked):
        if end["joint"] and not _apart(text[start : end.start()], text[end.end() : end.end() + 300]):
            continue
        pieces.append(
            (text[start : end.start() if end["item"] or end["joint"] else end.end()].strip(), is_item)
        )
        # A "then" is kept: it says that the part goes on from the one before.
        start = end.start("joint") if "then" in (end["joint"] or "") else end.end()
        is_item = bool(end["item"])
    return [(piece, item) for piece, item in (*pieces, (text[start:].strip(), is_item)) if piece]


def _asks(piece: str) -> bool:
    return piece.endswith(("?", "？")) or _ASKS.match(piece) is not None or _starts_with_sums(piece)


def _starts_with_sums(text: str) -> bool:
    number = re.match(r"[-(]*[0-9.,]+", text)
    return number is not None and any(sums.startswith(number[0]) for sums in find_expressions(text[:80])[:1])


def _apart(left: str, right: str) -> bool:
    """Say whether what stands before and behind an "and" can be asked apart."""
    if right[:1] in "-(0123456789":
        return _starts_with_sums(right) and (len(left.split()) > 2 or bool(find_expressions(left[-300:])))
    if len(left.split()) < 3 or len(right.split(maxsplit=2)) < 3:
        return False
    return _ASKS_AT_ONCE.match(right) is not None or _OPEN.search(left) is None


def _part(text: str, *, first: bool) -> Part:
    lead = _LEAD.match(text)
    bare = text[lead.end() :] if lead and lead.end() < len(text) else text
    then = bool(lead and "then" in lead[0].lower())
    bare = bare.rstrip(",; ")
    return Part(
        bare[:1].upper() + bare[1:], not first and (then or _BACK.match(f" {bare[:120]}") is not None)
    )
