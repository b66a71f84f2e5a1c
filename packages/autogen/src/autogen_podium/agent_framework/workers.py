"""Workers that are Agent Framework's: agents, which remember nothing without a session, and chat clients.

It owns how they are asked and what of their response counts as an answer.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import aclosing
from typing import Any, cast

from agent_framework import (
    AgentResponse,
    AgentResponseUpdate,
    ChatResponse,
    ChatResponseUpdate,
    ResponseStream,
    SupportsAgentRun,
    SupportsChatGetResponse,
)

from autogen_podium.agent_framework.messages import read_usage, to_framework
from autogen_podium.faults import calling
from podium.aio import events_of
from podium.errors import ConfigError, WorkerBroken, WorkerFailed
from podium.planners import ChatPlanner, Planner, RulePlanner
from podium.types import Completion, Sampling
from podium.workers import Card, Price, Request, Worker
from podium.workers.openai.chat_response import AnswerReader

Participant = SupportsAgentRun | SupportsChatGetResponse[Any] | Worker
"""Who can do steps."""
_Response = AgentResponse[Any] | ChatResponse[Any]


class FrameworkWorker(Worker):
    """Has an agent or a chat client do the subtask.

    An agent is run without a session: it sees what the step is shown, and steps run side by side.

    Args:
        who: who does it.
        card: what the planner is told of it.
    """

    def __init__(self, who: SupportsAgentRun | SupportsChatGetResponse[Any], *, card: Card) -> None:
        self.who = who
        self.card = card

    def __repr__(self) -> str:
        return f"FrameworkWorker({self.card.name!r})"

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Ask: as a stream where somebody reads along, else for an answer in one piece."""
        name, sent, response = self.card.name, list[str](), None
        if not request.stream:
            with calling(name):
                response = await cast("Awaitable[_Response]", self._asked(request))
        else:
            async with aclosing(self._streamed(request)) as pieces:
                while True:
                    with calling(name):
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
        """Stream in a task of its own, which is cancelled but once, and closes what it has opened."""

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
        options: Any = _options(request.sampling)
        return self.who.get_response(messages, stream=request.stream, options=options)  # type: ignore[call-overload]

    def _completion(self, request: Request, response: _Response | None, sent: str) -> Completion:
        """Return the answer, by the rules that hold for every chat model."""
        if not isinstance(response, AgentResponse | ChatResponse):
            raise WorkerBroken(f"worker {self.card.name!r} returned no response", maybe_paid=True)
        if isinstance(response, AgentResponse) and response.user_input_requests:
            told = f"worker {self.card.name!r} asks for approval, which a step cannot wait for"
            raise WorkerFailed(f"{told}: give it tools that need none", maybe_paid=True)
        last = next(
            (m for m in reversed(response.messages) if m.role == "assistant" and m.text.strip()), None
        )
        text = sent or ("" if last is None else last.text)
        used, usage = read_usage(response.usage_details), None
        if used is not None:
            usage = {"prompt_tokens": used.input_tokens, "completion_tokens": used.output_tokens}
            usage |= {"cached_tokens": used.cached_tokens, "reasoning_tokens": used.reasoning_tokens}
        reader = AnswerReader()
        finish = str(response.finish_reason or "stop")
        choice = {"message": {"content": text}, "finish_reason": "stop" if finish == "tool_calls" else finish}
        reader.feed({"choices": [choice], "usage": usage, "model": getattr(response, "model", None)})
        return reader.completion(request.messages)


def as_worker(
    thing: Participant,
    *,
    card: Card | None = None,
    name: str | None = None,
    description: str | None = None,
    price: Price | None = None,
    labels: Iterable[str] = (),
) -> Worker:
    """Return an agent or a chat client of Agent Framework's as a worker; a worker of Podium's is one already.

    A workflow is a worker as an agent: `workflow.as_agent(name)`.

    Args:
        thing: what is to do subtasks.
        card: what the planner is told of it; `None` derives it from what it is, and from:
        name: what plans call it; `None` takes its own name, or its model's.
        description: what it is good at; `None` takes what it says of itself.
        price: what its tokens cost; `None` means unknown.
        labels: properties that rules refer to.

    Raises:
        ConfigError: it cannot be a worker, or is one that has its card already, or there is a
            card and parts of another.
    """
    labels = frozenset(labels)
    said = name is not None or description is not None or price is not None or labels
    if card is not None and said:
        raise ConfigError("a name, description, price or labels beside a card do not count: put them on it")
    if isinstance(thing, Worker):
        if card is not None or said:
            raise ConfigError(f"{thing!r:.80} has a card already: say it there")
        return thing
    if not isinstance(thing, SupportsAgentRun | SupportsChatGetResponse):
        raise ConfigError(f"{thing!r:.80} is neither an agent nor a chat client of Agent Framework's")
    if card is None:
        own = getattr(thing, "name", None) or getattr(thing, "model", None) or type(thing).__name__
        told = getattr(thing, "description", None) or ""
        card = Card(
            name=name or str(own),
            description=told if description is None else description,
            price=price,
            labels=labels,
        )
    return FrameworkWorker(thing, card=card)


def as_planner(model: SupportsChatGetResponse[Any] | Worker | Planner | None, **options: Any) -> Planner:
    """Return who plans: a chat client or a worker, asked for plans; or a planner, as it is.

    Args:
        model: who is asked; `None` plans by rules.
        options: what `podium.ChatPlanner` takes.

    Raises:
        ConfigError: it is none of these.
    """
    if model is None:
        return RulePlanner()
    return model if isinstance(model, Planner) else ChatPlanner(as_worker(model), **options)


def _options(sampling: Sampling) -> dict[str, Any]:
    names = ("temperature", "top_p", "max_tokens", "seed")
    options = {name: value for name in names if (value := getattr(sampling, name)) is not None}
    return options | ({"stop": list(sampling.stop)} if sampling.stop else {})
