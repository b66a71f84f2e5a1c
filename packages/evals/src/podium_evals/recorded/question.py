"""A question of a recording, and the content key by which questions are matched.

Questions have no recorded answers, only the right answer.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from string import ascii_uppercase

from podium_evals.errors import RecordingInvalid


def normalised(text: str) -> str:
    """Return the form of a text that is used to compare contents.

    Unicode is composed (NFC), and lines end with a line feed. Spaces at line ends and around the text are
    removed. Other spaces are kept, because they matter in grids.
    """
    lines = unicodedata.normalize("NFC", text).splitlines()
    return "\n".join(line.rstrip() for line in lines).strip()


def content_key(text: str) -> str:
    """Return the key of a text: 32 hexadecimal digits that depend on the normalised text only."""
    return sha256(normalised(text).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def with_options(text: str, options: Sequence[object]) -> str:
    """Return the text of a multiple-choice question, with a line for each option and its letter.

    Raises:
        RecordingInvalid: there are more than 26 options.
    """
    if len(options) > len(ascii_uppercase):
        raise RecordingInvalid(f"the question {text[:80]!r} has {len(options)} options: there are 26 letters")
    letters = zip(ascii_uppercase, options, strict=False)
    listed = "\n".join(f"({letter}) {option}" for letter, option in letters)
    return f"{text.rstrip()}\n\nOptions:\n{listed}\n\nAnswer with the letter of the right option."


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question with its right answer. Its text is all that a worker is shown."""

    id: str
    """The id of the question, unique in a recording, such as `reasoning_gym/easy/dice/7`."""
    kind: str
    """The kind of task. Questions of one kind are similar, so statistics treat kinds as clusters."""
    text: str
    """The whole text that a worker is shown."""
    level: str = ""
    """The difficulty if the source has levels: `easy` or `hard`; else empty."""
    expected: str | None = None
    """The right answer in the form of the source; `None` if the source does not have it."""
    split_key: str = ""
    """Questions with the same split key are in the same part of a split. Default: the content key."""
    key: str = field(init=False)
    """The content key. Questions are matched by this key, because ids differ between sources."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", content_key(self.text))
        if not self.split_key:
            object.__setattr__(self, "split_key", self.key)

    def position(self, seed: int) -> float:
        """Return a number from 0 up to 1, computed from the split key. It is the same in each process.

        Questions with a position below 0.5 are one half of a split.

        Args:
            seed: another seed gives other splits.
        """
        digest = sha256(f"{seed}/{self.split_key}".encode()).digest()
        return int.from_bytes(digest[:7], "big") / 2**56
