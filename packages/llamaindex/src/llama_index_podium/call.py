"""Convert one call of an LLM to a run of its conductor."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Any, TypeVar

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, MessageRole, TextBlock
from llama_index.core.callbacks import CallbackManager

from llama_index_podium.conducted import ConductedCall
from llama_index_podium.messages import call_blocks, from_llama
from llama_index_podium.result_metadata import counts_of
from llama_index_podium.structured import is_structured, note_result
from llama_index_podium.tool_continuation import CONTINUATION, latest_continuation
from llama_index_podium.tracing import Ambient
from podium.aio.sync import events_of
from podium.conductor import Conductor
from podium.errors import ConfigError
from podium.hosts import Partial, read_sampling, read_tools

T = TypeVar("T")


class LLMCall:
    """A call of an LLM that a conductor answers.

    Args:
        conductor: the conductor that plans and runs the call.
        callbacks: the callback manager for the steps.
        messages: the conversation; messages of the user without content are left out.
        options: the other arguments of the call: tools and sampling.
        partial: whether an incomplete answer is returned, or raised as `RunFailed`.

    Raises:
        ConfigError: a conductor does not accept an option, or it acts and an agent calls tools in text.
    """

    def __init__(
        self,
        conductor: Conductor,
        callbacks: CallbackManager,
        messages: Sequence[ChatMessage],
        options: dict[str, Any],
        *,
        partial: Partial = "return",
    ) -> None:
        said = dict(options)
        self._tools = read_tools(said.pop("tools", None), said.pop("tool_choice", None))
        self._sampling = read_sampling(said, of="ConductorLLM", takes=("tools", "tool_choice"))
        self._conductor = conductor
        self._partial: Partial = partial
        self._callbacks = callbacks
        if conductor.acts and any(map(_is_of_text_agent, messages)):
            raise ConfigError(
                "an agent that calls tools in its text (ReActAgent) asks the conductor for each thought, and "
                "the conductor's workers act, so it would repeat their actions: use FunctionAgent"
            )
        self._messages = [each for each in messages if not _is_blank(each)] or messages
        self._where = Ambient.here()

    async def response(self) -> ChatResponse:
        """Run the call, and return the whole answer."""
        return await self._run(None)

    def responses(self) -> AsyncGenerator[ChatResponse, None]:
        """Run the call, and yield the answer as it grows: each item has the whole text so far.

        Leaving the iteration cancels the run.
        """
        return self.pieces(lambda response: response)

    def pieces(self, make: Callable[[ChatResponse], T]) -> AsyncGenerator[T, None]:
        """Run the call like `responses`, and yield `make(response)` for each response."""

        async def run(emit: Callable[[T], None]) -> None:
            emit(make(await self._run(lambda response: emit(make(response)))))

        return events_of(run)

    async def _run(self, emit: Callable[[ChatResponse], None] | None) -> ChatResponse:
        """Run the call, emit each response except the last, and return the last."""
        with self._where.inside():  # a stream is read outside of its call
            call = ConductedCall(
                self._conductor,
                self._callbacks,
                from_llama(self._messages),
                partial="raise" if is_structured() else self._partial,
                tools=self._tools,
                sampling=self._sampling,
                continuation=latest_continuation(self._messages),
            )
            async with aclosing(call.events(stream=emit is not None)) as events:
                async for text in events:
                    if emit is not None and text:
                        emit(_response(call.text, text))
            return _last(call, stream=emit is not None)


def _is_of_text_agent(message: ChatMessage) -> bool:
    """Return whether a message tells the model to call tools in its text."""
    return message.role == MessageRole.SYSTEM and "Action Input:" in (message.content or "")


def _is_blank(message: ChatMessage) -> bool:
    """Return whether a user message is blank; the question is then in another message."""
    return message.role == MessageRole.USER and all(
        isinstance(block, TextBlock) and not block.text.strip() for block in message.blocks
    )


def _last(call: ConductedCall, *, stream: bool) -> ChatResponse:
    """Return the last response, which has the tool calls, the nodes and the metadata.

    Raises:
        RunFailed: there is no answer, or it is incomplete and `partial` is `raise`.
    """
    answer = call.answer()
    note_result(answer.result)
    response = _response(answer.text, call.rest() if stream else None)
    message = response.message
    message.blocks += call_blocks(answer.tool_calls)
    if answer.tool_calls:
        # LlamaIndex's streams of structured answers read this field, which its own models set
        message.additional_kwargs["tool_calls"] = [dict(each) for each in answer.tool_calls]
    if answer.continuation is not None:
        message.additional_kwargs[CONTINUATION] = answer.continuation
    response.raw = {
        "usage": call.metadata["usage"],
        "finish_reason": answer.host_finish_reason,
        "podium": call.metadata,
        "source_nodes": call.nodes,
    }
    response.additional_kwargs = counts_of(answer.usage)
    return response


def _response(text: str, delta: str | None) -> ChatResponse:
    blocks = [TextBlock(text=text)] if text else []
    return ChatResponse(message=ChatMessage(role=MessageRole.ASSISTANT, blocks=blocks), delta=delta)
