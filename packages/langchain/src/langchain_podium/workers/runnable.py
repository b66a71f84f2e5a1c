"""A worker that calls any Runnable: a chain, a function, or a compiled LangGraph graph, such as an agent.

The module makes the input of the Runnable, and converts the output of the Runnable to an answer. Chat models,
retrievers and tools have workers of their own, in other modules.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractContextManager, aclosing
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import uuid4

import anyio.to_thread
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessageChunk, convert_to_messages
from langchain_core.runnables import Runnable
from langchain_core.runnables.config import RunnableConfig, ensure_config, merge_configs

from langchain_podium.cancellation import apart, each
from langchain_podium.cards import innermost
from langchain_podium.graph.around import CHECKPOINTER, check_checkpointer, is_called_sync
from langchain_podium.messages import finish_of, refusal_of, text_of, to_langchain, with_missing, write_calls
from langchain_podium.workers.calls import Spent, interrupted, langchain_errors
from langchain_podium.workers.commands import command_completion, is_command
from langchain_podium.workers.parts import AGENT_NODES, acts_first, is_built_in, is_plain_agent
from podium.errors import WorkerBroken
from podium.hosts.results import spent_completion
from podium.prompts.prompt import fill
from podium.types import Completion, Message, Part
from podium.types.messages import prompt_text
from podium.types.references import compact
from podium.workers import Card, Request, StepInput, Worker, step_input_of


class RunnableWorker(Worker):
    """Calls a Runnable."""

    interrupts = False
    """Whether a part of the Runnable is known to call `interrupt()`."""

    def __init__(
        self, runnable: Runnable[Any, Any], *, card: Card, give: Callable[[StepInput], Any] | None = None
    ) -> None:
        self.runnable = runnable
        self.card = card
        self._give = give
        self.reads_prose = give is None
        self.is_interruptible = give is not None or not is_built_in(runnable)
        self._acts_first = acts_first(runnable)

    def check_host(self) -> None:
        """Check that a call can be interrupted, if it will be."""
        if self.interrupts:
            check_checkpointer(self.card.name)

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Invoke the Runnable; with `request.stream`, stream it."""
        spent, streamed, returned = Spent(), "", None
        config = merge_configs(ensure_config(), self._config(spent))
        with self._errors(spent):
            given = self._input(request)
            if not request.stream:
                returned = await apart(self._invoke(given, config))
        if request.stream:
            chunks = each(self._stream(given, config), errors=self._errors(spent))
            async with aclosing(chunks):
                async for chunk in chunks:
                    returned = _joined(returned, chunk)
                    if text := _piece(chunk):
                        streamed += text
                        yield text
        with self._errors(spent):
            self._check(returned)
            made = command_completion(returned, self.card.name) if is_command(returned) else None
            text = streamed or (self._text(returned) if made is None else made.text)
            calls = _calls(returned)
            completion = _completion(text, returned, spent, self.card)
            if made is not None:
                completion = replace(completion, missing=made.missing, data=made.data)
            if not text.strip() and not calls:
                raise WorkerBroken(f"worker {self.card.name!r} returned no text", maybe_paid=True)
        if request.stream and text and not streamed:
            yield text
        yield replace(completion, tool_calls=calls)

    def _errors(self, spent: Spent) -> AbstractContextManager[None]:
        return langchain_errors(self.card.name, spent, acts_first=self.acts and self._acts_first)

    async def _invoke(self, given: Any, config: RunnableConfig) -> Any:
        return await self.runnable.ainvoke(given, config)

    def _stream(self, given: Any, config: RunnableConfig) -> AsyncIterator[Any]:
        return self.runnable.astream(given, config)

    def _check(self, returned: object) -> None:
        """Raise an error if a return value has no answer."""

    def _config(self, spent: Spent) -> RunnableConfig:
        return RunnableConfig(callbacks=[spent])

    def _input(self, request: Request) -> Any:
        if self._give is not None:
            return self._give(step_input_of(request))
        return prompt_text(asked_messages(request))

    def _text(self, returned: object) -> str:
        return text_of(returned)


def asked_messages(request: Request) -> tuple[Message, ...]:
    """Return the messages of a request; the last one also says in which form the answer must be."""
    messages, constraint = request.messages, request.sampling.constraint
    if constraint is None or constraint.kind != "json":
        return messages
    told = fill("returns", subtask=messages[-1].text, schema=compact(constraint.value))
    return (*messages[:-1], replace(messages[-1], content=told))


def _completion(text: str, returned: object, spent: Spent, card: Card) -> Completion:
    """Return the answer, with the finish reason of its message, or else of the last model call."""
    message, finish, refusal = _message(returned), spent.finish, spent.refusal
    if message is not None and (own := finish_of(message)) is not None:
        finish, refusal = own, refusal_of(message)
    usage = None if spent.is_open else spent.usage
    completion = spent_completion(text, usage, card, finish_reason=finish, refusal=refusal)
    return with_missing(completion, message)


