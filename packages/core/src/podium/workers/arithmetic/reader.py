"""Tokens and a position in them.

Every method that takes something either moves over it, or says so and stays where it was.
Knows no arithmetic.
"""

from collections.abc import Sequence

from podium.workers.arithmetic.tokens import Kind, Token

_NOTHING = Token("end", "")
_NO_UNITS = frozenset(
    """
    a also an and as at because by did do does from had has have how i if in into is it my of on or our so
    than the then they to was we were what when where which while who why with you
    """.split()  # noqa: SIM905 - as a list it is a page long
)
_MAX_UNITS = 2


class Reader:
    """Reads tokens from the first on.

    Args:
        tokens: what is read.
    """

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self.position = 0

    @property
    def at_end(self) -> bool:
        """Whether everything was read."""
        return self.position >= len(self._tokens)

    def peek(self, ahead: int = 0) -> Token:
        """Return the token `ahead` of the position; an empty one behind the last."""
        index = self.position + ahead
        return self._tokens[index] if index < len(self._tokens) else _NOTHING

    def take(self, kind: Kind, *texts: str) -> Token | None:
        """Move over a token of this kind, and of one of these texts where any are given."""
        token = self.peek()
        if token.kind != kind or (texts and token.text not in texts):
            return None
        self.position += 1
        return token

    def take_word(self, *texts: str) -> bool:
        """Move over one of these words."""
        return self.take("word", *texts) is not None

    def skip_articles(self) -> None:
        """Move over an article or two: "all the", "what a"."""
        for _ in range(2):
            self.take("word", "the", "a", "an", "all")

    def units(self) -> int:
        """Count the words ahead that may be the unit of a number: "5 green apples plus"."""
        count = 0
        while (
            count < _MAX_UNITS and self.peek(count).kind == "word" and self.peek(count).text not in _NO_UNITS
        ):
            count += 1
        return count

    def take_after_units(self, kind: Kind, *texts: str) -> Token | None:
        """Move over a token as `take` does, and over words of unit before it."""
        start = self.position
        self.position += self.units()
        found = self.take(kind, *texts)
        if found is None:
            self.position = start
        return found
