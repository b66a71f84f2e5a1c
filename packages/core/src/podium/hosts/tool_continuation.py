"""Continuations: the plan and the outcomes of its steps, for the turn after tool calls.

A continuation is plain JSON data. A host whose messages have metadata stores it in the message with
the tool calls; other hosts use a `ContinuationStore`. The next turn then reuses the plan and the
outcomes, and runs only the last step.
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
from podium.types.events import (
    ApprovalAsked,
    ApprovalGiven,
    AttemptFailed,
    Event,
    PlanReady,
    RunStarted,
    StepEnded,
    StepStarted,
)

_log = logging.getLogger(__name__)
_KEPT: Final = (RunStarted, PlanReady, ApprovalAsked, ApprovalGiven, StepStarted, AttemptFailed, StepEnded)
_OF_ROUND: Final = (PlanReady, ApprovalAsked, ApprovalGiven)


def is_continued(event: Event) -> bool:
    """Return whether `write_continuation` needs an event of a run, or of its nested runs."""
    return isinstance(event, _KEPT)


def write_continuation(events: Iterable[Event], query: Sequence[Message]) -> dict[str, Any]:
    """Return the continuation of a run: its last plan, the outcomes of its steps, and its actions.

    Args:
        events: the events of the run, and of its nested runs, of which only the actions are kept.
        query: the conversation up to its question.
    """
    kept: list[Event] = []
    nested: dict[str, list[Event]] = {}
    """By run: the start and the plans of a nested run, which are kept if it acts."""
    acting = set[tuple[str, int, int]]()
    """Run, round and step of the actions."""
    for event in events:
        if _is_of_action(event, acting):
            kept += [*nested.pop(event.run_id, ()), event]
            continue
        told = (
            replace(event, query=(), tool_messages=(), tools=None) if isinstance(event, RunStarted) else event
        )
        if kept and event.run_id != kept[0].run_id:
            if isinstance(event, RunStarted | PlanReady):
                nested.setdefault(event.run_id, []).append(told)
        elif isinstance(event, RunStarted):
            kept = [told]
        elif isinstance(event, PlanReady) and event.plan.steps:
            kept = [one for one in kept if not isinstance(one, _OF_ROUND)]
            kept.append(replace(event, round=1))
        elif isinstance(event, ApprovalAsked | ApprovalGiven):
            kept.append(replace(event, round=1))
        elif isinstance(event, StepEnded) and event.key and event.outcome.status == "ok":
            kept.append(event)
    return {"asked": _hash(query), "records": [scrub(encode(event)) for event in kept]}


def _is_of_action(event: Event, acting: set[tuple[str, int, int]]) -> bool:
    """Return whether an event says that an action began, or how it ended; note the place of the action."""
    if isinstance(event, StepEnded):
        return event.outcome.action is not None
    if not isinstance(event, StepStarted | AttemptFailed):
        return False
    place = (event.run_id, event.round, event.step)
    if isinstance(event, StepStarted) and event.action:
        acting.add(place)
    return place in acting


def read_continuation(
    continuation: object, query: Sequence[Message], workers: Sequence[str]
) -> PaidResults | None:
    """Return the results of a continuation; `None` if it is invalid or belongs to another question.

    Args:
        continuation: the return value of `write_continuation`, from a message or a store.
        query: the conversation up to its question.
        workers: the names of the pool's workers.
    """
    if not isinstance(continuation, Mapping) or continuation.get("asked") != _hash(query):
        return None
    try:
        return unbilled([decode(record) for record in continuation["records"]], workers)
    except (ConfigError, JournalBroken, LookupError, TypeError):
        _log.warning("the previous turn's plan cannot be reused: this turn is planned again", exc_info=True)
        return None


class ContinuationStore:
    """Stores the latest continuations in memory, by the question and the ids of the tool calls.

    It is thread-safe.

    Args:
        most: maximum number of continuations. The oldest continuation is removed first. For a turn without
            its continuation, the planner writes a new plan.
    """

    def __init__(self, most: int = 256) -> None:
        self._most = most
        self._kept: OrderedDict[str, Mapping[str, Any]] = OrderedDict()
        self._lock = Lock()

    def keep(self, query: Sequence[Message], calls: Sequence[Part], continuation: Mapping[str, Any]) -> None:
        """Store a continuation.

        Args:
            query: the conversation up to its question.
            calls: the tool calls of the answer.
            continuation: the continuation for the turn after these calls.
        """
        name = continuation_name(query, calls)
        with self._lock:
            self._kept[name] = continuation
            self._kept.move_to_end(name)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)

    def find(self, query: Sequence[Message], tool_messages: Sequence[Message]) -> Mapping[str, Any] | None:
        """Return the continuation for a turn; `None` if there is none.

        Args:
            query: the conversation up to its question.
            tool_messages: the messages after the question: tool calls and their results.
        """
        with self._lock:
            return self._kept.get(continuation_name(query, latest_calls(tool_messages)))


def latest_calls(tool_messages: Sequence[Message]) -> Sequence[Part]:
    """Return the latest tool calls in the messages after a question."""
    return next((message.tool_calls for message in reversed(tool_messages) if message.tool_calls), ())


def continuation_name(query: Sequence[Message], calls: Sequence[Part]) -> str:
    """Return the name of a continuation, by which a host that stores continuations finds it.

    Args:
        query: the conversation up to its question.
        calls: the tool calls of the answer.
    """
    ids = json.dumps([str(call.get("id")) for call in calls])
    return sha256(f"{_hash(query)} {ids}".encode("utf-8", "surrogatepass")).hexdigest()


def _hash(query: Sequence[Message]) -> str:
    text = json.dumps([message.to_wire() for message in query], sort_keys=True)
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
