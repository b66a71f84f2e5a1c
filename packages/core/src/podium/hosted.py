"""A client of a remote conductor, with the interface of `Conductor`.

The remote conductor returns the answer, its usage and tool calls. The remote conductor does not return its
plan, its steps or their costs.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NoReturn, get_args
from uuid import uuid4

import anyio

from podium.aio.loops import ResourceGroup
from podium.aio.sync import events_of, run_sync
from podium.errors import AnswerToolCalls, ConfigError, PodiumError, WorkerBroken, WorkerError, WorkerTimeout
from podium.secrets import Boundary, scrubbing
from podium.telemetry import observed, start_trace
from podium.telemetry.log import start_log
from podium.types.events import AnswerDelta, Event, RunEnded, RunStarted
from podium.types.messages import (
    Completion,
    Message,
    Part,
    Query,
    Sampling,
    Tools,
    read_conversation,
    usage_or_estimate,
)
from podium.types.outcome import Problem, shortfall
from podium.types.result import Result
from podium.usage import Usage
from podium.workers.openai.chat import chat_body, merge_sampling
from podium.workers.openai.chat_response import AnswerReader
from podium.workers.openai.endpoint import Endpoint
from podium.workers.openai.errors import ReportedFault
from podium.workers.openai.responses import ResponsesReader, responses_body
from podium.workers.worker import Price

Api = Literal["responses", "chat"]
"""The OpenAI API to use: Responses or Chat Completions."""
Effort = Literal["high", "xhigh", "max"]
"""Reasoning effort of a hosted conductor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """The request of one run."""

    query: tuple[Message, ...]
    model: str
    tools: Tools | None
    sampling: Sampling


