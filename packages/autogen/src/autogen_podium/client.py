"""A conductor as a model client of AutoGen's, for whatever takes one.

It owns what a model is asked for in AutoGen's terms, and what the turn after a call of tools
goes on from. It knows no agent.
"""

from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final, Self, Unpack, cast

from autogen_core import CancellationToken, Component
from autogen_core.models import ChatCompletionClient, CreateResult, LLMMessage, ModelInfo, RequestUsage
from autogen_core.tools import Tool, ToolSchema
from pydantic import BaseModel

from autogen_podium.asking import Asked, Pieces, ToolChoice, info_of, result_of, schema_of
from autogen_podium.cancelling import cancelled_by
from autogen_podium.conducting import (
    Conducting,
    ConductingConfig,
    load_participants,
    load_planner,
    load_terms,
)
from autogen_podium.messages import from_autogen, write_usage
from autogen_podium.terms import Terms, answered
from autogen_podium.workers.wrap import Participant
from podium.aio import events_of
from podium.conductor import Conductor
from podium.errors import ConfigError
from podium.journal import MemoryJournal
from podium.planners import Planner
from podium.resume import PaidResults, unbilled
from podium.types import Message, Result, estimate_usage
from podium.usage import Usage
from podium.workers import Worker

_NO_ARGS: Final[Mapping[str, Any]] = {}
_TURNS: Final = 256
"""How many answers that were calls of tools are kept, for the turn that follows."""


class ConductorClientConfig(ConductingConfig):
    """How a `ConductorChatCompletionClient` is made."""

    model_info: dict[str, Any] | None = None
    context_window: int | None = None


