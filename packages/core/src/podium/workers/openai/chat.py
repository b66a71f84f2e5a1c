"""A worker that calls a chat model of an endpoint, and its requests in both APIs."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import fields, replace
from functools import partial
from typing import Any, Literal

from podium.errors import ConfigError, WorkerActs, WorkerBroken, WorkerRefused, WorkerTimeout
from podium.secrets import Boundary, scrubbing
from podium.types.messages import Completion, Constraint, Message, Part, Sampling, Tools
from podium.workers.openai.chat_response import AnswerReader, ResponsesReader
from podium.workers.openai.endpoint import Endpoint
from podium.workers.openai.errors import ReportedFault
from podium.workers.openai.models import with_known_facts
from podium.workers.openai.providers import ConstraintKind, Provider
from podium.workers.worker import Card, Request, Worker


def merge_sampling(defaults: Sampling, wanted: Sampling) -> Sampling:
    """Return `defaults`, with the values that `wanted` sets."""
    said = {f.name: value for f in fields(Sampling) if (value := getattr(wanted, f.name)) not in (None, ())}
    if defaults.extra and wanted.extra:
        said["extra"] = {**defaults.extra, **wanted.extra}
    return replace(defaults, **said)


def chat_body(
    provider: Provider,
    model: str,
    messages: Sequence[Message],
    sampling: Sampling,
    *,
    stream: bool,
    tools: Tools | None = None,
) -> dict[str, Any]:
    """Return the body of a request, without fields that the provider or the model does not support."""
    body: dict[str, Any] = {"model": model, "messages": [message.to_wire() for message in messages]}
    omitted = provider.omits(model)
    if stream:
        body["stream"] = True
        if "stream_options" not in omitted:
            body["stream_options"] = {"include_usage": True}
    if tools is not None:
        body["tools"] = list(tools.offered)
        if tools.choice is not None:
            body["tool_choice"] = tools.choice
    stop = list(sampling.stop) or None
    plain = _given(temperature=sampling.temperature, top_p=sampling.top_p, seed=sampling.seed, stop=stop)
    body.update({name: value for name, value in plain.items() if name not in omitted})
    if sampling.max_tokens is not None:
        body[provider.max_tokens] = sampling.max_tokens
    if sampling.effort is not None and provider.effort == "reasoning":
        body["reasoning"] = {"effort": sampling.effort}
    elif sampling.effort is not None and provider.effort is not None:
        body[provider.effort] = sampling.effort
    if (constraint := _constraint_of(sampling, tools)) is not None:
        asked = _constraint_fields(provider, constraint)
        body.update({} if tools is not None and "tools" in asked else asked)
    return {**(sampling.extra or {}), **body}


def _constraint_of(sampling: Sampling, tools: Tools | None) -> Constraint | None:
    return None if tools is not None and tools.is_forced else sampling.constraint


def _constraint_fields(provider: Provider, constraint: Constraint) -> dict[str, Any]:
    match provider.constraints.get(constraint.kind):
        case "structured_outputs":
            return {"structured_outputs": {constraint.kind: constraint.value}}
        case "response_format" if constraint.value == _ANY_OBJECT:
            return {"response_format": {"type": "json_object"}}
        case "response_format":
            return {"response_format": {"type": "json_schema", "json_schema": _named_schema(constraint)}}
        case "grammar":
            return {"grammar": constraint.value}
        case "tools" if isinstance(constraint.value, Mapping) and constraint.value.get("type") == "object":
            tool = {"type": "function", "function": {"name": _TOOL, "parameters": constraint.value}}
            return {"tools": [tool], "tool_choice": _FORCED}
        case _:
            return {}


_TOOL = "answer"
_FORCED = {"type": "function", "function": {"name": _TOOL}}
"""The choice of the tool whose arguments are the answer."""


def _of_tool(completion: Completion) -> Completion:
    """Return an answer with the arguments of the forced tool as its text."""
    match completion.tool_calls:
        case ({"function": {"name": name, "arguments": str(text)}},) if name == _TOOL:
            finish = completion.finish_reason
            return replace(
                completion,
                text=text,
                tool_calls=(),
                finish_reason="stop" if finish == "tool_calls" else finish,
            )
    return completion


def responses_body(
    model: str, messages: Sequence[Message], sampling: Sampling, *, stream: bool, tools: Tools | None = None
) -> dict[str, Any]:
    """Return the body of a request of the Responses API."""
    for name in ("stop", "seed"):
        if getattr(sampling, name):
            raise _unsupported(name)
    body = _given(
        model=model,
        input=_input_items(messages),
        stream=stream,
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        max_output_tokens=sampling.max_tokens,
    )
    if sampling.effort is not None:
        body["reasoning"] = {"effort": sampling.effort}
    if (constraint := _constraint_of(sampling, tools)) is not None:
        body["text"] = {"format": _format(constraint)}
    if tools is not None:
        body["tools"] = [_flat(tool) for tool in tools.offered]
        if tools.choice is not None:
            body["tool_choice"] = tools.choice if isinstance(tools.choice, str) else _flat(tools.choice)
    return {**(sampling.extra or {}), **body}


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _unsupported(what: str) -> WorkerRefused:
    return WorkerRefused(f"the API `responses` does not support {what}: leave it out, or set api to `chat`")


def _input_items(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return chat messages as input items."""
    items: list[dict[str, Any]] = []
    for message in messages:
        if message.role == "tool":
            answered = message.tool_call_id or ""
            items.append({"type": "function_call_output", "call_id": answered, "output": message.text})
            continue
        if message.content:
            items.append({"role": message.role, "content": _content(message)})
        for call in message.tool_calls:
            function = call.get("function", {})
            items.append(
                {
                    "type": "function_call",
                    "call_id": call.get("id", ""),
                    "name": function.get("name", ""),
                    "arguments": function.get("arguments", ""),
                }
            )
    return items


