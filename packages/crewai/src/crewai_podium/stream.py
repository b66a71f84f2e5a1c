"""The stream of a crew: pieces of answers are sent into it, and leaving it ends the runs of the crew."""

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from inspect import currentframe
from typing import Any, Final, TypeVar
from weakref import finalize, proxy

import anyio
from crewai import Task
from crewai.agents.agent_builder.base_agent import BaseAgent
from crewai.crews.utils import StreamingContext
from crewai.events.event_bus import crewai_event_bus
from crewai.events.types.llm_events import LLMCallType, LLMStreamChunkEvent
from crewai.hooks import HookAborted
from crewai.types.streaming import CrewStreamingOutput

from podium.secrets import printable, scrub

T = TypeVar("T")


def tell_piece(agent: BaseAgent, task: Task, text: str, call_id: str) -> None:
    """Send a piece of an answer as the chunk of an LLM, which is what CrewAI streams."""
    chunk = LLMStreamChunkEvent(
        chunk=printable(scrub(text)),
        call_type=LLMCallType.LLM_CALL,
        call_id=call_id,
        from_task=task,
        from_agent=agent,
    )
    crewai_event_bus.emit(agent, chunk)


class _Runs:
    """The runs whose pieces a sync stream shows."""

    def __init__(self) -> None:
        self.ends: set[Callable[[], object]] = set()
        """What ends each run."""
        self.is_left = False

    def leave(self) -> None:
        self.is_left = True
        for end in [*self.ends]:
            end()


_runs: Final[ContextVar[_Runs | None]] = ContextVar("crewai_podium_runs", default=None)
_KICKOFF: Final = "run_crew"
"""The function of CrewAI that kicks a crew off for a stream."""
_NAME: Final = "podium_runs"


def begin_kickoff() -> None:
    """Note that leaving the sync stream of this kickoff, if it has one, ends its runs.

    CrewAI only waits for the kickoff if its stream is closed, and never if the reader drops it. It gives the
    stream to the reader alone, so it is looked up in the calls of this thread.
    """
    _runs.set(None)
    frame = currentframe()
    while frame is not None and frame.f_code.co_name != _KICKOFF:
        frame = frame.f_back
    context = None if frame is None else frame.f_locals.get("ctx")
    if isinstance(context, StreamingContext) and context.state.async_queue is None:
        facts = vars(context)
        if _NAME not in facts:
            facts[_NAME] = _end_with(context.output_holder)
        _runs.set(facts[_NAME])


def _end_with(held: list[Any]) -> _Runs:
    """Return runs that end when the only stream of the list is closed, or dropped."""
    stream, runs = held.pop(), _Runs()
    known: Any = proxy(stream)
    held.append(known)  # else the kickoff would hold the stream

    def close() -> None:
        runs.leave()
        CrewStreamingOutput.close(known)

    def dropped() -> None:
        held.clear()
        runs.leave()

    stream.close = close
    finalize(stream, dropped).atexit = False
    return runs


async def until_left(run: Callable[[], Awaitable[T]]) -> T:
    """Run until the reader leaves the stream of the kickoff.

    Raises:
        HookAborted: the stream was left. CrewAI then ends the kickoff.
    """
    runs, loop = _runs.get(), asyncio.get_running_loop()
    if runs is None:
        return await run()
    with anyio.CancelScope() as scope:

        def end() -> None:
            loop.call_soon_threadsafe(scope.cancel)

        runs.ends.add(end)
        try:
            if not runs.is_left:
                return await run()
        finally:
            runs.ends.discard(end)
    raise HookAborted("the stream of the crew was left", source="podium")
