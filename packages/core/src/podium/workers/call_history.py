"""What calls of a worker took lately: what forecasts and hedges go by. Kept in memory."""

from collections import deque
from typing import NamedTuple

KEPT = 256
"""Calls of one worker that are remembered."""


class CallRecord(NamedTuple):
    """What one call of a worker took."""

    seconds: float
    ok: bool
    """Whether it ended with an answer."""
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    """In USD; `None` when it is unknown."""


class CallHistory:
    """The latest calls of one worker, over all runs of its pool."""

    def __init__(self) -> None:
        self._calls: deque[CallRecord] = deque(maxlen=KEPT)

    def __len__(self) -> int:
        return len(self._calls)

    @property
    def calls(self) -> tuple[CallRecord, ...]:
        """The calls, oldest first."""
        return tuple(self._calls)

    def add(self, took: CallRecord) -> None:
        """Remember a call; the oldest is forgotten."""
        self._calls.append(took)

    def seconds(self, quantile: float, *, least: int = 1) -> float | None:
        """Return within how many seconds this share of the calls that ended well had ended.

        Args:
            quantile: from 0 to 1.
            least: calls it takes to say so; with fewer, `None` is returned.
        """
        ended = sorted(call.seconds for call in self._calls.copy() if call.ok)
        if len(ended) < max(least, 1):
            return None
        return ended[min(int(quantile * len(ended)), len(ended) - 1)]
