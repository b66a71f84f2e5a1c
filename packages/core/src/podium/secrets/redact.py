"""Removes secrets from text.

The module stores the registered secrets. All text that leaves Podium goes through `scrub`: the journal, logs,
spans, errors and the command line.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from traceback import format_exception
from typing import Any

from podium.errors import PodiumError, WorkerError
from podium.secrets.encodings import SHORTEST, forms_of
from podium.secrets.patterns import MARK, looks_secret

MOST = 1000
"""Maximum number of registered values; the oldest is then removed."""

_forms: dict[str, tuple[str, ...]] = {}
"""The registered values, each with its encodings."""


def register(value: str) -> None:
    """Register a secret: from now on, `scrub` removes it in this process.

    Args:
        value: a key, password or token; a value shorter than `SHORTEST` characters is ignored.
    """
    if len(value) < SHORTEST:
        return
    _forms.pop(value, None)
    _forms[value] = forms_of(value)
    if len(_forms) > MOST:
        del _forms[next(iter(_forms))]


def scrub(text: str) -> str:
    """Return `text` with `[secret]` in place of every secret.

    Secrets are the registered values (verbatim, escaped for JSON, URLs or HTML, or in base64) and texts that
    look like secrets: bearer tokens, keys with well-known prefixes, JWTs, private keys, and passwords and
    keys in URLs. JSON stays valid JSON.
    """
    clean = _scrub(text)
    return text if clean == text else _still_json(text, clean)


def scrub_data(value: Any) -> Any:
    """Return JSON data with `[secret]` in place of every secret.

    An object that is not JSON data is replaced as a whole if its `repr` has a secret.
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
    """Remove secrets from the message of `error`, and from its causes and contexts.

    Returns:
        Whether no secrets are left. Secrets outside the arguments and notes of an error cannot be removed;
        such an error must not be shown.
    """
    for each in (error, error.__cause__):  # a body that was received, and was not JSON
        if isinstance(each, WorkerError) and each.received is not None:
            each.received = _scrub(each.received)
        elif isinstance(each, json.JSONDecodeError):
            each.doc = _scrub(each.doc)
        elif isinstance(each, UnicodeDecodeError):
            each.object = _scrub(each.object.decode("latin-1")).encode("latin-1", "replace")
            each.args = (each.encoding, each.object, each.start, each.end, each.reason)
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
    """Remove secrets from the `PodiumError`s that the block raises, and drop causes that still have some."""
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
    """Replace secrets until none are left, because a replacement can expose the start of another secret."""
    before = None
    while before != text:
        before = text
        text = _mark(text, sorted({*_known(text), *looks_secret(text)}))
    return text


def _known(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and the end of each registered value in `text`, in any encoding."""
    for forms in tuple(_forms.values()):  # a copy, because another thread may call `register`
        for form in forms:
            at = text.find(form)
            while at >= 0:
                yield at, at + len(form)
                at = text.find(form, at + 1)


def _mark(text: str, found: list[tuple[int, int]]) -> str:
    """Replace each span by `MARK`. Overlapping spans become one mark."""
    shown, at = list[str](), 0  # `at` is the end of the processed text
    for begin, end in found:
        if begin >= at:
            shown += [text[at:begin], MARK]
        at = max(at, end)
    return "".join([*shown, text[at:]])


def _still_json(text: str, clean: str) -> str:
    """Return `clean`; if `text` is JSON and `clean` is not, scrub the strings of `text` one by one."""
    try:
        json.loads(clean)
    except (ValueError, RecursionError):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return clean
        return json.dumps(scrub_data(value))
    return clean
