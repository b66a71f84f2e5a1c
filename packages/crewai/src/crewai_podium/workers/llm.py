"""A worker that calls a CrewAI LLM without an agent, mainly for planners.

CrewAI's LLMs stream by events. The events of a call become the chunks of its answer.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from math import inf
from typing import Any

import anyio
from anyio import to_thread
from anyio.streams.memory import MemoryObjectSendStream
from crewai.events.base_events import BaseEvent
from crewai.events.event_bus import crewai_event_bus
from crewai.events.types.llm_events import LLMStreamChunkEvent
from crewai.llms.base_llm import BaseLLM

from crewai_podium.usage import OnUsage, UsageMeter, counted
from crewai_podium.workers.errors import crewai_errors, read_answer
from podium.types import Completion, Sampling
from podium.workers import Card, Request, Worker


class LLMWorker(Worker):
    """Calls an LLM in a thread, as CrewAI does. A cancel cannot stop the thread.

    Args:
        llm: the LLM that is copied.
        card: the worker's card.
        on_usage: called with the tokens of each call, including failed calls.
    """

    def __init__(self, llm: BaseLLM, *, card: Card, on_usage: OnUsage | None = None) -> None:
        self.llm = llm
        self.card = card
        self._on_usage = on_usage
        asks = getattr(llm, "supports_function_calling", None)
        self.takes_tools = asks is not None and bool(asks())

    def __repr__(self) -> str:
        return f"LLMWorker({self.card.name!r})"

    @property
    def max_tokens(self) -> int | None:
        """The LLM's maximum tokens of an answer, if the request has none."""
        most = self.llm.max_tokens
        return None if most is None else int(most)

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Call the LLM; with `request.stream`, yield the chunks that it sends as events."""
        meter, written, answer, done = UsageMeter(), list[str](), None, None
        llm = _set(meter.copy_of(self.llm), request.sampling, stream=request.stream)
        try:
            if not request.stream:
                with crewai_errors(self.card.name, meter):
                    answer = await to_thread.run_sync(_ask, llm, request, None, abandon_on_cancel=True)
            else:
                async with aclosing(self._streamed(llm, request, meter)) as pieces:
                    async for kind, piece in pieces:
                        if kind == "piece":
                            written.append(piece)
                            yield piece
                        else:
                            answer = piece
            with crewai_errors(self.card.name, meter):
                done = read_answer(request.messages, answer, meter, written="".join(written))
        finally:
            if self._on_usage is not None:
                self._on_usage(meter.metrics if done is None else counted(meter, done.usage))
        if request.stream and done.text and not written:
            yield done.text
        yield done

    async def _streamed(
        self, llm: BaseLLM, request: Request, meter: UsageMeter
    ) -> AsyncGenerator[tuple[str, Any], None]:
        """Yield the chunks, then the return value of the call."""
        send, receive = anyio.create_memory_object_stream[tuple[str, Any]](inf)
        loop = asyncio.get_running_loop()

        async def ask() -> None:
            with send, crewai_errors(self.card.name, meter):
                answer = await to_thread.run_sync(_ask, llm, request, (loop, send), abandon_on_cancel=True)
                send.send_nowait(("answer", answer))

        asking = asyncio.create_task(ask())
        try:
            with receive:
                async for piece in receive:
                    yield piece
            await asking
        finally:
            asking.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.wait([asking])


_Sink = tuple[asyncio.AbstractEventLoop, MemoryObjectSendStream[tuple[str, Any]]]


def _ask(llm: BaseLLM, request: Request, sink: _Sink | None) -> Any:
    """Call the LLM, in a thread; chunks that it sends as events are passed to the sink."""
    messages: list[Any] = [message.to_wire() for message in request.messages]
    tools: Any = None if request.tools is None else [dict(tool) for tool in request.tools.offered]
    if sink is None:
        return llm.call(messages, tools=tools)
    loop, send = sink

    def hear(source: Any, event: BaseEvent) -> None:
        # The bus carries events of all LLMs; only this call uses the copy.
        if source is llm and isinstance(event, LLMStreamChunkEvent) and event.chunk:
            loop.call_soon_threadsafe(_sent, send, event.chunk)

    crewai_event_bus.register_handler(LLMStreamChunkEvent, hear)
    try:
        return llm.call(messages, tools=tools)
    finally:
        crewai_event_bus.off(LLMStreamChunkEvent, hear)


def _sent(send: MemoryObjectSendStream[tuple[str, Any]], piece: str) -> None:
    try:
        send.send_nowait(("piece", piece))
    except (anyio.ClosedResourceError, anyio.BrokenResourceError):
        return  # the reader has left, but the thread still runs


def _set(llm: BaseLLM, sampling: Sampling, *, stream: bool) -> BaseLLM:
    for name in ("temperature", "top_p", "max_tokens", "seed"):
        if (value := getattr(sampling, name)) is not None:
            setattr(llm, name, value)
    if sampling.stop:
        llm.stop = [*llm.stop, *sampling.stop]
    llm.stream = stream
    return llm
