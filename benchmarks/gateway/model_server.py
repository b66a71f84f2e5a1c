"""The model behind the gateways: a server of chat completions on loopback, in a process of its own.

Its argument is the port. A streamed completion begins with the time at which it was sent, in nanoseconds of
the machine's monotonic clock. With the model `slow`, a stream then waits for a request of `/release`.
"""

import asyncio
import json
import sys
import time

from aiohttp import web

WORDS = 20
RELEASED = web.AppKey("released", asyncio.Event)
_HEAD = {"id": "chatcmpl-0", "created": 1, "model": "fast"}
_USAGE = {"prompt_tokens": 20, "completion_tokens": WORDS, "total_tokens": 20 + WORDS}
_ANSWER = "word " * WORDS
_WHOLE = json.dumps(
    {
        **_HEAD,
        "object": "chat.completion",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": _ANSWER}, "finish_reason": "stop"}
        ],
        "usage": _USAGE,
    }
).encode()


def _chunk(content: str, finish_reason: str | None = None, **more: object) -> bytes:
    choice = {"index": 0, "delta": {"content": content}, "finish_reason": finish_reason}
    body = {**_HEAD, "object": "chat.completion.chunk", "choices": [choice], **more}
    return f"data: {json.dumps(body)}\n\n".encode()


async def complete(request: web.Request) -> web.StreamResponse:
    """Answer a request."""
    asked = await request.json()
    if not asked.get("stream"):
        return web.Response(body=_WHOLE, content_type="application/json")
    response = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await response.prepare(request)
    await response.write(_chunk(f"{time.monotonic_ns()} "))
    if asked["model"] == "slow":
        await request.app[RELEASED].wait()
    for _ in range(WORDS - 1):
        await response.write(_chunk("word "))
    await response.write(_chunk("", "stop", usage=_USAGE))
    await response.write(b"data: [DONE]\n\n")
    return response


async def release(request: web.Request) -> web.Response:
    """Let all waiting streams end."""
    request.app[RELEASED].set()
    return web.Response()


def main() -> None:
    """Serve until the process is killed."""
    app = web.Application()
    app[RELEASED] = asyncio.Event()
    app.router.add_post("/v1/chat/completions", complete)
    app.router.add_post("/release", release)
    web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), print=None, access_log=None)


if __name__ == "__main__":
    main()
