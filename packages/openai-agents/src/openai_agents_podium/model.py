"""A conductor as a model of the SDK."""

from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
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

from openai_agents_podium.approvals import Decisions, is_approval_tool, is_own
from openai_agents_podium.tracing import RunTracing
from openai_agents_podium.workers import Participant, conductor_of
from podium.conductor import CARD, Conductor
from podium.errors import ConfigError
from podium.hosts import ConductorFace, ConductorTransport, HostCall, Partial, result_metadata
from podium.hosts.faces import ConductorOptions
from podium.hosts.openai import run_options
from podium.hosts.progress import Maps
from podium.hosts.results import plan_lines
from podium.planners import Planner
from podium.types import Event, PlanReady, Result, StepDelta, StepEnded
from podium.workers import Card, Worker

_ARGUMENTS: Final = (
    "system_instructions", "input", "model_settings", "tools", "output_schema", "handoffs", "tracing",
)  # fmt: skip
"""The names of the positional arguments of a call of a model."""
_PODIUM: Final = "podium"
_CONTINUATION: Final = "podium_continuation"
_OF_REQUEST: Final = ("timeout", "extra_headers", "extra_query", "extra_body")
_CACHE_KEY: Final = "prompt_cache_key"
_SESSIONS: Final = ("agents-sdk:session:", "agents-sdk:group:")
"""The beginnings of keys of the prompt cache, which the SDK makes from the id of a session or of a group."""


@ConductorFace.register
class ConductorModel(OpenAIChatCompletionsModel):
    """A model that plans the question and has workers execute the plan.

    It is the SDK's own model for chat completions, whose client is answered by runs of the conductor. Tools
    of the agent are offered to the workers, and its handoffs to the worker of the last step. The next turn,
    which has the tool results, continues the plan. A run that waits for a person interrupts the agent's run,
    if the agent has `approval_tools()`.

    The `extra_args` of the `ModelSettings` may have `run_id`, `labels`, `policy` and `limits`, too. With a
    `run_id` and a journal, the same call, also in a new process, continues its run.

    Args:
        conductor: plans and runs each call; or the parts of one:
        planner: writes the plans: a model of the SDK, or a planner or worker of Podium.
        workers: agents, function tools and models of the SDK, and workers of Podium, which execute the steps.
        name: the model's name in events and traces.
        partial: whether an incomplete answer is returned, or raised as `RunFailed`.
        show_steps: whether a stream also has the plans and the outputs of the other steps, as a reasoning
            summary.
        options: further options of `podium.Conductor`: `limits`, `policy`, `journal`, ….

    Raises:
        ConfigError: there is no planner, or a worker or an option is invalid. From each call: a conductor
            does not accept a tool or a setting.
        RunFailed: from each call: there is no answer; `result` is the run's result.
        RunWaiting: from each call: the run waits for a person, and the agent has no `approval_tools()`.
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
        card = Card(name=name, description=CARD.description)
        self.conductor = conductor_of(conductor, planner, workers, options, face=ConductorModel, card=card)
        """The conductor that plans and runs each call."""
        transport = ConductorTransport(self.conductor, partial=partial, carries=True, metadata=_metadata)
        super().__init__(name, transport.openai_client(), strict_feature_validation=True)
        self._show_steps = show_steps

    def __repr__(self) -> str:
        return f"ConductorModel({self.model!r})"

    async def get_response(self, *asked: Any, **named: Any) -> ModelResponse:
        """Answer a conversation."""
        call, request = await self._call(*asked, **named)
        with call.host.asked():
            response = await super().get_response(**request)
        call.finish(response.output)
        return response

    async def stream_response(self, *asked: Any, **named: Any) -> AsyncGenerator[TResponseStreamEvent, None]:
        """Answer a conversation, and yield the events of the answer while it is written."""
        call, request = await self._call(*asked, **named)
        events: Any = super().stream_response(**request)
        async with aclosing(events):
            with call.host.asked():
                event = await anext(events)
            while event is not None:
                if event.type == "response.completed":
                    call.finish_response(event.response)
                elif event.type == "response.reasoning_summary_text.delta":
                    event.item_id = call.shown.names.popleft()
                yield event
                with call.host.asked():
                    event = await anext(events, None)

    def _supports_default_prompt_cache_key(self) -> bool:
        """Return `True`, as the SDK's own models: the key tells the session."""
        return True

    async def _call(self, *given: Any, **named: Any) -> "tuple[_Call, dict[str, Any]]":
        """Return a call, after a person's decisions are recorded, and its arguments for the SDK's model."""
        asked = {**dict(zip(_ARGUMENTS, given, strict=False)), **named}
        offered = [tool for tool in asked["tools"] if not is_approval_tool(tool)]
        if (offered or asked["handoffs"]) and not any(worker.takes_tools for worker in self.conductor.pool):
            told = "the agent has tools or handoffs, but no worker of its conductor accepts tools"
            raise ConfigError(f"{told}: give them to a worker, or add a model to the workers")
        said = asked["input"]
        if isinstance(said, str):
            said = [{"role": "user", "content": said}]
        items = [item for item in said if not is_own(item)]
        settings: ModelSettings = asked["model_settings"]
        extra = dict(settings.extra_args or {})
        decisions, traced = Decisions(self.conductor, said), RunTracing(asked["tracing"])
        session = str(extra.pop(_CACHE_KEY, ""))
        of_run: Any = run_options(extra, of="ConductorModel", beside=_OF_REQUEST)
        name, shown = of_run.pop("run_id", None), _Shown(self.conductor)
        of_run["middleware"] = traced.middleware
        host = HostCall(
            options=of_run,
            session=session if session.startswith(_SESSIONS) else None,
            run_name=name,
            continuation=_continuation(items),
            last_tools=[handoff.tool_name for handoff in asked["handoffs"]],
            on_event=traced.hear,
            shown=shown.text if self._show_steps else None,
            asks=decisions.asks if len(offered) < len(asked["tools"]) else None,
        )
        if (continued := await decisions.record()) is not None:
            (host.options["run_id"], host.messages), host.session, host.run_name = continued, None, None
        verbosity = None if settings.verbosity == "low" else settings.verbosity  # the SDK's default
        asked["model_settings"] = replace(settings, include_usage=True, extra_args=extra, verbosity=verbosity)
        # the spans of the run are Podium's
        asked |= {"input": items, "tools": offered, "tracing": ModelTracing.DISABLED}
        return _Call(host, items, shown), asked


