"""Run one call of a chat model with its conductor."""

import time
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from typing import Any, Final

import anyio
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.runnables.config import ensure_config

from langchain_podium.chat_models.chat_run import ChatRun, Counter
from langchain_podium.chat_models.result_metadata import last_chunk, message_of
from langchain_podium.chat_models.tool_continuation import latest_continuation
from langchain_podium.events import hears, tell
from langchain_podium.messages import from_langchain
from langchain_podium.task_runs import run_in_task
from langchain_podium.tracing import call_as_child_run, thread_of
from podium.conductor import Conductor
from podium.errors import LimitExceeded
from podium.hosts import ChatCall, Partial, read_sampling, read_tools
from podium.policy import Policy
from podium.run_state import fold
from podium.types import Action, Event, Message, RunStarted

_Item = tuple[Event, str]
_TAKES: Final = ("tools", "tool_choice", "timeout", "model", "labels", "policy")


class ModelCall:
    """A call of a chat model that a conductor answers.

    Args:
        conductor: the conductor that plans and runs the call.
        messages: the conversation.
        options: the arguments of the call, under LangChain's names, with the model's settings as defaults.
        partial: whether an incomplete answer is returned, or raised as `RunFailed`.

    Raises:
        ConfigError: a conductor does not accept an option, or its value is invalid.
    """

    def __init__(
        self,
        conductor: Conductor,
        messages: Sequence[BaseMessage],
        options: Mapping[str, Any],
        *,
        partial: Partial = "return",
    ) -> None:
        said = dict(options)
        self.model: str = said.pop("model")
        self._timeout: float | None = said.pop("timeout", None)
        self._labels: Iterable[str] = said.pop("labels", None) or ()
        self._policy: Policy | None = said.pop("policy", None)
        self._tools = read_tools(said.pop("tools", None), said.pop("tool_choice", None))
        self._sampling = read_sampling(said, of="ChatPodium", takes=_TAKES)
        self._conductor = conductor
        self._partial = partial
        self._messages = messages
        self._counter = Counter()
        self._heard: list[Event] = []
        """All events, for the actions of a run that is stopped by the timeout."""

    async def message(self) -> AIMessage:
        """Run the call, and return the answer.

        Raises:
            RunFailed: there is no answer, or it is incomplete and `partial` is `raise`.
            LimitExceeded: the call took longer than its timeout.
            PodiumError: see `Conductor.run`.
        """
        with self._begun() as call:
            async with aclosing(self._events(call, stream=False)) as events:
                async for _ in events:
                    pass
            answer = call.answer()
        return message_of(answer, answer.new_usage.beyond(self._counter.seen), self.model)

    async def chunks(self) -> AsyncGenerator[AIMessageChunk, None]:
        """Run the call, and yield the answer as it is written; the last chunk has the metadata.

        Leaving the iteration cancels the run. Raises what `message` raises.
        """
        with self._begun() as call:
            async with aclosing(self._events(call, stream=True)) as events:
                async for _, text in events:
                    if text:
                        yield AIMessageChunk(content=text)
            answer = call.answer()
        yield last_chunk(answer, call.rest(), answer.new_usage.beyond(self._counter.seen), self.model)

    @contextmanager
    def _begun(self) -> Iterator[ChatCall]:
        """Yield the call; a recorded run has the id in LangGraph's task, or else LangChain's."""
        conductor, query = self._conductor, from_langchain(self._messages)
        if conductor.journal is None:
            yield self._call(query, None)
            return
        with run_in_task(conductor.card.name, query) as run_id:
            yield self._call(query, run_id or str(ChatRun.current().run_id))

    def _call(self, query: Sequence[Message], run_id: str | None) -> ChatCall:
        return ChatCall(
            self._conductor,
            query,
            tools=self._tools,
            sampling=self._sampling,
            continuation=latest_continuation(self._messages),
            partial=self._partial,
            options={
                "run_id": run_id,
                "labels": self._labels,
                "policy": self._policy,
                "middleware": call_as_child_run,
            },
            session=thread_of(ensure_config()),
            on_event=None if self._timeout is None else self._heard.append,
        )

    async def _events(self, call: ChatCall, *, stream: bool) -> AsyncGenerator[_Item, None]:
        """Yield the run's events; the calls of workers are below LangChain's current run."""
        run = ChatRun.current()
        end = None if self._timeout is None else time.monotonic() + self._timeout
        listened = hears(run)
        with run.counted() as self._counter:  # the run's task starts here, with these context variables
            events = call.events(stream=stream)
            item = await self._next(events, end)
        async with aclosing(events):
            while item is not None:
                if listened:
                    await tell(run, item[0])
                yield item
                item = await self._next(events, end)

    async def _next(self, events: AsyncGenerator[_Item, None], end: float | None) -> _Item | None:
        if end is None:
            return await anext(events, None)
        with anyio.move_on_after(max(0.0, end - time.monotonic())) as scope:
            return await anext(events, None)
        assert scope.cancelled_caught
        told = f"the run took longer than the {self._timeout:g} s of ChatPodium's timeout"
        error = LimitExceeded("seconds", told)
        error.actions = self._actions()
        error.add_note(f"actions of the run: {'; '.join(map(str, error.actions))}")
        raise error

    def _actions(self) -> tuple[Action, ...]:
        runs: dict[str, list[Event]] = {}
        for event in self._heard:
            runs.setdefault(event.run_id, []).append(event)
        own, *nested = runs.values() or ([],)
        return fold(own, nested).result().actions if own and isinstance(own[0], RunStarted) else ()
