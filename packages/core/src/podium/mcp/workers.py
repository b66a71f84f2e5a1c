"""Workers for the tools and resources of an MCP server."""

import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from podium.aio import run_sync
from podium.errors import ConfigError, ToolFailed
from podium.hosts import ToolWorker, encoded_size, hints_act, text_completion
from podium.mcp.connection import SharedConnection
from podium.mcp.sdk import Client, Transport, sdk_version
from podium.secrets import scrub
from podium.types import Completion
from podium.types.outcome import inner_problem
from podium.workers import Card, Price
from podium.workers.openai.errors import Origin

_DONE = "The tool succeeded and returned nothing."


def tool_completion(result: Mapping[str, Any], worker: str) -> Completion:
    """Return the result of a tool.

    Args:
        result: a `CallToolResult` as JSON data.
        worker: the worker's name.

    Raises:
        ToolFailed: the tool failed.
        WorkerFailed: the result has parts, but none of them is text.
    """
    blocks = result.get("content") or []
    texts, gaps = _read(blocks)
    if result.get("isError"):
        said = Origin(worker).quote("\n".join(texts)) or "it gave no reason"
        raise ToolFailed(f"tool {worker!r} failed: {said}", maybe_paid=True)
    structured, facts = result.get("structuredContent"), (result.get("_meta") or {}).get("podium")
    if structured is not None and facts is None and not _is_told(structured, texts):
        texts.append(json.dumps(structured, ensure_ascii=False))
    found = text_completion(texts, gaps, worker) or Completion(_DONE)
    problem = inner_problem(facts)
    return found if problem is None else replace(found, missing=problem.message)


def resource_completion(result: Mapping[str, Any], worker: str) -> Completion:
    """Return the contents of a resource.

    Args:
        result: a `ReadResourceResult` as JSON data.
        worker: the worker's name.

    Raises:
        WorkerFailed: the contents are not text.
    """
    texts, gaps = _read({"type": "resource", "resource": part} for part in result.get("contents") or [])
    return text_completion(texts, gaps, worker) or Completion("The resource is empty.")


def _read(blocks: Iterable[Mapping[str, Any]]) -> tuple[list[str], list[str]]:
    """Return the texts of content blocks, and descriptions of the blocks without text."""
    texts: list[str] = []
    gaps: list[str] = []
    for block in blocks:
        match block:
            case {"type": "text", "text": str(text)}:
                texts.append(text)
            case {"type": "resource", "resource": {"text": str(text)}}:
                texts.append(text)
            case {"type": "resource", "resource": {"blob": str(data), "uri": uri, **rest}}:
                gaps.append(f"the resource {uri} ({rest.get('mimeType') or 'binary'}, {encoded_size(data)})")
            case {"type": "resource_link", "uri": uri}:
                texts.append(f"{block.get('title') or block.get('name') or 'resource'}: {uri}")
            case {"type": "image" | "audio" as kind, "data": str(data)}:
                gaps.append(f"an {kind} ({block.get('mimeType') or 'of unknown type'}, {encoded_size(data)})")
            case _:
                gaps.append(f"content of type {block.get('type')!r}")
    return texts, gaps


def _is_told(structured: object, texts: list[str]) -> bool:
    """Return whether the texts already contain the structured content, as MCP recommends.

    If the value is not an object, SDKs put it under the key `result`. They write each item of a list as a
    separate text.
    """
    value = structured
    if isinstance(structured, dict) and structured.keys() == {"result"}:
        value = structured["result"]
    told = [_parsed(text) for text in texts]
    return any(each in (structured, value) for each in (told, texts, *told, *texts))


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


_VARIABLE = re.compile(r"\{(\w+)\}")
_NO_ARGUMENTS: Mapping[str, Any] = {"type": "object", "properties": {}}


