"""One call of a chat model as a run of its conductor: its arguments, and its answer as a message."""

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from typing import Any, Final, Self

from langchain_core.callbacks import UsageMetadataCallbackHandler
from langchain_core.callbacks.manager import (
    AsyncCallbackManagerForLLMRun,
    AsyncParentRunManager,
    BaseRunManager,
)
from langchain_core.language_models import LangSmithParams
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.runnables.config import ensure_config, patch_config
from langchain_core.utils.utils import LC_ID_PREFIX

from langchain_podium.events import hears, tell
from langchain_podium.messages import PROVIDER, from_langchain, read_calls, read_usage, write_usage
from langchain_podium.scrubbed_runs import scrub_run
from langchain_podium.task_runs import run_in_task
from langchain_podium.tracing import ambient, call_as_child_run, thread_of
from podium.conductor import Conductor
from podium.hosts import ChatAnswer, ChatCall, Partial, read_sampling, read_tools, result_metadata
from podium.run import RunOptions
from podium.usage import Usage

_FACTS: Final = (
    *("run_id", "parent_run_id", "handlers", "inheritable_handlers"),
    *("tags", "inheritable_tags", "metadata", "inheritable_metadata"),
)
_NOSTREAM: Final = "nostream"
"""The tag that keeps a run's tokens out of LangGraph's stream of messages; only the answer is streamed."""
_OWN: Final = frozenset(LangSmithParams.__annotations__)
"""Metadata of the chat model itself, which are wrong for its child runs."""
_TAKES: Final = ("tools", "tool_choice", "parallel_tool_calls", "timeout", "model", "labels", "policy")


class Counter(UsageMetadataCallbackHandler):
    """Adds up the tokens that child runs report, like LangChain's own handler."""

    run_inline = True

    @property
    def seen(self) -> Usage:
        """All tokens reported so far."""
        return Usage.total(usage for told in self.usage_metadata.values() if (usage := read_usage(told)))


class ChatRun(AsyncCallbackManagerForLLMRun, AsyncParentRunManager):
    """The run of a chat model, with child runs, which LangChain does not provide for."""

    @classmethod
    def of(cls, run: BaseRunManager | None) -> Self:
        """Return the run of a manager of LangChain's; none of both tells the callbacks secrets."""
        own = cls.get_noop_manager()
        if run is not None:
            scrub_run(run)
            own = cls(**{name: getattr(run, name) for name in _FACTS})
        own.inheritable_metadata = {
            key: value for key, value in own.inheritable_metadata.items() if key not in _OWN
        }
        scrub_run(own)
        return own

    @property
    def message_id(self) -> str:
        """The id of the message, and of its chunks."""
        return f"{LC_ID_PREFIX}-{self.run_id}"

    async def told(self, chunk: AIMessageChunk) -> AIMessageChunk:
        """Tell a chunk to the callbacks, and return it."""
        chunk.id = self.message_id
        await self.on_llm_new_token(str(chunk.text), chunk=ChatGenerationChunk(message=chunk))
        return chunk

    @contextmanager
    def counted(self) -> Iterator[Counter]:
        """Make everything that starts in the block a child of this run, and count its tokens."""
        counter, children = Counter(), self.get_child()
        children.add_tags([_NOSTREAM])
        children.add_handler(counter)
        with ambient(patch_config(ensure_config(), callbacks=children)):
            yield counter


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
        self._answer: ChatAnswer | None = None
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

    async def chunks(self, run: ChatRun, *, stream: bool) -> AsyncGenerator[AIMessageChunk, None]:
        """Run the call; with `stream`, yield the answer as it is written, and also tell it to the callbacks.

        Leaving the iteration cancels the run.
        """
        listened, conductor, query = hears(run), self._conductor, from_langchain(self._messages)
        with run_in_task(conductor, query, run.run_id) as run_id:
            call = ChatCall(
                conductor,
                query,
                continuation=_continuation(self._messages),
                options={**self._options, "run_id": run_id},
                session=thread_of(ensure_config()),
                **self._settings,
            )
            with run.counted() as counter:  # the run's task starts here, with these context variables
                events = call.events(stream=stream)
                item = await anext(events, None)
            async with aclosing(events):
                while item is not None:
                    event, text = item
                    if listened:
                        await tell(run, event)
                    if text and stream:
                        yield await run.told(AIMessageChunk(content=text))
                    item = await anext(events, None)
            self._answer = answer = call.answer()
        self._usage = write_usage(answer.new_usage.beyond(counter.seen))
        if stream:
            yield await run.told(self._last(answer, call.rest()))

    def message(self, run: ChatRun) -> AIMessage:
        """Return the whole message, after `chunks` has ended."""
        assert self._answer is not None  # a call without an answer raises
        calls, broken = read_calls(self._answer.tool_calls)
        return AIMessage(
            self._answer.text,
            id=run.message_id,
            tool_calls=calls,
            invalid_tool_calls=broken,
            usage_metadata=self._usage,
            response_metadata=self._metadata(self._answer),
        )

    def _last(self, answer: ChatAnswer, rest: str) -> AIMessageChunk:
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
            usage_metadata=self._usage,
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
