"""A conductor as a chat client of Agent Framework, over the framework's own client of OpenAI's SDK."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from functools import partial
from typing import Any, ClassVar, Final, Unpack

from agent_framework import (
    AgentSession,
    ChatAndFunctionMiddlewareTypes,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationConfiguration,
    Message,
    ResponseStream,
)
from agent_framework.openai import OpenAIChatCompletionClient, OpenAIChatCompletionOptions

from autogen_podium.agent_framework.approvals import decided, decisions_in, requests_of
from autogen_podium.agent_framework.messages import from_framework, to_framework, write_result, write_usage
from autogen_podium.agent_framework.wrap import Participant, conductor_of
from podium.aio.sync import events_of
from podium.conductor import CARD, Conductor
from podium.errors import QueryError, RunFailed, RunWaiting
from podium.hosts import ConductorFace, ConductorTransport, HostCall, Partial
from podium.hosts.faces import ConductorOptions
from podium.hosts.openai import run_options
from podium.hosts.results import plan_lines, text_answer
from podium.run import RunOptions
from podium.types import Event, Message as PodiumMessage, PlanReady, StepEnded
from podium.workers import Card

_NAME: Final = "podium"
_SESSION: Final = "podium_session"
"""The argument with the id of the agent's session, which the layers keep to themselves."""
_OF_REQUEST: Final = OpenAIChatCompletionOptions.__annotations__
CALLER: Final = ContextVar[str | None]("CALLER", default=None)
"""The session of the agent that calls a conductor as a tool; the tool makes a session for each call."""
_Update = Callable[[ChatResponseUpdate], None]
_Call = tuple[HostCall, Mapping[str, str]]
"""A call, and what was wrong with the decisions in it, by the step."""


@ConductorFace.register
class ConductorChatClient(OpenAIChatCompletionClient[Any]):
    """A chat client that plans the question and has a pool execute the plan.

    Use it as `Agent(client=ConductorChatClient(...))`. Tools of a call are offered to the steps
    whose workers accept tools. The turn after a tool call continues the plan. The response's
    `raw_representation` is the `podium.Result`; the plan and the steps are in
    `additional_properties["podium"]`. If the run waits for a person, the response has requests for approvals
    (`function_approval_request`) and questions (`function_call`, answered by a `function_result`).

    The options of a call may have `run_id`, `labels`, `policy` and `limits`, too. With a `run_id` and a
    journal, the same call, also in a new process, continues its run.

    Args:
        conductor: a conductor, instead of its parts.
        planner: writes the plans: a chat client, or a planner or worker of Podium.
        workers: agents, chat clients, workflows and workers of Podium, which execute the steps.
        model: the model's name in responses and traces.
        show_steps: whether a stream has the plans and the outputs of steps, as reasoning.
        partial: whether an incomplete answer is returned, or raised as `RunFailed`.
        middleware: chat and function middleware around each call.
        function_invocation_configuration: how the framework calls tools.
        options: further options of `podium.Conductor`: `limits`, `policy`, `journal`, …; and `workflows`.

    Raises:
        ConfigError: there is no planner, or a conductor and its parts; from each call: an option of the call
            is invalid.
        RunFailed: from each call: there is no answer; `result` is the run's result.
        PodiumError: from each call: see `Conductor.run`.
    """

    OTEL_PROVIDER_NAME: ClassVar[str] = _NAME

    def __init__(  # noqa: PLR0913 - the options of Agent Framework's clients
        self,
        conductor: Conductor | None = None,
        *,
        planner: Participant | object = None,
        workers: Sequence[Participant] = (),
        model: str = _NAME,
        show_steps: bool = False,
        partial: Partial = "return",
        middleware: Sequence[ChatAndFunctionMiddlewareTypes] | None = None,
        function_invocation_configuration: FunctionInvocationConfiguration | None = None,
        **options: Unpack[ConductorOptions],
    ) -> None:
        card = Card(name=model, description=CARD.description)
        self.conductor = conductor_of(
            conductor, planner, workers, options, face=ConductorChatClient, card=card
        )
        self.show_steps = show_steps
        self.author: str | None = None
        """The name of the agent whose messages are the conductor's; others with a name are input to it."""
        super().__init__(
            model,
            async_client=ConductorTransport(self.conductor, partial=partial).openai_client(),
            middleware=middleware,
            function_invocation_configuration=function_invocation_configuration,
        )

    def get_response(self, messages: Any, *, client_kwargs: Any = None, **others: Any) -> Any:
        """Answer a conversation; an agent passes its session in `client_kwargs`."""
        given = dict(client_kwargs or {})
        if isinstance(session := given.get("session"), AgentSession):
            given[_SESSION] = CALLER.get() or session.session_id
        answer: Any = super().get_response(messages, client_kwargs=given, **others)
        return left(answer) if isinstance(answer, ResponseStream) else answer

    def _inner_get_response(
        self, *, messages: Sequence[Message], options: Mapping[str, Any], stream: bool = False, **others: Any
    ) -> Any:
        session = others.pop(_SESSION, None)
        kept = {name: value for name, value in options.items() if value is not None}
        of_run: Any = run_options(kept, of=type(self).__name__, beside=_OF_REQUEST)
        instructions = kept.pop("instructions", None)
        ask = partial(super()._inner_get_response, options=kept, stream=stream, **others)
        name = of_run.pop("run_id", None)
        call = partial(self._host_call, messages, instructions, of_run, name=name, session=session)
        if not stream:
            return self._whole(call, ask)
        return self._build_response_stream(
            self._updates(call, ask), response_format=options.get("response_format")
        )

    async def _host_call(
        self,
        messages: Sequence[Message],
        instructions: str | None,
        of_run: RunOptions,
        *,
        name: str | None,
        session: str | None,
    ) -> _Call:
        if decisions := decisions_in(messages):
            run_id, recorded, problems = await decided(self.conductor, decisions)
            return HostCall(messages=recorded, options={**of_run, "run_id": run_id}), problems
        system = (PodiumMessage("system", instructions),) if instructions else ()
        query = (*system, *from_framework(messages, self.author))
        if not query or (self.author is not None and messages[-1].author_name == self.author):
            raise QueryError(f"{self.author or self.model!r} got no message since its last answer")
        return HostCall(messages=query, options=of_run, session=session, run_name=name), {}

    async def _whole(
        self, make: Callable[[], Awaitable[_Call]], ask: Callable[..., Any]
    ) -> ChatResponse[Any]:
        call, problems = await make()
        try:
            with call.asked():
                response: ChatResponse[Any] = await ask(messages=to_framework(call.messages or ()))
        except RunWaiting as error:
            result = error.result
            assert result is not None  # of a run that has ended as waiting
            requests = Message("assistant", await requests_of(self.conductor, result.run_id, problems))
            response = ChatResponse(messages=[requests], response_id=result.run_id, model=self.model)
        else:
            assert call.answer is not None
            result = call.answer.result
        response.additional_properties.update(write_result(result))
        response.raw_representation = result
        return response

    def _updates(
        self, make: Callable[[], Awaitable[_Call]], ask: Callable[..., Any]
    ) -> AsyncGenerator[ChatResponseUpdate, None]:
        async def answering(emit: _Update) -> None:
            call, problems = await make()
            if self.show_steps:
                call.on_event = _Steps(self.conductor, self.author or self.model, emit).hear
            emit(await self._streamed(call, problems, ask, emit))

        return events_of(answering)

    async def _streamed(
        self, call: HostCall, problems: Mapping[str, str], ask: Callable[..., Any], emit: _Update
    ) -> ChatResponseUpdate:
        """Emit the updates of a call; return the last update, with the metadata of the run."""
        sent, contents = "", list[Content]()
        more: dict[str, Any] = {}
        try:
            with call.asked():
                async with ask(messages=to_framework(call.messages or ())) as updates:
                    async for update in updates:
                        sent += update.text
                        emit(update)
            assert call.answer is not None
            result = call.answer.result
            more = {"finish_reason": call.answer.host_finish_reason}
        except RunWaiting as error:
            result = error.result
            contents = await requests_of(self.conductor, result.run_id, problems)
        except RunFailed as error:
            result = error.result
            if result.status != "ok" or not sent or result.answer.startswith(sent):
                raise
            # a step was retried after its first words were streamed: the whole answer replaces them
            contents = [Content.from_text(text_answer(result)), Content.from_usage(write_usage(result.usage))]
            more = {"merge_mode": "replace", "finish_reason": "stop"}
        return ChatResponseUpdate(
            contents=contents,
            role="assistant",
            response_id=f"chatcmpl-{result.run_id}",
            message_id=f"chatcmpl-{result.run_id}",
            model=self.model,
            additional_properties=write_result(result),
            raw_representation=result,
            **more,
        )


