"""Lists the tools and resources of an MCP server, and makes workers from them."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from podium.aio import run_sync
from podium.errors import ConfigError
from podium.hosts import ToolWorker
from podium.mcp.connection import SharedConnection
from podium.mcp.sdk import Client, sdk_version
from podium.mcp.tools import (
    McpResource,
    McpTool,
    has_simple_variables,
    resource_description,
    tool_acts,
    tool_description,
)
from podium.mcp.transports import Transport
from podium.secrets import scrub
from podium.workers import Card, Price


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
