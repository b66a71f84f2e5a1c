"""A worker that is one of AutoGen's model clients.

It owns how a client is asked and what of its result counts as an answer. It retries nothing;
a client's own retries are its owner's to turn off.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from hashlib import sha256
from typing import Any, Final, Literal, cast

from autogen_core import CancellationToken
from autogen_core.models import ChatCompletionClient, CreateResult
from autogen_core.tools import ToolSchema
from autogen_core.utils import schema_to_pydantic_model

from autogen_podium.cancelling import cancelling
from autogen_podium.faults import calling
from autogen_podium.messages import read_calls, read_usage, to_autogen
from podium.aio import events_of
from podium.errors import WorkerBroken
from podium.secrets import scrubbing
from podium.types import Completion, Constraint, Part, Sampling, Tools
from podium.workers import Card, Request, Worker
from podium.workers.openai.chat_response import AnswerReader

_THINKS: Final = ("<think>", "</think>")
"""How clients mark, in what they stream, what is not part of the content."""


class ModelWorker(Worker):
    """Has a model client of AutoGen's do the subtask.

    Args:
        client: who is asked.
        card: what the planner is told of it.
    """

    def __init__(self, client: ChatCompletionClient, *, card: Card) -> None:
        self.client = client
        self.card = card
        self.takes_tools = bool(client.model_info["function_calling"])
        self._is_openai = any(
            kind.__name__ == "BaseOpenAIChatCompletionClient" for kind in type(client).__mro__
        )

    def __repr__(self) -> str:
        return f"ModelWorker({self.card.name!r})"

    @property
    def max_tokens(self) -> int | None:
        """Most tokens of an answer where the request does not say, as the client was made."""
        most = settings(self.client).get("max_tokens")
        return most if isinstance(most, int) and most > 0 else None

    @property
    def constraint_kinds(self) -> frozenset[Literal["json", "grammar"]]:
        """A JSON schema, where the client's model takes one."""
        return frozenset({"json"} if self.client.model_info.get("structured_output") else ())

    @property
    def identity(self) -> str | None:
        """Whose answers these are, for a cache: the client's class and how it was made."""
        told = settings(self.client)
        if not told and not self.card.version:
            return None
        facts = sha256(repr(sorted(told.items(), key=str)).encode("utf-8", "surrogatepass")).hexdigest()
        return repr((type(self.client).__qualname__, self.card.name, self.card.version, facts))

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Ask the model: as a stream where somebody reads along, else for an answer in one piece."""
        token, name = CancellationToken(), self.card.name
        with scrubbing():
            with calling(name):
                asked: dict[str, Any] = {
                    "messages": to_autogen(request.messages),
                    "cancellation_token": token,
                }
                asked |= self._offered(request.tools) | self._options(request.sampling, stream=request.stream)
            if not request.stream:
                with calling(name):
                    result = await cancelling(token, self.client.create(**asked))
                yield self._completion(request, result, "stop")
                return
            thinks, ended = False, None
            async with aclosing(self._streamed(asked)) as pieces:
                while True:
                    with calling(name):
                        piece = await anext(pieces, None)
                    if piece is None:
                        break
                    if isinstance(piece, CreateResult):
                        ended = piece
                        continue
                    thinks = (thinks or piece.startswith(_THINKS[0])) and _THINKS[1] not in piece
                    if piece and not thinks and _THINKS[1] not in piece:
                        yield piece
            # A client says "unknown" where the stream ended and nobody had said why.
            yield self._completion(request, ended, "stop" if request.sampling.stop else None)

    def _streamed(self, asked: dict[str, Any]) -> AsyncGenerator[str | CreateResult, None]:
        """Stream in a task of its own: clients have tasks themselves, which bear to be cancelled but once."""

        async def read(emit: Callable[[str | CreateResult], None]) -> None:
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
        names = ("temperature", "top_p", "max_tokens", "seed")
        extra = {name: value for name in names if (value := getattr(sampling, name)) is not None}
        if sampling.stop:
            extra["stop"] = list(sampling.stop)
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

    def _completion(self, request: Request, result: CreateResult | None, otherwise: str | None) -> Completion:
        """Return the answer, by the rules that hold for every chat model."""
        if not isinstance(result, CreateResult):
            raise WorkerBroken(f"worker {self.card.name!r} ended without a result", maybe_paid=True)
        is_text = isinstance(result.content, str)
        message = {
            "content": result.content if is_text else "",
            "tool_calls": [] if is_text else list(read_calls(cast("Any", result.content))),
        }
        finish = {"unknown": otherwise, "function_calls": "tool_calls"}.get(
            result.finish_reason, result.finish_reason
        )
        used, usage = read_usage(result.usage), None
        if used is not None:
            usage = {"prompt_tokens": used.input_tokens, "completion_tokens": used.output_tokens}
        reader = AnswerReader()
        reader.feed({"choices": [{"message": message, "finish_reason": finish}], "usage": usage})
        return reader.completion(request.messages)


def settings(client: ChatCompletionClient) -> dict[str, Any]:
    """Return what a client sends with every request, its model among it; empty where it does not say."""
    told = getattr(client, "_create_args", None)
    return dict(told) if isinstance(told, dict) else {}


def _tool(tool: Part) -> ToolSchema:
    function = dict(tool["function"])
    if function.get("strict") is None:
        function.pop("strict", None)
    return cast("ToolSchema", function)


def _response_format(constraint: Constraint) -> dict[str, Any]:
    schema = {"name": "answer", "schema": constraint.value, "strict": True}
    return {"response_format": {"type": "json_schema", "json_schema": schema}}
