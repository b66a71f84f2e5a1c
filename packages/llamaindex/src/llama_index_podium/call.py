"""One call of an LLM that a conductor answers, and the reading of structured answers."""

from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from contextvars import ContextVar
from typing import Any, Final, Generic, TypeVar

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, MessageRole, TextBlock, ThinkingBlock
from llama_index.core.output_parsers import PydanticOutputParser
from llama_index.core.program.function_program import get_function_tool
from llama_index.core.program.utils import FlexibleModel
from llama_index.core.types import Model

from llama_index_podium.conductor import ConductedCall, counts_of
from llama_index_podium.messages import call_blocks, from_llama
from llama_index_podium.tracing import Ambient
from podium.aio.sync import events_of
from podium.conductor import Conductor
from podium.errors import ConfigError, PodiumError, RunFailed
from podium.hosts import Partial, read_sampling, read_tools
from podium.hosts.faces import run_id_of
from podium.hosts.progress import Progress
from podium.hosts.results import run_failed, tool_arguments
from podium.run import RunOptions
from podium.secrets import scrub
from podium.types import Event, Part, Result

T = TypeVar("T")
CALL_OPTIONS: Final = ("tools", "tool_choice", "run_id")
"""The options of a call besides sampling."""
_CONTINUATION: Final = "podium_continuation"
"""The key in a message's `additional_kwargs` for the continuation of the turn with its tool calls."""
_ENDED: ContextVar[list[Result] | None] = ContextVar("podium_structured", default=None)
"""The results of the current structured call, whose object cannot show that it is incomplete."""
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
        self._prefix = run_id
        self._sampling = read_sampling(said, of="ConductorLLM", takes=CALL_OPTIONS)
        self._conductor = conductor
        self._partial: Partial = partial
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
            partial="raise" if _ENDED.get() is not None else self._partial,
            tools=self._tools,
            sampling=self._sampling,
            continuation=_latest_continuation(self._messages),
        )

    def _last(self, call: ConductedCall, *, stream: bool) -> ChatResponse:
        """Return the last response, which has the tool calls, the nodes and the metadata."""
        answer = call.answer()
        ended = _ENDED.get()
        if ended is not None:
            ended.append(answer.result)
        response = self._response(answer.text, call.rest() if stream else None)
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


class StructuredCall(Generic[Model]):
    """One structured call: LlamaIndex's programs ask for its object, and parse the answer.

    If it cannot be parsed, `RunFailed` with the run's result is raised; no object is invented.
    """

    def __init__(self, output_cls: type[Model]) -> None:
        self._output_cls = output_cls
        self._ended: list[Result] = []

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Convert exceptions of LlamaIndex in the block to `RunFailed` if a run has ended in it."""
        token = _ENDED.set(self._ended)
        try:
            yield
        except PodiumError:
            raise
        except (ValueError, TypeError, KeyError) as error:  # KeyError: a call of another tool
            if not self._ended:
                raise
            raise self._unread(error) from error
        finally:
            _ENDED.reset(token)

    def answer(self) -> Model:
        """Return the parsed answer after the run has ended.

        The answer is parsed again here, because LlamaIndex completes cut answers in streams and in arguments
        of tools.
        """
        result = self._ended[-1]
        try:
            if result.tool_calls:
                return self._read_call(result.tool_calls[0])
            parsed: Model = PydanticOutputParser(self._output_cls).parse(result.answer)
        except ValueError as error:
            raise self._unread(error) from error
        return parsed

    async def pieces(
        self, pieces: AsyncGenerator[Model | FlexibleModel, None]
    ) -> AsyncGenerator[Model | FlexibleModel, None]:
        """Yield objects that grow, and finally the complete object."""
        async with aclosing(pieces):
            while True:
                with self.inside():
                    piece = await anext(pieces, None)
                if piece is None:
                    break
                if piece.model_dump(exclude_none=True):  # LlamaIndex's objects are blank if it cannot parse
                    yield piece
        yield self.answer()

    def _read_call(self, call: Part) -> Model:
        called, tool = call["function"]["name"], get_function_tool(self._output_cls).metadata
        if called not in (tool.name, tool.to_openai_tool(skip_length_check=True)["function"]["name"]):
            raise ValueError(f"the worker called {called!r}, which was not offered")
        return self._output_cls.model_validate(tool_arguments(call))

    def _unread(self, error: Exception) -> RunFailed:
        told = f"the answer cannot be read as {self._output_cls.__name__}"
        return run_failed(f"{told}: {scrub(str(error))[:_MAX_QUOTE]}", self._ended[-1])