class ConductorChatCompletionClient(ChatCompletionClient, Component[ConductorClientConfig]):
    """Answers as a model does, by planning the question and having others carry the plan out.

    The plan is the result's `thought`. Tools are offered to the worker of the plan's last step;
    its calls are the result's content, and the turn that brings what they returned goes on from
    there: the plan is not made again, nor are the other steps, as long as the same client is
    asked. A form that is asked for (`json_output`) and `extra_create_args` (temperature, top_p,
    max_tokens, seed, stop, reasoning_effort) are that worker's too.

    Args:
        participants: who does the steps: as for `ConductorAgent`.
        model_client: who plans.
        model_info: what it is taken to be able to do; `None` derives it from the participants.
        context_window: tokens that a conversation and its answer may have; `None` takes the
            least that a participant's card states.
        terms: limits, a policy, a journal, …: what `podium.Conductor` takes.

    Raises:
        ConfigError: a participant or a term is wrong.
        RunFailed: from each call: the run came to no answer; `result` is what it came to.
    """

    component_type = "model"
    component_config_schema = ConductorClientConfig
    component_provider_override = "autogen_podium.ConductorChatCompletionClient"

    def __init__(
        self,
        participants: Sequence[Participant] | Conductor,
        model_client: ChatCompletionClient | Planner | Worker | None = None,
        *,
        model_info: ModelInfo | None = None,
        context_window: int | None = None,
        **terms: Unpack[Terms],
    ) -> None:
        description = "Plans a question and has a team answer it."
        self._conducting = Conducting.of(participants, model_client, "conductor", description, terms)
        self._given_info = model_info
        self._info = model_info or info_of(self.conductor.pool.workers)
        self._window = context_window
        self._used = Usage()
        self._turns: OrderedDict[tuple[str, tuple[str, ...]], PaidResults] = OrderedDict()

    @property
    def conductor(self) -> Conductor:
        """Who plans and directs."""
        return self._conducting.conductor

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
        asked = Asked.of(messages, tools, tool_choice, json_output=json_output, extra=extra_create_args)
        result = None
        async with aclosing(self._results(asked, cancellation_token, stream=False)) as results:
            async for item in results:
                result = item
        assert isinstance(result, CreateResult)  # a run that ends otherwise raises
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
        """Answer a conversation, and yield the answer as it comes; the last item is the result.

        Where a step is tried again after some of its text was sent, the result's text counts.
        """
        asked = Asked.of(messages, tools, tool_choice, json_output=json_output, extra=extra_create_args)
        async with aclosing(self._results(asked, cancellation_token, stream=True)) as results:
            async for item in results:
                yield item

    def _results(
        self, asked: Asked, token: CancellationToken | None, *, stream: bool
    ) -> AsyncGenerator[str | CreateResult, None]:
        if asked.tools is not None and not self._info["function_calling"]:
            raise ConfigError("no participant takes tools: give a model client among the participants")

        async def answering(emit: Callable[[str | CreateResult], None]) -> None:
            if token is not None:
                cancelled_by(token)
            journal = MemoryJournal() if asked.tools is not None and self.conductor.journal is None else None
            result = await self.conductor.run(
                asked.messages,
                on_event=Pieces(emit).hear if stream else None,
                tools=asked.tools or (),
                sampling=asked.sampling,
                paid_results=self._turns.get((asked.query, asked.calls)),
                journal=journal,
            )
            answered(result)
            self._used += result.usage
            if result.tool_calls:
                await self._keep(asked, result, journal)
            emit(result_of(result))

        return events_of(answering)

    async def _keep(self, asked: Asked, result: Result, journal: MemoryJournal | None) -> None:
        """Keep what a turn came to, for the one that follows its calls."""
        kept = journal or self.conductor.journal
        assert kept is not None
        async with kept:
            events = [entry.event for entry in await kept.read(result.run_id)]
        called = tuple(str(call.get("id")) for call in result.tool_calls)
        self._turns[asked.query, called] = unbilled(events, self.conductor.pool.names)
        while len(self._turns) > _TURNS:
            self._turns.popitem(last=False)

    async def close(self) -> None:
        """Close nothing: the participants are their owner's."""

    def actual_usage(self) -> RequestUsage:
        """Return the tokens of all answers so far, those of planners and steps."""
        return write_usage(self._used)

    def total_usage(self) -> RequestUsage:
        """Return the same: what was taken from an earlier run is not counted in either."""
        return write_usage(self._used)

    def count_tokens(self, messages: Sequence[LLMMessage], *, tools: Sequence[Tool | ToolSchema] = ()) -> int:
        """Estimate the tokens of a conversation, at four characters each."""
        schemas = [Message("system", str(schema_of(tool))) for tool in tools]
        return estimate_usage([*from_autogen(messages), *schemas], "").input_tokens

    def remaining_tokens(
        self, messages: Sequence[LLMMessage], *, tools: Sequence[Tool | ToolSchema] = ()
    ) -> int:
        """Estimate the tokens that the context window has left beside a conversation.

        Raises:
            ConfigError: nobody said how large it is.
        """
        windows = [
            card.context_window for card in self.conductor.pool.cards if card.context_window is not None
        ]
        window = self._window or min(windows, default=None)
        if window is None:
            raise ConfigError("no participant's card states its context window: give context_window=")
        return window - self.count_tokens(messages, tools=tools)

    @property
    def capabilities(self) -> ModelInfo:
        """The same as `model_info`, by its older name."""
        return self._info

    @property
    def model_info(self) -> ModelInfo:
        """What it is able to do: what any participant is, and forms where all are."""
        return self._info

    def _to_config(self) -> ConductorClientConfig:
        given = None if self._given_info is None else dict(self._given_info)
        config = self._conducting.to_config().model_dump()
        return ConductorClientConfig(**config, model_info=given, context_window=self._window)

    @classmethod
    def _from_config(cls, config: ConductorClientConfig) -> Self:
        return cls(
            load_participants(config),
            load_planner(config),
            model_info=cast("ModelInfo | None", config.model_info),
            context_window=config.context_window,
            **load_terms(config),
        )
