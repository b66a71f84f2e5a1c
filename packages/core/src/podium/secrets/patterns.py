"""Patterns for secrets that were not registered, one for each kind. All take linear time."""

import re
from base64 import b64decode
from collections.abc import Iterator

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


def _always(_found: re.Match[str]) -> bool:
    return True


def _alone(begin: str) -> str:
    """Return a pattern that matches after the prefix `begin` at the start of a word or after a JSON escape.

    So a key can begin at only one place of a sequence of letters, and the search takes linear time.
    """
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
_GOOGLE = _keys("AIza", 30, "AIza")
_DASHED = _keys("-", 16, "sk-", "xox[abeprs]-", "xapp-", "xai-", "pplx-", "glpat-", "pypi-")
_SCORED = _keys(
    "_",
    16,
    "gh[oprsu]_",
    "github_pat_",
    "sk_live_",
    "sk_test_",
    "rk_live_",
    "gsk_",
    "hf_",
    "npm_",
    "podium_sk_",
)

_LOOKS = (
    ("PRIVATE KEY-----", _PEM, _always),
    ("earer ", _BEARER, _always),
    ("asic ", _BASIC, _is_user_and_password),
    ("@", _USERINFO, _always),
    ("ttp", _USER, _always),
    ("=", _PARAMETER, _always),
    ("J", _JWT, _always),
    ("I", _AWS, _always),
    ("I", _GOOGLE, _always),
    ("-", _DASHED, _always),
    ("_", _SCORED, _always),
)
"""For each kind of secret: a substring of all texts with it, its pattern, and a check of the matches.

The first group of a pattern matches the text before the secret, which is not redacted. A rare letter is the
fastest substring to search, and a pattern that begins with a literal is much faster than one that begins
with alternatives.
"""


def looks_secret(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and the end of each part of `text` that looks like a secret."""
    for hint, pattern, is_secret in _LOOKS:
        if hint in text:
            for found in pattern.finditer(text):
                if is_secret(found):
                    yield found.end(1) if pattern.groups else found.start(), found.end()
