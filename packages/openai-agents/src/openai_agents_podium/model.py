"""A conductor as a model of the SDK."""

from collections import deque
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Unpack
from uuid import uuid4

from agents import (
    Model,
    ModelResponse,
    ModelSettings,
    ModelTracing,
    OpenAIChatCompletionsModel,
    TResponseInputItem,
)
from agents.items import TResponseOutputItem, TResponseStreamEvent
from agents.result import RunResultBase
from openai.types.responses import (
    Response,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseReasoningItem,
)
from openai.types.responses.response import IncompleteDetails

from openai_agents_podium.tracing import RunTracing
from openai_agents_podium.workers.nested import OuterStep, outer_step
from openai_agents_podium.workers.wrap import Participant, as_planner, as_worker
from podium.conductor import Conductor
from podium.errors import ConfigError
from podium.hosts import ConductorFace, ConductorTransport, HostCall, Partial, result_metadata
from podium.hosts.faces import ConductorOptions, conductor_of
from podium.planners import Planner
from podium.types import Result, StepDelta
from podium.workers import Card, Worker

PODIUM: Final = "podium"
_CONTINUATION: Final = "podium_continuation"
_CACHE_KEY: Final = "prompt_cache_key"
_SESSIONS: Final = ("agents-sdk:session:", "agents-sdk:group:")
"""The beginnings of keys that the SDK makes from the id of a session or of a group."""


@ConductorFace.register
class ConductorModel(OpenAIChatCompletionsModel):
    """A model that plans the question and has workers execute the plan.

    `agents.Agent(name, instructions=…, model=ConductorModel(…))` is an agent for `agents.Runner`, with
    sessions, guardrails, tools, handoffs, output types, streaming and tracing. It is the SDK's own model for
    chat completions, whose client is answered by runs of the conductor. Tools and handoffs are offered to the
    worker of the plan's last step. The next turn, which has the tool results, reuses the plan and the outputs
    of the other steps.

    Args:
        conductor: plans and runs each call; or the parts of one:
        planner: writes the plans: a model of the SDK, or a planner or worker of Podium.
        workers: agents, function tools and models of the SDK, and workers of Podium, which execute the steps.
        name: the model's name in events and traces.
        partial: whether an incomplete answer is returned, or raised as `RunFailed`.
        show_steps: whether a stream also has the outputs of the other steps, as a reasoning summary.
        options: further options of `podium.Conductor`: `limits`, `policy`, `journal`, ….

    Raises:
        ConfigError: there is no planner, or a worker or an option is invalid. From each call: a conductor
            does not accept a tool or a setting.
        RunFailed: from each call: there is no answer; `result` is the run's result.
        PodiumError: from each call: see `Conductor.run`.
    """

    def __init__(
        self,
        conductor: Conductor | None = None,
        *,
        planner: Model | Planner | Worker | None = None,
        workers: Sequence[Participant] = (),
        name: str = "conductor",
        partial: Partial = "return",
        show_steps: bool = False,
        **options: Unpack[ConductorOptions],
    ) -> None:
        self.conductor = conductor_of(
            conductor,
            planner,
            workers,
            options,
            card=Card(name=name, description="Plans a question and has a team answer it."),
            as_worker=as_worker,
            as_planner=as_planner,
            face="ConductorModel",
        )
        """The conductor that plans and runs each call."""
        transport = ConductorTransport(self.conductor, partial=partial, carries=True, metadata=_metadata)
        super().__init__(name, transport.openai_client(), strict_feature_validation=True)
        self._show_steps = show_steps

    def __repr__(self) -> str:
        return f"ConductorModel({self.model!r})"

    async def get_response(
        self,
        system_instructions: str | None,
        input: str | list[TResponseInputItem],  # noqa: A002 - as the SDK has it
        model_settings: ModelSettings,
        *more: Any,
        **named: Any,
    ) -> ModelResponse:
        """Answer a conversation."""
        call, passed = self._begin(input, model_settings, more, named)
        with call.host.asked():
            response = await super().get_response(system_instructions, input, *passed, **named)
        call.finish(response.output)
        return response

    async def stream_response(
        self,
        system_instructions: str | None,
        input: str | list[TResponseInputItem],  # noqa: A002 - as the SDK has it
        model_settings: ModelSettings,
        *more: Any,
        **named: Any,
    ) -> AsyncGenerator[TResponseStreamEvent, None]:
        """Answer a conversation, and yield the events of the answer while it is written."""
        call, passed = self._begin(input, model_settings, more, named)
        events: Any = super().stream_response(system_instructions, input, *passed, **named)
        async with aclosing(events):
            with call.host.asked():
                event = await anext(events)
            while event is not None:
                if event.type == "response.completed":
                    call.finish_response(event.response)
                elif event.type == "response.reasoning_summary_text.delta":
                    event.item_id = call.next_step()
                yield event
                with call.host.asked():
                    event = await anext(events, None)

    def _supports_default_prompt_cache_key(self) -> bool:
        """Return `True`, as the SDK's own models: the key tells the session."""
        return True

    def _begin(
        self,
        items: str | list[TResponseInputItem],
        settings: ModelSettings,
        more: Sequence[Any],
        named: dict[str, Any],
    ) -> "tuple[_Asked, Sequence[Any]]":
        """Return what the call adds to its request, and the arguments of the SDK's model."""
        positions = ("tools", "output_schema", "handoffs", "tracing")
        given = dict(zip(positions, more, strict=False)) | named
        self._check_tools([*(given.get("tools") or ()), *(given.get("handoffs") or ())])
        traced, outer = RunTracing(given.get("tracing") or ModelTracing.ENABLED), outer_step(self)
        steps = deque[StepDelta]()
        host = HostCall(
            options={"middleware": traced.middleware},
            session=_session(settings),
            continuation=_continuation(items),
            on_event=traced.hear,
            on_step=steps.append if self._show_steps else None,
            outer=None if outer is None else outer.request,
        )
        if "tracing" in named:
            named["tracing"] = ModelTracing.DISABLED  # the spans of the run are Podium's
        passed = [
            ModelTracing.DISABLED if name == "tracing" else each
            for name, each in zip(positions, more, strict=False)
        ]
        return _Asked(host, outer, items, steps), (_settings(settings), *passed, *more[len(positions) :])

    def _check_tools(self, tools: Sequence[object]) -> None:
        if tools and not any(worker.takes_tools for worker in self.conductor.pool):
            told = "the agent has tools or handoffs, but no worker of its conductor accepts tools"
            raise ConfigError(f"{told}: give them to a worker, or add a model to the workers")


