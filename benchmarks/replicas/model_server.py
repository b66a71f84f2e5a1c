"""The models behind the replicas: chat completions on loopback with a fixed latency, in a process of its own.

The arguments are the port and the latency in seconds. The model `planner` writes a plan of three steps; any
other model writes an answer.
"""

import asyncio
import json
import sys

from aiohttp import web

PLAN = """{"worker": 0, "subtask": "Collect the facts.", "access": []}
{"worker": 1, "subtask": "Find what speaks against them.", "access": []}
{"worker": 2, "subtask": "Write the answer from both.", "access": [0, 1]}
"""
ANSWER = "The facts are these, and nothing speaks against them. " * 20
LATENCY = web.AppKey("latency", float)
_HEAD = {"id": "chatcmpl-0", "created": 1}
_USAGE = {"prompt_tokens": 200, "completion_tokens": 200, "total_tokens": 400}


def _whole(text: str) -> bytes:
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return json.dumps({**_HEAD, "object": "chat.completion", "choices": [choice], "usage": _USAGE}).encode()


def _streamed(text: str) -> bytes:
    deltas = [{"role": "assistant", "content": text}, {}]
    ends = [None, "stop"]
    chunks: list[dict[str, object]] = [
        {"choices": [{"index": 0, "delta": delta, "finish_reason": end}]}
        for delta, end in zip(deltas, ends, strict=True)
    ]
    chunks.append({"choices": [], "usage": _USAGE})
    lines = [json.dumps({**_HEAD, "object": "chat.completion.chunk", **chunk}) for chunk in chunks]
    return "".join(f"data: {line}\n\n" for line in (*lines, "[DONE]")).encode()


WHOLE = {is_plan: _whole(PLAN if is_plan else ANSWER) for is_plan in (True, False)}
STREAMED = {is_plan: _streamed(PLAN if is_plan else ANSWER) for is_plan in (True, False)}


async def complete(request: web.Request) -> web.Response:
    """Answer a request after the latency."""
    asked = await request.json()
    await asyncio.sleep(request.app[LATENCY])
    is_plan = asked["model"] == "planner"
    if asked.get("stream"):
        return web.Response(body=STREAMED[is_plan], content_type="text/event-stream")
    return web.Response(body=WHOLE[is_plan], content_type="application/json")


def main() -> None:
    """Serve until the process is killed."""
    app = web.Application()
    app[LATENCY] = float(sys.argv[2])
    app.router.add_post("/v1/chat/completions", complete)
    web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), print=None, access_log=None)


if __name__ == "__main__":
    main()
