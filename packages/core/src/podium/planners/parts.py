"""Splits a question into the parts that can be answered apart.

At list items, sentences and clauses; statements stay with the request that follows them.
Knows no workers.
"""

import re
from dataclasses import dataclass

from podium.planners.clauses import asks, clauses
from podium.references import refers_back

MAX_READ = 16 * 1024
"""How much of a question is looked at, in characters; the rest goes with the last part."""

_QUOTED = re.compile(
    r"```.{0,8000}?```|`[^`\n]{1,500}`|\"[^\"\n]{1,1000}\"|“[^“”]{1,1000}”|«[^«»]{1,1000}»|„[^„“]{1,1000}“"
    r"|(?<!\w)'[^'\n]{1,200}'(?!\w)|\([^()\n]{1,500}\)|https?://\S+",
    re.DOTALL,
)
_ITEM = re.compile(r"[ \t]*(?:[-*•–]|\(?[0-9]{1,3}[.)]|\(?[a-zA-Z][.)])[ \t]+(?=\S)")
_INLINE_ITEM = re.compile(r"(?:^|(?<=[\s:,;.?]))\(?([1-9])\)\s+(?=\S)")
_SENTENCE_END = re.compile(
    r"[?!]+[\"')\]”’]*\s+|(?<=[^\s.])\.[\"')\]”’]*\s+(?=[^\W_]|[\"'(“])|;\s+|[。！？；]+\s*|\n\s*\n"
)
_ABBREVIATION = re.compile(
    r"(?:^|[\s(])(?:[a-z]|mr|mrs|ms|dr|prof|st|no|nr|vs|etc|e\.g|i\.e|cf|fig|sec|approx|ca|inc|ltd|jr|sr|u\.s|u\.k)$",
    re.IGNORECASE,
)
_LEAD = re.compile(r"(?:(?:and|but|also|then|next|finally|lastly|so|now|please)\b[\s,]*)+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Part:
    """One thing that is asked for."""

    text: str
    back: bool
    """Whether it goes on from the part before it."""


def split(question: str) -> list[Part]:
    """Return the parts of `question` in order, at least one.

    Linear in its length: beyond the first 16 Ki characters nothing is split.
    """
    text, rest = question[:MAX_READ], question[MAX_READ:]
    found: list[str] = []
    waiting = ""
    for block, is_item in _blocks(text):
        for sentence in _sentences(block):
            if is_item or asks(sentence):
                parts = [sentence] if is_item else clauses(sentence, _mask(sentence))
                found += [f"{waiting} {parts[0]}".strip(), *parts[1:]]
                waiting = ""
            else:
                waiting = f"{waiting} {sentence}".strip()
    if not found:
        return [Part(question.strip(), back=False)]
    found[-1] = f"{found[-1]} {waiting} {rest}".strip()
    return [_part(text, first=number == 0) for number, text in enumerate(found) if text.strip()]


def _part(text: str, *, first: bool) -> Part:
    text = text.strip().rstrip(",;").strip()
    lead = _LEAD.match(text)
    bare = text[lead.end() :] if lead and lead.end() < len(text) else text
    return Part(bare[:1].upper() + bare[1:], back=not first and refers_back(text))


def _mask(text: str) -> str:
    """Blank out quotations, code, brackets and addresses, keeping every position."""
    return _QUOTED.sub(lambda match: "_" * len(match[0]), text)


def _blocks(text: str) -> list[tuple[str, bool]]:
    """Return runs of lines that belong together, and whether each is a list item.

    The line that introduces a list goes with each of its items.
    """
    lines = _lines(text)
    items = sum(1 for line in lines if _ITEM.match(line)) > 1
    blocks: list[tuple[list[str], bool]] = [([], False)]
    for line in lines:
        mark = _ITEM.match(line) if items else None
        if mark:
            blocks.append(([line[mark.end() :]], True))
        elif not line.strip() or (blocks[-1][1] and not line.startswith((" ", "\t"))):
            blocks.append(([line], False))
        else:
            blocks[-1][0].append(line)
    return _introduced(
        [("\n".join(block).strip(), is_item) for block, is_item in blocks if "".join(block).strip()]
    )


def _lines(text: str) -> list[str]:
    """Return the lines of a text; "1) … 2) …" in one line are items as well."""
    masked = _mask_quotes_only(text)
    marks = list(_INLINE_ITEM.finditer(masked))
    if [mark[1] for mark in marks] == [str(number) for number in range(1, len(marks) + 1)] and len(marks) > 1:
        for mark in reversed(marks):
            text = f"{text[: mark.start()]}\n{text[mark.start() :]}"
    return text.splitlines()


def _mask_quotes_only(text: str) -> str:
    return re.sub(r"`[^`\n]{1,500}`|\"[^\"\n]{1,1000}\"|“[^“”]{1,1000}”", lambda m: "_" * len(m[0]), text)


def _introduced(blocks: list[tuple[str, bool]]) -> list[tuple[str, bool]]:
    found: list[tuple[str, bool]] = []
    lead = ""
    for number, (text, is_item) in enumerate(blocks):
        following = blocks[number + 1][1] if number + 1 < len(blocks) else False
        if is_item:
            found.append((f"{lead} {text}".strip(), True))
        elif following and text.endswith(":") and len(text) <= 300:
            lead = text
        else:
            lead = ""
            found.append((text, False))
    return found


def _sentences(text: str) -> list[str]:
    masked = _mask(text)
    found: list[str] = []
    start = 0
    for end in _SENTENCE_END.finditer(masked):
        if end[0].startswith(".") and _ABBREVIATION.search(masked, max(start, end.start() - 8), end.start()):
            continue
        found.append(text[start : end.end()].strip())
        start = end.end()
    return [sentence for sentence in (*found, text[start:].strip()) if sentence]
