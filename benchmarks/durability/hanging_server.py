"""The server of the cancel benchmark, in its own process: it begins answers and never ends them.

On start it prints its port. Each request is answered with the head and first event of a
stream; when its connection closes, a line says when, in seconds of the clock that all
processes of the machine share.
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

    def data_received(self, data: bytes) -> None:  # noqa: ARG002  (whatever is asked)
        self._transport.write(_BEGINNING)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        print(json.dumps({"closed": time.monotonic()}), flush=True)


async def _main() -> None:
    server = await asyncio.get_running_loop().create_server(_Hanging, "127.0.0.1", 0, backlog=256)
    print(json.dumps({"port": server.sockets[0].getsockname()[1]}), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_main())
