"""Says in sentences why the body or the parameters of a request are invalid.

The texts name the parameter and what it must be. They have no text of the library that checks the types.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic_core import ErrorDetails

_KINDS: Mapping[str, str] = {
    "string_type": "a text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
}
"""What a value must be, for the errors about its type."""
_RULES: Mapping[str, str] = {
    "missing": "is missing",
    "extra_forbidden": "is not a known parameter",
    "literal_error": "must be {expected}",
    "union_tag_invalid": "has the type {tag!r:.80}: it must be one of {expected_tags}",
    "union_tag_not_found": "has no type",
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "too_short": "must not be empty",
    "too_long": "must have at most {max_length} entries",
    "string_too_short": "must not be empty",
    "string_too_long": "must have at most {max_length} characters",
}
"""What is wrong with a value of the right type, with the facts of the error."""
_BRANCH = re.compile(r"(str|int|float|bool|(list|dict|literal|constrained|function)\W.*)", re.IGNORECASE)
"""The names of alternative types, which are in the places of errors beside the names of fields."""
_PLACE = re.compile(r"at line (\d+) column (\d+)")


@dataclass(frozen=True, slots=True)
class Complaint:
    """Why a parameter is invalid."""

    param: str
    """The place in the body, such as `messages[0].role`; empty for the whole body."""
    message: str
    """A sentence that names the parameter."""


def complaints_of(found: Sequence[ErrorDetails]) -> list[Complaint]:
    """Return the complaints about a body, one for each invalid parameter."""
    by_place: dict[str, list[ErrorDetails]] = {}
    for details in found:
        by_place.setdefault(_path(details["loc"]), []).append(details)
    places = [place for place in by_place if not _is_explained(place, by_place)]
    return [Complaint(place, _told(place, by_place[place])) for place in places]


def _is_explained(place: str, by_place: Mapping[str, Sequence[ErrorDetails]]) -> bool:
    """Return whether only the type is wrong, as one of several types, and an error within says more."""
    within = any(other != place and other.startswith((f"{place}[", f"{place}.")) for other in by_place)
    return within and all(details["type"] in _KINDS for details in by_place[place])


def _told(place: str, found: Sequence[ErrorDetails]) -> str:
    kinds = [_KINDS[details["type"]] for details in found if details["type"] in _KINDS]
    others = [details for details in found if details["type"] not in _KINDS]
    if others:
        return _of_value(place, others[0])
    if not place:
        return "the body is not a JSON object"
    if "a number" in kinds:
        kinds = [kind for kind in kinds if kind != "a whole number"]
    return f"{place} must be {' or '.join(dict.fromkeys(kinds))}"


def _of_value(place: str, details: ErrorDetails) -> str:
    kind = details["type"]
    if kind == "json_invalid":
        return _not_json(details)
    if kind == "refused":  # our own check
        return f"{place}: {details['msg']}" if place else str(details["msg"])
    known = {name: _shown(value) for name, value in details.get("ctx", {}).items()}
    if known.get("max_length") == "0":
        return f"{place} must be empty"
    return f"{place} {_RULES.get(kind, 'is invalid').format(**known)}"


def _shown(value: object) -> str:
    """Return a bound as JSON has it."""
    if isinstance(value, float):
        return f"{value:g}"
    return str(value).replace("True", "true").replace("False", "false")


def _not_json(details: ErrorDetails) -> str:
    if not details["input"]:
        return "the body is empty: send a JSON object"
    place = _PLACE.search(details["msg"])
    where = "" if place is None else f": the error is at line {place[1]}, column {place[2]}"
    return f"the body is not JSON{where}"


def _path(location: Sequence[str | int]) -> str:
    path = ""
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        elif not _BRANCH.fullmatch(part):
            path += f".{part}" if path else part
    return path
