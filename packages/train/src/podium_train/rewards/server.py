"""The reward service over HTTP, for trainers in other processes or on other machines."""

import hmac
from collections.abc import Awaitable, Callable

import anyio
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from podium_train.rewards.service import RewardService
from podium_train.rewards.wire import BATCH, HEALTH, PATH, SCORES, Batch

MAX_BYTES = 64 * 2**20
"""Maximum size of the body of a request."""


def reward_app(service: RewardService, *, token: str = "", max_bytes: int = MAX_BYTES) -> Starlette:
    """Return an ASGI application that rewards texts.

    `POST /v1/scores` rewards a batch, and is cancelled when the client disconnects. `GET /health` describes
    the service.

    Args:
        service: rewards the texts.
        token: what clients send as bearer token; empty for none. Set it if other machines can connect,
            because requests may cost money.
        max_bytes: maximum size of a request's body.
    """

    async def scores(request: Request) -> Response:
        if denied := _denied(request, token):
            return denied
        body = await _body(request, max_bytes)
        if isinstance(body, Response):
            return body
        batch = _read(body, service)
        if isinstance(batch, Response):
            return batch
        return await _unless_disconnected(request, lambda: _scored(service, batch))

    async def health(request: Request) -> Response:
        return _denied(request, token) or JSONResponse(
            {
                "environment": service.environment.name,
                "version": service.environment.version,
                "outcomes": len(service.store),
                "spent": service.store.spent,
                "budget": service.limits.budget,
            }
        )

    return Starlette(routes=[Route(PATH, scores, methods=["POST"]), Route(HEALTH, health)])


def _denied(request: Request, token: str) -> Response | None:
    sent = request.headers.get("authorization", "").removeprefix("Bearer ")
    if token and not hmac.compare_digest(sent.encode(), token.encode()):
        return _refused(401, "the bearer token is missing or wrong")
    return None


async def _body(request: Request, most: int) -> bytes | Response:
    body = bytearray()
    try:
        async for piece in request.stream():
            body += piece
            if len(body) > most:
                return _refused(413, f"the body is longer than {most:,} bytes: send smaller batches")
    except ClientDisconnect:
        return Response(status_code=400)
    return bytes(body)


def _read(body: bytes, service: RewardService) -> Batch | Response:
    try:
        batch = BATCH.validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "the body"
        return _refused(422, f"{where}: {first['msg']}")
    ours = (service.environment.name, service.environment.version)
    if (batch.environment, batch.version) != ours:
        return _refused(
            409,
            f"the episodes are of {batch.environment} {batch.version}, and this server has {' '.join(ours)}: "
            "start both with the same data",
        )
    return batch


async def _scored(service: RewardService, batch: Batch) -> Response:
    found = await service.score(batch.requests)
    return Response(SCORES.dump_json(found), media_type="application/json")


async def _unless_disconnected(request: Request, work: Callable[[], Awaitable[Response]]) -> Response:
    """Return the response of `work`, which is cancelled when the client disconnects."""
    response = Response(status_code=499)
    async with anyio.create_task_group() as group:

        async def watch() -> None:
            while (await request.receive())["type"] != "http.disconnect":
                pass
            group.cancel_scope.cancel()

        group.start_soon(watch)
        response = await work()
        group.cancel_scope.cancel()
    return response


def _refused(status: int, told: str) -> Response:
    return JSONResponse({"error": told}, status_code=status)