def _calls(returned: object) -> tuple[Part, ...]:
    """Return the tool calls that a Runnable leaves to its caller."""
    message = _message(returned)
    return () if message is None else write_calls(message)


def _message(returned: object) -> AIMessage | None:
    """Return a Runnable's output message, or the last message in a graph's state."""
    if isinstance(returned, dict) and returned.get("messages"):
        returned = returned["messages"][-1]
    return returned if isinstance(returned, AIMessage) else None


def _joined(before: Any, chunk: Any) -> Any:
    """Return the sum of streamed chunks, as LangChain does; if they cannot be added, the last one."""
    if before is None:
        return chunk
    try:
        return before + chunk
    except TypeError:
        return chunk


def _piece(chunk: object) -> str:
    """Return the text of a chunk that is text or a message."""
    if isinstance(chunk, str):
        return chunk
    return str(chunk.text) if isinstance(chunk, BaseMessageChunk) else ""


class GraphWorker(RunnableWorker):
    """Runs a graph; the last message in its state is the answer.

    For an agent with structured output, `structured_response` is the answer, as JSON. Each call starts with
    the step's input alone: a graph with its own checkpointer uses a new thread for each call. Only agents are
    streamed, because only their messages are certainly for the user: the answer is then all that the agent
    wrote, also before it called a tool. The tokens of a `RemoteGraph` are unknown.
    """

    def __init__(
        self, runnable: Runnable[Any, Any], *, card: Card, give: Callable[[StepInput], Any] | None = None
    ) -> None:
        graph: Any = runnable
        # otherwise it would continue where an earlier run's step ended
        if getattr(graph, "checkpointer", None) is True:
            graph = graph.copy(update={"checkpointer": None})
        super().__init__(graph, card=card, give=give)
        self.is_interruptible = True
        self._is_remote = not hasattr(innermost(graph), "channels")
        self._speaks = give is None and is_plain_agent(innermost(graph))

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Invoke the graph, or stream an agent."""
        is_sync = _is_hosted() and is_called_sync()  # then the checkpointer may only support sync calls
        streams = request.stream and self._speaks and not is_sync and request.sampling.constraint is None
        async for piece in super().call(replace(request, stream=streams)):
            if request.stream and not streams and isinstance(piece, Completion):
                yield piece.text
            yield piece

    async def _stream(self, given: Any, config: RunnableConfig) -> AsyncGenerator[Any, None]:
        """Yield the texts of an agent as they are written, and then its state."""
        state, said = None, ""
        stream: Any = self.runnable.astream(given, config, stream_mode=["messages", "values"])
        async with aclosing(stream) as told:
            async for mode, part in told:
                if mode == "values":
                    state = part
                    continue
                chunk, facts = part
                is_own = facts.get("langgraph_node") in AGENT_NODES and isinstance(chunk, AIMessageChunk)
                if is_own and (text := str(chunk.text)):
                    yield f"\n\n{text}" if said not in ("", chunk.id) else text
                    said = chunk.id or ""
        yield state

    def _input(self, request: Request) -> Any:
        if self._give is not None:
            return super()._input(request)
        return {"messages": to_langchain(asked_messages(request))}

    async def _invoke(self, given: Any, config: RunnableConfig) -> Any:
        if _is_hosted() and is_called_sync():  # as above
            return await anyio.to_thread.run_sync(partial(self.runnable.invoke, given, config))
        returned = await super()._invoke(given, config)
        if self._is_remote and isinstance(returned, dict) and "messages" in returned:
            return {**returned, "messages": convert_to_messages(returned["messages"])}
        return returned

    def _config(self, spent: Spent) -> RunnableConfig:
        config = super()._config(spent)
        remembers = getattr(self.runnable, "checkpointer", None) not in (None, False)
        if self._is_remote:
            spent.is_elsewhere = True
            config["configurable"] = {"thread_id": None}  # else the thread of an outer graph
        elif remembers and not _is_hosted():
            config["configurable"] = {"thread_id": uuid4().hex}
        return config

    def _check(self, returned: object) -> None:
        if isinstance(returned, dict) and returned.get("__interrupt__"):
            raise interrupted(self.card.name)

    def _text(self, returned: object) -> str:
        if isinstance(returned, dict) and returned.get("structured_response") is not None:
            return text_of(returned["structured_response"])
        return super()._text(returned)


def _is_hosted() -> bool:
    """Return whether an outer graph with a checkpointer runs this graph."""
    return bool(ensure_config().get("configurable", {}).get(CHECKPOINTER))


def has_messages(graph: object) -> bool:
    """Return whether a graph's state has messages; True for a remote graph, whose state is unknown."""
    return "messages" in getattr(graph, "channels", ("messages",))