def left(stream: ResponseStream[Any, Any]) -> ResponseStream[Any, Any]:
    """Return a stream that is closed when nobody holds it; circles of references keep the framework's own.

    It is read in a task, because its hooks must be called in the context in which it was read.
    """

    async def read(emit: Callable[[Any], None]) -> None:
        async with stream:
            async for update in stream:
                emit(update)

    return ResponseStream(events_of(read), finalizer=lambda _: stream.get_final_response())


class _Steps:
    """Writes the plans and the outputs of steps as reasoning, each as a message of its own."""

    def __init__(self, conductor: Conductor, name: str, emit: _Update) -> None:
        self._workers = conductor.pool.names
        self._name = name
        self._emit = emit
        self._run_id = ""

    def hear(self, event: Event) -> None:
        self._run_id = self._run_id or event.run_id  # the first event belongs to the outer run
        if event.run_id != self._run_id:
            return
        match event:
            case PlanReady(plan=plan) if plan.steps:
                self._tell(f"plan {event.round}", self._name, "\n".join(plan_lines(plan, self._workers)), {})
            case StepEnded(outcome=outcome) if outcome.status in ("ok", "failed"):
                place = {"podium_round": outcome.round, "podium_step": outcome.step}
                path = {"podium_path": outcome.path} if outcome.path else {}
                problem = "" if outcome.problem is None else f"failed: {outcome.problem.message}"
                text = outcome.text if outcome.status == "ok" else problem
                self._tell(f"{outcome.round}:{outcome.name}", outcome.worker, text, place | path)
            case _:
                pass

    def _tell(self, name: str, author: str, text: str, properties: dict[str, Any]) -> None:
        update = ChatResponseUpdate(
            contents=[Content.from_text_reasoning(text=text)],
            role="assistant",
            author_name=author,
            response_id=self._run_id,
            message_id=f"{self._run_id}:{name}",
            additional_properties=properties,
        )
        self._emit(update)
