"""Wraps the A2A SDK, which is imported at the first use."""

from collections.abc import AsyncGenerator, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from podium.errors import ConfigError
from podium.installing import install_hint

_CONNECT, _WRITE = 10.0, 30.0
"""Timeouts to connect and to send a request, in seconds. The caller limits the wait for the answer."""
_BINDINGS = ("JSONRPC", "HTTP+JSON")


def check_installed() -> None:
    """Check that the SDK is installed.

    Raises:
        ConfigError: the SDK is not installed.
    """
    if find_spec("a2a") is None:
        raise ConfigError(f"A2A needs a2a-sdk: {install_hint('core[a2a]')}")


def http_client(headers: Mapping[str, str]) -> Any:
    """Return an httpx client for the SDK that sends the headers with each request."""
    timeout = (_CONNECT, None, _WRITE, _WRITE)
    return import_module("httpx").AsyncClient(headers=dict(headers), timeout=timeout)


async def fetch_card(http: Any, url: str) -> Any:
    """Return the card of the agent at a URL."""
    return await import_module("a2a.client").A2ACardResolver(http, url).get_agent_card()


class AgentClient:
    """Calls an agent. Requests and events are JSON data in the form of A2A.

    Args:
        http: the httpx client.
        card: the agent's card.
    """

    def __init__(self, http: Any, card: Any) -> None:
        client = import_module("a2a.client")
        config = client.ClientConfig(httpx_client=http, supported_protocol_bindings=list(_BINDINGS))
        self._client = client.ClientFactory(config).create(card)
        self._types = import_module("a2a.types")
        self._json = import_module("google.protobuf.json_format")

    async def send(self, text: str, message_id: str) -> AsyncGenerator[dict[str, Any], None]:
        """Send a message, and yield each `StreamResponse`."""
        message = {"role": "ROLE_USER", "messageId": message_id, "parts": [{"text": text}]}
        request = self._json.ParseDict({"message": message}, self._types.SendMessageRequest())
        async for event in self._client.send_message(request):
            yield self._json.MessageToDict(event)

    async def task(self, task_id: str) -> dict[str, Any]:
        """Return the current state of a task as a `StreamResponse`."""
        return {"task": self._plain(await self._client.get_task(self._types.GetTaskRequest(id=task_id)))}

    async def cancel(self, task_id: str) -> None:
        """Ask the agent to cancel a task."""
        await self._client.cancel_task(self._types.CancelTaskRequest(id=task_id))

    def _plain(self, message: Any) -> dict[str, Any]:
        found: dict[str, Any] = self._json.MessageToDict(message)
        return found
