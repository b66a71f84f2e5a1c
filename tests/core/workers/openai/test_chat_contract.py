"""The chat worker keeps the contract of workers."""

from collections.abc import AsyncIterator

import pytest
from contracts.worker_contract import WorkerContract
from servers.chat_server import STALL, Call, ChatServer, Reply, events, says

from podium.workers import ChatWorker, Endpoint, Worker


def _echo(call: Call) -> Reply:
    return says(call, f"You asked: {call.body['messages'][-1]['content']}")


class TestChatWorker(WorkerContract):
    """`ChatWorker` in front of a real server."""

    @pytest.fixture
    async def worker(self) -> AsyncIterator[Worker]:
        """Answer with the question."""
        async with ChatServer(_echo) as server:
            yield ChatWorker("m", endpoint=Endpoint(server.url))

    @pytest.fixture
    async def slow_worker(self) -> AsyncIterator[Worker]:
        """Never answer."""
        async with ChatServer(lambda _: events(STALL)) as server:
            yield ChatWorker("m", endpoint=Endpoint(server.url))
