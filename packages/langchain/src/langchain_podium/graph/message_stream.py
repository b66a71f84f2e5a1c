"""Write a run's texts to LangGraph's stream of messages and LangChain's stream of events.

A conductor's node streams one message, token by token: the answer. With `show_steps`, the texts of planners
and workers are messages too. All messages are made from the events of the run, so that workers of all kinds
are streamed. LangChain's stream handlers do not get the model calls inside the run.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final, Literal
from weakref import WeakKeyDictionary

from langchain_core.callbacks import AsyncCallbackHandler, AsyncCallbackManager, BaseCallbackHandler
from langchain_core.callbacks.base import BaseCallbackManager
from langchain_core.callbacks.manager import AsyncCallbackManagerForLLMRun
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, LLMResult
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import get_async_callback_manager_for_config
from langchain_core.tracers._streaming import _StreamingCallbackHandler
from langgraph.pregel._messages import StreamMessagesHandler

from podium.aio.sync import events_of
from podium.errors import WorkerFailed
from podium.hosts.progress import Maps
from podium.hosts.results import lack_after
from podium.types import (
    AnswerDelta,
    AttemptFailed,
    Event,
    PlanDelta,
    PlannerEnded,
    PlanReady,
    Result,
    RunEnded,
    StepDelta,
    StepEnded,
    StepStarted,
)
from podium.types.result import answer_outcome

Role = Literal["planner", "worker", "answer"]

Listener = Callable[[Event], None]
_FORWARDED: Final = (
    *("on_chain_start", "on_chain_end", "on_chain_error", "on_tool_start", "on_tool_end", "on_tool_error"),
    *("on_retriever_start", "on_retriever_end", "on_retriever_error"),
    *("on_custom_event", "on_retry", "on_text"),
)
_FINISHED: Final[WeakKeyDictionary[BaseCallbackHandler, dict[str, str]]] = WeakKeyDictionary()
"""The complete answers sent to each stream handler; a later node of the graph may find them recorded."""


def message_id(run_id: str, round: int | None, step: int | None, attempt: int | None) -> str:  # noqa: A002
    """Return the id of the message for an attempt of the step that writes the answer."""
    return f"podium-{run_id}-{round}-{step}-{attempt}"


def answer_stream(config: RunnableConfig) -> "tuple[MessageStream, BaseCallbackManager] | None":
    """Return the stream for the answer of a conductor that the code of a node calls, and its callbacks.

    Only LangGraph's stream of messages is changed; a stream of events has the tokens of all models. `None` if
    nobody reads a stream of messages.
    """
    quiet = without_streams(config.get("callbacks"), StreamMessagesHandler)
    if quiet is None:
        return None
    place = config.get("configurable", {}).get("checkpoint_ns", "")
    return MessageStream(config, place, kind=StreamMessagesHandler), quiet


def answer_id(result: Result) -> str | None:
    """Return the id of the message with a run's answer; `None` without an answer."""
    answer = answer_outcome(result.rounds)
    return None if answer is None else message_id(result.run_id, answer.round, answer.step, answer.attempts)


def without_streams(
    callbacks: object, kind: type[Any] = _StreamingCallbackHandler
) -> BaseCallbackManager | None:
    """Return a node's callbacks, without handlers that stream tokens of the models called inside.

    Tracers and counters of tokens still get every call, and a stream of events gets every step. `None` if no
    handler streams.
    """
    if not isinstance(callbacks, BaseCallbackManager) or not _of_kind(callbacks.handlers, kind):
        return None
    quiet = callbacks.copy()
    made = {id(each): _WithoutTokens(each) for each in _of_kind(callbacks.handlers, kind)}
    for name in ("handlers", "inheritable_handlers"):
        kept = [each for each in getattr(callbacks, name) if not isinstance(each, StreamMessagesHandler)]
        setattr(quiet, name, [made.get(id(each), each) for each in kept])
    return quiet


@dataclass(slots=True)
class _Message:
    """A message that is being written."""

    runs: Sequence[AsyncCallbackManagerForLLMRun]
    """The message as runs of a chat model, one for each handler."""
    handlers: Sequence[BaseCallbackHandler]
    text: str = ""
    lack: str = ""
    """The sentence after the text of an incomplete answer."""