class McpTool(ToolWorker):
    """Calls a tool of a server.

    Args:
        server: the server.
        tool: the tool, an item of `tools/list`.
        card: the worker's card for the planner; the arguments are added to its description.

    Raises:
        ConfigError: the tool's arguments have an invalid JSON schema.
    """

    def __init__(self, server: SharedConnection, tool: Mapping[str, Any], *, card: Card) -> None:
        super().__init__(_schema(tool.get("inputSchema") or _NO_ARGUMENTS), self._call_tool, card=card)
        self._server = server
        self._tool = str(tool["name"])
        self.acts = tool_acts(tool)

    async def _call_tool(self, arguments: dict[str, Any]) -> Completion:
        result = await self._server.request(lambda client: client.call_tool(self._tool, arguments))
        return tool_completion(result, self.card.name)

    def _parts(self) -> Sequence[AbstractAsyncContextManager[Any]]:
        return (self._server,)


class McpResource(ToolWorker):
    """Reads a resource of a server, whose URI may be a template.

    Args:
        server: the server.
        uri: the resource's URI; each `{variable}` in it is an argument of the worker.
        card: the worker's card for the planner.
    """

    acts = False

    def __init__(self, server: SharedConnection, uri: str, *, card: Card) -> None:
        names = _VARIABLE.findall(uri)
        schema = {"properties": {name: {"type": "string"} for name in names}, "required": names}
        super().__init__(schema, self._read_resource, card=card)
        self._server = server
        self._uri = uri

    async def _read_resource(self, arguments: dict[str, Any]) -> Completion:
        uri = _VARIABLE.sub(lambda found: quote(str(arguments[found[1]]), safe=""), self._uri)
        result = await self._server.request(lambda client: client.read_resource(uri))
        return resource_completion(result, self.card.name)

    def _parts(self) -> Sequence[AbstractAsyncContextManager[Any]]:
        return (self._server,)


def tool_acts(tool: Mapping[str, Any]) -> bool:
    """Return whether a call of the tool is an action.

    It is not if the tool's annotations say that it only reads, or that a second call changes nothing more. A
    tool without annotations acts, which is the default of MCP.
    """
    return hints_act(tool.get("annotations") or {})


def has_simple_variables(uri_template: str) -> bool:
    """Return whether a URI template has only expressions of the form `{variable}`."""
    return "{" not in _VARIABLE.sub("", uri_template)


def tool_description(tool: Mapping[str, Any]) -> str:
    """Return the description of a tool and of its arguments, on one line."""
    said = tool.get("description") or tool.get("title") or tool["name"]
    described = [
        f'"{name}": {argument["description"]}'
        for name, argument in _properties(tool.get("inputSchema") or {}).items()
        if isinstance(argument, dict) and argument.get("description")
    ]
    told = f"{said} {'Arguments: ' if described else ''}{'; '.join(described)}"
    return " ".join(told.split())


def resource_description(resource: Mapping[str, Any]) -> str:
    """Return the description of a resource or template, on one line."""
    said = resource.get("description") or resource.get("title") or resource.get("name")
    uri = resource.get("uri") or resource.get("uriTemplate")
    return " ".join(f"Reads {uri}: {said}".split())


def _properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    found = schema.get("properties")
    return found if isinstance(found, Mapping) else {}


