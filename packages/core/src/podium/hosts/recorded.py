"""Runs with an id or a session of the host: a recorded run without a complete answer is resumed."""

import json
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from hashlib import sha256
from itertools import chain
from typing import Any, Final
from uuid import uuid4

from podium.aio import events_of
from podium.conductor import Conductor
from podium.errors import PlannerError
from podium.hosts.tool_continuation import latest_calls, write_continuation
from podium.journal import Journal
from podium.policy import Policy
from podium.resume import result_of
from podium.run import Listener, RunOptions
from podium.secrets import scrub
from podium.types import Event, Message, Plan, Result, RunEnded, RunStarted, read_conversation

_UNFINISHED: Final = ("failed", "partial")
_UNDECIDED: Final = ("waiting", "stopped")
"""States of a run whose plan waits or was decided on, or that was interrupted."""
_ANSWERED: Final = ("ok", "partial")
_MOST: Final = 256
"""Maximum runs of a place in which tool calls are searched."""
_BEGUN: Final = ("done", "unknown")
"""Ends of an action that may have changed something."""


def session_run_id(session: str, run_id: str = "") -> str:
    """Return the id for a run in a session of the host, by which `undecided_run` finds it.

    Args:
        session: the host's id of the session or thread.
        run_id: the host's id of the run; empty for none.
    """
    return _prefix(session) + (_hash(run_id) if run_id else uuid4().hex[:16])


async def undecided_run(
    journal: Journal, session: str, query: Sequence[Message], context: Mapping[str, str] | None = None
) -> RunStarted | None:
    """Return the start of a run of a session that has the same question and whose plan waits.

    Args:
        journal: the journal of the runs.
        session: the host's id of the session or thread.
        query: the conversation. A question that is repeated without an answer between is the same question.
        context: the named texts.

    Returns:
        `None` if there is no such run.
    """
    return await _run_of_session(journal, session, query, (), context, _UNDECIDED)


def place_of(conductor: Conductor, session: str | None, query: Sequence[Message]) -> str:
    """Return the place of a run, for `session_run_id`: its session, or else its question."""
    asked = f"question {_spelled(query[-1:])}" if session is None else session
    return f"{conductor.card.name}/{asked}"


async def recorded_continuation(
    journal: Journal, place: str, query: Sequence[Message], tool_messages: Sequence[Message]
) -> Mapping[str, Any] | None:
    """Return the continuation of the run of a place that made the latest tool calls.

    Args:
        journal: the journal of the runs.
        place: see `place_of`.
        query: the conversation up to its question.
        tool_messages: the messages after the question: tool calls and their results.

    Returns:
        `None` if none of the latest 256 runs of the place made them.
    """
    ids = [call.get("id") for call in latest_calls(tool_messages)]
    async with journal:
        for row in await journal.runs(prefix=_prefix(place), limit=_MOST):
            if row.state not in _ANSWERED:
                continue
            events = [entry.event for entry in await journal.read(row.run_id)]
            ended = next((event for event in reversed(events) if isinstance(event, RunEnded)), None)
            if ended is not None and [call.get("id") for call in ended.result.tool_calls] == ids:
                return write_continuation(chain(events, *await journal.nested(row.run_id)), query)
    return None


async def _run_of_session(
    journal: Journal,
    session: str,
    query: Sequence[Message],
    tool_messages: Sequence[Message],
    context: Mapping[str, str] | None,
    states: Collection[str],
) -> RunStarted | None:
    """Return the start of a run that the same question of a session continues; see `undecided_run`.

    A failed run is continued only if it has begun an action, which a new run would repeat.
    """
    async with journal:
        for row in await journal.runs(prefix=_prefix(session), limit=None):
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
            actions = result_of(events, await journal.nested(row.run_id)).actions
            if any(action.end in _BEGUN for action in actions):
                return started
    return None


def _prefix(session: str) -> str:
    return _hash(f"session {session}")


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

        async def carry_out(emit: Callable[[Event], None]) -> None:
            await self._carry_out(emit)

        return events_of(carry_out)

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
                step_starter=options.get("step_starter"),
                on_event=tell,
            )
        assert result is not None  # a run without a plan is resumed
        return result

    async def _named(self) -> tuple[str | Sequence[Message] | Plan, RunOptions]:
        """Return the query and the options, with the id of a run of the session."""
        asked, options, conductor = self._asked, self._options, self._conductor
        journal = options.get("journal") or conductor.journal
        waits = conductor.policy.waits or (options.get("policy") or Policy()).waits
        is_named = waits or not options.get("run_id")
        if self._session is None or journal is None or not is_named or isinstance(asked, Plan):
            return asked, options
        query, tool_messages = read_conversation(asked)
        place = place_of(conductor, self._session, query)
        states = (*_UNDECIDED, *(_UNFINISHED if self._refresh else ("failed",)))
        context = options.get("context")
        found = await _run_of_session(journal, place, query, tool_messages, context, states)
        if found is None:
            return asked, {**options, "run_id": session_run_id(place, options.get("run_id") or "")}
        self._limits = self._limits or conductor.limits
        return (*found.query, *found.tool_messages), {**options, "run_id": found.run_id}
