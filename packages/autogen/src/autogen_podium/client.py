"""A conductor as an AutoGen model client."""

from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final, Literal, Unpack

from autogen_core import CancellationToken
from autogen_core.models import ChatCompletionClient, CreateResult, LLMMessage, ModelInfo, RequestUsage
from autogen_core.tools import Tool, ToolSchema
from pydantic import BaseModel

from autogen_podium.call import ToolChoice, call_sampling, call_tools, create_result, schema_of
from autogen_podium.cancellation import cancelled_by
from autogen_podium.cards import model_info as derived_info
from autogen_podium.conductor_options import ConductorOptions, conductor_of
from autogen_podium.messages import from_autogen, write_usage
from autogen_podium.workers.wrap import Participant, as_planner, as_worker
from podium.aio.sync import events_of
from podium.conductor import Conductor
from podium.errors import ConfigError
from podium.hosts import ChatAnswer, ChatCall, ConductorFace, ContinuationStore
from podium.hosts.results import answered
from podium.planners import Planner
from podium.types import Message, Result
from podium.types.messages import estimate_usage
from podium.usage import Usage
from podium.workers import Card, Worker

MAX_RESULTS: Final = 64
"""Maximum number of results that a client keeps."""
_NO_ARGS: Final[Mapping[str, Any]] = {}


