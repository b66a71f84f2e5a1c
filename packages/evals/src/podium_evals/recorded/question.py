"""A question of a recording, and the key under which its content is found.

It knows no worker and no answer but the right one.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from string import ascii_uppercase

from podium_evals.errors import RecordingInvalid


def normalised(text: str) -> str:
    """Return a text in the form in which contents are compared.

    Unicode is composed (NFC), lines end with a line feed, and spaces at the ends of lines and around the
    text are removed. Other spaces count, because they matter in grids.
    """
    lines = unicodedata.normalize("NFC", text).splitlines()
    return "\n".join(line.rstrip() for line in lines).strip()


def content_key(text: str) -> str:
    """Return the key of a text: 32 hexadecimal digits that depend on the normalised text only."""
    return sha256(normalised(text).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def with_options(text: str, options: Sequence[object]) -> str:
    """Return the text of a choice: the question, and a line for each option with its letter.

    Raises:
        RecordingInvalid: there are more options than letters.
    """
    if len(options) > len(ascii_uppercase):
        raise RecordingInvalid(f"the question {text[:80]!r} has {len(options)} options: there are 26 letters")
    letters = zip(ascii_uppercase, options, strict=False)
    listed = "\n".join(f"({letter}) {option}" for letter, option in letters)
    return f"{text.rstrip()}\n\nOptions:\n{listed}\n\nAnswer with the letter of the right option."


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question, as a worker is asked it."""

    id: str
    """Its name in its source, unique in a recording: `reasoning_gym/easy/dice/7`."""
    kind: str
    """The task it belongs to. Questions of one kind are alike, so statistics treat kinds as clusters."""
    text: str
    """All that a worker is shown."""
    level: str = ""
    """The difficulty, where the source has levels: `easy`, `hard`."""
    expected: str | None = None
    """The right answer, in the form of its source; `None` where the source does not tell it."""
    split_key: str = ""
    """Questions that share it belong in the same part of a split. By default the key of the content."""
    key: str = field(init=False)
    """The key of the content, by which a question is found and joined: ids differ between sources."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", content_key(self.text))
        if not self.split_key:
            object.__setattr__(self, "split_key", self.key)

    def position(self, seed: int) -> float:
        """Return a number from 0 up to 1 that is even over split keys, the same in each process.

        A split in two halves takes the questions whose position is below 0.5.

        Args:
            seed: another seed gives other splits.
        """
        digest = sha256(f"{seed}/{self.split_key}".encode()).digest()
        return int.from_bytes(digest[:7], "big") / 2**56
