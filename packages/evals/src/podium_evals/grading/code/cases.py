"""Reads the test cases of a question: inputs and expected outputs, plain or packed like LiveCodeBench's."""

import base64
import binascii
import io
import json
import pickle
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from podium.errors import ConfigError

LARGEST = 2**30
"""Maximum number of bytes of packed cases after unpacking."""


@dataclass(frozen=True, slots=True)
class Case:
    """An input of a program, and the expected output."""

    input: str
    output: str


def cases_of(tests: Mapping[str, Any]) -> Sequence[Case]:
    """Return all cases of a question's `tests`: those under `cases`, and those packed under `packed`.

    Raises:
        ConfigError: the cases cannot be read.
    """
    try:
        rows = [*tests.get("cases", ()), *(decode_cases(packed) if (packed := tests.get("packed")) else ())]
        cases = [Case(row["input"], row["output"]) for row in rows]
    except (KeyError, TypeError) as error:
        raise ConfigError(
            f"each test case needs `input` and `output` ({type(error).__name__}: {error})"
        ) from error
    if not all(isinstance(text, str) for case in cases for text in (case.input, case.output)):
        raise ConfigError(
            "`input` and `output` of a test case must be text; for a function, text of JSON values"
        )
    return cases


def decode_cases(packed: str) -> list[dict[str, Any]]:
    """Unpack cases that are JSON text, or a base64-encoded, zlib-compressed pickle of JSON text.

    The pickle may hold only one text, because loading other pickles can run code.

    Raises:
        ConfigError: the cases have another form.
    """
    try:
        if packed.lstrip().startswith("["):
            return list(json.loads(packed))
        unpacking = zlib.decompressobj()
        data = unpacking.decompress(base64.b64decode(packed), LARGEST)
        if not unpacking.eof:
            raise ConfigError(f"packed test cases are cut, or larger than {LARGEST:,} bytes")
        return list(json.loads(_TextUnpickler(io.BytesIO(data)).load()))
    except (ValueError, TypeError, EOFError, binascii.Error, zlib.error, pickle.UnpicklingError) as error:
        raise ConfigError(f"packed test cases cannot be read: {type(error).__name__}: {error}") from error


class _TextUnpickler(pickle.Unpickler):
    """An unpickler that loads only texts, and refuses all names in a pickle."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"the pickle names {module}.{name}: only a text is allowed")


def same_output(expected: str, given: str) -> bool:
    """Return whether two outputs are equal. White space at line ends is ignored; `1.0` equals `1`."""
    wanted, lines = _lines(expected), _lines(given)
    if wanted == lines:
        return True
    if len(wanted) != len(lines):
        return False
    return all(_same_line(*pair) for pair in zip(wanted, lines, strict=True))


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().split("\n")]


def _same_line(expected: str, given: str) -> bool:
    words, others = expected.split(), given.split()
    return len(words) == len(others) and all(
        word == other or _same_number(word, other) for word, other in zip(words, others, strict=True)
    )


def _same_number(word: str, other: str) -> bool:
    try:
        return Decimal(word) == Decimal(other)
    except InvalidOperation:
        return False
