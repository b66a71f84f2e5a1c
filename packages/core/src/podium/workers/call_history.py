"""Keeps the duration and cost of recent calls in memory, for forecasts and the reservation of the answer."""

from collections import deque
from typing import NamedTuple

KEPT = 256
"""Maximum number of calls that are kept for one worker."""


class CallRecord(NamedTuple):
    """The duration, usage and cost of one call."""

    seconds: float
    ok: bool
    """Whether the call returned an answer."""
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    """In USD; `None` if it is unknown."""


class CallHistory:
    """The recent calls of one worker, in all runs of its pool."""

    def __init__(self) -> None:
        self._calls: deque[CallRecord] = deque(maxlen=KEPT)
        self._lengths: list[int] | None = None
        """The sorted lengths of the answers, in tokens; `None` until they are needed."""

    @property
    def calls(self) -> tuple[CallRecord, ...]:
        """The calls, oldest first."""
        return tuple(self._calls)

    def add(self, took: CallRecord) -> None:
        """Add a call; if there are too many, drop the oldest call."""
        self._calls.append(took)
        self._lengths = None

    def output_tokens(self, quantile: float) -> int | None:
        """Return a quantile of the lengths of answers, in tokens; `None` if there are no answers.

        Args:
            quantile: from 0 to 1.
        """
        lengths = self._lengths
        if lengths is None:
            lengths = self._lengths = sorted(call.output_tokens for call in self._calls.copy() if call.ok)
        return lengths[min(int(quantile * len(lengths)), len(lengths) - 1)] if lengths else None
