"""The loopback server of all workers, in its own process.

It supports the part of HTTP that the arms' clients need, and answers every chat completion with the job's
answer. The first part of the path is the delay in milliseconds: `POST /10/v1/chat/completions`. On start it
prints its port. For each input line it prints the calls and bytes since the previous line. It exits at the
end of its input.
"""

import asyncio
import json
import sys
from dataclasses import dataclass

from benchmarks.job import ANSWER

_NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"


def _completion() -> bytes:
    body = json.dumps(
        {
            "id": "chatcmpl-0",
            "object": "chat.completion",
            "created": 1,
            "model": "north",
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": ANSWER},
                    "finish_reason": "stop",
                }
            ],
            "usage": {"prompt_tokens": 400, "completion_tokens": 300, "total_tokens": 700},
        }
    ).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


_COMPLETION = _completion()


@dataclass(slots=True)
class Counts:
    """The calls and bytes that the server received."""

    calls: int = 0
    sent_bytes: int = 0
    """Bytes of request bodies."""


class WorkerProtocol(asyncio.Protocol):
    """One connection, which answers each request after its delay."""

    def __init__(self, counts: Counts) -> None:
        self._counts = counts
        self._loop = asyncio.get_running_loop()
        self._received = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer every complete request."""
        self._received += data
        while (end := self._received.find(b"\r\n\r\n")) >= 0:
            head = self._received[:end]
            size = _content_length(head)
            if len(self._received) < end + 4 + size:
                return
            self._received = self._received[end + 4 + size :]
            self._counts.calls += 1
            self._counts.sent_bytes += size
            self._answer(head)

    def _answer(self, head: bytes) -> None:
        path = head.split(b" ", 2)[1].split(b"/")
        if not path[1].isdigit() or path[2:] != [b"v1", b"chat", b"completions"]:
            self._write(_NOT_FOUND)
        elif delay := int(path[1]):
            self._loop.call_later(delay / 1e3, self._write, _COMPLETION)
        else:
            self._write(_COMPLETION)

    def _write(self, answer: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(answer)


def _content_length(head: bytes) -> int:
    start = head.lower().find(b"\r\ncontent-length:")
    return 0 if start < 0 else int(head[start + 17 :].split(b"\r\n", 1)[0])


async def _main() -> None:
    loop, counts = asyncio.get_running_loop(), Counts()
    server = await loop.create_server(lambda: WorkerProtocol(counts), "127.0.0.1", 0, backlog=1024)
    print(json.dumps({"port": server.sockets[0].getsockname()[1]}), flush=True)
    lines = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while await lines.readline():
        print(json.dumps({"calls": counts.calls, "sent_bytes": counts.sent_bytes}), flush=True)
        counts.calls = counts.sent_bytes = 0


if __name__ == "__main__":
    asyncio.run(_main())