def _metadata(result: Result) -> dict[str, Any]:
    return result_metadata(result, usage=asdict)


def _continuation(items: Sequence[Any]) -> object:
    """Return the continuation in the tool calls after the model's last text; `None` if there is none.

    The SDK keeps `provider_data` of items in the run, in sessions and in saved states.
    """
    for item in reversed(items):
        data = item.get("provider_data") or {}
        if _CONTINUATION in data:
            return data[_CONTINUATION]
        if item.get("role") == "assistant":
            return None
    return None


@dataclass(frozen=True, slots=True)
class _Call:
    """One call of the model."""

    host: HostCall
    items: list[Any]
    """The conversation without what a person was asked."""
    shown: "_Shown"

    def finish(self, output: list[TResponseOutputItem]) -> None:
        """Add the run and its continuation to the items of an answer, and mark an incomplete answer.

        A call with an id of the conversation gets a new id, because the SDK drops calls with a repeated id.
        """
        taken = {item.get("call_id") for item in self.items}
        calls = [item for item in output if isinstance(item, ResponseFunctionToolCall)]
        for item in calls:
            if item.call_id in taken:
                item.call_id = f"call_{uuid4().hex}"
        answer = self.host.answer
        if answer is None or not output:
            return
        _add_data(output[0], {_PODIUM: _metadata(answer.result)})
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


class _Shown:
    """The plans and the outputs of steps that a stream has beside the answer; nested runs have none."""

    def __init__(self, conductor: Conductor) -> None:
        self.names = deque[str]()
        """What the texts belong to that the stream has not told yet, in their order."""
        self._workers = conductor.pool.names
        self._run_id = ""
        self._maps = Maps()
        self._answers = set[tuple[int, int]]()
        self._begun = set[tuple[int, int, int]]()
        """The attempts of steps whose pieces are shown."""

    def text(self, event: Event) -> str:
        """Return the text for an event, and keep what it belongs to."""
        self._run_id = self._run_id or event.run_id  # the first event belongs to the outer run
        self._maps.take(event)
        text = name = ""
        match event:
            case _ if event.run_id != self._run_id:
                pass
            case PlanReady(plan=plan):
                self._answers |= {(event.round, step) for step in plan.answers}
                text, name = "\n".join(plan_lines(plan, self._workers)), f"{event.round}_plan"
            case StepDelta() | StepEnded() if (event.round, event.step) not in self._answers:
                text = self._of_step(event)
                name = f"{event.round}_{self._maps.name(event)}_{event.attempt}"
        if text:
            self.names.append(f"podium_{event.run_id}_{name}")
        return text

    def _of_step(self, event: StepDelta | StepEnded) -> str:
        place = event.round, event.step, event.attempt
        if isinstance(event, StepDelta):
            self._begun.add(place)
            return event.text
        problem, is_begun = event.outcome.problem, place in self._begun
        if event.outcome.status == "failed" and problem is not None:
            return ("\n" if is_begun else "") + f"failed: {problem.message}"
        return "" if is_begun else event.outcome.text


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
        LookupError: there is no answer of a conductor.
    """
    responses = [answer] if isinstance(answer, ModelResponse) else answer.raw_responses
    for response in reversed(responses):
        for item in response.output:
            found: Mapping[str, Any] | None = (getattr(item, "provider_data", None) or {}).get(_PODIUM)
            if found is not None:
                return found
    raise LookupError("it contains no answer of a conductor")