class HostedConductor(ResourceGroup):
    """Sends each query unchanged to a conductor behind an API, such as Sakana's Fugu.

    Args:
        model: the model's name on the server: `fugu`, `fugu-ultra`, ….
        endpoint: the server. The provider `fugu` has default timeouts of hours; set such timeouts for other
            providers too.
        api: the OpenAI API to use.
        effort: reasoning effort: `high`, `xhigh` or `max`; `None` means the server's default.
        max_tokens: maximum tokens of an answer; `None` means the server's default.
        tools: tools that the conductor may call, in the form of chat completions. `Result.tool_calls`
            has its calls, which the caller executes.
        price: price of all tokens that the server reports, including the tokens of its workers; `None` means
            unknown.
        seconds: maximum duration of a run.

    Raises:
        ConfigError: the effort is invalid.
    """

    def __init__(  # noqa: PLR0913 - one parameter for each setting
        self,
        model: str = "fugu",
        *,
        endpoint: Endpoint,
        api: Api = "responses",
        effort: Effort | None = None,
        max_tokens: int | None = None,
        tools: Sequence[Part] = (),
        price: Price | None = None,
        seconds: float = 7200.0,
    ) -> None:
        if effort is not None and effort not in get_args(Effort):
            raise ConfigError(f"effort {effort!r} is invalid: write one of {', '.join(get_args(Effort))}")
        self.model = model
        self._endpoint = endpoint
        self._api = api
        self._sampling = Sampling(effort=effort, max_tokens=max_tokens)
        self._tools = tuple(tools)
        self._price = price
        self._seconds = seconds
        self.acts = True
        """Whether a run may act: `True` until the server has answered, then whether the answer says so."""

    def __reduce__(self) -> NoReturn:
        """Raise `TypeError`: the connections cannot be copied or pickled."""
        raise TypeError(
            "a HostedConductor cannot be copied or pickled: it has connections of this process. "
            "Share it, or create another with the same arguments"
        )

    async def run(
        self,
        asked: Query,
        *,
        tools: Tools | Sequence[Part] = (),
        sampling: Sampling = Sampling(),
        model: str | None = None,
    ) -> Result:
        """Answer a query. If the conductor fails, the result has the problem; nothing is raised.

        Args:
            asked: a question or a conversation, which may end with tool results.
            tools: replace the tools of this conductor; if empty, the tools of this conductor are offered.
            sampling: sampling settings; each value that is set replaces the setting of this conductor.
            model: the model's name on the server; `None` means the model of this conductor.

        Raises:
            QueryError: the query is invalid.
            ConfigError: the API does not support a sampling setting.
        """
        return await self._run(self._asked(asked, tools, sampling, model), _ignore)

    def stream(
        self,
        asked: Query,
        *,
        tools: Tools | Sequence[Part] = (),
        sampling: Sampling = Sampling(),
        model: str | None = None,
    ) -> AsyncGenerator[Event, None]:
        """Answer a query, and yield `RunStarted`, the answer's pieces as they arrive, and `RunEnded`.

        Leaving the iteration closes the connection. `run` describes the arguments and exceptions.
        """
        return events_of(lambda emit: self._run(self._asked(asked, tools, sampling, model), emit))

    def run_sync(self, asked: Query) -> Result:
        """Call `run` from synchronous code, even inside a running event loop."""
        return run_sync(lambda: self.run(asked))

    def _asked(
        self, asked: Query, tools: Tools | Sequence[Part], sampling: Sampling, model: str | None
    ) -> _Asked:
        offered = tools if isinstance(tools, Tools) else Tools(tuple(tools))
        offered = offered if offered.offered else Tools(self._tools, offered.choice)
        query, turn = read_conversation(asked)
        return _Asked(
            query=(*query, *turn),
            model=model or self.model,
            tools=offered if offered.offered else None,
            sampling=merge_sampling(self._sampling, sampling),
        )

    async def _run(self, asked: _Asked, listen: Callable[[Event], None]) -> Result:
        body = self._body(asked)
        trace = start_trace(asked.model, (), ())
        listeners = [*observed(trace, start_log()), listen]

        def emit(event: Event) -> None:
            for listener in listeners:
                listener(event)

        run_id, began = uuid4().hex, anyio.current_time()
        emit(RunStarted(run_id=run_id, at=0.0, workers=(), query=asked.query, tools=asked.tools))
        with ExitStack() as traced:
            if trace is not None:
                traced.callback(trace.close)
                traced.enter_context(trace.within())
            result = await self._answer(asked.query, body, emit, run_id, began)
            emit(RunEnded.of(result))
        return result

    async def _answer(
        self,
        query: tuple[Message, ...],
        body: dict[str, Any],
        emit: Callable[[Event], None],
        run_id: str,
        began: float,
    ) -> Result:
        pieces: list[str] = []
        completion, problem, unpaid, used = None, None, False, None
        reader = AnswerReader() if self._api == "chat" else ResponsesReader(self._endpoint.quote)
        try:
            # A body with values of unexpected types is a malformed answer.
            broken = partial(WorkerBroken, maybe_paid=True)
            with scrubbing(), Boundary("reading the answer", broken, is_library=True):
                async with aclosing(self._call(query, body, began + self._seconds, reader)) as answer:
                    async for piece in answer:
                        if isinstance(piece, Completion):
                            completion = piece
                            break
                        pieces.append(piece)
                        emit(AnswerDelta(run_id=run_id, at=anyio.current_time() - began, text=piece))
        except PodiumError as error:
            problem = Problem.of(error)
            used = error.usage if isinstance(error, WorkerError) else None
            unpaid = not pieces and isinstance(error, WorkerError) and not error.maybe_paid
        text = "".join(pieces) if completion is None else completion.text
        if completion is not None:
            problem = reader.problem or shortfall(completion)
        if completion is not None and text and not pieces:
            emit(AnswerDelta(run_id=run_id, at=anyio.current_time() - began, text=text))
        calls = () if completion is None else completion.tool_calls
        usage = usage_or_estimate(used if completion is None else completion.usage, query, text, calls)
        usage = Usage() if unpaid else usage
        return Result(
            run_id=run_id,
            answer=text,
            status="ok" if problem is None else "partial" if text else "failed",
            problem=problem,
            seconds=anyio.current_time() - began,
            tool_calls=() if completion is None else completion.tool_calls,
            hosted_usage=usage,
            hosted_cost=0.0 if unpaid else None if self._price is None else self._price.cost(usage),
        )

    async def _call(
        self,
        query: tuple[Message, ...],
        body: dict[str, Any],
        deadline: float,
        reader: AnswerReader | ResponsesReader,
    ) -> AsyncGenerator[str | Completion, None]:
        path = "/chat/completions" if self._api == "chat" else "/responses"
        try:
            async with aclosing(self._endpoint.listen(path, body, deadline=deadline)) as events:
                async for event in events:
                    if text := reader.feed(event):
                        yield text
        except ReportedFault:
            raise
        except (WorkerBroken, WorkerTimeout):
            if reader.finish is None:
                raise
        self.acts = bool(reader.acts)
        completion = reader.completion(query)
        if completion.tool_calls and not body.get("tools"):
            told = "the hosted conductor called tools that nobody offered"
            raise AnswerToolCalls(told, maybe_paid=True, usage=completion.usage)
        yield completion

    def _body(self, asked: _Asked) -> dict[str, Any]:
        if self._api == "responses":
            return responses_body(asked.model, asked.query, asked.sampling, asked.tools)
        provider = self._endpoint.provider
        return chat_body(provider, asked.model, asked.query, asked.sampling, stream=True, tools=asked.tools)

    def _parts(self) -> Sequence[AbstractAsyncContextManager[Any]]:
        return (self._endpoint,)


def _ignore(event: Event) -> None:
    """Do nothing: `run` has no listener."""
