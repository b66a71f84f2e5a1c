"""Workers for the tools and resources of an MCP server, and their descriptions."""

import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any
from urllib.parse import quote

from podium.hosts import ToolWorker, hints_act
from podium.mcp.connection import SharedConnection
from podium.mcp.results import resource_completion, tool_completion
from podium.types import Completion
from podium.workers import Card

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
