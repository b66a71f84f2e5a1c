"""Finds the option that a model chose. Models name an option by its letter in many ways."""

import re
from string import ascii_uppercase

from podium_evals.grading.answers import final_answer, is_marked, without_thoughts

_OPEN, _CLOSE = r"[*_`(\[{$\\\"']*(?:(?:text|textbf|mathrm|mathbf|boxed)\{)?[(\[]*", r"[)\]}*_`$\"']*"
_LETTER = rf"{_OPEN}(?-i:([A-Z]))(?![A-Za-z0-9'’])"
_NOUN = r"(?:option|choice|answer|letter)"
_NAMED = re.compile(
    rf"\b(?:answer|option|choice)\b{_CLOSE}\s*(?:\b(?:is|(?:would|must|should) be)\b|:|=|-|\u2013|\n)"
    rf"\s*{_CLOSE}:?{_CLOSE}\s*(?:{_NOUN}\s*:?\s*)?{_LETTER}"
    rf"|\b(?:choose|pick|select|chose|picked|selected|go with|going with|opt for)\s+(?:{_NOUN}\s+)?{_LETTER}"
    rf"|(?:\b{_NOUN}\s+)?(?<![A-Za-z0-9]){_LETTER}{_CLOSE}"
    r"\s+(?:is|must be|would be)\s+(?:the\s+)?(?:\w+\s+)?(?:correct|right|best|answer)\b",
    re.IGNORECASE,
)
"""Sentences that name the chosen option."""
_ANOTHER = re.compile(
    rf"{_CLOSE}\s*(?:,|/|&|\+|\band\b|\bor\b)\s*(?:(?:and|or|{_NOUN})\s+)?{_LETTER}", re.IGNORECASE
)
"""Matches a second option after the first."""
_ARTICLE = re.compile(r"\s+(?!is\b|was\b|because\b|since\b|as\b|and\b|or\b|fits\b|holds\b)[a-z]")
"""Matches text after the article `A` or the pronoun `I`, which are not options here."""
_AROUND = "*_`$()[]{}.:\"' \n"
_ANY = re.compile(r"(?<![A-Za-z0-9'’])\(?([A-Z])\)?(?![A-Za-z0-9'’])")


def final_choice(text: str) -> str:
    """Return the letter of the option that a text chooses. Without one clear option, return the final answer.

    A letter in a tag or a box takes precedence over sentences such as `The correct option is C`. Of several
    such sentences, the last one counts.
    """
    final, text = final_answer(text), without_thoughts(text)
    if not is_marked(text):
        named = [match for match in _NAMED.finditer(text) if not _is_article(text, match)]
        if named:
            return _one_letter(text[named[-1].start(named[-1].lastindex or 0) :]) or final
    return _letter(final) or final


def _is_article(text: str, match: re.Match[str]) -> bool:
    group = match.lastindex or 0
    return match[group] in "AI" and _ARTICLE.match(text, match.end(group)) is not None


def _letter(said: str) -> str | None:
    """Return the letter that a text chooses; `None` if the text chooses no letter, or several."""
    bare = said.strip(_AROUND)
    if len(bare) == 1 and bare.isalpha():
        return bare.upper()
    if re.match(rf"{_OPEN}[A-Z](?:{_CLOSE}[).\]:*]|[)\]}}*_`]+)(?=[\s*]|$)", said) or re.match(
        rf"{_OPEN}(?:{_NOUN}\s+)?{_OPEN}[A-Z]{_CLOSE}\s*(?:,|;|\u2013|-|because|since|as)\s", said
    ):
        start = re.search(r"(?<![A-Za-z])[A-Z](?![A-Za-z])", said)
        assert start is not None
        return _one_letter(said[start.start() :])
    lines = said.strip().splitlines() or [""]
    alone = {line.strip(_AROUND) for line in (lines[0], lines[-1])} & set(ascii_uppercase)
    if len(alone) == 1:
        return alone.pop()
    letters = {
        match[1]
        for match in _ANY.finditer(said)
        if not (match[0] in "AI" and _ARTICLE.match(said, match.end()))
    }
    return letters.pop() if len(letters) == 1 else None


def _one_letter(said: str) -> str | None:
    """Return the letter at the beginning of a text; `None` if another option follows."""
    return None if _ANOTHER.match(said, 1) else said[0]