@dataclass(slots=True)
class MessageStream:
    """Sends the texts of one run to the stream handlers of a graph."""

    config: RunnableConfig
    place: str
    show_steps: bool = False
    kind: type[Any] = _StreamingCallbackHandler
    _open: dict[str, _Message] = field(default_factory=dict)
    _workers: dict[tuple[int, int, int], str] = field(default_factory=dict)
    """The name of the called worker, by round, step and attempt."""
    _last: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """The indices of the steps of the plan of which one gives the answer, by round."""
    _maps: Maps = field(default_factory=Maps)
    _answering: dict[tuple[int, int], bool] = field(default_factory=dict)
    """Whether a step's text is the answer, by round and step."""
    _held: StepDelta | None = None
    """A chunk of a last step, held until the next event shows whether it belongs to the answer."""
    _plans: int = 0
    """Number of planner texts that have ended."""

    async def listen(self, run: Callable[..., Awaitable[Result]], tell: Listener | None) -> Result:
        """Execute a run, and send its texts as they are written; `tell` gets each event before."""
        results = list[Result]()

        async def carry_out(emit: Listener) -> None:
            def on_event(event: Event) -> None:
                if tell is not None:
                    tell(event)
                emit(event)

            results.append(await run(on_event=on_event))

        async for _ in self.passing(events_of(carry_out)):
            pass
        return results[0]

    async def passing(self, run: AsyncGenerator[Event, None]) -> AsyncGenerator[Event, None]:
        """Yield the events of a run; the texts in each are sent before."""
        has_ended = False
        try:
            async with aclosing(run) as events:
                async for event in events:
                    await self._take(event)
                    yield event
            has_ended = True
        finally:
            for key in list(self._open):
                await self._end(key, failed=not has_ended)

    async def _take(self, event: Event) -> None:
        self._maps.take(event)
        if isinstance(event, StepStarted):
            self._workers[event.round, event.step, event.attempt] = event.worker
        if isinstance(event, AnswerDelta):
            self._held = None
            self._answering[event.round or 0, event.step or 0] = True
            key = message_id(event.run_id, event.round, event.step, event.attempt)
            await self._send(key, event.text, "answer", self._of_step(event))
        elif self.show_steps:
            await self._take_other(event)
        if isinstance(event, RunEnded):
            await self._send_lack(event.result)
        if isinstance(event, AttemptFailed):
            await self._end(message_id(event.run_id, event.round, event.step, event.attempt), failed=True)

    async def _take_other(self, event: Event) -> None:
        if self._held is not None:
            held, self._held = self._held, None
            self._answering[held.round, held.step] = False
            await self._send_step(held)
        match event:
            case PlanDelta():
                facts = {"podium_round": event.round, "podium_worker": event.planner}
                await self._send(self._plan_key(event), event.text, "planner", facts)
            case PlannerEnded():
                await self._end(self._plan_key(event))
                self._plans += 1
            case PlanReady():
                self._last[event.round] = event.plan.answers
            case StepDelta():
                answering = self._answering.get((event.round, event.step))
                if answering is None and event.step in self._last.get(event.round, ()):
                    self._held = event
                elif not answering:
                    await self._send_step(event)
            case StepEnded() | AttemptFailed():
                await self._end(_step_key(event), failed=isinstance(event, AttemptFailed))
            case _:
                pass

    async def _send_step(self, event: StepDelta) -> None:
        await self._send(_step_key(event), event.text, "worker", self._of_step(event))

    def _plan_key(self, event: PlanDelta | PlannerEnded) -> str:
        return f"podium-{event.run_id}-{event.round}-plan-{self._plans}"

    def _of_step(self, event: StepDelta | AnswerDelta) -> dict[str, Any]:
        facts: dict[str, Any] = {
            "podium_round": event.round,
            "podium_step": event.step,
            "podium_attempt": event.attempt,
        }
        if path := self._maps.path(event):
            facts["podium_path"] = path
        worker = self._workers.get((event.round or 0, event.step or 0, event.attempt or 0))
        return facts if worker is None else {**facts, "podium_worker": worker}

    async def _send(self, key: str, text: str, role: Role, facts: dict[str, Any]) -> None:
        message = self._open.get(key)
        if message is None:
            message = self._open[key] = await self._begin(key, text, role, facts)
        message.text += text
        await _send_piece(message, key, text)

    async def _send_lack(self, result: Result) -> None:
        """Send the sentence of an incomplete answer; `_FINISHED` has messages without it."""
        key = answer_id(result)
        if key in self._open and (lack := lack_after(result)):
            self._open[key].lack = lack
            await _send_piece(self._open[key], key, lack)

    async def _begin(self, key: str, text: str, role: Role, facts: dict[str, Any]) -> _Message:
        node = get_async_callback_manager_for_config(self.config)
        streams = _of_kind(node.handlers, self.kind)
        handlers = [each for each in streams if _FINISHED.get(each, {}).get(key) != text]
        manager = AsyncCallbackManager(handlers=list(handlers), parent_run_id=node.parent_run_id)
        manager.add_tags([*node.tags, f"podium:{role}"])
        name = self.place.rpartition("|")[2].partition(":")[0]
        manager.add_metadata({**node.metadata, "langgraph_checkpoint_ns": self.place, "langgraph_node": name})
        manager.add_metadata({"podium_role": role, **facts})
        runs = await manager.on_chat_model_start({}, [[]], name=role) if handlers else []
        return _Message(runs, handlers)

    async def _end(self, key: str, *, failed: bool = False) -> None:
        message = self._open.pop(key, None)
        if message is None:
            return
        for run in message.runs:
            if failed:
                await run.on_llm_error(WorkerFailed("the call failed after writing this text"))
            else:
                whole = ChatGeneration(message=AIMessage(message.text + message.lack, id=key))
                await run.on_llm_end(LLMResult(generations=[[whole]]))
        if not failed:
            for handler in message.handlers:
                _FINISHED.setdefault(handler, {})[key] = message.text


async def _send_piece(message: _Message, key: str, text: str) -> None:
    for run in message.runs:
        chunk = ChatGenerationChunk(message=AIMessageChunk(content=text, id=key))
        await run.on_llm_new_token(text, chunk=chunk)


class _WithoutTokens(AsyncCallbackHandler):
    """A stream handler that gets chains, tools and retrievers, but not models."""

    ignore_llm = True
    ignore_chat_model = True

    def __init__(self, handler: BaseCallbackHandler) -> None:
        self.raise_error = handler.raise_error
        self.run_inline = handler.run_inline
        for name in _FORWARDED:
            setattr(self, name, getattr(handler, name))


def _of_kind(handlers: Sequence[BaseCallbackHandler], kind: type[Any]) -> list[BaseCallbackHandler]:
    return [each for each in handlers if isinstance(each, kind)]


def _step_key(event: StepDelta | StepEnded | AttemptFailed) -> str:
    return f"podium-{event.run_id}-{event.round}-{event.step}-{event.attempt}-step"
