"""A conductor as a model of the SDK."""

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from typing import Any

from agents import (
    AgentOutputSchemaBase,
    Handoff,
    Model,
    ModelResponse,
    ModelSettings,
    ModelTracing,
    Tool,
    TResponseInputItem,
)
from agents.items import TResponseOutputItem, TResponseStreamEvent
from openai.types.responses.response_prompt_param import ResponsePromptParam

from openai_agents_podium.call import ModelCall
from openai_agents_podium.events import ResponseEvents, mark_incomplete, model_response, write_items
from openai_agents_podium.result_metadata import metadata_of
from openai_agents_podium.tool_continuation import put_continuation
from openai_agents_podium.tracing import RunTracing
from openai_agents_podium.workers.nested import OuterStep, outer_step
from openai_agents_podium.workers.wrap import Participant, as_planner, as_worker
from podium.conductor import Conductor
from podium.errors import ConfigError
from podium.hosts import ChatAnswer, ConductorFace, Partial
from podium.hosts.results import check_partial
from podium.hosts.workers import make_conductor
from podium.planners import Planner
from podium.types import Completion, PlanReady, StepDelta
from podium.usage import Usage
from podium.workers import Worker

_Piece = str | StepDelta | tuple[list[TResponseOutputItem], Usage]
"""Text of the answer, a chunk of another step, or the whole answer."""


