"""One call of an LLM that a conductor answers, and the reading of structured answers."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Any, Final, Generic, TypeVar, cast

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, MessageRole, TextBlock, ThinkingBlock
from llama_index.core.output_parsers import PydanticOutputParser
from llama_index.core.program.function_program import get_function_tool
from llama_index.core.prompts import BasePromptTemplate
from llama_index.core.types import Model
from pydantic import PrivateAttr

from llama_index_podium.conductor import ConductedCall, counts_of
from llama_index_podium.messages import call_blocks, from_llama
from llama_index_podium.tracing import Ambient
from podium.aio.sync import events_of
from podium.conductor import Conductor
from podium.errors import ConfigError
from podium.hosts import Partial, read_sampling, read_tools
from podium.hosts.faces import run_id_of
from podium.hosts.progress import Progress
from podium.hosts.results import run_failed, tool_arguments
from podium.run import RunOptions
from podium.secrets import scrub
from podium.types import Event, Result

T = TypeVar("T")
CALL_OPTIONS: Final = ("tools", "tool_choice", "run_id", "partial")
"""The options of a call besides sampling."""
_CONTINUATION: Final = "podium_continuation"
"""The key in a message's `additional_kwargs` for the continuation of the turn with its tool calls."""
_MAX_QUOTE: Final = 500


class LLMCall:
    """A call of an LLM that a conductor answers."""

    def __init__(
        self,
        conductor: Conductor,
        messages: Sequence[ChatMessage],
        options: dict[str, Any],
        *,
        partial: Partial = "return",
        run_id: str | None = None,
        show_steps: bool = False,
    ) -> None:
        said = dict(options)
        self._tools = read_tools(said.pop("tools", None), said.pop("tool_choice", None))
        self._run_id = said.pop("run_id", None)
        self._partial: Partial = said.pop("partial", partial)
        self._prefix = run_id
        self._sampling = read_sampling(said, of="ConductorLLM", takes=CALL_OPTIONS)
        self._conductor = conductor
        if conductor.acts and any(map(_is_of_text_agent, messages)):
            raise ConfigError(
                "an agent that calls tools in its text (ReActAgent) asks the conductor for each thought, and "
                "the conductor's workers act, so it would repeat their actions: use FunctionAgent"
            )
        self._messages = [each for each in messages if not _is_blank(each)] or messages
        self._where = Ambient.here()
        self._progress = Progress("steps") if show_steps else None
        self._thoughts = ""

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

        def on_event(event: Event) -> None:
            told = "" if self._progress is None else self._progress.text(event)
            self._thoughts += told
            if emit is not None and told:
                response = self._response(call.text, "")
                response.additional_kwargs["thinking_delta"] = told
                emit(response)

        with self._where.inside():  # a stream is read outside of its call
            call = self._conducted(on_event)
            async with aclosing(call.events(stream=emit is not None)) as events:
                async for text in events:
                    if emit is not None and text:
                        emit(self._response(call.text, text))
            return self._last(call, stream=emit is not None)

    def _conducted(self, on_event: Callable[[Event], None]) -> ConductedCall:
        asked = from_llama(self._messages)
        run: RunOptions = {"run_id": self._run_id}
        if self._run_id is None:
            run = run_id_of(self._prefix, asked)
        return ConductedCall(
            self._conductor,
            asked,
            run=run,
            on_event=on_event,
            partial=self._partial,
            tools=self._tools,
            sampling=self._sampling,
            continuation=_latest_continuation(self._messages),
        )

    def _last(self, call: ConductedCall, *, stream: bool) -> ChatResponse:
        """Return the last response, which has the tool calls, the nodes and the metadata."""
        answer = call.answer()
        response = _LastResponse(**dict(self._response(answer.text, call.rest() if stream else None)))
        response._result = answer.result  # noqa: SLF001 - the class below
        message = response.message
        message.blocks += call_blocks(answer.tool_calls)
        if answer.tool_calls:
            # LlamaIndex's streams of structured answers read this field, which its own models set
            message.additional_kwargs["tool_calls"] = [dict(each) for each in answer.tool_calls]
        if answer.continuation is not None:
            message.additional_kwargs[_CONTINUATION] = answer.continuation
        used = counts_of(answer.new_usage)  # none for an answer that the journal had
        response.raw = {
            "usage": used,
            "finish_reason": answer.host_finish_reason,
            "podium": call.metadata,
            "source_nodes": call.nodes,
        }
        response.additional_kwargs = used
        return response

    def _response(self, text: str, delta: str | None) -> ChatResponse:
        thoughts = [ThinkingBlock(content=self._thoughts)] if self._thoughts else []
        blocks = [*thoughts, *([TextBlock(text=text)] if text else [])]
        return ChatResponse(message=ChatMessage(role=MessageRole.ASSISTANT, blocks=blocks), delta=delta)


def _latest_continuation(messages: Sequence[ChatMessage]) -> object:
    """Return the continuation in the model's last message; `None` if there is none."""
    for message in reversed(messages):
        if message.role == MessageRole.ASSISTANT:
            return message.additional_kwargs.get(_CONTINUATION)
    return None


def _is_of_text_agent(message: ChatMessage) -> bool:
    """Return whether a message tells the model to call tools in its text."""
    return message.role == MessageRole.SYSTEM and "Action Input:" in (message.content or "")


def _is_blank(message: ChatMessage) -> bool:
    """Return whether a user message is blank; the question is then in another message."""
    return message.role == MessageRole.USER and all(
        isinstance(block, TextBlock) and not block.text.strip() for block in message.blocks
    )


class _LastResponse(ChatResponse):
    """The last response of a call, which knows the result of the run."""

    _result: Result = PrivateAttr()


class StructuredCall(Generic[Model]):
    """Asks for an object: by a tool with its schema, or by the schema in the text; and reads the answer.

    If it cannot be read, `RunFailed` with the run's result is raised; no object is invented.
    """

    def __init__(self, output_cls: type[Model], *, calls_tools: bool) -> None:
        self._output_cls = output_cls
        self._parser: PydanticOutputParser[Model] = PydanticOutputParser(output_cls)
        self._tool = get_function_tool(output_cls).metadata if calls_tools else None

    def messages(self, prompt: BasePromptTemplate, arguments: dict[str, Any]) -> list[ChatMessage]:
        """Return the messages of the call."""
        messages = prompt.format_messages(**arguments)
        return messages if self._tool is not None else self._parser.format_messages(messages)

    @property
    def options(self) -> dict[str, Any]:
        """The options of the call."""
        if self._tool is None:
            return {"partial": "raise"}
        tool = self._tool.to_openai_tool(skip_length_check=True)
        return {"partial": "raise", "tools": [tool], "tool_choice": "required"}

    def read(self, response: ChatResponse) -> Model:
        """Return the object in an answer."""
        assert isinstance(response, _LastResponse)  # of a conductor
        result = response._result  # noqa: SLF001 - the class below
        try:
            for call in result.tool_calls:
                if self._tool is not None and call["function"]["name"] == self._tool.get_name():
                    return self._output_cls.model_validate(tool_arguments(call))
            return cast("Model", self._parser.parse(result.answer))
        except ValueError as error:
            told = f"the answer cannot be read as {self._output_cls.__name__}"
            raise run_failed(f"{told}: {scrub(str(error))[:_MAX_QUOTE]}", result) from error
