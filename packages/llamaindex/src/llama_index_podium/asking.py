"""One call of an LLM as a run of its conductor: what is asked, what happens, and what it comes to."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, MessageRole, TextBlock
from llama_index.core.callbacks import CallbackManager

from llama_index_podium.facts import Sent, answered, counts_of, facts_of, failed
from llama_index_podium.messages import call_blocks, from_llama
from llama_index_podium.steps import Ambient, Steps
from llama_index_podium.turns import TURN, latest_turn
from podium.conductor import Conductor
from podium.errors import ConfigError
from podium.hosts.tool_continuation import read_continuation, write_continuation
from podium.resume import PaidResults
from podium.types import AnswerDelta, Event, Message, Result, RunEnded, Sampling, Tools, read_conversation

_SAMPLING = ("temperature", "top_p", "max_tokens", "seed")


class Asking:
    """A call of an LLM that a conductor answers.

    Args:
        conductor: whose run it is.
        callbacks: who is told of its steps.
        messages: the conversation.
        said: what else the call says: tools, and how to write.

    Raises:
        ConfigError: it says something a conductor cannot do.
    """

    def __init__(
        self,
        conductor: Conductor,
        callbacks: CallbackManager,
        messages: Sequence[ChatMessage],
        said: dict[str, Any],
    ) -> None:
        self._conductor = conductor
        self._callbacks = callbacks
        self._messages = messages
        self._tools, self._sampling = _read(dict(said))
        self._events: list[Event] = []
        self._where = Ambient.here()

    async def response(self) -> ChatResponse:
        """Carry it out, and return the whole answer."""
        async with aclosing(self._run(stream=False)) as events:
            async for event in events:
                last = event
        assert isinstance(last, RunEnded)  # a run that ends otherwise raises
        return self._ended(last.result, None)

    async def responses(self) -> AsyncGenerator[ChatResponse, None]:
        """Carry it out, and yield the answer as it comes, each time with all there is of it.

        Leaving the iteration cancels the run.
        """
        sent = Sent()
        async with aclosing(self._run(stream=True)) as events:
            async for event in events:
                if isinstance(event, AnswerDelta):
                    piece = sent.more(event.text, (event.round, event.step, event.attempt))
                    if piece:
                        yield _response(sent.text, piece)
                elif isinstance(event, RunEnded):
                    yield self._ended(event.result, sent)

    async def _run(self, *, stream: bool) -> AsyncGenerator[Event, None]:
        """Yield the run's own events."""
        query, turns = read_conversation(from_llama(self._messages))
        conductor = self._conductor
        paid_results = (
            read_continuation(latest_turn(self._messages), query, conductor.pool.names) if turns else None
        )
        if paid_results is None and self._tools.offered:
            paid_results = PaidResults()  # has the run say of each step what stands for it, for the next turn
        with self._where.inside():  # a stream is read outside of the call that it answers
            steps = Steps(self._callbacks, stream=stream)
            events = conductor.stream(
                (*query, *turns),
                paid_results=paid_results,
                tools=self._tools,
                sampling=self._sampling,
                middleware=steps.middleware,
            )
            event: Event | None = await anext(events)
        assert event is not None
        own = event.run_id
        async with aclosing(events):
            while event is not None:
                steps.tell(event)
                if event.run_id == own:
                    self._events.append(event)
                    yield event
                event = await anext(events, None)

    def _ended(self, result: Result, sent: Sent | None) -> ChatResponse:
        """Return the last response.

        Raises:
            RunFailed: there is no answer, or another than what was sent of it, or none of the
                tools is called where one has to be.
        """
        answered(result)
        choice = self._tools.choice
        if not result.tool_calls and choice not in (None, "auto", "none"):
            told = "a tool had to be called, and whoever wrote the answer called none, or takes none"
            raise failed(told, result)
        delta = None if sent is None else sent.rest(result)
        response = _response(result.answer, delta)
        message, facts = response.message, facts_of(result)
        message.blocks += call_blocks(result.tool_calls)
        if result.tool_calls:
            query: tuple[Message, ...] = read_conversation(from_llama(self._messages))[0]
            message.additional_kwargs[TURN] = write_continuation(self._events, query)
            # as LlamaIndex's own models have them: its streams of structured answers look here
            message.additional_kwargs["tool_calls"] = [dict(call) for call in result.tool_calls]
        response.raw = {"usage": facts["usage"], "podium": facts}
        response.additional_kwargs = counts_of(result.usage)
        return response


def _response(text: str, delta: str | None) -> ChatResponse:
    blocks = [TextBlock(text=text)] if text else []
    return ChatResponse(message=ChatMessage(role=MessageRole.ASSISTANT, blocks=blocks), delta=delta)


def _read(said: dict[str, Any]) -> tuple[Tools, Sampling]:
    tools, choice = said.pop("tools", None) or (), said.pop("tool_choice", None)
    sampling = {name: said.pop(name) for name in _SAMPLING if said.get(name) is not None}
    stop = said.pop("stop", None) or ()
    told = [name for name, value in said.items() if value is not None]
    if told:
        raise ConfigError(f"ConductorLLM takes no {', '.join(told)}: say it to the LLM it is for")
    named = (
        choice if not isinstance(choice, str) or choice in ("auto", "required", "none") else _named(choice)
    )
    stops = (stop,) if isinstance(stop, str) else tuple(stop)
    return Tools(tuple(tools), named), Sampling(**sampling, stop=stops)


def _named(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}