def _content(message: Message) -> str | list[Part]:
    if isinstance(message.content, str):
        return message.content
    return [_part(part, message.role) for part in message.content]


def _part(part: Part, role: str) -> Part:
    if part.get("type") == "text":
        return {"type": "output_text" if role == "assistant" else "input_text", "text": part["text"]}
    if part.get("type") == "image_url":
        image = part["image_url"]
        return {"type": "input_image", "image_url": image["url"] if isinstance(image, Mapping) else image}
    return part


def _flat(tool: Part) -> Part:
    """Return a tool or a tool choice in the form of the API: with the function's fields at the top level."""
    return {"type": "function", **tool["function"]} if "function" in tool else tool


def _format(constraint: Constraint) -> Part:
    if constraint.kind != "json":
        raise _unsupported("a grammar")
    if constraint.value == _ANY_OBJECT:
        return {"type": "json_object"}
    return {"type": "json_schema", **_named_schema(constraint)}


def _named_schema(constraint: Constraint) -> dict[str, Any]:
    return {"name": "answer", "schema": constraint.value, "strict": is_strict(constraint.value)}


_ANY_OBJECT = {"type": "object"}
"""The JSON schema of any object, for which APIs have a mode of their own."""


def is_strict(schema: object) -> bool:
    """Return whether OpenAI's strict mode accepts a schema: all objects are closed and whole."""
    if isinstance(schema, list):
        return all(map(is_strict, schema))
    if not isinstance(schema, dict):
        return True
    if isinstance(properties := schema.get("properties"), dict):
        required = schema.get("required")
        is_whole = isinstance(required, list) and set(map(str, required)) == set(properties)
        if schema.get("additionalProperties") is not False or not is_whole:
            return False
        return all(map(is_strict, properties.values())) and is_strict(schema.get("$defs", {}))
    return schema.get("type") != "object" and all(map(is_strict, schema.values()))


Api = Literal["chat", "responses"]
"""The OpenAI API to use: Chat Completions or Responses."""
_PATHS: dict[Api, str] = {"chat": "/chat/completions", "responses": "/responses"}
_NO_ACTION = {"X-Podium-Action": "false"}
"""Sent with a step that must not act. A server of Podium whose model acts then refuses the call, before it
does anything; other servers ignore the header."""
_READING = Boundary("reading the answer", partial(WorkerBroken, maybe_paid=True), is_library=True)
"""Answers with unexpected types are errors of the server."""