@ConductorFace.register
class ConductorModel(Model):
    """A model that plans the question and has participants execute the plan.

    `agents.Agent(name, instructions=…, model=ConductorModel(…))` is an agent for `agents.Runner`, with
    sessions, guardrails, tools, handoffs, output types, streaming and tracing. Tools and handoffs are offered
    to the worker of the plan's last step. The next turn, which has the tool results, reuses the plan and the
    outputs of the other steps. The worker of the last step also gets the output type, and these
    `ModelSettings`: `temperature`, `top_p`, `max_tokens`, `tool_choice`, the reasoning effort, and `seed` and
    `stop` from `extra_args`.

    Args:
        participants: agents, function tools and models of the SDK, and workers of Podium, which execute the
            steps; or a conductor.
        planner: writes the plans: a model of the SDK, or a planner or worker of Podium. With `None`, rules
            write them, without a model.
        name: the model's name in events and traces.
        partial: whether an incomplete answer is returned, or raised as `RunFailed`.
        stream_steps: whether a stream also has the outputs of the other steps, as chunks of the reasoning
            summary; `item_id` names the run, round, step and attempt.
        options: further options of `podium.Conductor`: `limits`, `policy`, `journal`, ….

    Raises:
        ConfigError: a participant or an option is invalid. From each call: a conductor does not accept a tool
            or a setting.
        RunFailed: from each call: there is no answer; `result` is the run's result.
        PodiumError: from each call: see `Conductor.run`.
    """

    def __init__(
        self,
        participants: Sequence[Participant] | Conductor,
        planner: Model | Planner | Worker | None = None,
        *,
        name: str = "conductor",
        partial: Partial = "return",
        stream_steps: bool = False,
        **options: Any,
    ) -> None:
        if not isinstance(participants, Conductor):
            participants = make_conductor(
                planner,
                [as_worker(participant) for participant in participants],
                options,
                as_planner=as_planner,
                face="ConductorModel",
                takes=("participants", "planner", "name", "partial", "stream_steps"),
            )
        elif planner is not None or options:
            raise ConfigError("a planner and options cannot be given with a conductor: it has its own")
        self.conductor: Conductor = participants
        """The conductor that plans and runs each call."""
        self.model = name
        self._partial = check_partial(partial)
        if not isinstance(stream_steps, bool):
            raise ConfigError(f"stream_steps is {stream_steps!r:.40}: it must be True or False")
        self._stream_steps = stream_steps

    def __repr__(self) -> str:
        return f"ConductorModel({self.model!r})"

    async def get_response(  # noqa: PLR0913, PLR0917 - as the SDK has it
        self,
        system_instructions: str | None,
        input: str | list[TResponseInputItem],  # noqa: A002 - as the SDK has it
        model_settings: ModelSettings,
        tools: list[Tool],
        output_schema: AgentOutputSchemaBase | None,
        handoffs: list[Handoff[Any, Any]],
        tracing: ModelTracing,
        *,
        previous_response_id: str | None = None,
        conversation_id: str | None = None,
        prompt: ResponsePromptParam | None = None,
    ) -> ModelResponse:
        """Answer a conversation."""
        _refuse(previous_response_id=previous_response_id, conversation_id=conversation_id, prompt=prompt)
        call = ModelCall(system_instructions, input, model_settings, tools, output_schema, handoffs)
        whole = None
        async with aclosing(self._pieces(call, tracing, stream=False)) as pieces:
            async for piece in pieces:
                whole = piece
        assert isinstance(whole, tuple)  # a run without an answer raises
        return model_response(*whole)

    async def stream_response(  # noqa: PLR0913, PLR0917 - as the SDK has it
        self,
        system_instructions: str | None,
        input: str | list[TResponseInputItem],  # noqa: A002 - as the SDK has it
        model_settings: ModelSettings,
        tools: list[Tool],
        output_schema: AgentOutputSchemaBase | None,
        handoffs: list[Handoff[Any, Any]],
        tracing: ModelTracing,
        *,
        previous_response_id: str | None = None,
        conversation_id: str | None = None,
        prompt: ResponsePromptParam | None = None,
    ) -> AsyncGenerator[TResponseStreamEvent, None]:
        """Answer a conversation, and yield the events of the answer while it is written.

        If a step is retried after part of its text was sent, the stream continues if the new text begins with
        that part; otherwise `RunFailed` is raised.
        """
        _refuse(previous_response_id=previous_response_id, conversation_id=conversation_id, prompt=prompt)
        call = ModelCall(system_instructions, input, model_settings, tools, output_schema, handoffs)
        events = ResponseEvents(self.model)
        for event in events.begin():
            yield event
        async with aclosing(self._pieces(call, tracing, stream=True)) as pieces:
            async for piece in pieces:
                for event in _events(events, piece):
                    yield event

    def _supports_default_prompt_cache_key(self) -> bool:
        """Return `True`, as the SDK's own models: the key tells the session."""
        return True

    def _pieces(
        self, call: ModelCall, tracing: ModelTracing, *, stream: bool
    ) -> AsyncGenerator[_Piece, None]:
        outer = outer_step(self)
        if outer is not None:
            return self._nested(call, outer, stream=stream)
        return self._run(call, tracing, stream=stream)

    async def _run(
        self, call: ModelCall, tracing: ModelTracing, *, stream: bool
    ) -> AsyncGenerator[_Piece, None]:
        """Yield the answer of a separate run."""
        traced, steps = RunTracing(tracing), stream and self._stream_steps
        answers = set[tuple[str, int, int]]()
        chat = call.as_chat_call(self.conductor, partial=self._partial, middleware=traced.middleware)
        async with aclosing(chat.events(stream=stream)) as events:
            async for event, text in events:
                traced.hear(event)
                if text:
                    yield text
                elif isinstance(event, PlanReady):
                    answers = {(event.run_id, event.round, index) for index in event.plan.answers}
                elif not steps or not isinstance(event, StepDelta):
                    continue
                elif (event.run_id, event.round, event.step) not in answers:
                    yield event
        answer = chat.answer()
        if stream and (rest := chat.rest()):
            yield rest
        yield _items(answer, call), answer.new_usage

    async def _nested(
        self, call: ModelCall, outer: OuterStep, *, stream: bool
    ) -> AsyncGenerator[_Piece, None]:
        """Yield the answer of a nested run for a step of another run, within the limits of that run."""
        conductor = self.conductor
        request = call.as_request(conductor, outer.request, stream=stream)
        async with aclosing(conductor.call(request)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Completion):
                    outer.answers.append(piece)
                    yield write_items(piece.text, piece.tool_calls, taken=call.call_ids), piece.usage
                else:
                    yield piece


def _items(answer: ChatAnswer, call: ModelCall) -> list[TResponseOutputItem]:
    items = write_items(
        answer.text,
        answer.tool_calls,
        taken=call.call_ids,
        data=metadata_of(answer.result),
        call_data=put_continuation(answer.continuation),
    )
    if answer.host_finish_reason == "length":
        mark_incomplete(items)
    return items


def _events(events: ResponseEvents, piece: _Piece) -> Iterator[TResponseStreamEvent]:
    if isinstance(piece, str):
        return events.text(piece)
    if isinstance(piece, StepDelta):
        return events.step(piece)
    return events.end(*piece)


def _refuse(**told: object) -> None:
    """Raise `ConfigError` for conversations stored at OpenAI, which a conductor cannot read."""
    if given := [name for name, value in told.items() if value is not None]:
        told_names = ", ".join(given)
        raise ConfigError(
            f"a conductor does not accept {told_names}: keep the conversation in a session of the SDK"
        )
