"""Workers that call Agent Framework's agents and chat clients.

They do not retry. Turn off a client's own retries.
"""

from abc import abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, Literal, cast

from agent_framework import (
    AgentResponseUpdate,
    ChatResponseUpdate,
    FunctionInvocationContext,
    FunctionMiddleware,
    FunctionTool,
    RawAgent,
    ResponseStream,
    SupportsAgentRun,
    SupportsChatGetResponse,
)

from autogen_podium.agent_framework.acts import acts_first
from autogen_podium.agent_framework.messages import to_framework
from autogen_podium.agent_framework.responses import Response, is_openai, read_response
from podium.aio.sync import events_of
from podium.hosts import sampling_arguments, worker_errors
from podium.types import Completion, Part, Sampling, Tools
from podium.workers import Card, Request, Worker

_Stream = ResponseStream[AgentResponseUpdate | ChatResponseUpdate, Response]


class FrameworkWorker(Worker):
    """Calls an Agent Framework object and reads its response.

    Args:
        client: the chat client behind the object; `None` if unknown.
        card: the worker's card.
    """

    def __init__(self, client: object, *, card: Card) -> None:
        self._client = client
        self.card = card

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.card.name!r})"

    @abstractmethod
    def ask(
        self, request: Request, noted: "FunctionsNoted", *, stream: bool
    ) -> Awaitable[Response] | _Stream:
        """Return the object's return value for a request; `noted` is told when a function is called."""

    @property
    def acts_first(self) -> bool:
        """Whether a call may change something before a model has answered."""
        return True

    @property
    @abstractmethod
    def has_one_text(self) -> bool:
        """Whether the concatenated text of all updates is the answer."""

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Call the object; with `request.stream`, as a stream if `has_one_text`."""
        name, sent = self.card.name, list[str]()
        response: Response | None = None
        noted = FunctionsNoted()

        def has_run() -> bool:
            return self.acts and (noted.is_called or self.acts_first)

        if not request.stream or not self.has_one_text:
            with worker_errors(name, has_run=has_run):
                response = await cast("Awaitable[Response]", self.ask(request, noted, stream=False))
        else:
            async with aclosing(self._streamed(request, noted)) as pieces:
                while True:
                    with worker_errors(name, has_run=has_run):
                        piece = await anext(pieces, None)
                    if piece is None:
                        break
                    if not isinstance(piece, str):
                        response = piece
                    else:
                        sent.append(piece)
                        yield piece
        text = "".join(sent)
        completion = read_response(request, response, text, worker=name, client=self._client)
        if request.stream and not text and completion.text:
            yield completion.text
        yield completion

    def _streamed(self, request: Request, noted: "FunctionsNoted") -> AsyncGenerator[str | Response, None]:
        """Stream in a separate task: a second cancellation would interrupt the client's own clean-up."""

        async def read(emit: Callable[[str | Response], None]) -> None:
            stream = cast("_Stream", self.ask(request, noted, stream=True))
            async with stream:
                async for update in stream:
                    if update.text and update.role != "tool":
                        emit(update.text)
                emit(await stream.get_final_response())

        return events_of(read)


class FunctionsNoted(FunctionMiddleware):
    """Notes whether an agent has called a function."""

    def __init__(self) -> None:
        self.is_called = False

    async def process(
        self, context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]
    ) -> None:
        """Note the call."""
        del context
        self.is_called = True
        await call_next()


class AgentWorker(FrameworkWorker):
    """Runs an agent without a session: each run sees only its step's input, and steps run in parallel.

    Args:
        agent: the agent.
        card: the worker's card.
    """

    def __init__(self, agent: SupportsAgentRun, *, card: Card) -> None:
        super().__init__(getattr(agent, "client", None), card=card)
        self.agent = agent

    @property
    def has_one_text(self) -> bool:
        """False if tool calls may separate the agent's texts."""
        agent = self.agent
        if not isinstance(agent, RawAgent):
            return True
        return not (agent.default_options.get("tools") or agent.mcp_tools or agent.context_providers)

    @property
    def acts_first(self) -> bool:
        """Whether the agent runs unknown code before its model answers."""
        return acts_first(self.agent)

    def ask(self, request: Request, noted: FunctionsNoted, *, stream: bool) -> Awaitable[Response] | _Stream:
        """Run the agent."""
        run: Any = self.agent.run
        others = {} if self.acts_first else {"middleware": [noted]}
        asked = run(to_framework(request.messages), stream=stream, **others)
        return cast("Awaitable[Response] | _Stream", asked)


class ClientWorker(FrameworkWorker):
    """Calls a chat client. Tools are offered as declarations; the caller of the run calls them.

    Args:
        client: the chat client.
        card: the worker's card.
    """

    takes_tools = True

    def __init__(self, client: SupportsChatGetResponse[Any], *, card: Card) -> None:
        super().__init__(client, card=card)
        self.client = client

    @property
    def has_one_text(self) -> bool:
        """True: no tool is called between texts."""
        return True

    @property
    def constraint_kinds(self) -> frozenset[Literal["json", "grammar"]]:
        """JSON schemas, for clients of OpenAI's SDK; other clients may ignore them."""
        return frozenset({"json"} if is_openai(self.client) else ())

    def ask(self, request: Request, noted: FunctionsNoted, *, stream: bool) -> Awaitable[Response] | _Stream:
        """Call the client."""
        del noted  # the caller of the run calls the tools
        options = self._options(request.sampling) | _offered(request.tools)
        get: Any = self.client.get_response
        asked = get(to_framework(request.messages), stream=stream, options=options)
        return cast("Awaitable[Response] | _Stream", asked)

    def _options(self, sampling: Sampling) -> dict[str, Any]:
        options = sampling_arguments(sampling)
        if sampling.effort is not None and is_openai(self.client):
            options["reasoning_effort"] = sampling.effort
        if sampling.constraint is not None and sampling.constraint.kind == "json":
            schema = {"name": "answer", "schema": sampling.constraint.value, "strict": True}
            options["response_format"] = {"type": "json_schema", "json_schema": schema}
        return options


def _offered(tools: Tools | None) -> dict[str, Any]:
    if tools is None or not tools.offered:
        return {}
    offered = [_tool(tool) for tool in tools.offered]
    choice: object = tools.choice
    if isinstance(tools.choice, dict):
        choice = {"mode": "required", "required_function_name": tools.choice["function"]["name"]}
    return {"tools": offered} | ({} if choice is None else {"tool_choice": choice})


def _tool(tool: Part) -> FunctionTool:
    function = tool["function"]
    return FunctionTool(
        name=function["name"],
        description=function.get("description") or "",
        func=None,
        input_model=function.get("parameters") or {"type": "object", "properties": {}},
    )
