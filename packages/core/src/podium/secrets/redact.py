"""What may be shown nowhere, and taking it out of text.

It owns the values that were said to be secret. Whatever leaves Podium in words passes
`scrub`: the journal, logs, spans, errors, the command line. It knows none of them.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from traceback import format_exception
from typing import Any

from podium.errors import PodiumError
from podium.secrets.encodings import SHORTEST, forms_of
from podium.secrets.patterns import MARK, looks_secret

MOST = 1000
"""How many values are known at a time; the one told longest ago is then forgotten."""

_forms: dict[str, tuple[str, ...]] = {}
"""Values that are secret, and every text that gives one away."""


def register(value: str) -> None:
    """Let no text show `value` from now on, in this whole process.

    Args:
        value: a key, password or token; one shorter than `SHORTEST` characters is passed over.
    """
    if len(value) < SHORTEST:
        return
    _forms.pop(value, None)
    _forms[value] = forms_of(value)
    if len(_forms) > MOST:
        del _forms[next(iter(_forms))]


def scrub(text: str) -> str:
    """Return `text` with a mark in the place of every secret.

    Secrets are the values that were registered (as they are, or escaped for JSON, URLs or
    HTML, or in base64) and what looks like one: bearer tokens, keys with the well-known
    beginnings, JWTs, private keys, passwords and keys in URLs. A text that is JSON still is.
    """
    clean = _scrub(text)
    return text if clean == text else _still_json(text, clean)


def scrub_data(value: Any) -> Any:
    """Return JSON data with a mark in the place of every secret in it.

    Another object that shows a secret becomes a mark as a whole.
    """
    if isinstance(value, str):
        return _scrub(value)
    if isinstance(value, list | tuple):
        clean = [scrub_data(item) for item in value]
        return clean if isinstance(value, list) else tuple(clean)
    if isinstance(value, dict):
        return {_scrub(key): scrub_data(item) for key, item in value.items()}
    spelled = json.dumps(value, default=repr)
    return value if _scrub(spelled) == spelled else MARK


def scrub_error(error: BaseException) -> bool:
    """Take secrets out of what `error` says, and all that it came from.

    Returns:
        Whether none are left: an error that keeps its words elsewhere than in its
        arguments and notes cannot be helped, and must not be shown.
    """
    if _is_clean(error):
        return True
    left, seen = [error], set[int]()
    while left:
        each = left.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        each.args = tuple(_scrub(arg) if isinstance(arg, str) else arg for arg in each.args)
        if notes := getattr(each, "__notes__", None):
            notes[:] = map(_scrub, notes)
        left += [other for other in (each.__cause__, each.__context__) if other is not None]
        left += each.exceptions if isinstance(each, BaseExceptionGroup) else ()
    return _is_clean(error)


@contextmanager
def scrubbing() -> Iterator[None]:
    """Let none of our errors out of the block that says a secret, or came from one that does."""
    try:
        yield
    except PodiumError as error:
        if not scrub_error(error):
            error.__cause__ = error.__context__ = None
        raise


def _is_clean(error: BaseException) -> bool:
    said = "".join(format_exception(error, limit=0))
    return _scrub(said) == said


def _scrub(text: str) -> str:
    """Take out secrets until none are left: what stood beside one can turn out to begin another."""
    before = None
    while before != text:
        before = text
        text = _mark(text, sorted({*_known(text), *looks_secret(text)}))
    return text


def _known(text: str) -> Iterator[tuple[int, int]]:
    """Yield where in `text` a registered value begins and ends, in any form."""
    for forms in tuple(_forms.values()):  # another thread may register meanwhile
        for form in forms:
            at = text.find(form)
            while at >= 0:
                yield at, at + len(form)
                at = text.find(form, at + 1)


def _mark(text: str, found: list[tuple[int, int]]) -> str:
    """Put a mark in the place of each span. Spans that overlap become one mark."""
    shown, at = list[str](), 0  # `at` is how far the text is shown or marked
    for begin, end in found:
        if begin >= at:
            shown += [text[at:begin], MARK]
        at = max(at, end)
    return "".join([*shown, text[at:]])


def _still_json(text: str, clean: str) -> str:
    """Return `clean`; where it ceased to be the JSON that `text` is, scrub that string by string."""
    try:
        json.loads(clean)
    except (ValueError, RecursionError):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return clean
        return json.dumps(scrub_data(value))
    return clean
