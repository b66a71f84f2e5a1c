"""Finds numbers in a text that are parts of dates, times, units, versions or phone numbers.

Arithmetic with their digits would return a meaningless number.
"""

import re
from typing import NamedTuple

MASK = "\ue000"
"""Replaces each such quantity in a masked text."""


class Foreign(NamedTuple):
    """A quantity that is not a plain number."""

    text: str
    kind: str
    """Its kind, as in "a date"."""


_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sep(?:t(?:ember)?)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
_DAY = r"[0-9]{1,2}(?:st|nd|rd|th)?"
_UNITS = (
    "nm|mm|cm|dm|m|km|mi|miles?|ft|feet|foot|inch(?:es)?|yards?|yd|km/h|kmh|mph|knots?|m/s|mg|g|kg|lbs?|pounds?"
    "|oz|ounces?|tons?|tonnes?|ml|cl|dl|l|lit(?:er|re)s?|gallons?|cups?|tsp|tbsp|ms|s|secs?|seconds?|mins?"
    "|minutes?|h|hrs?|hours?|days?|weeks?|months?|years?|°[cfk]?|degrees?|kelvin|celsius|fahrenheit|k?hz|mhz|ghz"
    "|k?w|k?wh|mw|m?v|amps?|ma|mah|k?j|k?cal|bits?|bytes?|[kmgt]i?b|px|hundred|thousand|million|billion|trillion"
    "|dozen"
)
_KINDS = {
    "date": (
        "a date",
        (
            r"[0-9]{1,2}(?P<mark>[-/.])[0-9]{1,2}(?P=mark)(?:[0-9]{4}|[0-9]{2})|(?:19|20)[0-9]{2}-(?:0[1-9]|1[0-2])"
            rf"|{_DAY} (?:of )?{_MONTH}(?:,? [0-9]{{4}})?|{_MONTH} {_DAY}(?:,? [0-9]{{4}})?"
        ),
    ),
    "version": ("a version", r"v(?:ersion)? ?[0-9]++(?>(?:\.[0-9]++)+)|[0-9]++(?>(?:\.[0-9]++){2,})"),
    "phone": (
        "a phone number",
        (
            r"(?<![0-9)%])(?<![0-9)%] )\+[0-9][0-9 ()/-]{6,20}[0-9]"
            r"|(?:[0-9]{1,3}[ -])?(?:\([0-9]{2,4}\) ?|[0-9]{3}-)[0-9]{3}-[0-9]{4}|[0-9]{3}-[0-9]{4}"
        ),
    ),
    "zeros": (
        "a number with leading zeros",
        (
            r"0[0-9]++(?>(?:[-/][0-9]++)+)"
            r"|[0-9]++(?>(?:[-/](?!0[0-9])[0-9]++)*)[-/]0[0-9]++(?>(?:[-/][0-9]++)*)"
        ),
    ),
}
# These kinds are also recognized in a chain, as in "2000-10-10-5" or "5-10:30".
_UNMISTAKABLE = {
    "day": ("a date", r"[0-9]{4}(?P<sep>[-/.])[0-9]{1,2}(?P=sep)[0-9]{1,2}"),
    "time": ("a time", r"[0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?(?: ?[ap]\.?m\b\.?)?|[0-9]{1,2} ?[ap]\.?m\b\.?"),
    "unit": ("a quantity with a unit", rf"[0-9][0-9,.]*+(?: ?(?:{_UNITS}))(?:[²³]|(?!\w))"),
}
_NAMES = _KINDS | _UNMISTAKABLE


def _any_of(kinds: dict[str, tuple[str, str]]) -> str:
    return "|".join(f"(?P<{name}>{pattern})" for name, (_, pattern) in kinds.items())


_FOREIGN = re.compile(
    rf"(?<![\w.,])(?:(?:{_any_of(_UNMISTAKABLE)})(?![\w%]|[.,:][0-9])"
    rf"|(?<![0-9][-/])(?:{_any_of(_KINDS)})(?![\w%]|[.,:/-][0-9]))"
)


def mask(text: str) -> tuple[str, list[Foreign]]:
    """Replace each quantity that is not a plain number by `MASK`. Return the text, and these quantities.

    Args:
        text: the text in lower case.
    """
    found: list[Foreign] = []

    def masked(match: re.Match[str]) -> str:
        kind = next(kind for name, (kind, _) in _NAMES.items() if match[name] is not None)
        found.append(Foreign(match[0], kind))
        return MASK

    return _FOREIGN.sub(masked, text.replace(MASK, " ")), found
