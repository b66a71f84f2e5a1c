"""The model behind the viewer's benchmark: plans after some seconds, and writes texts at a steady rate.

Its arguments are the port, the steps of a plan, the pieces per second of a step, and the seconds of a text.
"""

import asyncio
import json
import sys
from typing import Any

from aiohttp import web

PLAN_SECONDS = 3.0
"""Time for the page of the run to be opened."""
_TURN = 0.02
SHAPE = web.AppKey("shape", tuple[int, int, float])


def plan_of(steps: int) -> str:
    """Return a plan in rows: steps at the same time, and a last one that sees them all."""
    rows: list[dict[str, Any]] = [
        {"worker": 0, "subtask": f"Write part {number}.", "access": []} for number in range(steps)
    ]
    rows.append({"worker": 0, "subtask": "Write the answer.", "access": list(range(steps))})
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def _chunk(content: str, finish_reason: str | None = None, **more: object) -> bytes:
    choice = {"index": 0, "delta": {"content": content}, "finish_reason": finish_reason}
    body = {
        "object": "chat.completion.chunk",
        "id": "c",
        "created": 1,
        "model": "m",
        "choices": [choice],
        **more,
    }
    return f"data: {json.dumps(body)}\n\n".encode()


async def complete(request: web.Request) -> web.StreamResponse:
    """Answer a request."""
    asked = await request.json()
    steps, rate, seconds = request.app[SHAPE]
    usage = {"prompt_tokens": 20, "completion_tokens": 20, "total_tokens": 40}
    if asked["model"] == "planner":
        await asyncio.sleep(PLAN_SECONDS)
    if not asked.get("stream"):
        message = {"role": "assistant", "content": "Whole."}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        head = {"object": "chat.completion", "id": "c", "created": 1, "model": "m"}
        return web.json_response({**head, "choices": [choice], "usage": usage})
    response = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await response.prepare(request)
    if asked["model"] == "planner":
        await response.write(_chunk(plan_of(steps)))
    else:
        await _write(response, rate, seconds)
    await response.write(_chunk("", "stop", usage=usage) + b"data: [DONE]\n\n")
    return response


async def _write(response: web.StreamResponse, rate: int, seconds: float) -> None:
    """Write pieces at a rate; after a delay, the missed pieces follow at once."""
    loop = asyncio.get_running_loop()
    began, sent = loop.time(), 0
    while sent < rate * seconds:
        await asyncio.sleep(_TURN)
        due = min(int((loop.time() - began) * rate), int(rate * seconds))
        await response.write(b"".join(_chunk(f"word{number} ") for number in range(sent, due)))
        sent = due


def main() -> None:
    """Serve until the process is killed."""
    app = web.Application()
    app[SHAPE] = int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
    app.router.add_post("/v1/chat/completions", complete)
    web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), print=None, access_log=None)


if __name__ == "__main__":
    main()
