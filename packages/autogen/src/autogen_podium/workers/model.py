"""A worker that calls an AutoGen model client, and the answers of the model clients inside agents.

Podium retries failed calls, so turn off the client's own retries.
"""

from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from hashlib import sha256
from typing import Any, Final, Literal, cast

from autogen_agentchat.base import ChatAgent
from autogen_core import CancellationToken
from autogen_core.models import (
    ChatCompletionClient,
    CreateResult,
    LLMMessage,
    SystemMessage,
)
from autogen_core.tools import ToolSchema
from autogen_core.utils import schema_to_pydantic_model

from autogen_podium.messages import read_calls, read_usage, to_autogen
from autogen_podium.turns import cancelling
from autogen_podium.workers.objects import create_args, members_of
from podium.aio.sync import events_of
from podium.errors import WorkerBroken
from podium.hosts import read_completion, sampling_arguments, worker_errors
from podium.types import Completion, Constraint, Part, Sampling, Tools
from podium.usage import Usage
from podium.workers import Card, Request, Worker

_SEVERAL: Final = 2
_CLIENT: Final = "_model_client"
_OPENAI: Final = "BaseOpenAIChatCompletionClient"
"""AutoGen's class for OpenAI's SDK, which may not be installed."""
_THINKS: Final = ("<think>", "</think>")
"""How clients mark, in a stream, text that is not part of the answer."""


class ModelWorker(Worker):
    """Calls an AutoGen model client."""

    def __init__(self, client: ChatCompletionClient, *, card: Card) -> None:
        self.client = client
        self.card = card
        self.takes_tools = bool(client.model_info["function_calling"])
        self._is_openai = any(each.__name__ == _OPENAI for each in type(client).__mro__)

    @property
    def max_tokens(self) -> int | None:
        """The client's maximum tokens of an answer, if the request has none."""
        most = create_args(self.client).get("max_tokens")
        return most if isinstance(most, int) and most > 0 else None

    @property
    def constraint_kinds(self) -> frozenset[Literal["json", "grammar"]]:
        """JSON schemas, if the client's model accepts them."""
        return frozenset({"json"} if self.client.model_info.get("structured_output") else ())

    @property
    def identity(self) -> str | None:
        """The identity of the client for a cache: its class and its arguments."""
        told = create_args(self.client)
        if not told and not self.card.version:
            return None
        facts = sha256(repr(sorted(told.items(), key=str)).encode("utf-8", "surrogatepass")).hexdigest()
        return repr((type(self.client).__qualname__, self.card.name, self.card.version, facts))

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Call the model; with `request.stream`, as a stream."""
        token, thinks, ended, said = CancellationToken(), False, None, ""
        with worker_errors(self.card.name):
            asked: dict[str, Any] = {"messages": self._messages(request), "cancellation_token": token}
            asked |= self._offered(request.tools) | self._options(request.sampling, stream=request.stream)
            async with aclosing(self._pieces(request, asked, token)) as pieces:
                async for piece in pieces:
                    if isinstance(piece, CreateResult):
                        ended = piece
                        continue
                    thinks = (thinks or piece.startswith(_THINKS[0])) and _THINKS[1] not in piece
                    if piece and not thinks and _THINKS[1] not in piece:
                        said += piece
                        yield piece
            # A client reports "unknown" if a stream ended without a finish reason.
            otherwise = "stop" if request.sampling.stop or not request.stream else None
            yield self._completion(request, ended, otherwise, said)

    def _messages(self, request: Request) -> list[LLMMessage]:
        """Return the messages, with one system message if the model accepts only one."""
        messages = to_autogen(request.messages)
        system = [message.content for message in messages if isinstance(message, SystemMessage)]
        if len(system) < _SEVERAL or self.client.model_info.get("multiple_system_messages"):
            return messages
        rest = [message for message in messages if not isinstance(message, SystemMessage)]
        return [SystemMessage(content="\n".join(system)), *rest]

    def _pieces(
        self, request: Request, asked: dict[str, Any], token: CancellationToken
    ) -> AsyncGenerator[str | CreateResult, None]:
        """Call in a separate task: a second cancellation would interrupt the client's own clean-up."""

        async def read(emit: Callable[[str | CreateResult], None]) -> None:
            if not request.stream:
                emit(await cancelling(token, self.client.create(**asked)))
                return
            async for piece in self.client.create_stream(**asked):
                emit(piece)

        return events_of(read)

    def _offered(self, tools: Tools | None) -> dict[str, Any]:
        if tools is None:
            return {}
        offered = [_tool(tool) for tool in tools.offered]
        if tools.choice is None:
            return {"tools": offered}
        if isinstance(tools.choice, str):
            return {"tools": offered, "tool_choice": tools.choice}
        named = tools.choice["function"]["name"]
        return {"tools": [t for t in offered if t["name"] == named], "tool_choice": "required"}

    def _options(self, sampling: Sampling, *, stream: bool) -> dict[str, Any]:
        extra = sampling_arguments(sampling)
        if sampling.effort is not None and self._is_openai:
            extra["reasoning_effort"] = sampling.effort
        if stream and self._is_openai:
            extra["stream_options"] = {"include_usage": True}
        constraint = sampling.constraint
        if constraint is None or constraint.kind not in self.constraint_kinds:
            return {"extra_create_args": extra}
        if self._is_openai:
            return {"extra_create_args": extra | _response_format(constraint)}
        form = schema_to_pydantic_model(dict(cast("Any", constraint.value)))
        return {"extra_create_args": extra, "json_output": form}

    def _completion(
        self,
        request: Request,
        result: CreateResult | None,
        otherwise: str | None,
        said: str = "",
    ) -> Completion:
        """Return the answer, by the same rules as for every chat model.

        A result with tool calls has no text: it is what was streamed, or the thought.
        """
        if not isinstance(result, CreateResult):
            raise WorkerBroken(f"worker {self.card.name!r} ended without a result", maybe_paid=True)
        content = result.content
        finish = {"unknown": otherwise, "function_calls": "tool_calls"}
        return read_completion(
            request.messages,
            text=content if isinstance(content, str) else said or result.thought or "",
            finish_reason=finish.get(result.finish_reason, result.finish_reason),
            tool_calls=() if isinstance(content, str) else read_calls(content),
            usage=read_usage(result.usage),
        )


