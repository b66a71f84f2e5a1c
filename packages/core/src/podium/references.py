"""Whether a text begins by speaking of something that was said before it.

English only; a guess by its first words, good enough to decide what a step is shown.
"""

import re

_LEAD = re.compile(r"[^\w]*(?:(?:and|but|also|so|please|now|or)\b\W*)*", re.IGNORECASE)
_THEN = re.compile(r"(?:then|next|after that|afterwards|finally|from that|with that)\b", re.IGNORECASE)
_BACK = re.compile(
    r"\b(?:it|its|they|them|their|theirs|he|she|him|her|his"
    r"|(?:the|that|this) (?:result|answer|total|sum|product|difference|outcome|output)"
    r"|(?:that|this|these|those)(?= *(?:$|[.,;:?!)]|(?:is|are|was|were|by|to|from|with|in|and|for|mean|means|"
    r"come|comes|work|works|number|value|amount|figure)\b)))\b(?! of\b)",
    re.IGNORECASE,
)
_EMPTY_IT = re.compile(
    r"\b(?:it (?:true|possible|necessary|safe|better)|time is it|say that)\b", re.IGNORECASE
)
_WORDS = re.compile(r"(?:\S+\s+){0,5}\S+")
_MAX_CHARS = 120


def refers_back(text: str) -> bool:
    """Say whether `text` speaks of something before it, within its first words.

    "Multiply that by 3", "How is it charged?" and "Then add 2" do; "What is the rule that
    forbids it?" does not, because what it means stands in the text itself.
    """
    lead = _LEAD.match(text[: 2 * _MAX_CHARS])
    rest = text[lead.end() : lead.end() + _MAX_CHARS] if lead else text[:_MAX_CHARS]
    if _THEN.match(rest):
        return True
    beginning = _WORDS.match(rest)
    start = beginning[0] if beginning else ""
    return _BACK.search(_EMPTY_IT.sub("", start)) is not None
