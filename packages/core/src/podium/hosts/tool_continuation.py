"""Continuations: the plan and the outcomes of its steps, for the turn after tool calls.

A continuation is plain JSON data. A host whose messages have metadata stores it in the message with
the tool calls; other hosts use a `ContinuationStore`. The next turn then reuses the plan and the
outcomes, and runs only the last step. The calls decide which run is continued: clients may change the
conversation before them, such as a time in a system message.
"""

import json
import logging
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from threading import Lock
from typing import Any, Final

from podium.errors import ConfigError, JournalBroken, QueryError
from podium.journal.codec import decode, encode
from podium.resume.paid_results import PaidResults
from podium.resume.reuse import actions_alone, unbilled
from podium.secrets import scrub
from podium.types import Message, Part, Tools, read_conversation
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
    tools: Sequence[str] = ()
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
            tools = _names(event.tools)
            kept = [told]
        elif isinstance(event, PlanReady) and event.plan.steps:
            kept = [one for one in kept if not isinstance(one, _OF_ROUND)]
            kept.append(replace(event, round=1))
        elif isinstance(event, ApprovalAsked | ApprovalGiven):
            kept.append(replace(event, round=1))
        elif isinstance(event, StepEnded) and event.key and event.outcome.status == "ok":
            kept.append(event)
    return {**_asked(query), "tools": tools, "records": [scrub(encode(event)) for event in kept]}


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
    continuation: object, conversation: Sequence[Message], workers: Sequence[str], tools: Tools
) -> PaidResults | None:
    """Return the results of a continuation; `None` if it is invalid, or the turn continues no tool calls.

    If the question before the calls has changed, or the tools and other messages, the turn may be of another
    agent of the client: it is planned again, and repeats no action.

    Args:
        continuation: the return value of `write_continuation`, from a message or a store.
        conversation: the conversation of the turn.
        workers: the names of the pool's workers.
        tools: the tools that the turn offers.
    """
    query, calls = _calls_of(conversation)
    if not calls or not isinstance(continuation, Mapping):
        return None
    try:
        records = [decode(record) for record in continuation["records"]]
        asked, told = _asked(query), {name: continuation[name] for name in ("conversation", "question")}
        is_same_agent = told["question"] == asked["question"] and list(continuation["tools"]) == _names(tools)
        if told == asked or is_same_agent:
            is_moved = told != _asked(read_conversation(conversation)[0])
            return unbilled(records, workers, moved=is_moved)
        return actions_alone(records)
    except ConfigError:
        _log.warning("the pool has changed: this turn is planned again", exc_info=True)
        return actions_alone(records)
    except (JournalBroken, LookupError, TypeError):
        _log.warning("the previous turn's plan cannot be reused: this turn is planned again", exc_info=True)
        return None


class ContinuationStore:
    """Stores the latest continuations in memory, by the names that `continuation_names` returns.

    It is thread-safe.

    Args:
        most: maximum number of names, two for each continuation. The oldest is removed first. For a turn
            without its continuation, the planner writes a new plan.
    """

    def __init__(self, most: int = 512) -> None:
        self._most = most
        self._kept: OrderedDict[str, Mapping[str, Any] | None] = OrderedDict()
        self._lock = Lock()

    def keep(self, names: Sequence[str], continuation: Mapping[str, Any]) -> None:
        """Store a continuation.

        Args:
            names: the names of the turn after the tool calls.
            continuation: the continuation for this turn.
        """
        exact, loose = names
        with self._lock:
            is_ambiguous = loose in self._kept
            for name, kept in ((exact, continuation), (loose, None if is_ambiguous else continuation)):
                self._kept[name] = kept
                self._kept.move_to_end(name)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)

    def find(self, names: Sequence[str]) -> Mapping[str, Any] | None:
        """Return the continuation of a turn; `None` if there is none.

        Args:
            names: the names of the turn; empty for a turn that continues no tool calls.
        """
        with self._lock:
            return next((self._kept[name] for name in names if name in self._kept), None)


def latest_calls(tool_messages: Sequence[Message]) -> Sequence[Part]:
    """Return the latest tool calls in the messages after a question."""
    return next((message.tool_calls for message in reversed(tool_messages) if message.tool_calls), ())


def continuation_names(
    conversation: Sequence[Message], calls: Sequence[Part] = (), *, asker: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return the two names of a continuation, by which a host that stores continuations finds it.

    The first has the conversation before the tool calls. The second has only its question, and is for turns
    whose conversation has changed. Two continuations may have the same second name if the ids of tool calls
    are not unique; then it names neither.

    Args:
        conversation: the conversation before the calls. Without `calls`, the conversation of the next turn.
        calls: the tool calls of the answer.
        asker: texts that identify the caller, who continues no run of others. None by default.

    Returns:
        No name, if a conversation without `calls` does not continue tool calls.
    """
    query, calls = (read_conversation(conversation)[0], calls) if calls else _calls_of(conversation)
    ids = json.dumps([*asker, *(str(call.get("id")) for call in calls)])
    kinds = _asked(query).items() if calls else ()
    return tuple(sha256(f"{kind} {asked} {ids}".encode()).hexdigest() for kind, asked in kinds)


def _calls_of(conversation: Sequence[Message]) -> tuple[Sequence[Message], Sequence[Part]]:
    """Return the query before the assistant's last message, and the tool calls of this message."""
    at = max((at for at, each in enumerate(conversation) if each.role == "assistant"), default=0)
    calls = conversation[at].tool_calls
    try:
        return (read_conversation(conversation[:at])[0], calls) if calls else ((), ())
    except QueryError:  # the client has left out the question
        return (), calls


def _names(tools: Tools | None) -> list[str]:
    offered = () if tools is None else tools.offered
    return sorted(str(tool.get("function", {}).get("name")) for tool in offered)


def _asked(query: Sequence[Message]) -> dict[str, str]:
    """Return the hashes of a query and of its question, without secrets, which the journal does not have."""
    hashes: dict[str, str] = {}
    for kind, messages in (("conversation", query), ("question", query[-1:])):
        text = scrub(json.dumps([message.to_wire() for message in messages], sort_keys=True))
        hashes[kind] = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return hashes
