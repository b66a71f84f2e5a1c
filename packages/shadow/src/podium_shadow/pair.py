"""The records of a shadow: pairs of answers, and counts of requests. Pure data."""

import unicodedata
from dataclasses import dataclass
from typing import Literal

from podium.usage import Usage

MOST_CHARS = 100_000
"""Maximum length of a stored question or answer, in characters; longer text is cut."""

_OUTER = " \t.,;:!?\"'`*_“”‘’"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """The known calls, tokens and cost of an answer."""

    calls: int | None = None
    """Calls of models and other workers; `None` means unknown: no call was reported."""
    usage: Usage | None = None
    """Tokens of all calls; `None` means unknown."""
    cost: float | None = None
    """USD; `None` means unknown."""
    run_id: str | None = None
    """The id of the conductor's run in its journal; `None` if no conductor or several conductors ran."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """The answer of the primary or the candidate."""

    status: Literal["ok", "failed", "timeout"]
    answer: str = ""
    problem: str = ""
    """The error, if there is no answer."""
    seconds: float | None = None
    """Seconds from question to answer; `None` for a request of a batch."""
    spent: Spent = Spent()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One question with the answers of both sides."""

    pair_id: str
    shadow: str
    """The name of the shadow."""
    at: float
    """When the candidate ended, in seconds of Unix time."""
    question: str
    primary: Side
    candidate: Side

    @property
    def is_equal(self) -> bool:
        """Whether both answers are the same, except for case, spaces and outer punctuation."""
        return plain(self.primary.answer) == plain(self.candidate.answer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """The requests of one shadow in one process in one hour."""

    tally_id: str
    shadow: str
    at: float
    """When the last request was counted, in seconds of Unix time."""
    seen: int = 0
    """All requests."""
    sampled: int = 0
    """Drawn requests; each becomes a pair, or is in one of the counts below."""
    busy: int = 0
    """Dropped: `concurrency` candidates were already running."""
    unfunded: int = 0
    """Dropped: the budget was used up."""
    abandoned: int = 0
    """Dropped: the caller did not wait for the primary's answer, or a graph was interrupted."""
    unread: int = 0
    """Dropped: the request could not be copied, or the answer could not be read."""
    cut_off: int = 0
    """Started, then cancelled because the shadow was closed."""
    unrecorded: int = 0
    """Compared, but the pair could not be stored."""


def plain(text: str) -> str:
    """Return a text without case, repeated spaces and outer punctuation, for comparison."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split()).strip(_OUTER)