class ChatWorker(Worker):
    """A model of an OpenAI-compatible endpoint.

    Args:
        model: the name of the model on the server.
        endpoint: the server. Workers of the same server share an endpoint and its connections.
        card: the worker's card for planners; by default with the model's name. A missing price or context
            window is looked up if the endpoint's URL belongs to a known provider.
        sampling: defaults for requests.
        api: the API of the server to use.
    """

    takes_tools = True

    def __init__(
        self,
        model: str,
        *,
        endpoint: Endpoint,
        card: Card | None = None,
        sampling: Sampling = Sampling(),
        api: Api = "chat",
    ) -> None:
        if not isinstance(endpoint, Endpoint):
            raise ConfigError(  # without the URL, which may have a key
                f"endpoint is a {type(endpoint).__name__}: write endpoint=Endpoint(url, api_key=...)"
            )
        self.model = model
        self.endpoint = endpoint
        self.card = with_known_facts(card or Card(name=model), endpoint.base_url, model)
        self.sampling = sampling
        self.api = api
        self.acts = endpoint.provider.acts
        self.takes_extra = api == "chat"

    def __repr__(self) -> str:
        return f"ChatWorker({self.model!r}, endpoint={self.endpoint!r})"

    @property
    def max_tokens(self) -> int | None:
        """Maximum tokens of an answer if the request has no limit; `None` sends no limit."""
        return self.sampling.max_tokens

    @property
    def constraint_kinds(self) -> frozenset[ConstraintKind]:
        """The kinds of constraint that the server supports; requests leave out other kinds."""
        return frozenset(self.endpoint.provider.constraints if self.api == "chat" else ("json",))

    @property
    def identity(self) -> str:
        """The identity of the worker for a cache: the model, its server, the default sampling, `accept`."""
        card, endpoint = self.card, self.endpoint
        server = (endpoint.base_url, endpoint.provider.name)
        accept = () if card.accept is None else (card.accept,)
        return repr((self.api, card.name, card.version, self.model, server, self.sampling, *accept))

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Call the model, with a streamed response if the request asks for it.

        Raises:
            WorkerActs: the model is a conductor of another Podium, and may act; `acts` is now true.
            WorkerError: the call failed.
        """
        try:
            async with aclosing(self._call(request)) as pieces:
                async for piece in pieces:
                    yield piece
        except WorkerActs:
            self.acts = True
            raise
        except asyncio.CancelledError as cancelled:
            if getattr(cancelled, "is_unsent", False):  # so that this call costs nothing
                cancelled.unsent = request  # type: ignore[attr-defined]
            raise

    async def _call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        headers = {} if self.acts or request.caller is None else _NO_ACTION
        path, deadline = _PATHS[self.api], request.deadline
        with scrubbing():
            body = self._body(request)
            answer = self._reader(request)
            is_forced = request.tools is None and body.get("tool_choice") == _FORCED
            if not request.stream:
                whole = await self.endpoint.ask(path, body, deadline=deadline, headers=headers)
                with _READING:
                    answer.feed(whole)
            else:
                events = self.endpoint.listen(path, body, deadline=deadline, headers=headers)
                try:
                    async with aclosing(events):
                        async for event in events:
                            with _READING:
                                text = answer.feed(event)
                            if text and not is_forced:
                                yield text
                except ReportedFault:
                    raise
                except (WorkerBroken, WorkerTimeout):
                    if answer.finish is None:
                        raise
            if answer.acts is not None:
                self.acts = answer.acts
            with _READING:
                completion = answer.completion(request.messages)
            yield _of_tool(completion) if is_forced else completion

    def _reader(self, request: Request) -> AnswerReader:
        if self.api == "responses":
            return ResponsesReader()
        reasons = self.sampling.effort is not None or request.sampling.effort is not None
        keeps = request.sampling.extra is not None
        return AnswerReader(is_bounding=not reasons, keeps=keeps)  # reasoning may be hidden

    def _body(self, request: Request) -> dict[str, Any]:
        sampling = merge_sampling(self.sampling, request.sampling)
        messages, stream, tools = request.messages, request.stream, request.tools
        if self.api == "responses":
            return responses_body(self.model, messages, sampling, stream=stream, tools=tools)
        return chat_body(self.endpoint.provider, self.model, messages, sampling, stream=stream, tools=tools)

    def _parts(self) -> Sequence[AbstractAsyncContextManager[Any]]:
        return (self.endpoint,)