def _metadata(result: Result) -> dict[str, Any]:
    return result_metadata(result, usage=asdict)


def _settings(settings: ModelSettings) -> ModelSettings:
    """Return settings without those that the SDK sets by default and no conductor accepts."""
    extra = {name: value for name, value in (settings.extra_args or {}).items() if name != _CACHE_KEY}
    verbosity = None if settings.verbosity == "low" else settings.verbosity
    return replace(settings, include_usage=True, extra_args=extra, verbosity=verbosity)


def _session(settings: ModelSettings) -> str | None:
    """Return a hash of the id of the session, or of the trace group without one; `None` without both.

    The SDK tells a model neither, but makes the key of its prompt cache from them.
    """
    key = str((settings.extra_args or {}).get(_CACHE_KEY, ""))
    return key if key.startswith(_SESSIONS) else None


def _continuation(items: str | Iterable[Any]) -> object:
    """Return the continuation in the tool calls after the model's last text; `None` if there is none.

    The SDK keeps `provider_data` of items in the run, in sessions and in saved states.
    """
    for item in () if isinstance(items, str) else reversed(list(items)):
        data = item.get("provider_data") if isinstance(item, Mapping) else None
        if isinstance(data, Mapping) and _CONTINUATION in data:
            return data[_CONTINUATION]
        if isinstance(item, Mapping) and item.get("role") == "assistant":
            return None
    return None


@dataclass(frozen=True, slots=True)
class _Asked:
    """One call of the model."""

    host: HostCall
    outer: OuterStep | None
    items: str | Sequence[Any]
    steps: deque[StepDelta]
    """The pieces of steps that the stream has not told yet, in their order."""

    def next_step(self) -> str:
        """Return the id of the step of the next piece."""
        piece = self.steps.popleft()
        return f"podium_{piece.run_id}_{piece.round}_{piece.step}_{piece.attempt}"

    def finish(self, output: list[TResponseOutputItem]) -> None:
        """Add the run and its continuation to the items of an answer, and mark an incomplete answer.

        A call with an id of the conversation gets a new id, because the SDK drops calls with a repeated id.
        """
        if self.outer is not None and self.host.completion is not None:
            self.outer.answers.append(self.host.completion)
        known = [item for item in self.items if isinstance(item, Mapping)]
        taken = {item.get("call_id") for item in known}
        calls = [item for item in output if isinstance(item, ResponseFunctionToolCall)]
        for item in calls:
            if item.call_id in taken:
                item.call_id = f"call_{uuid4().hex}"
        answer = self.host.answer
        if answer is None or not output:
            return
        _add_data(output[0], {PODIUM: _metadata(answer.result)})
        if calls and answer.continuation is not None:
            _add_data(calls[0], {_CONTINUATION: dict(answer.continuation)})
        if answer.host_finish_reason == "length":
            for message in output:
                if isinstance(message, ResponseOutputMessage):
                    message.status = "incomplete"

    def finish_response(self, response: Response) -> None:
        """Finish the last event of a stream, which has no texts of other steps.

        An incomplete answer also ends with `response.completed`, because the SDK's runner drops the answer of
        a `response.incomplete`; the response has the status `incomplete`, and the reason if it was cut.
        """
        response.output = [each for each in response.output if not isinstance(each, ResponseReasoningItem)]
        self.finish(response.output)
        answer, response.status = self.host.answer, "completed"
        if answer is not None and answer.host_finish_reason == "length":
            response.status = "incomplete"
            cut = answer.finish_reason == "length"
            response.incomplete_details = IncompleteDetails(reason="max_output_tokens" if cut else None)


def _add_data(item: Any, data: Mapping[str, Any]) -> None:
    """Add to the `provider_data` of an item, a field that the SDK defines and OpenAI's types do not."""
    item.provider_data = {**(getattr(item, "provider_data", None) or {}), **data}


def podium_metadata(answer: RunResultBase | ModelResponse) -> Mapping[str, Any]:
    """Return the metadata of the conductor's run behind an answer, as plain JSON.

    The keys are those of `podium.hosts.result_metadata`: `run_id`, `status`, `problem`, `planner`,
    `plan`, `workers`, `steps`, `usage`, `cost`, …

    Args:
        answer: the result of `Runner.run`, of which the last answer of a conductor is used; or one answer of
            a `ConductorModel`.

    Raises:
        LookupError: there is no answer of a conductor, or it answered as a step of another conductor's run.
    """
    responses = [answer] if isinstance(answer, ModelResponse) else answer.raw_responses
    for response in reversed(responses):
        for item in response.output:
            data = getattr(item, "provider_data", None)
            if isinstance(data, Mapping) and PODIUM in data:
                found: Mapping[str, Any] = data[PODIUM]
                return found
    raise LookupError("it contains no answer of a conductor")
