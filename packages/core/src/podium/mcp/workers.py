"""The tools and resources of MCP servers as workers.

The SDK is imported when a server is called, because the import takes a second.
"""

import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlsplit

from podium.aio import run_sync
from podium.aio.loops import PerLoop
from podium.errors import ConfigError, PlanInvalid, ToolFailed, install_hint
from podium.hosts import ToolWorker
from podium.hosts.chat import encoded_size, text_completion
from podium.hosts.workers import hints_act
from podium.secrets import register, scrub
from podium.types import Completion
from podium.types.outcome import inner_problem
from podium.types.references import compact
from podium.types.schemas import Form, check_schema
from podium.workers import Card, Price
from podium.workers.openai.errors import quoted

if TYPE_CHECKING:
    from podium.mcp.client import Client, Connection

T = TypeVar("T")
_VARIABLE = re.compile(r"\{(\w+)\}")


def check_sdk() -> None:
    """Raise `ConfigError` if the SDK is not installed, or its version is not 1."""
    try:
        found = version("mcp")
    except PackageNotFoundError as error:
        raise ConfigError(f"MCP needs the package mcp: {install_hint('podium-conductor[mcp]')}") from error
    if not found.startswith("1."):
        told = f"MCP needs version 1 of the package mcp, and {found} is installed"
        raise ConfigError(f"{told}: run `pip install 'mcp>=1.30,<2'`")


@dataclass(frozen=True, slots=True)
class Stdio:
    """A server that Podium starts as a process, with stdin and stdout as its connection.

    The process gets only the environment variables that the SDK passes on (such as `PATH` and `HOME`), and
    the variables in `env`. Its stderr goes to the logger `podium.mcp`; errors quote its last lines.

    Raises:
        ConfigError: the command is empty.
    """

    command: str
    args: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Environment variables for the process. Their values are secrets."""
    folder: Path | None = None
    """The working folder of the process; `None` for the current folder."""

    def __post_init__(self) -> None:
        if not self.command.strip():
            raise ConfigError("the command of an MCP server is empty: name the program that starts it")
        for value in self.env.values():
            register(value)


@dataclass(frozen=True, slots=True)
class StreamableHttp:
    """A server at a URL that supports MCP's streamable HTTP.

    Raises:
        ConfigError: the URL is not an HTTP URL, or contains a user name or password.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """HTTP headers of every request, such as `Authorization`. Their values are secrets."""

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.url)
        except ValueError:  # its message quotes a part of the URL
            parts = urlsplit("")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError("the URL of an MCP server is not an http(s) URL with a host")
        if parts.username is not None or parts.password is not None:
            raise ConfigError(
                "the URL of an MCP server has a user name or password: leave them out and use headers"
            )
        for value in self.headers.values():
            register(value)
            register(value.rpartition(" ")[2])


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


