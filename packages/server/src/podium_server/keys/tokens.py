"""API keys as text: 256 random bits with a prefix and a checksum.

The prefix and the checksum let scanners of source code recognize a key, and let the server refuse a mistyped
key without a look-up. The database stores the SHA-256 of a key. A slow hash such as bcrypt protects
passwords, which can be guessed; nobody can guess 256 random bits, and a slow hash would delay each request.
"""

import re
import secrets
from hashlib import sha256
from zlib import crc32

PREFIX = "podium_sk_"
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_RANDOM, _CHECKSUM = 43, 6
"""Numbers of digits in base 62: of 256 bits, and of the CRC-32 of the text before."""
_FORM = re.compile(rf"{PREFIX}[0-9A-Za-z]{{{_RANDOM + _CHECKSUM}}}")


def new_token() -> str:
    """Return a new random key."""
    while True:
        begun = PREFIX + _base62(secrets.randbits(256), _RANDOM)
        if any(digit.isdigit() for digit in begun):  # so that `podium.secrets` recognizes it
            return begun + _checksum(begun)


def is_token(text: str) -> bool:
    """Return whether a text has the form and the checksum of a key."""
    return _FORM.fullmatch(text) is not None and text[-_CHECKSUM:] == _checksum(text[:-_CHECKSUM])


def token_hash(token: str) -> str:
    """Return the SHA-256 of a key, as the database stores it."""
    return sha256(token.encode()).hexdigest()


def _checksum(text: str) -> str:
    return _base62(crc32(text.encode()), _CHECKSUM)


def _base62(number: int, width: int) -> str:
    digits = ""
    while number:
        number, digit = divmod(number, 62)
        digits = _DIGITS[digit] + digits
    return digits.rjust(width, "0")
