"""Where one sentence asks for two things: the joints between clauses of their own.

Conservative: "bread and butter", "how do I install and configure it" and "how many apples
and pears are there" are one thing each. English only.
"""

import re

from podium.workers.arithmetic.grammar import find_expressions, starts_with_expression


def _any_of(words: str) -> str:
    return f"(?:{'|'.join(words.split())})\\b"


_ASKING = _any_of("who whom whose what which where when why how")
_AUXILIARY = _any_of(
    "is are was were do does did can could should would will has have "
    "isn't aren't doesn't don't what's who's where's"
)
_ORDERING = _any_of(
    "add analyse analyze answer build calculate check cite compare compose compute convert count create "
    "deduct define describe determine divide double draft estimate evaluate explain extract fetch figure "
    "find gather get give halve identify increase decrease reduce list look lookup make mention multiply "
    "name outline point present print produce provide quote rank read report retrieve return round say "
    "search show sketch sort square state subtract suggest sum summarise summarize take tell translate "
    "triple verify work write"
)
_POLITE = (
    r"(?:(?:please|also|then|finally|next|first|firstly|secondly|lastly|now|so|and|but|ok|hi|hello|hey)\b"
    r",?\s*)*"
)
_REQUEST = (
    r"(?:(?:can|could|would|will) you (?:please )?|i (?:want|need|would like) (?:you )?to "
    r"|i'd like (?:you )?to |let's )?"
)

_JOINT = re.compile(
    r",?\s+(?:(?:and|but)\s+(?:then\s+|also\s+|finally\s+|please\s+)*|then\s+|also\s+)|(?P<bare>,)\s+",
    re.IGNORECASE,
)
_SUMS = re.compile(
    rf"{_POLITE}{_REQUEST}"
    r"(?:(?:calculate|compute|work out|evaluate|determine|find|tell me|give me|solve)\s+)?"
    r"(?:what(?:'s| is| are)\s+|how much (?:is|are)\s+)?",
    re.IGNORECASE,
)
_STARTS_ASKING = re.compile(rf"{_POLITE}{_ASKING}", re.IGNORECASE)
_STARTS_INVERTED = re.compile(rf"{_POLITE}{_AUXILIARY}(?! (?:be|been|have|not)\b)", re.IGNORECASE)
_STARTS_ORDER = re.compile(rf"{_POLITE}{_REQUEST}{_ORDERING}(?! (?:of|is|are)\b)", re.IGNORECASE)
_STARTS_CONDITION = re.compile(
    rf"{_POLITE}(?:if|when|while|as|since|because|although|given|once|after|before|until|whenever)\b",
    re.IGNORECASE,
)
_WHEN_ASKED = re.compile(rf"{_POLITE}when {_AUXILIARY}", re.IGNORECASE)
_HAS_VERB = re.compile(rf"\b{_AUXILIARY}", re.IGNORECASE)
_OPEN_VERB = re.compile(
    r"\b(?:to|do|does|did|can|could|should|would|will|must|may|might|i|we|you|they|let)\b", re.IGNORECASE
)
_WHO_DID = re.compile(rf"{_POLITE}(?:who|what|which)\s+(?!and\b|or\b)\w+\s+\S", re.IGNORECASE)
_PRONOUN = re.compile(r"\b(?:it|its|they|them|their|this|these|those)\b", re.IGNORECASE)
_REACH = 300
_SUM_REACH = 80
_MAX_SENTENCE = 2_000


def asks(text: str) -> bool:
    """Say whether a sentence asks for something, by its mark, its first word or its arithmetic."""
    start = text[:_REACH]
    if text.rstrip(" \"')”").endswith(("?", "？")) or _STARTS_ORDER.match(start):
        return True
    return bool(_STARTS_ASKING.match(start) or _STARTS_INVERTED.match(start)) or is_sum(start)


def is_sum(text: str) -> bool:
    """Say whether a text begins with arithmetic, or with a word or two that ask for it."""
    lead = _SUMS.match(text)
    start = lead.end() if lead else 0
    return starts_with_expression(text[start : start + _SUM_REACH])


def clauses(text: str, masked: str) -> list[str]:
    """Cut a sentence at the joints between clauses that ask for something each.

    Args:
        text: the sentence.
        masked: the same, as long, with quotations blanked out.
    """
    conditional = _STARTS_CONDITION.match(masked) and not _WHEN_ASKED.match(masked)
    if conditional or len(text) > _MAX_SENTENCE:
        return [text]
    joints = list(_JOINT.finditer(masked))
    found: list[str] = []
    start = 0
    for number, joint in enumerate(joints):
        right = text[joint.end() : joint.end() + _REACH]
        if not _begins(right):
            continue
        if joint["bare"] and not any(
            _begins(text[j.end() : j.end() + _REACH]) for j in joints[number + 1 :][:8]
        ):
            continue
        if _apart(text[start : joint.start()], right):
            found.append(text[start : joint.start()])
            # A "then" is kept: it says that the clause goes on from the one before.
            start = joint.end() if "then" not in joint[0].lower() else joint.end() - 5
    return [*found, text[start:]]


def _begins(right: str) -> bool:
    """Say whether a text begins as a question, an order or arithmetic does."""
    return (
        bool(_STARTS_ASKING.match(right) or _STARTS_ORDER.match(right))
        or (len(right.split(maxsplit=2)) > 2 and _STARTS_INVERTED.match(right) is not None)
        or is_sum(right)
    )


def _apart(left: str, right: str) -> bool:
    """Say whether two clauses, the second of which begins as one, can be asked apart."""
    sums = bool(find_expressions(left[-_REACH:]))
    if is_sum(right):
        return not sums and _complete(left)
    if not (sums or _complete(left)):
        return False
    if _STARTS_ORDER.match(right):
        # After "how do I install" or "explain how to read", a bare verb belongs to the same question.
        return sums or _OPEN_VERB.search(left) is None
    return _PRONOUN.search(right.partition("?")[0]) is None


def _complete(left: str) -> bool:
    """Say whether a clause stands on its own: it has a verb, and what the verb is about."""
    if _STARTS_ORDER.match(left):
        return len(left.split()) > 1
    if _STARTS_ASKING.match(left):
        return bool(_HAS_VERB.search(left) or _WHO_DID.match(left))
    return bool(_STARTS_INVERTED.match(left)) and len(left.split()) > 2
