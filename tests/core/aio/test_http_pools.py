"""Connections of foreign HTTP clients in several event loops, over a loopback server."""

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import httpx2
import pytest
from servers.chat_server import STALL, ChatServer, Reply, says

from podium.aio.loops import connections_per_loop

LIBRARIES: Any = pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])


@pytest.fixture
def server() -> Iterator[ChatServer]:
    connections_per_loop()
    with ChatServer(lambda call: says(call, "hello")).in_thread() as server:
        yield server


@LIBRARIES
def test_one_client_asks_in_a_new_loop_each_time(library: Any, server: ChatServer) -> None:
    client = library.AsyncClient()

    async def ask() -> None:
        for _ in range(3):
            assert (await client.post(server.url, json={})).status_code == 200

    for loops in range(1, 4):
        asyncio.run(ask())
        assert server.connections == loops  # within a loop, one connection serves all calls
    wait_for_close(server)


@LIBRARIES
def test_a_cancel_closes_the_connection(library: Any, server: ChatServer) -> None:
    client = library.AsyncClient()
    server.reply = lambda _: Reply([STALL])

    async def cancelled() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await client.post(server.url, json={})
        await until_closed(server)

    asyncio.run(cancelled())


def wait_for_close(server: ChatServer) -> None:
    """Wait until the server has seen each connection close."""
    asyncio.run(until_closed(server))


async def until_closed(server: ChatServer) -> None:
    """Wait until the server has seen each connection close."""
    async with asyncio.timeout(10):
        while server.open_connections:  # noqa: ASYNC110 - the server is in another loop
            await asyncio.sleep(0.01)
