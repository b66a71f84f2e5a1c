"""A worker that calls a LlamaIndex LLM.

The module writes the LLM's prompt and reads its response. Podium retries failed calls, so turn off a model's
own retries.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final, NoReturn, cast

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, MessageRole
from llama_index.core.llms import LLM, CustomLLM
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.tools import FunctionTool, ToolMetadata

from llama_index_podium.cards import in_thread, inherits, pieces_in_thread
from llama_index_podium.messages import calls_of, to_llama
from llama_index_podium.usage import Ending, usage_of
from podium.budget import Spend
from podium.errors import WorkerBroken, WorkerTimeout
from podium.hosts import read_completion, sampling_arguments, tool_call, worker_errors
from podium.secrets import scrubbing
from podium.types import Completion, Part
from podium.usage import Usage
from podium.workers import Card, Request, Worker
from podium.workers.openai.errors import ASK_URL

_OPENAI: Final = "llama_index.llms.openai.base.OpenAI"


class LLMWorker(Worker):
    """Calls an LLM."""

    def __init__(self, llm: LLM, *, card: Card) -> None:
        self.llm = llm
        self.card = card
        self.takes_tools = isinstance(llm, FunctionCallingLLM) and llm.metadata.is_function_calling_model

    @property
    def max_tokens(self) -> int | None:
        """The model's maximum tokens of an answer, if the request has none."""
        most = getattr(self.llm, "max_tokens", None)
        return most if isinstance(most, int) and most > 0 else None

    @property
    def identity(self) -> str:
        """The identity of the model for a cache: its metadata and its settings."""
        facts, card = self.llm.metadata.model_dump_json(), self.card
        settings = {
            key: getattr(self.llm, key, None) for key in ("temperature", "max_tokens", "system_prompt")
        }
        told = (type(self.llm).__qualname__, card.name, card.version, facts, settings)
        return repr(("llama_index", *told))

    def worst_case(self, request: Request, answer_tokens: int) -> Spend | None:
        """Return the worst case of a call, including its prompt."""
        worst = super().worst_case(request, answer_tokens)
        more = len((self.llm.system_prompt or "").encode())
        if worst is None:
            return None
        price, read = self.card.price, worst.input_tokens + more
        cost = None if price is None else price.most(read, worst.output_tokens)
        return Spend(worst.calls, read, worst.output_tokens, cost)

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Call the model; with `request.stream`, as a stream."""
        reading = _Reading()
        messages, asked = self._messages(request), self._asked(request)
        try:
            with worker_errors(self.card.name):
                if not request.stream:
                    whole = await self._whole(messages, asked)
                    reading.take(whole, whole.message.content)
                else:
                    async with aclosing(self._pieces(messages, asked | self._reporting)) as pieces:
                        async for piece in pieces:
                            reading.take(piece, piece.delta)
                            if piece.delta:
                                yield piece.delta
        except (WorkerBroken, WorkerTimeout):
            if reading.ending.finish is None:
                raise  # else the answer was complete before its stream was cut
        with scrubbing():
            yield self._completion(request, reading)

    def _messages(self, request: Request) -> list[ChatMessage]:
        messages, own = to_llama(request.messages), self.llm.system_prompt
        return [ChatMessage(role=MessageRole.SYSTEM, content=own), *messages] if own else messages

    def _asked(self, request: Request) -> dict[str, Any]:
        """Return the other arguments of the model's call: sampling and tools."""
        asked = sampling_arguments(request.sampling)
        tools = request.tools
        if tools is not None and tools.choice != "none":
            asked |= {"tools": [_offered(tool) for tool in tools.offered], "allow_parallel_tool_calls": True}
            if tools.choice == "required":
                asked["tool_required"] = True
            elif isinstance(tools.choice, dict):
                asked["tool_choice"] = tools.choice["function"]["name"]
        return asked

    @property
    def _reporting(self) -> dict[str, Any]:
        """Options with which a model reports the usage of a stream, for models that need such options."""
        openai = any(f"{kind.__module__}.{kind.__name__}" == _OPENAI for kind in type(self.llm).__mro__)
        said = getattr(self.llm, "additional_kwargs", {})
        return {"stream_options": {"include_usage": True}} if openai and "stream_options" not in said else {}

    async def _whole(self, messages: list[ChatMessage], asked: dict[str, Any]) -> ChatResponse:
        blocks = inherits(self.llm, CustomLLM, "achat")
        if "tools" in asked:
            model = cast("FunctionCallingLLM", self.llm)
            return await model.achat_with_tools(chat_history=messages, **asked)
        if blocks:
            return await in_thread(lambda: self.llm.chat(messages, **asked))
        return await self.llm.achat(messages, **asked)

    async def _pieces(
        self, messages: list[ChatMessage], asked: dict[str, Any]
    ) -> AsyncGenerator[ChatResponse, None]:
        if "tools" in asked:
            model = cast("FunctionCallingLLM", self.llm)
            pieces = await model.astream_chat_with_tools(chat_history=messages, **asked)
        elif inherits(self.llm, CustomLLM, "astream_chat"):
            pieces = pieces_in_thread(lambda: self.llm.stream_chat(messages, **asked))
        else:
            pieces = await self.llm.astream_chat(messages, **asked)
        async with aclosing(pieces):
            async for piece in pieces:
                yield piece

    def _completion(self, request: Request, reading: "_Reading") -> Completion:
        """Return the answer, by the same rules as for every chat model."""
        if reading.last is None:
            raise WorkerBroken(f"worker {self.card.name!r} sent no answer; {ASK_URL}", maybe_paid=True)
        return read_completion(
            request.messages,
            text="".join(reading.texts),
            finish_reason=reading.ending.finish or (None if reading.ending.states else "stop"),
            tool_calls=self._calls(reading.last) if request.tools else calls_of(reading.last.message),
            refusal=reading.ending.refusal or None,
            usage=reading.usage,
        )

    def _calls(self, response: ChatResponse) -> list[Part]:
        written = calls_of(response.message)
        if written:  # as the model wrote them: LlamaIndex guesses the rest of cut arguments
            return list(written)
        model = cast("FunctionCallingLLM", self.llm)
        chosen = model.get_tool_calls_from_response(response, error_on_no_tool_call=False)
        return [tool_call(call.tool_id, call.tool_name, call.tool_kwargs) for call in chosen]


class _Reading:
    """The part of a model's answer that was read so far."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.last: ChatResponse | None = None
        self.usage: Usage | None = None
        self.ending = Ending()

    def take(self, response: ChatResponse, text: str | None) -> None:
        """Add the whole answer, or its next chunk."""
        self.last = response
        self.texts.append(text or "")
        self.usage = usage_of(response) or self.usage
        self.ending.take(response)


def _offered(tool: Part) -> FunctionTool:
    """Return a tool in OpenAI's format as one that a model may request; the caller of the run calls it."""
    return FunctionTool(_not_called, metadata=_Described(tool["function"]))


def _not_called() -> NoReturn:
    raise NotImplementedError("the caller of the run calls the tools")


class _Described(ToolMetadata):
    """The metadata of a tool whose parameters are already a JSON schema."""

    def __init__(self, function: Part) -> None:
        super().__init__(description=function.get("description") or "", name=function["name"])
        self._parameters = function.get("parameters") or {"type": "object", "properties": {}}

    def get_parameters_dict(self) -> dict[str, Any]:
        return dict(self._parameters)
