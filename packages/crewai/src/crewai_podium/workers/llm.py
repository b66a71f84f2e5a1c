"""A worker that is one of CrewAI's LLMs, bare: a planner's model, above all.

It owns how messages become a call of an LLM, and how the pieces it tells CrewAI's events of
become a stream. It knows no agent.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
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
from crewai.utilities.agent_utils import extract_tool_call_info

from crewai_podium.faults import calling
from crewai_podium.spending import Meter, Spent
from crewai_podium.texts import text_of
from podium.errors import WorkerBroken
from podium.types import Completion, Part, Sampling, estimate_usage
from podium.workers import Card, Request, Worker


class LLMWorker(Worker):
    """Asks an LLM. It is called in a thread, as CrewAI calls it, and left behind there after a cancel.

    Args:
        llm: who is asked.
        card: what the planner is told of it.
        spent: is told what each call has spent, however it ended.
    """

    def __init__(self, llm: BaseLLM, *, card: Card, spent: Spent | None = None) -> None:
        self.llm = llm
        self.card = card
        self._spent = spent
        asks = getattr(llm, "supports_function_calling", None)
        self.takes_tools = asks is not None and bool(asks())

    def __repr__(self) -> str:
        return f"LLMWorker({self.card.name!r})"

    @property
    def max_tokens(self) -> int | None:
        """Most tokens of an answer where the request does not say, as the LLM has it."""
        most = self.llm.max_tokens
        return None if most is None else int(most)

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Ask the LLM: as a stream where somebody reads along, and it tells its pieces."""
        meter, written, answer = Meter(), list[str](), None
        llm = _set(meter.copy_of(self.llm), request.sampling, stream=request.stream)
        try:
            with calling(self.card.name, lambda: meter.usage):
                if not request.stream:
                    answer = await to_thread.run_sync(_ask, llm, request, None, abandon_on_cancel=True)
            if request.stream:
                async with aclosing(self._streamed(llm, request, meter)) as pieces:
                    async for kind, piece in pieces:
                        if kind == "piece":
                            written.append(piece)
                            yield piece
                        else:
                            answer = piece
        finally:
            if self._spent is not None:
                self._spent(meter.metrics)
        calls = _calls(answer) if isinstance(answer, list) else ()
        text = "".join(written) or ("" if calls else text_of(answer))
        if not text.strip() and not calls:
            raise WorkerBroken(
                f"worker {self.card.name!r} returned no text", maybe_paid=True, usage=meter.usage
            )
        if request.stream and text and not written:
            yield text
        usage = meter.usage or estimate_usage(request.messages, text)
        yield Completion(text, "tool_calls" if calls else "stop", usage=usage, tool_calls=calls)

    async def _streamed(
        self, llm: BaseLLM, request: Request, meter: Meter
    ) -> AsyncGenerator[tuple[str, Any], None]:
        """Yield the pieces as they come, then what the call returned."""
        send, receive = anyio.create_memory_object_stream[tuple[str, Any]](inf)
        loop = asyncio.get_running_loop()

        async def ask() -> None:
            with send, calling(self.card.name, lambda: meter.usage):
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
    """Call the LLM, in a thread; what it tells CrewAI's events meanwhile goes to the sink."""
    messages: list[Any] = [message.to_wire() for message in request.messages]
    tools: Any = None if request.tools is None else [dict(tool) for tool in request.tools.offered]
    if sink is None:
        return llm.call(messages, tools=tools)
    loop, send = sink

    def told(source: Any, event: BaseEvent) -> None:
        if (
            source is llm and isinstance(event, LLMStreamChunkEvent) and event.chunk
        ):  # the bus is everybody's, and the copy this call's
            loop.call_soon_threadsafe(_sent, send, event.chunk)

    crewai_event_bus.register_handler(LLMStreamChunkEvent, told)
    try:
        return llm.call(messages, tools=tools)
    finally:
        crewai_event_bus.off(LLMStreamChunkEvent, told)


def _sent(send: MemoryObjectSendStream[tuple[str, Any]], piece: str) -> None:
    try:
        send.send_nowait(("piece", piece))
    except (anyio.ClosedResourceError, anyio.BrokenResourceError):
        return  # nobody reads any more: the thread was left behind


def _set(llm: BaseLLM, sampling: Sampling, *, stream: bool) -> BaseLLM:
    for name in ("temperature", "top_p", "max_tokens", "seed"):
        if (value := getattr(sampling, name)) is not None:
            setattr(llm, name, value)
    if sampling.stop:
        llm.stop = [*llm.stop, *sampling.stop]
    llm.stream = stream
    return llm


def _calls(answer: Sequence[Any]) -> tuple[Part, ...]:
    """Return calls of tools, in whichever provider's form, as OpenAI writes them."""
    calls = list[Part]()
    for each in answer:
        told = extract_tool_call_info(each)
        if told is not None:
            number, name, given = told
            arguments = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
            function = {"name": name, "arguments": arguments}
            calls.append({"id": number, "type": "function", "function": function})
    return tuple(calls)
