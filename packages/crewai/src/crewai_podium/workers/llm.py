"""A worker that calls a CrewAI LLM without an agent, mainly for planners.

CrewAI's LLMs stream by events. The events of a call become the chunks of its answer.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final

import anyio
from anyio import to_thread
from crewai.events.base_events import BaseEvent
from crewai.events.event_bus import crewai_event_bus
from crewai.events.types.llm_events import LLMStreamChunkEvent
from crewai.llms.base_llm import BaseLLM

from crewai_podium.usage import UsageMeter
from crewai_podium.workers.errors import crewai_errors, read_answer
from podium.types import Completion, Sampling
from podium.workers import Card, Request, Worker

_CLOSE_SECONDS: Final = 1.0
"""Time in seconds in which a cancelled call must close its connection."""


class LLMWorker(Worker):
    """Calls an LLM.

    A cancel closes the connection of a call. An LLM without `acall` is called in a thread, which a cancel
    cannot stop.
    """

    def __init__(self, llm: BaseLLM, *, card: Card) -> None:
        self.llm = llm
        self.card = card
        asks = getattr(llm, "supports_function_calling", None)
        self.takes_tools = asks is not None and bool(asks())

    @property
    def max_tokens(self) -> int | None:
        """The LLM's maximum tokens of an answer, if the request has none."""
        most = self.llm.max_tokens
        return None if most is None else int(most)

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Call the LLM; with `request.stream`, yield the chunks that it sends as events."""
        meter, written = UsageMeter(), list[str]()
        llm = _set(meter.copy_of(self.llm), request.sampling, stream=request.stream)
        with crewai_errors(self.card.name, meter):
            # A separate task: a cancel leaves CrewAI's event scopes open, but only in its context.
            asking = asyncio.create_task(_ask(llm, request))
            async with aclosing(_pieces(llm, asking)) as pieces:
                async for piece in pieces:
                    written.append(piece)
                    yield piece
            done = read_answer(request.messages, await asking, meter, written="".join(written))
        if request.stream and done.text and not written:
            yield done.text
        yield done


async def _ask(llm: BaseLLM, request: Request) -> Any:
    messages: list[Any] = [message.to_wire() for message in request.messages]
    tools: Any = None if request.tools is None else [dict(tool) for tool in request.tools.offered]
    try:
        return await llm.acall(messages, tools=tools)
    except NotImplementedError:  # of an LLM that has only `call`
        return await to_thread.run_sync(lambda: llm.call(messages, tools=tools), abandon_on_cancel=True)


async def _pieces(llm: BaseLLM, asking: "asyncio.Task[Any]") -> AsyncGenerator[str, None]:
    """Yield the chunks that an LLM sends as events, until its call ends; leaving cancels the call."""
    loop, sent = asyncio.get_running_loop(), asyncio.Queue[str | None]()

    def hear(source: Any, event: BaseEvent) -> None:
        # The bus carries events of all LLMs; only this call uses the copy. It may be called in a thread.
        if source is llm and isinstance(event, LLMStreamChunkEvent) and event.chunk:
            loop.call_soon_threadsafe(sent.put_nowait, event.chunk)

    asking.add_done_callback(lambda _: sent.put_nowait(None))
    crewai_event_bus.register_handler(LLMStreamChunkEvent, hear)
    try:
        while (piece := await sent.get()) is not None:
            yield piece
    finally:
        crewai_event_bus.off(LLMStreamChunkEvent, hear)
        asking.cancel()
        with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
            await asyncio.wait([asking])


def _set(llm: BaseLLM, sampling: Sampling, *, stream: bool) -> BaseLLM:
    for name in ("temperature", "top_p", "max_tokens", "seed"):
        if (value := getattr(sampling, name)) is not None:
            setattr(llm, name, value)
    if sampling.stop:
        llm.stop = [*llm.stop, *sampling.stop]
    llm.stream = stream
    return llm
