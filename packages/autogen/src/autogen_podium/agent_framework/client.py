"""A conductor as a chat client of Agent Framework; each call is a run."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, ClassVar, Final, Unpack, cast

from agent_framework import (
    AgentSession,
    BaseChatClient,
    ChatAndFunctionMiddlewareTypes,
    ChatMiddlewareLayer,
    ChatOptions,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationConfiguration,
    FunctionInvocationLayer,
    Message,
    ResponseStream,
    SupportsChatGetResponse,
)
from agent_framework.observability import ChatTelemetryLayer

from autogen_podium.agent_framework.call_options import call_sampling, call_tools, check_options
from autogen_podium.agent_framework.messages import from_client, write_calls, write_result, write_usage
from autogen_podium.agent_framework.wrap import Participant, as_planner, as_worker
from autogen_podium.conductor_options import ConductorOptions, conductor_of
from podium.conductor import Conductor
from podium.hosts import ChatAnswer, ChatCall, ConductorFace, ContinuationStore, Partial
from podium.hosts.results import check_partial
from podium.planners import Planner
from podium.types import Message as PodiumMessage
from podium.workers import Card, Worker

_NAME: Final = "podium"
_SESSION: Final = "podium_session"
"""The argument with the id of the agent's session, which the layers keep to themselves."""


class _ConductedClient(BaseChatClient[ChatOptions[None]]):
    """The innermost part of the chat client; the layers for functions, middleware and telemetry call it."""

    OTEL_PROVIDER_NAME: ClassVar[str] = _NAME
    conductor: Conductor
    model: str
    partial: Partial
    _store: ContinuationStore

    def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **others: Any
    ) -> Awaitable[ChatResponse[Any]] | ResponseStream[ChatResponseUpdate, ChatResponse[Any]]:
        call = partial(self._call, messages, options, others.get(_SESSION))  # the others are for the layers
        if not stream:
            return self._whole(call, options)
        form = options.get("response_format")
        return self._build_response_stream(self._updates(call), response_format=form)

    async def _call(
        self, messages: Sequence[Message], options: Mapping[str, Any], session: str | None
    ) -> ChatCall:
        check_options(options)
        said = await self._validate_options(options)
        instructions = said.get("instructions")
        system = (PodiumMessage("system", instructions),) if instructions else ()
        return ChatCall(
            self.conductor,
            (*system, *from_client(messages)),
            tools=call_tools(said),
            sampling=call_sampling(said),
            store=self._store,
            partial=self.partial,
            session=session,
        )

    async def _whole(
        self, make: Callable[[], Awaitable[ChatCall]], options: Mapping[str, Any]
    ) -> ChatResponse[Any]:
        call = await make()
        answer = await call.run()
        run_id, text = answer.result.run_id, [Content.from_text(answer.text)] if answer.text else []
        return ChatResponse(
            messages=[Message("assistant", [*text, *write_calls(answer.tool_calls)], message_id=run_id)],
            response_id=run_id,
            model=self.model,
            finish_reason=cast("Any", answer.host_finish_reason),
            usage_details=write_usage(answer.usage),
            response_format=options.get("response_format"),
            additional_properties=write_result(answer.result),
            raw_representation=answer.result,
        )

    async def _updates(
        self, make: Callable[[], Awaitable[ChatCall]]
    ) -> AsyncGenerator[ChatResponseUpdate, None]:
        call = await make()
        async with aclosing(call.stream()) as pieces:
            async for piece in pieces:
                if isinstance(piece, ChatAnswer):
                    yield self._last_update(piece)
                else:
                    text = [Content.from_text(piece)]
                    yield ChatResponseUpdate(contents=text, role="assistant", model=self.model)

    def _last_update(self, answer: ChatAnswer) -> ChatResponseUpdate:
        """Return the last update, with the metadata of the result; all updates belong to one message."""
        return ChatResponseUpdate(
            contents=[*write_calls(answer.tool_calls), Content.from_usage(write_usage(answer.usage))],
            role="assistant",
            response_id=answer.result.run_id,
            model=self.model,
            finish_reason=cast("Any", answer.host_finish_reason),
            additional_properties=write_result(answer.result),
            raw_representation=answer.result,
        )


@ConductorFace.register
class ConductorChatClient(
    FunctionInvocationLayer[ChatOptions[None]],
    ChatMiddlewareLayer[ChatOptions[None]],
    ChatTelemetryLayer[ChatOptions[None]],
    _ConductedClient,
):
    """A chat client that plans the question and has a pool execute the plan.

    Use it as `Agent(client=ConductorChatClient(...))`. Tools of a call are offered to the worker of the
    plan's last step, if it accepts tools. The turn after a tool call reuses the plan and the outputs of the
    other steps. The response's `raw_representation` is the `podium.Result`; the plan and the steps are in
    `additional_properties["podium"]`.

    Args:
        participants: agents, chat clients and workers of Podium, which execute the steps; or a
            `podium.Conductor`.
        client: writes the plans: a chat client, or a planner or worker of Podium. With `None`, rules write
            them, without a model.
        model: the model's name in responses and traces.
        partial: whether an incomplete answer is returned, or raised as `RunFailed`.
        middleware: chat and function middleware around each call.
        function_invocation_configuration: how the framework calls tools.
        options: further options of `podium.Conductor`: `limits`, `policy`, `journal`, ….

    Raises:
        ConfigError: a participant or an option is invalid; from each call: a conductor does not accept an
            option of the call.
        RunFailed: from each call: there is no answer; `result` is the run's result.
        PodiumError: from each call: see `Conductor.run`.
    """

    def __init__(
        self,
        participants: Sequence[Participant] | Conductor,
        client: SupportsChatGetResponse[Any] | Planner | Worker | None = None,
        *,
        model: str = _NAME,
        partial: Partial = "return",
        middleware: Sequence[ChatAndFunctionMiddlewareTypes] | None = None,
        function_invocation_configuration: FunctionInvocationConfiguration | None = None,
        **options: Unpack[ConductorOptions],
    ) -> None:
        super().__init__(
            middleware=middleware, function_invocation_configuration=function_invocation_configuration
        )
        self.model = model
        self.partial = check_partial(partial)
        self._store = ContinuationStore()
        self.conductor = conductor_of(
            participants,
            client,
            card=Card(name=model, description="Plans a task and has a team execute it."),
            as_worker=as_worker,
            as_planner=as_planner,
            options=options,
            face="ConductorChatClient",
        )

    def get_response(self, messages: Any, *, client_kwargs: Any = None, **others: Any) -> Any:
        """Answer a conversation; an agent passes its session in `client_kwargs`."""
        given = dict(client_kwargs or {})
        if isinstance(session := given.get("session"), AgentSession):
            given[_SESSION] = session.session_id
        return super().get_response(messages, client_kwargs=given, **others)
