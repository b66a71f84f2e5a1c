"""Connections of foreign HTTP clients in several event loops, over a loopback server."""

import asyncio
import gc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import httpx2
import pytest
from servers.chat_server import STALL, ChatServer, Reply, says

from podium.aio import connections_per_loop, run_sync

LIBRARIES: Any = pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])


@pytest.fixture
def server() -> Iterator[ChatServer]:
    """Serve from a thread."""
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
def test_one_client_asks_in_two_loops_at_once(library: Any, server: ChatServer) -> None:
    client = library.AsyncClient()

    async def ask() -> list[int]:
        asked = await asyncio.gather(*(client.post(server.url, json={}) for _ in range(20)))
        return [answer.status_code for answer in asked]

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(lambda _: asyncio.run(ask()), range(2))) == [[200] * 20] * 2
    wait_for_close(server)


@LIBRARIES
def test_a_client_that_was_used_before_keeps_what_it_was_told(library: Any, server: ChatServer) -> None:
    """The limit of a client holds in each loop, and how it connects is not changed."""
    client = library.AsyncClient(limits=library.Limits(max_connections=2), http1=True)

    async def ask() -> None:
        await asyncio.gather(*(client.post(server.url, json={}) for _ in range(6)))

    asyncio.run(ask())
    assert server.connections == 2
    run_sync(ask)
    assert server.connections == 4


@LIBRARIES
def test_closing_a_client_closes_its_connections(library: Any, server: ChatServer) -> None:
    async def ask() -> None:
        async with library.AsyncClient() as client:
            await client.post(server.url, json={})
            assert server.open_connections == 1
        await until_closed(server)

    asyncio.run(ask())


@LIBRARIES
def test_a_client_that_nobody_holds_leaves_no_connection(library: Any, server: ChatServer) -> None:
    async def ask() -> None:
        client = library.AsyncClient()
        await client.post(server.url, json={})
        del client
        gc.collect()
        await until_closed(server)

    asyncio.run(ask())


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
