"""A conductor as an LLM. The sync methods run the async methods.

It does not use LlamaIndex's `OpenAI` over `podium.hosts.ConductorTransport`: a stream of `OpenAI` that is
left does not close its response, so the run would continue; `OpenAI` sends a temperature that nobody has set,
and refuses blocks that workers can be shown.
"""

from collections.abc import AsyncGenerator, Generator, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn

from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    ChatResponseAsyncGen,
    ChatResponseGen,
    CompletionResponse,
    CompletionResponseAsyncGen,
    CompletionResponseGen,
    LLMMetadata,
    MessageRole,
)
from llama_index.core.callbacks import CallbackManager
from llama_index.core.constants import DEFAULT_CONTEXT_WINDOW
from llama_index.core.llms.callbacks import llm_chat_callback, llm_completion_callback
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.prompts import BasePromptTemplate
from llama_index.core.types import Model
from pydantic import PrivateAttr
from typing_extensions import override

from llama_index_podium.call import LLMCall, StructuredCall
from llama_index_podium.conductor import conductor_of
from llama_index_podium.messages import call_blocks, calls_of
from podium.aio import iterate, run_sync
from podium.conductor import Conductor
from podium.hosts import ConductorFace, Partial, read_sampling
from podium.hosts.chat import SAMPLING_OPTIONS
from podium.hosts.results import check_partial

if TYPE_CHECKING:
    from llama_index.core.tools import BaseTool

_NAME: Final = "podium"


