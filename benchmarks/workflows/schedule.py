"""The least time of the job: its calls in a number of slots, with the delays that were served."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush

from benchmarks.workflows.job import RETRY_AFTER, SCEPTICS, has_finding
from benchmarks.workflows.model_server import Record

_Order = tuple[int, ...]


def least_seconds(records: Sequence[Record], files: Iterable[str], slots: int, enough: int) -> float:
    """Return the time from the first call to the end of the last, if each call starts as soon as it can.

    The calls of earlier files go first. A refused call waits without a slot. As soon as `enough` sceptics of
    a finding have answered, the others end.
    """
    attempts: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        attempts[record.key].append(record)
    head, tail = (
        _alone(attempts, "list all"),
        sum(_alone(attempts, each) for each in attempts if each.startswith("write")),
    )
    return head + _Fan(attempts, slots, enough).seconds(files) + tail


def _alone(attempts: dict[str, list[Record]], key: str) -> float:
    return sum(each.seconds + RETRY_AFTER * each.is_refused for each in attempts[key])


class _Fan:
    """The part of the job that has parallel calls."""

    def __init__(self, attempts: dict[str, list[Record]], slots: int, enough: int) -> None:
        self._attempts, self._slots, self._enough = attempts, slots, enough
        self._now = 0.0
        self._waiting: list[tuple[_Order, str, int]] = []
        """Calls that can start: position, key, number of the attempt."""
        self._timers: list[tuple[float, _Order, str, int, bool]] = []
        """Ends of calls, and ends of waits (`True`)."""
        self._answered: dict[str, int] = defaultdict(int)
        """The answers of sceptics for each file."""

    def seconds(self, files: Iterable[str]) -> float:
        for place, path in enumerate(files):
            heappush(self._waiting, ((place, 0), f"read {path}", 0))
        end = 0.0
        while self._waiting or self._timers:
            while self._waiting and self._slots:
                order, key, number = heappop(self._waiting)
                if not self._is_needless(key) and number < len(self._attempts[key]):
                    self._slots -= 1
                    heappush(
                        self._timers,
                        (self._now + self._attempts[key][number].seconds, order, key, number, False),
                    )
            if self._timers:
                self._now, order, key, number, is_wait = heappop(self._timers)
                if is_wait:
                    heappush(self._waiting, (order, key, number))
                    continue
                if not self._is_needless(key):  # else its slot is free since the others have answered
                    self._slots += 1
                    end = self._now
                    self._ended(order, key, number)
        return end

    def _ended(self, order: _Order, key: str, number: int) -> None:
        if self._attempts[key][number].is_refused:
            heappush(self._timers, (self._now + RETRY_AFTER, order, key, number + 1, True))
            return
        kind, _, path = key.partition(" ")
        if kind == "read":
            heappush(self._waiting, ((order[0], 1), f"review {path}", 0))
        elif kind == "review" and has_finding(path):
            for index in range(SCEPTICS):
                heappush(self._waiting, ((order[0], 2, index), f"doubt {path}.{index}", 0))
        elif kind == "doubt":
            finding = path.partition(".")[0]
            self._answered[finding] += 1
            if self._answered[finding] == self._enough:
                self._slots += sum(
                    1
                    for _, _, other, _, is_wait in self._timers
                    if not is_wait and other.startswith(f"doubt {finding}.")
                )

    def _is_needless(self, key: str) -> bool:
        kind, _, path = key.partition(" ")
        return kind == "doubt" and self._answered[path.partition(".")[0]] >= self._enough