class McpServer(PerLoop["Connection"]):
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
        ConfigError: the name is empty, or the SDK is not installed, or its version is not 1.
    """

    def __init__(
        self,
        name: str,
        transport: Stdio | StreamableHttp,
        *,
        seconds: float = 120.0,
        labels: Iterable[str] = (),
        price: Price | None = None,
    ) -> None:
        check_sdk()
        if not seconds > 0:
            raise ConfigError(f"seconds of MCP server {name!r} is {seconds!r}: it must be above 0")
        super().__init__()
        self.name = name
        self.transport = transport
        self._seconds = seconds
        self._facts = Card(name=name, labels=frozenset(labels), price=price)

    def __repr__(self) -> str:
        return f"McpServer({self.name!r}, {scrub(repr(self.transport))})"

    async def request(self, call: Callable[["Client"], Awaitable[T]]) -> T:
        """Call the server in this event loop's session.

        Raises:
            WorkerError: the server is unreachable, did not answer in time, or answered with an error.
        """
        async with self.opened() as connection:
            return await connection.call(call, seconds=self._seconds)

    async def offers(self) -> list[Offer]:
        """Return the server's tools, then its resources and templates.

        Raises:
            WorkerError: see `request`.
        """
        async with self:
            tools = await self.request(lambda client: client.listed("tools"))
            resources = await self.request(lambda client: client.listed("resources"))
            templates = await self.request(lambda client: client.listed("resourceTemplates"))
        return [
            *(Offer("tool", t["name"], _tool_description(t), "", acts=_acts(t)) for t in tools),
            *(Offer("resource", r["name"], _resource_description(r), r["uri"]) for r in resources),
            *(Offer("template", r["name"], _resource_description(r), r["uriTemplate"]) for r in templates),
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
        listed: list[dict[str, Any]] = []
        known: list[dict[str, Any]] = []
        async with self:
            if tools is None or tools:
                listed = await self.request(lambda client: client.listed("tools"))
            if resources:
                known += await self.request(lambda client: client.listed("resources"))
                known += await self.request(lambda client: client.listed("resourceTemplates"))
        by_name = {str(tool["name"]): tool for tool in listed}
        chosen = by_name if tools is None else [self._one(name, by_name, "tool") for name in tools]
        uris = {str(each.get("uri") or each["uriTemplate"]): each for each in known}
        names = {str(each["name"]): uri for uri, each in uris.items()}
        read = [name if name in uris else names[self._one(name, names, "resource")] for name in resources]
        return [
            *(self._tool_worker(by_name[name]) for name in chosen),
            *(self._resource_worker(uri, uris[uri]) for uri in read),
        ]

    def workers_sync(
        self, *, tools: Sequence[str] | None = None, resources: Sequence[str] = ()
    ) -> list[ToolWorker]:
        """Call `workers` from synchronous code."""
        return run_sync(lambda: self.workers(tools=tools, resources=resources))

    async def _open(self) -> "Connection":
        from podium.mcp.client import Connection, http_streams, stdio_streams  # noqa: PLC0415 - as above

        match self.transport:
            case Stdio(command, args, env, folder):
                return Connection(self.name, partial(stdio_streams, command, args, env, folder))
            case StreamableHttp(url, headers):
                return Connection(self.name, partial(http_streams, url, headers))

    async def _close(self, part: "Connection") -> None:
        await part.aclose()

    def _one(self, name: str, known: Iterable[str], kind: str) -> str:
        if name not in known:
            offered = ", ".join(sorted(known)) or "none"
            raise ConfigError(f"MCP server {self.name!r} has no {kind} {name!r}: it has {offered}")
        return name

    def _tool_worker(self, tool: Mapping[str, Any]) -> ToolWorker:
        name, card = tool["name"], self._card(tool["name"], _tool_description(tool))
        card = replace(card, returns=_output_schema(tool.get("outputSchema") or {}))

        async def call(arguments: dict[str, Any]) -> Completion:
            result = await self.request(lambda client: client.call_tool(name, arguments))
            return _tool_completion(result, card)

        return McpWorker(self, _schema(tool.get("inputSchema") or {}), call, card, acts=_acts(tool))

    def _resource_worker(self, uri: str, resource: Mapping[str, Any]) -> ToolWorker:
        if "{" in _VARIABLE.sub("", uri):
            raise ConfigError(
                f"the template {uri!r} of MCP server {self.name!r} has expressions other than {{variable}}, "
                "which are not supported: leave it out"
            )
        card = self._card(resource["name"], _resource_description(resource))

        async def read(arguments: dict[str, Any]) -> Completion:
            filled = _VARIABLE.sub(lambda found: quote(str(arguments[found[1]]), safe=""), uri)
            result = await self.request(lambda client: client.read_resource(filled))
            texts, gaps = _read({"type": "resource", "resource": part} for part in result["contents"])
            return text_completion(texts, gaps, card.name) or Completion("The resource is empty.")

        names = _VARIABLE.findall(uri)
        schema = {"properties": {name: {"type": "string"} for name in names}, "required": names}
        return McpWorker(self, schema, read, card, acts=False)

    def _card(self, name: str, description: str) -> Card:
        own = "".join(char if char.isprintable() else " " for char in f"{self.name}.{name}").strip()
        return replace(self._facts, name=own, description=description)


class McpWorker(ToolWorker):
    """A tool or resource, which opens its server."""

    def __init__(
        self,
        server: McpServer,
        schema: Mapping[str, Any],
        call: Callable[[dict[str, Any]], Awaitable[Completion]],
        card: Card,
        *,
        acts: bool,
    ) -> None:
        super().__init__(schema, call, card=card)
        self._server = server
        self.acts = acts

    def _parts(self) -> Sequence[McpServer]:
        return (self._server,)


def _tool_completion(result: Mapping[str, Any], card: Card) -> Completion:
    """Return a `CallToolResult`; a tool that failed, or returned only what is not text, is an error.

    The text of a tool with an output schema is its structured content as JSON.
    """
    worker = card.name
    texts, gaps = _read(result["content"])
    if result.get("isError"):
        said = quoted("\n".join(texts)) or "it gave no reason"
        raise ToolFailed(f"tool {worker!r} failed: {said}", maybe_paid=True)
    structured, facts = result.get("structuredContent"), (result.get("_meta") or {}).get("podium")
    if structured is not None and card.returns is not None:
        is_wrapped = structured.keys() == {"result"} and "result" not in card.returns.get("properties", ())
        texts = [compact(structured["result"] if is_wrapped else structured)]
    elif structured is not None and facts is None and not _is_told(structured, texts):
        texts.append(json.dumps(structured, ensure_ascii=False))
    found = text_completion(texts, gaps, worker) or Completion("The tool succeeded and returned nothing.")
    problem = inner_problem(facts)
    return found if problem is None else replace(found, missing=problem.message)


def _read(blocks: Iterable[Mapping[str, Any]]) -> tuple[list[str], list[str]]:
    """Return the texts of content blocks, and descriptions of the blocks without text."""
    texts: list[str] = []
    gaps: list[str] = []
    for block in blocks:
        match block:
            case {"type": "text", "text": str(text)} | {"type": "resource", "resource": {"text": str(text)}}:
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
    """Return whether the texts already contain the structured content, as MCP recommends."""
    value = structured
    if isinstance(structured, dict) and structured.keys() == {"result"}:  # SDKs wrap what is not an object
        value = structured["result"]
    told = [_parsed(text) for text in texts]
    return any(each in (structured, value) for each in (told, texts, *told, *texts))


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _output_schema(schema: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the schema of a tool's outputs; `None` for text, and for a schema that cannot be used."""
    inner = (schema.get("properties") or {}).get("result")
    if isinstance(inner, Mapping) and len(schema["properties"]) == 1:  # SDKs wrap what is not an object
        schema = {**inner, **{key: schema[key] for key in ("$defs",) if key in schema}}
    try:
        read = check_schema(schema) if schema else None
    except PlanInvalid:
        return None
    return None if read is None or Form.of(read).allows("string") else read


def _acts(tool: Mapping[str, Any]) -> bool:
    """Return whether a call of the tool is an action: by default, unless its hints say otherwise."""
    return hints_act(tool.get("annotations") or {})


def _tool_description(tool: Mapping[str, Any]) -> str:
    """Return the description of a tool and of its arguments, on one line."""
    said = tool.get("description") or tool.get("title") or tool["name"]
    described = [
        f'"{name}": {argument["description"]}'
        for name, argument in _schema(tool.get("inputSchema") or {})["properties"].items()
        if argument.get("description")
    ]
    return " ".join(f"{said} {'Arguments: ' if described else ''}{'; '.join(described)}".split())


def _resource_description(resource: Mapping[str, Any]) -> str:
    """Return the description of a resource or template, on one line."""
    said = resource.get("description") or resource.get("title") or resource.get("name")
    return " ".join(f"Reads {resource.get('uri') or resource.get('uriTemplate')}: {said}".split())


def _schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema with all properties as objects, because `true` and `false` are also schemas."""
    found = schema.get("properties")
    plain = {
        name: value if isinstance(value, Mapping) else {} if value is True else {"not": {}}
        for name, value in (found if isinstance(found, Mapping) else {}).items()
    }
    return {**schema, "properties": plain}
