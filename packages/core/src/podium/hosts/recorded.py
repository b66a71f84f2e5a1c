"""Runs with an id or a session of the host: a recorded run without a complete answer is resumed."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from hashlib import sha256
from typing import Final
from uuid import uuid4

from podium.aio import events_of
from podium.conductor import Conductor
from podium.errors import PlannerError
from podium.journal import Journal
from podium.policy import Policy
from podium.run import Listener, RunOptions
from podium.types import Event, Message, Plan, Result, RunEnded, RunStarted, read_conversation

_UNFINISHED: Final = ("failed", "partial")
_UNDECIDED: Final = ("waiting", "stopped")
"""States of a run whose plan waits, or was decided on."""


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
    async with journal:
        for row in await journal.runs(prefix=_prefix(session), limit=None):
            if row.state in _UNDECIDED:
                started = (await journal.read(row.run_id))[0].event
                assert isinstance(started, RunStarted)
                if _once(started.query) == _once(query) and started.context == (context or {}):
                    return started
    return None


def _prefix(session: str) -> str:
    return _hash(f"session {session}")


def _hash(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _once(query: Sequence[Message]) -> Sequence[Message]:
    """Return a conversation without repetitions of its question at its end."""
    end = len(query)
    while end > 1 and query[end - 2] == query[-1]:
        end -= 1
    return query[:end]


class RecordedRun:
    """A run that an earlier call may have recorded under the same id.

    If the recorded run is `ok`, its result is returned. If it is `failed` or `partial`, it is resumed:
    a planner that wrote no plan is asked again, failed steps run again, and recorded results are reused.

    Args:
        conductor: the conductor.
        asked: the query, or a plan.
        options: the options of the run.
        on_event: called with each event as it happens, before `events` yields it.
        session: the host's id of the session or thread; `None` for none. If the policy lets plans wait, and a
            run of the session with the same question waits, that run is asked again in place of a new run.
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
        self._is_begun = False
        self.before: Result | None = None
        """The result that an earlier call recorded; `None` if there is none."""

    def events(self) -> AsyncGenerator[Event, None]:
        """Yield the events of the run, like `Conductor.stream`."""
        return events_of(self._carry_out)

    async def _carry_out(self, emit: Callable[[Event], None]) -> None:
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
        try:
            await self._conductor.run(asked, on_event=tell, **options)
        except PlannerError:
            if self._is_begun or self.before is None:
                raise  # else the recorded run has no plan, and is resumed below
        if self.before is not None and self.before.status in _UNFINISHED:
            self._is_begun = True
            await self._conductor.resume(
                self.before.run_id,
                policy=options.get("policy"),
                limits=options.get("limits"),
                refresh=self._refresh,
                journal=options.get("journal"),
                middleware=options.get("middleware"),
                step_starter=options.get("step_starter"),
                on_event=tell,
            )

    async def _named(self) -> tuple[str | Sequence[Message] | Plan, RunOptions]:
        """Return the query and the options, with the id of a run of the session."""
        asked, options, conductor = self._asked, self._options, self._conductor
        journal = options.get("journal") or conductor.journal
        waits = conductor.policy.waits or (options.get("policy") or Policy()).waits
        if self._session is None or journal is None or not waits or isinstance(asked, Plan):
            return asked, options
        query, tool_messages = read_conversation(asked)
        if tool_messages:
            return asked, options  # the plan of this run was accepted
        place = f"{conductor.card.name}/{self._session}"
        found = await undecided_run(journal, place, query, options.get("context"))
        if found is None:
            return asked, {**options, "run_id": session_run_id(place, options.get("run_id") or "")}
        return found.query, {**options, "run_id": found.run_id}