@ConductorFace.register
class ConductorLLM(FunctionCallingLLM):
    """An LLM that plans each question and has the conductor's workers execute the plan.

    `temperature`, `max_tokens` and `stop` are passed to the worker of the plan's last step, which writes the
    answer; tools to each step. After tool calls, the next turn continues the same plan: the message that
    requests the tool calls has the continuation. In a response, `raw["podium"]` has the run as
    plain JSON, and `raw["source_nodes"]` has the nodes that the answer depends on.

    Args:
        conductor: plans and runs each call. A hosted conductor returns no steps and no nodes.
        show_steps: whether the plan and the steps are shown as the LLM's thoughts: in a `ThinkingBlock`, and
            in streams as `thinking_delta`.
        partial: whether an incomplete answer is returned, or raised as `RunFailed`.
        options: see `ConductorQueryEngine`; also options of LlamaIndex's `LLM`, such as `system_prompt`, and
            `temperature`, `top_p`, `max_tokens`, `seed`, `stop`, `reasoning_effort` and `response_format` as
            defaults for the worker of the plan's last step. A call may have these, and a whole `run_id`.

    Raises:
        TypeError: an option is unknown.
        ConfigError: there is no planner, or a conductor is given with its parts; or `response_format` has no
            JSON schema; or see `Conductor`.
        RunFailed: from each call: the run has no answer; `result` is the run's result.
        PodiumError: from each call: see `Conductor.run`.
    """

    _conductor: Conductor = PrivateAttr()
    _asked: dict[str, Any] = PrivateAttr()
    """Further arguments of each `LLMCall`."""
    _sampling: dict[str, Any] = PrivateAttr()
    """The default sampling of the last step's worker."""

    def __init__(
        self,
        conductor: Conductor | None = None,
        *,
        show_steps: bool = False,
        partial: Partial = "return",
        **options: Any,
    ) -> None:
        sampling: dict[str, Any] = {name: options.pop(name) for name in SAMPLING_OPTIONS if name in options}
        fields = {name: options.pop(name) for name in FunctionCallingLLM.model_fields if name in options}
        fields["callback_manager"] = fields.get("callback_manager") or CallbackManager([])
        made = conductor_of(type(self), conductor, options, takes=SAMPLING_OPTIONS)
        read_sampling(sampling, of="ConductorLLM")  # raises for a mistake here, not in the first call
        super().__init__(**fields)
        self._conductor, self._sampling = made, sampling
        named = {"run_id": options.get("run_id"), "show_steps": show_steps}
        self._asked = {"partial": check_partial(partial), **named}

    @override
    def __getstate__(self) -> NoReturn:
        """Refuse to be pickled (`TypeError`): LlamaIndex would drop the conductor, and only log it."""
        self._conductor.__reduce__()

    @classmethod
    def class_name(cls) -> str:
        """Return the class's name for LlamaIndex."""
        return "conductor_llm"

    @property
    def conductor(self) -> Conductor:
        """The conductor that plans and runs each call."""
        return self._conductor

    @property
    def metadata(self) -> LLMMetadata:
        """The context window and the features of the LLM.

        The context window is the smallest known context window of the workers. The LLM supports tool calls if
        one of the workers does.
        """
        windows = [card.context_window for card in self._conductor.pool.cards if card.context_window]
        return LLMMetadata(
            context_window=min(windows, default=DEFAULT_CONTEXT_WINDOW),
            is_chat_model=True,
            is_function_calling_model=any(worker.takes_tools for worker in self._conductor.pool),
            model_name=_NAME,
        )

    @llm_chat_callback()
    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """Answer a conversation."""
        return await self._call(messages, kwargs).response()

    @llm_chat_callback()
    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        """Answer like `achat` from sync code, also inside a running event loop."""
        return run_sync(self._call(messages, kwargs).response)

    @llm_chat_callback()
    async def astream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponseAsyncGen:
        """Answer a conversation, and stream the answer; leaving the stream cancels the run."""
        return self._call(messages, kwargs).responses()

    @llm_chat_callback()
    def stream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponseGen:
        """Answer like `astream_chat` from sync code, also inside a running event loop."""
        return iterate(self._call(messages, kwargs).responses)

    @override
    @llm_completion_callback()
    async def acomplete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """Answer a question that is one text."""
        return _completed(await self._call(_question(prompt), kwargs).response())

    @override
    @llm_completion_callback()
    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        """Answer like `acomplete` from sync code, also inside a running event loop."""
        return _completed(run_sync(self._call(_question(prompt), kwargs).response))

    @override
    @llm_completion_callback()
    async def astream_complete(
        self,
        prompt: str,
        formatted: bool = False,
        **kwargs: Any,
    ) -> CompletionResponseAsyncGen:
        """Answer a question that is one text, and stream the answer."""
        return self._call(_question(prompt), kwargs).pieces(_completed)

    @override
    @llm_completion_callback()
    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponseGen:
        """Answer like `astream_complete` from sync code, also inside a running event loop."""
        asking = self._call(_question(prompt), kwargs)
        return iterate(lambda: asking.pieces(_completed))

    @override
    async def astructured_predict(
        self,
        output_cls: type[Model],
        prompt: BasePromptTemplate,
        llm_kwargs: dict[str, Any] | None = None,
        **prompt_args: Any,
    ) -> Model:
        """Return the answer as an object.

        Raises:
            RunFailed: the answer is incomplete, or cannot be read as the object.
        """
        reading = StructuredCall(output_cls, calls_tools=self.metadata.is_function_calling_model)
        asked = reading.messages(prompt, prompt_args)
        return reading.read(await self.achat(asked, **{**(llm_kwargs or {}), **reading.options}))

    @override
    def structured_predict(self, *args: Any, **kwargs: Any) -> Any:
        """Return the answer as an object, like `astructured_predict`."""
        return run_sync(lambda: self.astructured_predict(*args, **kwargs))

    @override
    async def astream_structured_predict(self, *args: Any, **kwargs: Any) -> AsyncGenerator[Any, None]:
        """Yield the complete object, like `astructured_predict`."""

        async def pieces() -> AsyncGenerator[Any, None]:
            yield await self.astructured_predict(*args, **kwargs)

        return pieces()

    @override
    def stream_structured_predict(self, *args: Any, **kwargs: Any) -> Generator[Any, None, None]:
        """Yield the complete object, like `astructured_predict`."""
        yield self.structured_predict(*args, **kwargs)

    @override
    def get_tool_calls_from_response(
        self,
        response: ChatResponse,
        error_on_no_tool_call: bool = True,
        **kwargs: Any,
    ) -> list[ToolSelection]:
        """Return the tool calls that a response requests.

        Raises:
            ValueError: there are no tool calls, and `error_on_no_tool_call` is true.
        """
        del kwargs
        calls = call_blocks(calls_of(response.message))
        if not calls and error_on_no_tool_call:
            raise ValueError("the response requests no tool calls")
        return [
            ToolSelection(
                tool_id=call.tool_call_id or "",
                tool_name=call.tool_name,
                tool_kwargs=call.tool_kwargs if isinstance(call.tool_kwargs, dict) else {},
            )
            for call in calls
        ]

    @override
    def _prepare_chat_with_tools(
        self,
        tools: "Sequence[BaseTool]",
        user_msg: str | ChatMessage | None = None,
        chat_history: list[ChatMessage] | None = None,
        verbose: bool = False,
        allow_parallel_tool_calls: bool = False,
        tool_required: bool = False,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Return the arguments of `chat`; the worker decides the number of parallel tool calls."""
        del verbose, allow_parallel_tool_calls
        asked = _question(user_msg) if isinstance(user_msg, str) else [user_msg] if user_msg else []
        choice = {"tool_choice": "required"} if tool_required else {}
        offered = [tool.metadata.to_openai_tool(skip_length_check=True) for tool in tools]
        return {"messages": [*(chat_history or []), *asked], "tools": offered, **choice, **kwargs}

    def _call(self, messages: Sequence[ChatMessage], said: dict[str, Any]) -> LLMCall:
        asked = self._extend_messages(list(messages))
        return LLMCall(self._conductor, asked, {**self._sampling, **said}, **self._asked)


def _question(prompt: str) -> list[ChatMessage]:
    return [ChatMessage(role=MessageRole.USER, content=prompt)]


def _completed(response: ChatResponse) -> CompletionResponse:
    return CompletionResponse(
        text=response.message.content or "",
        delta=response.delta,
        raw=response.raw,
        additional_kwargs=response.additional_kwargs,
    )
