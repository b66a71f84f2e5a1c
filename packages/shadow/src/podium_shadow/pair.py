"""What is recorded of a shadow: pairs of answers, and counts of what was not compared. Pure data."""

import unicodedata
from dataclasses import dataclass
from typing import Literal

from podium.usage import Usage

MOST_CHARS = 100_000
"""Characters that are kept of a question, and of an answer; what is longer is cut."""

_OUTER = " \t.,;:!?\"'`*_“”‘’"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What an answer took, as far as it was seen."""

    calls: int | None = None
    """Calls of models and other workers; `None` means that none was seen, though there may have been some."""
    usage: Usage | None = None
    """Tokens of all of them; `None` means unknown."""
    cost: float | None = None
    """USD; `None` means unknown."""
    run_id: str | None = None
    """The run of a conductor that answered, as its journal has it; `None` where there is no one such."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """How one of the two did."""

    status: Literal["ok", "failed", "timeout"]
    answer: str = ""
    problem: str = ""
    """Why there is no answer."""
    seconds: float | None = None
    """From question to answer; `None` where it was one of a batch, and nobody can tell."""
    spent: Spent = Spent()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One question that both were asked."""

    pair_id: str
    shadow: str
    """The name of the shadow it is of."""
    at: float
    """When the candidate had ended, in seconds of Unix time."""
    question: str
    primary: Side
    candidate: Side

    @property
    def is_equal(self) -> bool:
        """Whether both answers are the same but for case, spaces and outer marks."""
        return plain(self.primary.answer) == plain(self.candidate.answer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """The requests of one shadow in one process in one hour."""

    tally_id: str
    shadow: str
    at: float
    """When it was last added to, in seconds of Unix time."""
    seen: int = 0
    """Requests in all."""
    sampled: int = 0
    """Those drawn; each becomes a pair, or is in one of the counts below."""
    busy: int = 0
    """Dropped, since as many candidates ran as may."""
    unfunded: int = 0
    """Dropped, since the budget was used up."""
    abandoned: int = 0
    """Dropped, since the caller did not wait for the primary's answer, or a graph was interrupted."""
    unread: int = 0
    """Dropped, since the request could not be copied, or the answer not be read."""
    cut_off: int = 0
    """Begun and then cancelled, since the shadow was closed."""
    unrecorded: int = 0
    """Compared, but the journal could not take the pair."""


def plain(text: str) -> str:
    """Return a text as it is compared: without case, spaces that are more than one, and outer marks."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split()).strip(_OUTER)
