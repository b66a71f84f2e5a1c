"""A worker that calls an AutoGen model client.

Podium retries failed calls, so turn off the client's own retries.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from hashlib import sha256
from typing import Any, Final, Literal, cast

from autogen_core import CancellationToken
from autogen_core.models import ChatCompletionClient, CreateResult, LLMMessage, SystemMessage
from autogen_core.tools import ToolSchema
from autogen_core.utils import schema_to_pydantic_model

from autogen_podium.cancellation import cancelling
from autogen_podium.cards import create_args, takes_system_messages
from autogen_podium.messages import read_calls, read_usage, to_autogen
from autogen_podium.workers.refusals import hearing, is_openai
from podium.aio.sync import events_of
from podium.errors import WorkerBroken
from podium.hosts import read_completion, sampling_arguments, worker_errors
from podium.secrets import scrubbing
from podium.types import Completion, Constraint, Part, Sampling, Tools
from podium.types.messages import storable
from podium.workers import Card, Request, Worker

_SEVERAL: Final = 2
_THINKS: Final = ("<think>", "</think>")
"""How clients mark, in a stream, text that is not part of the answer."""


class ModelWorker(Worker):
    """Calls an AutoGen model client.

    Args:
        client: the model client.
        card: the worker's card.
    """

    def __init__(self, client: ChatCompletionClient, *, card: Card) -> None:
        self.client = client
        self.card = card
        self.takes_tools = bool(client.model_info["function_calling"])
        self._is_openai = is_openai(client)

    def __repr__(self) -> str:
        return f"ModelWorker({self.card.name!r})"

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
        token, name, refusals = CancellationToken(), self.card.name, list[str]()
        with scrubbing():
            with worker_errors(name):
                asked: dict[str, Any] = {
                    "messages": self._messages(request),
                    "cancellation_token": token,
                }
                asked |= self._offered(request.tools) | self._options(request.sampling, stream=request.stream)
            if not request.stream:
                with worker_errors(name), hearing(self.client, refusals):
                    result = await cancelling(token, self.client.create(**asked))
                yield self._completion(request, result, "stop", refusals)
                return
            thinks, ended, said = False, None, ""
            async with aclosing(self._streamed(asked, refusals)) as pieces:
                while True:
                    with worker_errors(name):
                        piece = await anext(pieces, None)
                    if piece is None:
                        break
                    if isinstance(piece, CreateResult):
                        ended = piece
                        continue
                    thinks = (thinks or piece.startswith(_THINKS[0])) and _THINKS[1] not in piece
                    if piece and not thinks and _THINKS[1] not in piece:
                        said += piece
                        yield piece
            # A client reports "unknown" if a stream ended without a finish reason.
            otherwise = "stop" if request.sampling.stop else None
            yield self._completion(request, ended, otherwise, refusals, said)

    def _messages(self, request: Request) -> list[LLMMessage]:
        """Return the messages, with one system message if the model accepts only one."""
        messages = to_autogen(request.messages)
        system = [message.content for message in messages if isinstance(message, SystemMessage)]
        if len(system) < _SEVERAL or takes_system_messages(self.client):
            return messages
        rest = [message for message in messages if not isinstance(message, SystemMessage)]
        return [SystemMessage(content="\n".join(system)), *rest]

    def _streamed(
        self, asked: dict[str, Any], refusals: list[str]
    ) -> AsyncGenerator[str | CreateResult, None]:
        """Stream in a separate task: a second cancellation would interrupt the client's own clean-up."""

        async def read(emit: Callable[[str | CreateResult], None]) -> None:
            with hearing(self.client, refusals):
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
        refusals: list[str],
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
            refusal=storable("".join(refusals)) or None,
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