@ConductorFace.register
class ConductorChatCompletionClient(ChatCompletionClient):
    """A model client that plans the question and has participants execute the plan.

    If the answer is incomplete, its finish reason is `length`, and its text ends with the sentence `(Not
    complete: …)`; a structured answer raises `RunFailed`. `results` has the full results of the latest calls.
    Tools are offered to the worker of the plan's last step; its tool calls are the result's content, and its
    text beside them is the result's `thought`. The next turn, which has the tool results, reuses the plan and
    the outputs of the other steps, if it calls the same client. That worker also gets the `json_output` model
    and `extra_create_args` (temperature, top_p, max_tokens, seed, stop, reasoning_effort, response_format).

    Args:
        participants: execute the steps; see `ConductorAgent`.
        model_client: writes the plans.
        model_info: the capabilities of the client; `None` derives them from the participants.
        context_window: maximum tokens of a conversation and its answer; `None` uses the smallest context
            window of the participants' cards.
        partial: whether an incomplete answer is returned, or raised as `RunFailed`.
        options: further options of `podium.Conductor`: `limits`, `policy`, `journal`, ….

    Raises:
        ConfigError: a participant or an option is invalid.
        RunFailed: from each call: there is no answer; `result` is the run's result.
    """

    component_type = "model"

    def __init__(
        self,
        participants: Sequence[Participant] | Conductor,
        model_client: ChatCompletionClient | Planner | Worker | None = None,
        *,
        model_info: ModelInfo | None = None,
        context_window: int | None = None,
        partial: Literal["return", "raise"] = "return",
        **options: Unpack[ConductorOptions],
    ) -> None:
        self._conductor = conductor_of(
            participants,
            model_client,
            card=Card(name="conductor", description="Plans a question and has a team answer it."),
            as_worker=as_worker,
            as_planner=as_planner,
            options=options,
            face=type(self).__name__,
        )
        self._info = model_info or derived_info(self.conductor.pool.workers)
        self._window = context_window
        self._partial: Literal["return", "raise"] = partial
        self._used = Usage()
        self._kept = deque[Result](maxlen=MAX_RESULTS)
        self._continuations = ContinuationStore()

    @property
    def conductor(self) -> Conductor:
        """The conductor that plans and runs each call."""
        return self._conductor

    @property
    def results(self) -> tuple[Result, ...]:
        """The results of the latest 64 calls that had an answer, ordered from oldest to newest."""
        return tuple(self._kept)

    async def create(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Sequence[Tool | ToolSchema] = (),
        tool_choice: ToolChoice = "auto",
        json_output: bool | type[BaseModel] | None = None,
        extra_create_args: Mapping[str, Any] = _NO_ARGS,
        cancellation_token: CancellationToken | None = None,
    ) -> CreateResult:
        """Answer a conversation."""
        call = self._call(messages, tools, tool_choice, json_output, extra_create_args)
        result = None
        async with aclosing(self._results(call, cancellation_token, stream=False)) as results:
            async for item in results:
                result = item
        assert isinstance(result, CreateResult)  # a run without an answer raises
        return result

    async def create_stream(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Sequence[Tool | ToolSchema] = (),
        tool_choice: ToolChoice = "auto",
        json_output: bool | type[BaseModel] | None = None,
        extra_create_args: Mapping[str, Any] = _NO_ARGS,
        cancellation_token: CancellationToken | None = None,
    ) -> AsyncGenerator[str | CreateResult, None]:
        """Answer a conversation, and yield the pieces of the answer; the last item is the result.

        If a step is retried after part of its text was sent, the stream continues if the new text begins with
        that part; otherwise `RunFailed` is raised.
        """
        call = self._call(messages, tools, tool_choice, json_output, extra_create_args)
        async with aclosing(self._results(call, cancellation_token, stream=True)) as results:
            async for item in results:
                yield item

    def _call(
        self,
        messages: Sequence[LLMMessage],
        tools: Sequence[Tool | ToolSchema],
        tool_choice: ToolChoice,
        json_output: bool | type[BaseModel] | None,  # noqa: FBT001 - AutoGen's
        extra: Mapping[str, Any],
    ) -> ChatCall:
        offered = call_tools(tools, tool_choice)
        if offered.offered and not self._info["function_calling"]:
            raise ConfigError("no participant accepts tools: add a model client to the participants")
        return ChatCall(
            self.conductor,
            from_autogen(messages),
            tools=offered,
            sampling=call_sampling(extra, json_output=json_output),
            store=self._continuations,
        )

    def _results(
        self, call: ChatCall, token: CancellationToken | None, *, stream: bool
    ) -> AsyncGenerator[str | CreateResult, None]:
        async def answering(emit: Callable[[str | CreateResult], None]) -> None:
            if token is not None:
                cancelled_by(token)
            if not stream:
                emit(self._result(await call.run()))
                return
            async with aclosing(call.stream()) as items:
                async for item in items:
                    emit(self._result(item) if isinstance(item, ChatAnswer) else item)

        return events_of(answering)

    def _result(self, answer: ChatAnswer) -> CreateResult:
        self._used += answer.usage
        self._kept.append(answer.result)
        answered(answer.result, partial=self._partial)
        return create_result(answer)

    async def close(self) -> None:
        """Do nothing: the owners of the participants close them."""

    def actual_usage(self) -> RequestUsage:
        """Return the tokens of all answers so far, including planners and steps."""
        return write_usage(self._used)

    def total_usage(self) -> RequestUsage:
        """Return the same as `actual_usage`: both leave out results that were reused from an earlier run."""
        return write_usage(self._used)

    def count_tokens(self, messages: Sequence[LLMMessage], *, tools: Sequence[Tool | ToolSchema] = ()) -> int:
        """Estimate the tokens of a conversation, assuming four characters per token."""
        schemas = [Message("system", str(schema_of(tool))) for tool in tools]
        return estimate_usage([*from_autogen(messages), *schemas], "").input_tokens

    def remaining_tokens(
        self, messages: Sequence[LLMMessage], *, tools: Sequence[Tool | ToolSchema] = ()
    ) -> int:
        """Estimate the tokens that a conversation leaves in the context window.

        Raises:
            ConfigError: the context window is unknown.
        """
        windows = [
            card.context_window for card in self.conductor.pool.cards if card.context_window is not None
        ]
        window = self._window or min(windows, default=None)
        if window is None:
            raise ConfigError("no participant's card has a context window: give context_window=")
        return window - self.count_tokens(messages, tools=tools)

    @property
    def capabilities(self) -> ModelInfo:
        """The same as `model_info`, under its older name."""
        return self._info

    @property
    def model_info(self) -> ModelInfo:
        """The capabilities that any participant has; structured output only if all participants have it."""
        return self._info
