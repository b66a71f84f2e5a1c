"""Removes secrets and control characters from text, and translates foreign exceptions without secrets."""

import json
import re
from asyncio import CancelledError, current_task
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from traceback import format_exception
from types import TracebackType
from typing import Any
from urllib.parse import quote, quote_plus

from podium.errors import PodiumError, WorkerError

BUGS = (TypeError, AttributeError, NameError, ImportError)
"""Exceptions that indicate a bug. A run raises them unchanged if they come from the user's own planner,
worker or callback."""


class Boundary:
    """A context manager that translates foreign exceptions of its block with `error`, and chains them.

    With `is_library`, `BUGS` are translated too, because data from a server may have unexpected types.
    """

    __slots__ = ("_error", "_is_library", "_who")

    def __init__(self, who: str, error: Callable[[str], PodiumError], *, is_library: bool = False) -> None:
        self._who = who
        self._error = error
        self._is_library = is_library

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if raised is None:
            return
        if isinstance(raised, CancelledError):
            task = current_task()
            if task is None or task.cancelling():
                return  # a cancelled future is translated, because it would stop the whole run
        elif not isinstance(raised, Exception):
            return
        clean = scrub_error(raised)
        if isinstance(raised, BUGS) and not self._is_library:
            if not clean:
                raise _cleaned(raised) from None
        elif not isinstance(raised, PodiumError):
            said = scrub(f"{self._who} raised {type(raised).__name__}: {raised}")
            raise self._error(said) from (raised if clean else None)
        elif not clean:
            raised.__cause__ = raised.__context__ = None


def _cleaned(raised: Exception) -> Exception:
    """Return an exception of the same kind without secrets in its message."""
    kind = next(kind for kind in BUGS if isinstance(raised, kind))
    return kind(scrub(f"{type(raised).__name__}: {raised}"))


def add_place(error: BaseException, run_id: str, where: str) -> None:
    """Add a note to an exception of the user's code that names the run and the place."""
    error.add_note(f"podium: raised by {where} in run {run_id}")


SHORTEST = 8
"""Minimum length of a secret, in characters. Redacting shorter values would remove ordinary words."""


def forms_of(value: str) -> tuple[str, ...]:
    """Return the encodings of `value`, longest first."""
    forms = {
        value,
        *_in_json(value, levels=2),
        quote(value),
        quote(value, safe=""),
        quote_plus(value),
        escape(value),
        *_in_base64(value.encode("utf-8", "surrogatepass")),
    }
    return tuple(sorted(forms, key=len, reverse=True))


def _in_json(value: str, levels: int) -> Iterator[str]:
    """Yield the value as a part of a text in JSON, and of JSON in this text, to a depth."""
    for is_ascii in (True, False):
        inner = json.dumps(value, ensure_ascii=is_ascii)[1:-1]
        yield inner
        if levels > 1:
            yield from _in_json(inner, levels - 1)


