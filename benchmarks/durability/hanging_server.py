"""The server of the cancel benchmark, in its own process: it starts answers and never ends them.

On start it prints its port. It answers each request with the head and the first event of a stream. When the
connection closes, it prints the time, in seconds on the clock of the machine.
"""

import asyncio
import json
import time

_FIRST = b'data: {"choices": [{"index": 0, "delta": {"content": "half"}}]}\n\n'
_BEGINNING = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    + b"%x\r\n%b\r\n" % (len(_FIRST), _FIRST)
)


class _Hanging(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:  # noqa: ARG002  (all requests have the same answer)
        self._transport.write(_BEGINNING)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        print(json.dumps({"closed": time.monotonic()}), flush=True)


async def _main() -> None:
    server = await asyncio.get_running_loop().create_server(_Hanging, "127.0.0.1", 0, backlog=256)
    print(json.dumps({"port": server.sockets[0].getsockname()[1]}), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_main())
