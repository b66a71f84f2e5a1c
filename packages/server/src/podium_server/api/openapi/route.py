"""Answers with the OpenAPI document."""

from collections.abc import Callable
from typing import Any

from podium_server.http import Exchange
from podium_server.keys import Caller


class OpenApi:
    """`GET /openapi.json`.

    Args:
        make: returns the document; called once, because it takes time.
    """

    def __init__(self, make: Callable[[], dict[str, Any]]) -> None:
        self._make = make
        self._document: dict[str, Any] | None = None

    async def show(self, exchange: Exchange, _: Caller) -> None:
        """Show the OpenAPI document of the server."""
        if self._document is None:
            self._document = self._make()
        await exchange.json(self._document)
