"""A server with keys, for clients of MCP and A2A."""

import threading
from functools import partial

import anyio
import anyio.to_thread
from servers.chat_server import STALL, Call, ChatServer, Reply


def stalls(upstream: ChatServer) -> threading.Semaphore:
    """Let all calls stall, and return a semaphore that each call releases."""
    began = threading.Semaphore(0)

    def reply(call: Call) -> Reply:
        began.release()
        return Reply((STALL,))

    upstream.reply = reply
    return began


async def acquired(began: threading.Semaphore) -> None:
    """Wait for a call."""
    assert await anyio.to_thread.run_sync(partial(began.acquire, timeout=10))


async def hung_up(call: Call) -> None:
    """Wait until the connection of a call was closed."""
    for _ in range(250):
        if call.hung_up.is_set():
            break
        await anyio.sleep(0.02)
    assert call.hung_up.is_set()
