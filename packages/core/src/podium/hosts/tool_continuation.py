"""What the turn after a call of tools continues from: the plan, and the outcomes of its steps.

A continuation is plain JSON. A host whose messages carry metadata puts it into the message that
holds the calls, so that it is where the conversation is. Any other host keeps it in a
`ContinuationStore`. The next turn then pays for the last step alone.
"""

import json
import logging
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from threading import Lock
from typing import Any, Final

from podium.errors import ConfigError, JournalBroken
from podium.journal.codec import decode, encode
from podium.resume.paid_results import PaidResults
from podium.resume.reuse import unbilled
from podium.secrets import scrub
from podium.types import Message, Part
from podium.types.events import ApprovalAsked, ApprovalGiven, Event, PlanReady, RunStarted, StepEnded

_log = logging.getLogger(__name__)
_KEPT: Final = (RunStarted, PlanReady, ApprovalAsked, ApprovalGiven, StepEnded)
_OF_ROUND: Final = (PlanReady, ApprovalAsked, ApprovalGiven)


def is_continued(event: Event) -> bool:
    """Return whether `write_continuation` reads an event."""
    return isinstance(event, _KEPT)


def write_continuation(events: Iterable[Event], query: Sequence[Message]) -> dict[str, Any]:
    """Return the continuation of a run: its last plan, and the outcomes of its steps.

    Args:
        events: the run's.
        query: the conversation up to its question, which the plan is for.
    """
    kept: list[Event] = []
    for event in events:
        if isinstance(event, RunStarted):
            kept = [replace(event, query=(), tool_messages=(), tools=None)]
        elif isinstance(event, PlanReady) and event.plan.steps:
            kept = [one for one in kept if not isinstance(one, _OF_ROUND)]
            kept.append(replace(event, round=1))
        elif isinstance(event, ApprovalAsked | ApprovalGiven):
            kept.append(replace(event, round=1))
        elif isinstance(event, StepEnded) and event.key and event.outcome.status == "ok":
            kept.append(event)
    return {"asked": _hash(query), "records": [scrub(encode(event)) for event in kept]}


def read_continuation(
    continuation: object, query: Sequence[Message], workers: Sequence[str]
) -> PaidResults | None:
    """Return the results that a continuation holds; `None` where it is none, or of another question.

    Args:
        continuation: what `write_continuation` returned, as it was found in a message.
        query: the conversation up to its question.
        workers: the names of the pool's workers.
    """
    if not isinstance(continuation, Mapping) or continuation.get("asked") != _hash(query):
        return None
    try:
        return unbilled([decode(record) for record in continuation["records"]], workers)
    except (ConfigError, JournalBroken, LookupError, TypeError):
        _log.warning("the plan of the turn before is of no use here: the turn is planned anew", exc_info=True)
        return None


class ContinuationStore:
    """Keeps the latest continuations in memory, found by the question and the ids of the calls.

    Threads may use it at once.

    Args:
        most: how many are kept; the one kept longest ago is then dropped, and its turn planned anew.
    """

    def __init__(self, most: int = 256) -> None:
        self._most = most
        self._kept: OrderedDict[tuple[str, tuple[str, ...]], Mapping[str, Any]] = OrderedDict()
        self._lock = Lock()

    def keep(self, query: Sequence[Message], calls: Sequence[Part], continuation: Mapping[str, Any]) -> None:
        """Keep a continuation.

        Args:
            query: the conversation up to its question.
            calls: the calls that the answer asks for.
            continuation: what the turn after these calls continues from.
        """
        key = (_hash(query), _ids(calls))
        with self._lock:
            self._kept[key] = continuation
            self._kept.move_to_end(key)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)

    def find(self, query: Sequence[Message], tool_messages: Sequence[Message]) -> Mapping[str, Any] | None:
        """Return the continuation for a turn; `None` where none was kept.

        Args:
            query: the conversation up to its question.
            tool_messages: the messages after it: calls of tools, and what these returned.
        """
        calls = next((message.tool_calls for message in reversed(tool_messages) if message.tool_calls), ())
        with self._lock:
            return self._kept.get((_hash(query), _ids(calls)))


def _hash(query: Sequence[Message]) -> str:
    text = json.dumps([message.to_wire() for message in query], sort_keys=True)
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _ids(calls: Sequence[Part]) -> tuple[str, ...]:
    return tuple(str(call.get("id")) for call in calls)