def _tool(tool: Part) -> ToolSchema:
    function = dict(tool["function"])
    if function.get("strict") is None:
        function.pop("strict", None)
    return cast("ToolSchema", function)


def _response_format(constraint: Constraint) -> dict[str, Any]:
    schema = {"name": "answer", "schema": constraint.value, "strict": True}
    return {"response_format": {"type": "json_schema", "json_schema": schema}}


class Finishes:
    """The texts that models wrote during one step, and their finish reasons."""

    def __init__(self) -> None:
        self._ended: list[tuple[str, str | None]] = []
        self.managers_usage: Usage | None = Usage()
        """Tokens of the managers of teams, which are on no message; `None` if unknown."""
        self.last_error: Exception | None = None
        """The latest exception of a model client."""

    def add(self, result: CreateResult, *, unknown: str | None, is_managers: bool) -> None:
        """Add a result; `unknown` is its finish reason if the client reports `unknown`."""
        if is_managers:
            used = read_usage(result.usage)
            known = self.managers_usage
            self.managers_usage = None if used is None or known is None else known + used
        if isinstance(result.content, str):
            reason = unknown if result.finish_reason == "unknown" else result.finish_reason
            self._ended.append((result.content, reason))

    def reason_of(self, text: str) -> str | None:
        """Return the finish reason of the latest answer with this text; `stop` if no model wrote it."""
        return next((reason for wrote, reason in reversed(self._ended) if wrote == text), "stop")


@contextmanager
def watching(agent: object, finishes: Finishes) -> Iterator[None]:
    """Watch the model clients of an agent, or of a team's agents and managers, in the block."""
    held: list[tuple[Any, ChatCompletionClient]] = []
    try:
        for each in members_of(agent):
            client: Any = vars(each).get(_CLIENT)
            if isinstance(client, ChatCompletionClient | _WatchedClient):
                inner = client._client if isinstance(client, _WatchedClient) else client  # noqa: SLF001 - the class below
                held.append((each, inner))
                is_managers = not isinstance(each, ChatAgent)
                setattr(each, _CLIENT, _WatchedClient(client, finishes, is_managers=is_managers))
        yield
    finally:
        for each, client in held:
            setattr(each, _CLIENT, client)


class _WatchedClient:
    """Calls another client, and records the finish reasons and the errors of its answers."""

    def __init__(self, client: Any, finishes: Finishes, *, is_managers: bool) -> None:
        self._client = client
        self._finishes = finishes
        self._is_managers = is_managers

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def create(self, messages: Sequence[LLMMessage], **options: Any) -> CreateResult:
        with self._noting_errors():
            result: CreateResult = await self._client.create(messages, **options)
        self._finishes.add(result, unknown="stop", is_managers=self._is_managers)
        return result

    async def create_stream(
        self, messages: Sequence[LLMMessage], **options: Any
    ) -> AsyncGenerator[str | CreateResult, None]:
        # A client reports "unknown" if a stream ended without a finish reason.
        unknown = "stop" if create_args(self._client).get("stop") else None
        with self._noting_errors():
            async with aclosing(self._client.create_stream(messages, **options)) as pieces:
                async for piece in pieces:
                    if isinstance(piece, CreateResult):
                        self._finishes.add(piece, unknown=unknown, is_managers=self._is_managers)
                    yield piece

    @contextmanager
    def _noting_errors(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # raised again: only noted, because a team hides what ended it
            self._finishes.last_error = error
            raise
