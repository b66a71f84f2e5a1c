"""One call of a chat model as a run of its conductor: its arguments, and its answer as a message."""

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from typing import Any, Final

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.runnables.config import ensure_config

from langchain_podium.chat_models.chat_run import ChatRun
from langchain_podium.events import hears, tell
from langchain_podium.messages import PROVIDER, from_langchain, read_calls, write_usage
from langchain_podium.task_runs import run_in_task
from langchain_podium.tracing import call_as_child_run, thread_of
from podium.conductor import Conductor
from podium.hosts import ChatAnswer, ChatCall, Partial, read_sampling, read_tools, result_metadata
from podium.run import RunOptions
from podium.usage import Usage

_TAKES: Final = ("tools", "tool_choice", "parallel_tool_calls", "timeout", "model", "labels", "policy")


class ModelCall:
    """A call of a chat model that a conductor answers."""

    def __init__(
        self,
        conductor: Conductor,
        messages: Sequence[BaseMessage],
        options: Mapping[str, Any],
        *,
        partial: Partial,
    ) -> None:
        said = dict(options)
        self.model: str = said.pop("model")
        self._conductor, self._messages = conductor, messages
        self._options: RunOptions = {
            "labels": said.pop("labels", None) or (),
            "policy": said.pop("policy", None),
            "middleware": call_as_child_run,
        }
        self._settings: dict[str, Any] = {
            "timeout": said.pop("timeout", None),
            "is_parallel": said.pop("parallel_tool_calls", None) is not False,
            "tools": read_tools(said.pop("tools", None), said.pop("tool_choice", None)),
            "sampling": read_sampling(said, of="ChatPodium", takes=_TAKES),
            "partial": partial,
        }

    async def pieces(self, run: ChatRun, *, stream: bool) -> AsyncGenerator[Any, None]:
        """Run the call, and yield the answer as it is written; the last piece has the metadata.

        Leaving the iteration cancels the run.
        """
        listened = hears(run)
        with self._begun(run) as call:
            with run.counted() as counter:  # the run's task starts here, with these context variables
                events = call.events(stream=stream)
                item = await anext(events, None)
            async with aclosing(events):
                while item is not None:
                    event, text = item
                    if listened:
                        await tell(run, event)
                    if text and stream:
                        yield AIMessageChunk(content=text)
                    item = await anext(events, None)
            answer = call.answer()
        used = answer.new_usage.beyond(counter.seen)
        yield self._last(answer, call.rest(), used) if stream else self._message(answer, used)

    @contextmanager
    def _begun(self, run: ChatRun) -> Iterator[ChatCall]:
        """Yield the call; a recorded run has the id in LangGraph's task, or else LangChain's."""
        conductor, query = self._conductor, from_langchain(self._messages)

        def call(run_id: str | None) -> ChatCall:
            return ChatCall(
                conductor,
                query,
                continuation=_continuation(self._messages),
                options={**self._options, "run_id": run_id},
                session=thread_of(ensure_config()),
                **self._settings,
            )

        if conductor.journal is None:
            yield call(None)
            return
        with run_in_task(conductor.card.name, query) as run_id:
            yield call(run_id or str(run.run_id))

    def _message(self, answer: ChatAnswer, usage: Usage) -> AIMessage:
        calls, broken = read_calls(answer.tool_calls)
        return AIMessage(
            answer.text,
            tool_calls=calls,
            invalid_tool_calls=broken,
            usage_metadata=write_usage(usage),
            response_metadata=self._metadata(answer),
        )

    def _last(self, answer: ChatAnswer, rest: str, usage: Usage) -> AIMessageChunk:
        """Return the last chunk of a stream: the unsent text, the tool calls, and the metadata."""
        calls = [
            tool_call_chunk(
                name=call["function"].get("name"),
                args=call["function"].get("arguments") or "{}",
                id=call.get("id"),
                index=index,
            )
            for index, call in enumerate(answer.tool_calls)
        ]
        return AIMessageChunk(
            content=rest,
            tool_call_chunks=calls,
            usage_metadata=write_usage(usage),
            response_metadata=self._metadata(answer),
            chunk_position="last",
        )

    def _metadata(self, answer: ChatAnswer) -> dict[str, Any]:
        """Return a message's `response_metadata`: plain JSON, without the outputs of the steps."""
        metadata = result_metadata(answer.result, usage=lambda usage: dict(write_usage(usage)))
        if answer.continuation is not None:
            metadata["continuation"] = dict(answer.continuation)
        return {
            "model_name": self.model,
            "model_provider": PROVIDER,
            "finish_reason": answer.host_finish_reason,
            "podium": metadata,
        }


def _continuation(messages: Sequence[BaseMessage]) -> object:
    """Return the continuation in the model's last message; `None` if there is none."""
    last = next((message for message in reversed(messages) if isinstance(message, AIMessage)), None)
    podium = {} if last is None else last.response_metadata.get("podium")
    return podium.get("continuation") if isinstance(podium, dict) else None