def _in_base64(value: bytes) -> Iterator[str]:
    """Yield the base64 encodings of `value` for each alignment in the encoded bytes."""
    for before in range(3):
        whole = b64encode(bytes(before) + value).decode()
        shared = -(-before * 4 // 3)  # letters that also encode the bytes before it
        end = len(whole) - (4 - (before + len(value)) % 3 if (before + len(value)) % 3 else 0)
        core = whole[shared:end]
        if len(core) >= SHORTEST:
            yield core
            yield core.replace("+", "-").replace("/", "_")


MARK = "[secret]"
"""The text that replaces a secret."""


def _is_user_and_password(found: re.Match[str]) -> bool:
    """Return whether the text after `Basic` is an encoded user and password, and not an ordinary word."""
    token = found[0][found.end(1) - found.start() :]
    try:
        said = b64decode(token + "=" * (-len(token) % 4), validate=True).decode()
    except ValueError:
        return False
    return ":" in said


def _alone(begin: str) -> str:
    """Return a pattern that matches after `begin` at the start of a word or after a JSON escape."""
    # a key can begin at only one place of a sequence of letters, so the search takes linear time
    return rf"(?:(?<![A-Za-z0-9_-]{begin})|(?<=\\[bfnrt]{begin})|(?<=\\u[0-9a-fA-F]{{4}}{begin}))"


def _keys(end: str, least: int, *begins: str) -> re.Pattern[str]:
    """Return a pattern for keys with a digit and one of the prefixes `begins`, which all end with `end`."""
    begun = "|".join(f"(?<={begin}){_alone(begin)}" for begin in begins)
    digit = "(?=[A-Za-z_-]*[0-9])"  # last, so that it is searched only once in a sequence
    return re.compile(rf"({end})(?=[A-Za-z0-9_-]{{{least}}})(?:{begun}){digit}[A-Za-z0-9_-]+")


_PEM = re.compile(
    # a backslash only with the character that it escapes, so that the quotation marks of JSON remain
    r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY-----"
    r"(?:[A-Za-z0-9+/=:,.\s]|\\{1,8}[nrt]|-(?!----))*"
    r"(?:-----END (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY-----)?"
)
_BEARER = re.compile(r"(earer {1,4})(?=[A-Za-z._~+/=-]*[0-9])[A-Za-z0-9._~+/=-]{16,}")
_BASIC = re.compile(r"(asic {1,4})[A-Za-z0-9+/]{8,}={0,2}")
_USERINFO = re.compile(r'(://[^\s/?#@:"\\<>]{0,256}:)[^\s/?#@"\\<>\[\]]{1,256}(?=@)')
_USER = re.compile(r'(ttps?://)[^\s/?#@:"\\<>]{1,256}(?=@)')
_NAMES = (
    "key api_key api-key apikey access_key access-key subscription-key subscription_key token access_token "
    "auth_token auth secret client_secret password passwd pwd sslpassword sig signature"
)
_PARAMETER = re.compile(
    rf"(=)(?:{'|'.join(f'(?<=[?&;]{name}=)' for name in _NAMES.split())})[A-Za-z0-9._~+/%=-]{{8,}}",
    re.IGNORECASE,
)
_JWT = re.compile(rf"eyJ{_alone('eyJ')}[A-Za-z0-9_-]{{8,}}\.[A-Za-z0-9_-]{{8,}}(?:\.[A-Za-z0-9_-]*)?")
_AWS = re.compile(
    rf"(IA)(?:(?<=AKIA){_alone('AKIA')}|(?<=ASIA){_alone('ASIA')})[A-Z0-9]{{16}}(?![A-Za-z0-9])"
)
_PREFIXES = "gh[oprsu]_ github_pat_ sk_live_ sk_test_ rk_live_ gsk_ hf_ npm_ podium_sk_"
_GOOGLE = _keys("AIza", 30, "AIza")
_DASHED = _keys("-", 16, "sk-", "xox[abeprs]-", "xapp-", "xai-", "pplx-", "glpat-", "pypi-")
_SCORED = _keys("_", 16, *_PREFIXES.split())

_LOOKS = (
    ("PRIVATE KEY-----", _PEM),
    ("earer ", _BEARER),
    ("asic ", _BASIC),
    ("@", _USERINFO),
    ("ttp", _USER),
    ("=", _PARAMETER),
    ("J", _JWT),
    ("I", _AWS),
    ("I", _GOOGLE),
    ("-", _DASHED),
    ("_", _SCORED),
)
"""For each kind of secret: a substring of all texts with it, and its pattern.

The first group of a pattern matches the text before the secret, which is not redacted. A rare letter is the
fastest substring to search, and a pattern that begins with a literal is much faster than one that begins
with alternatives.
"""


def looks_secret(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and the end of each part of `text` that looks like a secret."""
    for hint, pattern in _LOOKS:
        if hint in text:
            for found in pattern.finditer(text):
                if pattern is not _BASIC or _is_user_and_password(found):
                    yield found.end(1) if pattern.groups else found.start(), found.end()


_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def printable(text: str) -> str:
    """Replace each control character with U+FFFD, and each CRLF with a line feed."""
    if text.isascii() and text.replace("\n", "").isprintable():  # most texts; much faster
        return text
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))


def escaped(text: str) -> str:
    """Replace each control character in JSON with its escape."""
    if text.isascii() and text.isprintable():  # most records; much faster
        return text
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


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
    """Return JSON data with `[secret]` in place of every secret; other objects are replaced as a whole."""
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
    """Remove secrets from an error, its causes and contexts; return whether none are left."""
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
