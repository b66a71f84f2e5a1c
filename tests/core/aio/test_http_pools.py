"""Connections of foreign HTTP clients in several event loops, over a loopback server."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import anyio
import httpx
import httpx2
import pytest
from servers.chat_server import STALL, ChatServer, Reply, says

from podium.aio import run_sync
from podium.aio.loops import connections_per_loop

LIBRARIES: Any = pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])


@pytest.fixture
def server() -> Iterator[ChatServer]:
    """Serve from a thread."""
    connections_per_loop()
    with ChatServer(lambda call: says(call, "hello")).in_thread() as server:
        yield server


@LIBRARIES
def test_one_client_asks_in_a_new_loop_each_time(library: Any, server: ChatServer) -> None:
    """It has a connection in each loop, which is closed with the loop."""
    client = library.AsyncClient()

    async def ask() -> None:
        for _ in range(3):
            assert (await client.post(server.url, json={})).status_code == 200

    for loops in range(1, 4):
        asyncio.run(ask())
        assert server.connections == loops  # within a loop, one connection serves all calls
    wait_for_close(server)


@LIBRARIES
def test_the_limits_of_a_client_hold_in_each_loop(library: Any, server: ChatServer) -> None:
    """They are those it was made with."""
    client = library.AsyncClient(limits=library.Limits(max_connections=2), http1=True)

    async def one() -> None:
        await client.post(server.url, json={})

    asyncio.run(at_once(one, 6))
    assert server.connections == 2
    run_sync(lambda: at_once(one, 6))
    assert server.connections == 4


@LIBRARIES
def test_a_cancel_closes_the_connection(library: Any, server: ChatServer) -> None:
    """The server sees it at once."""
    client = library.AsyncClient()
    server.reply = lambda _: Reply([STALL])

    async def cancelled() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await client.post(server.url, json={})
        await until_closed(server)

    asyncio.run(cancelled())


async def at_once(one: Callable[[], Awaitable[None]], times: int) -> None:
    """Do it a number of times at once."""
    async with anyio.create_task_group() as group:
        for _ in range(times):
            group.start_soon(one)


def wait_for_close(server: ChatServer) -> None:
    """Wait until the server has seen each connection close."""
    asyncio.run(until_closed(server))


async def until_closed(server: ChatServer) -> None:
    """Wait until the server has seen each connection close."""
    async with asyncio.timeout(10):
        while server.open_connections:  # noqa: ASYNC110 - the server is in another loop
            await asyncio.sleep(0.01)
