"""Workers that are Agent Framework's: agents, which remember nothing without a session, and chat clients."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any, Unpack, cast

from agent_framework import (
    AgentResponse,
    AgentResponseUpdate,
    BaseChatClient,
    ChatResponse,
    ChatResponseUpdate,
    Message as FrameworkMessage,
    ResponseStream,
    SupportsAgentRun,
    SupportsChatGetResponse,
)

from autogen_podium.agent_framework.messages import read_usage, to_framework
from podium.aio import events_of
from podium.errors import ConfigError, WorkerBroken, WorkerFailed
from podium.hosts import CardMaker, CardOptions, read_completion, sampling_arguments, tool_call, worker_errors
from podium.planners import ChatPlanner, Planner, RulePlanner
from podium.types import Completion, Part
from podium.workers import Card, Request, Worker

Participant = SupportsAgentRun | SupportsChatGetResponse[Any] | Worker
"""What can do steps."""
_Response = AgentResponse[Any] | ChatResponse[Any]


class FrameworkWorker(Worker):
    """Has an agent or a chat client do the subtask.

    An agent is run without a session: it sees only what the step is shown, and steps run side by side.

    Args:
        who: the agent or chat client.
        card: what the planner is told of it.
    """

    def __init__(self, who: SupportsAgentRun | SupportsChatGetResponse[Any], *, card: Card) -> None:
        self.who = who
        self.card = card

    def __repr__(self) -> str:
        return f"FrameworkWorker({self.card.name!r})"

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Ask; with `request.stream`, as a stream."""
        name, sent, response = self.card.name, list[str](), None
        if not request.stream:
            with worker_errors(name):
                response = await cast("Awaitable[_Response]", self._asked(request))
        else:
            async with aclosing(self._streamed(request)) as pieces:
                while True:
                    with worker_errors(name):
                        piece = await anext(pieces, None)
                    if piece is None:
                        break
                    if not isinstance(piece, str):
                        response = piece
                    else:
                        sent.append(piece)
                        yield piece
        yield self._completion(request, response, "".join(sent))

    def _streamed(self, request: Request) -> AsyncGenerator[str | _Response, None]:
        """Stream in a task of its own: a second cancellation would interrupt the client's own clean-up."""

        async def read(emit: Callable[[str | _Response], None]) -> None:
            stream: ResponseStream[AgentResponseUpdate | ChatResponseUpdate, _Response] = self._asked(request)
            async with stream:
                async for update in stream:
                    if update.text and update.role != "tool":
                        emit(update.text)
                emit(await stream.get_final_response())

        return events_of(read)

    def _asked(self, request: Request) -> Any:
        messages = to_framework(request.messages)
        if isinstance(self.who, SupportsAgentRun):
            return self.who.run(messages, stream=request.stream)  # type: ignore[call-overload]
        options: Any = sampling_arguments(request.sampling)
        return self.who.get_response(messages, stream=request.stream, options=options)  # type: ignore[call-overload]

    def _completion(self, request: Request, response: _Response | None, sent: str) -> Completion:
        """Return the answer, by the rules that hold for every chat model."""
        if not isinstance(response, AgentResponse | ChatResponse):
            raise WorkerBroken(f"worker {self.card.name!r} returned no response", maybe_paid=True)
        if isinstance(response, AgentResponse) and response.user_input_requests:
            waits = f"worker {self.card.name!r} asks for approval, which a step cannot wait for"
            raise WorkerFailed(f"{waits}: give it tools that need none", maybe_paid=True)
        last = next(
            (m for m in reversed(response.messages) if m.role == "assistant" and m.text.strip()), None
        )
        finish = str(response.finish_reason or "stop")
        return read_completion(
            request.messages,
            text=sent or ("" if last is None else last.text),
            finish_reason="stop" if finish == "tool_calls" else finish,
            tool_calls=_open_calls(response.messages),
            usage=read_usage(response.usage_details),
            model=getattr(response, "model", None),
        )


def _open_calls(messages: Sequence[FrameworkMessage]) -> list[Part]:
    """Return the calls of tools in the last message, which nobody has made."""
    contents = messages[-1].contents if messages else []
    calls = [content for content in contents if content.type == "function_call"]
    return [tool_call(call.call_id, call.name, call.arguments) for call in calls]


def as_worker(thing: Participant, **options: Unpack[CardOptions]) -> Worker:
    """Return an agent or a chat client of Agent Framework's as a worker.

    A workflow is a worker as an agent: `workflow.as_agent(name)`. A `ConductorAgent` without
    context providers and middleware is its conductor, whose steps share the limits of the run
    around it. A worker of Podium's is returned as it is.

    Args:
        thing: the object that does subtasks.
        options: `card`, or parts of one: `name`, `description`, `price`, `labels`; as
            `podium.hosts.CardOptions` has them.

    Raises:
        ConfigError: it cannot be a worker, or has a card already, or there is a card and parts
            of another.
    """
    maker = CardMaker(options)
    if not _is_layered(thing) and (own := maker.podium_worker(thing)) is not None:
        return own
    if not isinstance(thing, SupportsAgentRun | SupportsChatGetResponse):
        raise ConfigError(f"{thing!r:.80} is neither an agent nor a chat client of Agent Framework's")
    name = getattr(thing, "name", None) or getattr(thing, "model", None) or type(thing).__name__
    words = getattr(thing, "description", None) or ""
    if isinstance(thing, BaseChatClient):
        model, url = str(getattr(thing, "model", None) or ""), str(thing.service_url() or "")
        card = maker.card(name=str(name), description=words, model=model, base_url=url)
    else:
        card = maker.card(name=str(name), description=words)
    return FrameworkWorker(thing, card=card)


def _is_layered(thing: object) -> bool:
    """Return whether an agent has context providers or middleware, which its conductor would leave out."""
    return bool(getattr(thing, "context_providers", None) or getattr(thing, "middleware", None))


def as_planner(model: SupportsChatGetResponse[Any] | Worker | Planner | None, **options: Any) -> Planner:
    """Return a planner: one that asks a chat client or a worker, or the planner that was given.

    Args:
        model: the chat client, worker or planner; `None` plans by rules.
        options: options of `podium.ChatPlanner`.

    Raises:
        ConfigError: it is none of these.
    """
    if model is None:
        return RulePlanner()
    return model if isinstance(model, Planner) else ChatPlanner(as_worker(model), **options)
