"""The smallest gateway: Starlette forwards each request with aiohttp, after a check of its key.

It has no plan, journal, budget or limit, so it shows what a gateway in Python costs at least. Its arguments
are the port and the URL of the model.
"""

import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

KEY = "bare"


def make_app(url: str) -> Starlette:
    """Return the gateway for a model."""

    @asynccontextmanager
    async def opened(app: Starlette) -> AsyncGenerator[None]:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            app.state.session = session
            yield

    async def forward(request: Request) -> Response:
        if request.headers.get("authorization") != f"Bearer {KEY}":
            return Response(status_code=401)
        body = await request.body()
        answer = await request.app.state.session.post(
            f"{url}/chat/completions", data=body, headers={"content-type": "application/json"}
        )
        kind = answer.headers["content-type"]
        if not kind.startswith("text/event-stream"):
            return Response(await answer.read(), media_type=kind)
        return StreamingResponse(_frames(answer), media_type=kind)

    return Starlette(routes=[Route("/v1/chat/completions", forward, methods=["POST"])], lifespan=opened)


async def _frames(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    async with answer:
        async for data in answer.content.iter_any():
            yield data


if __name__ == "__main__":
    uvicorn.run(
        make_app(sys.argv[2]), host="127.0.0.1", port=int(sys.argv[1]), log_level="critical", access_log=False
    )