def _schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema with all properties as objects, because `true` and `false` are also schemas."""
    plain = {
        name: value if isinstance(value, Mapping) else {} if value is True else {"not": {}}
        for name, value in _properties(schema).items()
    }
    return {**schema, "properties": plain}


@dataclass(frozen=True, slots=True)
class Offer:
    """A tool or a resource of a server."""

    kind: str
    """`tool`, `resource` or `template` (of resources)."""
    name: str
    """Its name on the server."""
    description: str
    """Its description, on one line."""
    uri: str = ""
    """The URI of a resource or a template; empty for a tool."""
    acts: bool = False
    """Whether a call of it is an action; see `Worker.acts`."""


class McpServer(SharedConnection):
    """A server whose tools and resources are workers.

    The workers share one session per event loop. The first call opens the session. The session stays open
    while a conductor or a worker is entered; if the server dies, the next call opens a new session. If a call
    is cancelled or times out, it is also cancelled on the server.

    Args:
        name: the prefix of the workers' names: the tool `search` of the server `files` is `files.search`.
        transport: the transport to the server.
        seconds: timeout for the answer to one call.
        labels: labels of all its workers, for the rules of a policy.
        price: the price of all its workers: `FREE`, or `None` if the price is unknown.

    Raises:
        ConfigError: the name is empty, or the SDK is not installed.
    """

    def __init__(
        self,
        name: str,
        transport: Transport,
        *,
        seconds: float = 120.0,
        labels: Iterable[str] = (),
        price: Price | None = None,
    ) -> None:
        sdk_version()
        if not seconds > 0:
            raise ConfigError(f"seconds of MCP server {name!r} is {seconds!r}: it must be above 0")
        super().__init__(name, transport, seconds)
        self._facts = Card(name=name, labels=frozenset(labels), price=price)

    def __repr__(self) -> str:
        return f"McpServer({self.name!r}, {scrub(repr(self.transport))})"

    async def offers(self) -> list[Offer]:
        """Return the server's tools, then its resources and templates.

        Raises:
            WorkerError: see `request`.
        """
        async with self:
            tools = await self._listed("tools", Client.tools)
            resources = await self._listed("resources", Client.resources)
            templates = await self._listed("resources", Client.templates)
        return [
            *(Offer("tool", t["name"], tool_description(t), "", acts=tool_acts(t)) for t in tools),
            *(Offer("resource", r["name"], resource_description(r), r["uri"]) for r in resources),
            *(Offer("template", r["name"], resource_description(r), r["uriTemplate"]) for r in templates),
        ]

    async def workers(
        self, *, tools: Sequence[str] | None = None, resources: Sequence[str] = ()
    ) -> list[ToolWorker]:
        """Return a worker for each named tool and resource, with the server's current descriptions.

        Args:
            tools: names of the tools; `None` for all tools.
            resources: names or URIs of resources and templates; the variables of a template are the arguments
                of its worker.

        Raises:
            ConfigError: the server has no tool or resource of this name, or its schema or template is not
                supported.
            WorkerError: see `request`.
        """
        async with self:
            listed = await self._listed("tools", Client.tools) if tools is None or tools else []
            known: list[Mapping[str, Any]] = []
            if resources:
                known += await self._listed("resources", Client.resources)
                known += await self._listed("resources", Client.templates)
        by_name = {str(tool["name"]): tool for tool in listed}
        chosen = by_name if tools is None else [self._one(name, by_name, "tool") for name in tools]
        made: list[ToolWorker] = [self._tool_worker(by_name[name]) for name in chosen]
        uris = {str(each.get("uri") or each["uriTemplate"]): each for each in known}
        names = {str(each["name"]): uri for uri, each in uris.items()}
        for name in resources:
            uri = name if name in uris else names[self._one(name, names, "resource")]
            made.append(self._resource_worker(uri, uris[uri]))
        return made

    def workers_sync(
        self, *, tools: Sequence[str] | None = None, resources: Sequence[str] = ()
    ) -> list[ToolWorker]:
        """Call `workers` from synchronous code."""
        return run_sync(lambda: self.workers(tools=tools, resources=resources))

    async def _listed(
        self, capability: str, call: Callable[[Client], Awaitable[list[dict[str, Any]]]]
    ) -> list[dict[str, Any]]:
        """Return a list from the server; an empty list if the server does not have the capability."""

        async def listed(client: Client) -> list[dict[str, Any]]:
            return await call(client) if client.has(capability) else []

        return await self.request(listed)

    def _tool_worker(self, tool: Mapping[str, Any]) -> McpTool:
        return McpTool(self, tool, card=self._card(tool["name"], tool_description(tool)))

    def _resource_worker(self, uri: str, resource: Mapping[str, Any]) -> McpResource:
        if not has_simple_variables(uri):
            raise ConfigError(
                f"the template {uri!r} of MCP server {self.name!r} has expressions other than {{variable}}, "
                "which are not supported: leave it out"
            )
        return McpResource(self, uri, card=self._card(resource["name"], resource_description(resource)))

    def _card(self, name: str, description: str) -> Card:
        own = "".join(char if char.isprintable() else " " for char in f"{self.name}.{name}").strip()
        facts = self._facts
        return Card(name=own, description=description, labels=facts.labels, price=facts.price)

    def _one(self, name: str, known: Iterable[str], kind: str) -> str:
        if name not in known:
            offered = ", ".join(sorted(known)) or "none"
            raise ConfigError(f"MCP server {self.name!r} has no {kind} {name!r}: it has {offered}")
        return name
