"""One call of a chat model as a run of its conductor: what is asked, what happens, how long it may take."""

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import anyio
from langchain_core.messages import BaseMessage

from langchain_podium.chat_models.answer import facts_of, failed, unseen
from langchain_podium.chat_models.children import ChatRun, Counter
from langchain_podium.chat_models.options import Options
from langchain_podium.chat_models.turns import latest_turn
from langchain_podium.messages import from_langchain
from langchain_podium.steps import child_runs, hears, tell
from podium.conductor import Conductor
from podium.errors import ConfigError, LimitExceeded
from podium.hosted import HostedConductor
from podium.hosts.tool_continuation import is_continued, read_continuation, write_continuation
from podium.resume import PaidResults
from podium.types import Event, Message, Result, RunEnded, read_conversation
from podium.usage import Usage


@dataclass(slots=True)
class Asking:
    """A call of a chat model that a conductor answers.

    Args:
        conductor: whose run it is.
        messages: the conversation.
        options: what else the call says.
    """

    conductor: Conductor | HostedConductor
    messages: Sequence[BaseMessage]
    options: Options
    counter: Counter = field(default_factory=Counter)
    """What the runs of its steps have reported of their tokens."""
    _events: list[Event] = field(default_factory=list)

    async def events(self, *, stream: bool) -> AsyncGenerator[Event, None]:
        """Carry it out, and yield what happens; leaving cancels it.

        What the workers call is below the run of LangChain's that is under way here.

        Args:
            stream: whether somebody reads the answer while it is written.

        Raises:
            LimitExceeded: it took longer than the call's timeout.
            PodiumError: as for `Conductor.run`.
        """
        run, seconds = ChatRun.current(), self.options.timeout
        end = None if seconds is None else time.monotonic() + seconds
        listened = hears(run)
        with run.counted() as self.counter:  # the run's task is begun here, and takes this with it
            events = self._begun(run, stream=stream)
            event = await self._next(events, end)
        assert event is not None
        own = event.run_id
        async with aclosing(events):
            while event is not None:
                if listened:
                    await tell(run, event)
                if event.run_id == own:
                    self._keep(event)
                    yield event
                event = await self._next(events, end)

    async def result(self) -> Result:
        """Carry it out with nobody reading along, and return what it came to; raises as `events`."""
        async with aclosing(self.events(stream=False)) as events:
            async for event in events:
                last = event
        assert isinstance(last, RunEnded)  # a run that ends otherwise raises
        return self.answered(last.result)

    def answered(self, result: Result) -> Result:
        """Return a result that answers the call.

        Raises:
            RunFailed: it does not.
        """
        problem = result.problem
        told = f" ({problem.code}: {problem.message})" if problem is not None else ""
        if result.status == "failed":
            raise failed(f"the run came to no answer{told}", result)
        if result.status == "waiting":
            wait = f"the run waits until its plan is approved: decide and resume {result.run_id}"
            raise failed(wait, result)
        if self.options.forces and not result.tool_calls:
            told = "and whoever wrote the answer called none, or takes none: see `takes_tools` of the workers"
            raise failed(f"a tool had to be called (tool_choice), {told}", result)
        return result

    def unseen(self, result: Result) -> Usage:
        """Return the part of the run's tokens that no run below has reported."""
        return unseen(result.usage, self.counter.seen)

    def facts(self, result: Result) -> dict[str, Any]:
        """Return what the message tells of the run, and what the turn after its calls goes on from."""
        turn = None
        if result.tool_calls and isinstance(self.conductor, Conductor):
            turn = write_continuation(self._events, self._query()[0])
        return facts_of(result, self.options.model, turn)

    def _begun(self, run: ChatRun, *, stream: bool) -> AsyncGenerator[Event, None]:
        query, turns = self._query()
        said, conductor = self.options, self.conductor
        if isinstance(conductor, HostedConductor):
            if said.labels or said.policy is not None:
                raise ConfigError("a hosted conductor takes neither labels nor a policy: it shows no plan")
            asked = (*query, *turns)
            return conductor.stream(asked, tools=said.tools, sampling=said.sampling, model=said.model)
        paid_results = (
            read_continuation(latest_turn(self.messages), query, conductor.pool.names) if turns else None
        )
        if paid_results is None and said.tools.offered and conductor.journal is None:
            paid_results = (
                PaidResults()
            )  # has the run say of each step what stands for it, which the next turn finds it by
        return conductor.stream(
            (*query, *turns),
            run_id=None if conductor.journal is None else str(run.run_id),
            labels=said.labels,
            policy=said.policy,
            paid_results=paid_results,
            tools=said.tools,
            sampling=said.sampling,
            middleware=child_runs(stream=stream),
        )

    def _query(self) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
        return read_conversation(from_langchain(self.messages))

    def _keep(self, event: Event) -> None:
        if self.options.tools.offered and is_continued(event):
            self._events.append(event)

    async def _next(self, events: AsyncGenerator[Event, None], end: float | None) -> Event | None:
        if end is None:
            return await anext(events, None)
        with anyio.move_on_after(max(0.0, end - time.monotonic())) as scope:
            return await anext(events, None)
        assert scope.cancelled_caught
        seconds = self.options.timeout
        raise LimitExceeded("seconds", f"the run took longer than the {seconds:g} s of ChatPodium's timeout")
