"""Runs that continue: after tool calls, and by the id or the session of the host."""

import json
import logging
import re
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import chain
from threading import Lock
from typing import Any, Final
from uuid import uuid4

from podium.aio.sync import events_of
from podium.conductor import Conductor
from podium.errors import ConfigError, JournalBroken, PlannerError, QueryError
from podium.journal import Journal
from podium.policy import Policy
from podium.run import Listener, RunOptions
from podium.run_state import fold
from podium.run_state.paid import PaidResults, actions_alone, unbilled
from podium.secrets import scrub
from podium.types import Message, Part, Plan, Result, RunEnded, Tools
from podium.types.codec import decode, encode
from podium.types.events import (
    ApprovalAsked,
    ApprovalGiven,
    AttemptFailed,
    Event,
    PlanReady,
    RoundStarted,
    RunStarted,
    StepEnded,
    StepStarted,
)
from podium.types.messages import read_conversation

_log = logging.getLogger(__name__)
_OF_ROUND: Final = (RoundStarted, PlanReady, ApprovalAsked, ApprovalGiven)
_KEPT: Final = (RunStarted, *_OF_ROUND, StepStarted, AttemptFailed, StepEnded, RunEnded)


def is_continued(event: Event) -> bool:
    """Return whether `write_continuation` needs an event of a run, or of its nested runs."""
    return isinstance(event, _KEPT)


def write_continuation(events: Iterable[Event], query: Sequence[Message]) -> dict[str, Any]:
    """Return the plans of a run, the outcomes of their steps, and its actions.

    Of nested runs, it has the same if they wait for results of tools, and else only the actions. Steps of the
    last plan that failed are left out: they run again.
    """
    runs: dict[str, list[Event]] = {}
    tools: Sequence[str] | None = None
    for event in filter(is_continued, events):
        told = event
        if isinstance(event, RunStarted):
            tools = _names(event.tools) if tools is None else tools
            told = replace(event, query=(), tool_messages=(), tools=None)
        runs.setdefault(event.run_id, []).append(told)
    own = next(iter(runs), "")
    kept = [event for run_id, each in runs.items() for event in _kept_of(each, is_own=run_id == own)]
    return {**_asked(query), "tools": tools or (), "records": [scrub(encode(event)) for event in kept]}


def _kept_of(events: Sequence[Event], *, is_own: bool) -> list[Event]:
    """Return the events of a run that a continuation keeps."""
    acting = {
        (event.round, event.step)
        for event in events
        if (isinstance(event, StepStarted) and event.action)
        or (isinstance(event, StepEnded) and event.outcome.action is not None)
    }
    paused = any(isinstance(event, RunEnded) and event.result.tool_calls for event in events)
    latest = max((event.round for event in events if isinstance(event, PlanReady)), default=0)
    if not acting and not paused and not is_own:
        return []
    found = list[Event]()
    for event in events:
        match event:
            case StepStarted() | AttemptFailed() | StepEnded() if (event.round, event.step) in acting:
                found.append(event)
            case StepEnded() if (paused or is_own) and event.key and _stands(event, latest):
                found.append(event)
            case RunStarted() | PlanReady():
                found.append(event)
            case RoundStarted() | ApprovalAsked() | ApprovalGiven() if paused or is_own:
                found.append(event)
    return found


def _stands(event: StepEnded, latest: int) -> bool:
    """Return whether the end of a step stays in the next turn."""
    outcome = event.outcome
    return outcome.status == "ok" or (outcome.status == "failed" and event.round < latest)


def read_continuation(
    continuation: object, conversation: Sequence[Message], workers: Sequence[str], tools: Tools
) -> PaidResults | None:
    """Return the results of a continuation; `None` if it is invalid, or the turn continues no tool calls."""
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


def continuation_names(
    conversation: Sequence[Message], calls: Sequence[Part] = (), *, asker: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return the names of a continuation: by the conversation before the tool calls, and by its question."""
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
    return [] if tools is None else sorted(tools.names)


def _asked(query: Sequence[Message]) -> dict[str, str]:
    """Return the hashes of a query and of its question, without secrets, which the journal does not have."""
    hashes: dict[str, str] = {}
    for kind, messages in (("conversation", query), ("question", query[-1:])):
        text = scrub(json.dumps([message.to_wire() for message in messages], sort_keys=True))
        hashes[kind] = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return hashes


_UNFINISHED: Final = ("failed", "partial")
_UNDECIDED: Final = ("waiting", "stopped")
"""States of a run whose plan waits or was decided on, or that was interrupted."""
_ANSWERED: Final = ("ok", "partial")
_NAME: Final = re.compile(r"[\w.@+-]{1,64}")
_MOST: Final = 256
"""Maximum runs of a place in which tool calls are searched."""
_BEGUN: Final = ("done", "unknown")
"""Ends of an action that may have changed something."""


def session_run_id(place: str, run_id: str = "") -> str:
    """Return the id for a run of a place, by which `undecided_run` finds it."""
    return place + (_hash(run_id) if run_id else uuid4().hex[:16])


def place_of(conductor: Conductor, session: str | None, query: Sequence[Message]) -> str:
    """Return the beginning of the ids of the runs of a session or thread, or of a question without one.

    It begins with the session, as far as this is a plain name: so commands find the run by that name.
    """
    asked = f"question {_spelled(query[-1:])}" if session is None else session
    name = f"{session}:" if session is not None and _NAME.fullmatch(session) else ""
    return name + _hash(f"{conductor.card.name}/{asked}")


async def recorded_continuation(
    journal: Journal, place: str, query: Sequence[Message], tool_messages: Sequence[Message]
) -> Mapping[str, Any] | None:
    """Return the continuation of the run of a place that made the latest tool calls."""
    latest = next((message.tool_calls for message in reversed(tool_messages) if message.tool_calls), ())
    ids = [call.get("id") for call in latest]
    async with journal:
        for row in await journal.runs(prefix=place, limit=_MOST):
            if row.state not in _ANSWERED:
                continue
            events = [entry.event for entry in await journal.read(row.run_id)]
            ended = next((event for event in reversed(events) if isinstance(event, RunEnded)), None)
            called = [] if ended is None else [call.get("id") for call in ended.result.tool_calls]
            if ids and called[: len(ids)] == ids:  # the host may have got only the first
                return write_continuation(chain(events, *await journal.nested(row.run_id)), query)
    return None


async def undecided_run(
    journal: Journal,
    place: str,
    query: Sequence[Message],
    context: Mapping[str, str] | None = None,
    tool_messages: Sequence[Message] = (),
    states: Collection[str] = _UNDECIDED,
) -> RunStarted | None:
    """Return the start of a place's run with the same question that waits, or has begun an action."""
    async with journal:
        for row in await journal.runs(prefix=place, limit=None):
            if row.state not in states:
                continue
            events = [entry.event for entry in await journal.read(row.run_id)]
            started = events[0]
            assert isinstance(started, RunStarted)
            if _once(started.query) != _once(query) or started.context != (context or {}):
                continue
            if tool_messages and _spelled(started.tool_messages) != _spelled(tool_messages):
                continue
            if row.state in _UNDECIDED:
                return started
            actions = fold(events, await journal.nested(row.run_id)).result().actions
            if any(action.end in _BEGUN for action in actions):
                return started
    return None


def _hash(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _once(query: Sequence[Message]) -> Sequence[str]:
    """Return a conversation without repetitions of its question at its end, for a comparison."""
    said = _spelled(query)
    end = len(said)
    while end > 1 and said[end - 2] == said[-1]:
        end -= 1
    return said[:end]


def _spelled(messages: Sequence[Message]) -> list[str]:
    """Return messages as a journal has them, that is, without secrets."""
    return [scrub(json.dumps(message.to_wire(), sort_keys=True)) for message in messages]


class RecordedRun:
    """A run that an earlier call may have recorded under the same id.

    If the recorded run is `ok`, its result is returned. If it is `failed` or `partial`, it is resumed:
    a planner that wrote no plan is asked again, failed steps run again, and recorded results are reused.

    Args:
        conductor: the conductor.
        asked: the query, or a plan.
        options: the options of the run.
        on_event: called with each event as it happens, before `events` yields it.
        session: the host's id of the session or thread; `None` for none. If the session has a run with the
            same question that waits, was interrupted, or failed after it had begun an action, that run is
            continued in place of a new run. If `options` have a run id, this holds only for a policy that
            lets plans wait.
        refresh: whether a resumed run also repeats steps that lacked an input which exists by now, for hosts
            that accept only complete answers.
    """

    def __init__(
        self,
        conductor: Conductor,
        asked: str | Sequence[Message] | Plan,
        options: RunOptions,
        *,
        on_event: Listener | None = None,
        session: str | None = None,
        refresh: bool = False,
    ) -> None:
        self._refresh = refresh
        self._session = session
        self._conductor = conductor
        self._asked = asked
        self._options = options
        self._on_event = on_event
        self._limits = options.get("limits")
        self._is_begun = False
        self.before: Result | None = None
        """The result that an earlier call recorded; `None` if there is none."""

    def events(self) -> AsyncGenerator[Event, None]:
        """Yield the events of the run, like `Conductor.stream`."""
        return events_of(self._carry_out)

    async def run(self) -> Result:
        """Execute the run, and return its result; raises what `Conductor.run` raises."""
        return await self._carry_out(lambda _: None)

    async def _carry_out(self, emit: Callable[[Event], None]) -> Result:
        def tell(event: Event) -> None:
            if not self._is_begun and isinstance(event, RunEnded):
                self.before = event.result
                if event.result.status in _UNFINISHED:
                    return  # the run is resumed below
            self._is_begun = True
            if self._on_event is not None:
                self._on_event(event)
            emit(event)

        asked, options = await self._named()
        result = None
        try:
            result = await self._conductor.run(asked, on_event=tell, **options)
        except PlannerError:
            if self._is_begun or self.before is None:
                raise  # else the recorded run has no plan, and is resumed below
        if self.before is not None and self.before.status in _UNFINISHED:
            self._is_begun = True
            result = await self._conductor.resume(
                self.before.run_id,
                policy=options.get("policy"),
                limits=self._limits,
                refresh=self._refresh,
                journal=options.get("journal"),
                middleware=options.get("middleware"),
                paid_results=options.get("paid_results"),
                host=options.get("host"),
                on_event=tell,
            )
        assert result is not None  # a run without a plan is resumed
        return result

    async def _named(self) -> tuple[str | Sequence[Message] | Plan, RunOptions]:
        """Return the query and the options, with the id of a run of the session."""
        asked, options, conductor = self._asked, self._options, self._conductor
        journal = options.get("journal") or conductor.journal
        waits = conductor.waits or (options.get("policy") or Policy()).waits
        is_named = waits or not options.get("run_id")
        if self._session is None or journal is None or not is_named or isinstance(asked, Plan):
            return asked, options
        query, tool_messages = read_conversation(asked)
        place = place_of(conductor, self._session, query)
        states = (*_UNDECIDED, *(_UNFINISHED if self._refresh else ("failed",)))
        context = options.get("context")
        found = await undecided_run(journal, place, query, context, tool_messages, states)
        if found is None:
            return asked, {**options, "run_id": session_run_id(place, options.get("run_id") or "")}
        self._limits = self._limits or conductor.limits
        return (*found.query, *found.tool_messages), {**options, "run_id": found.run_id}
