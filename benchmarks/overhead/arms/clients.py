"""Clients of the arms without Podium: coroutine functions of model and prompt."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

from benchmarks.job import ANSWER, MODELS

Ask = Callable[[str, str], Awaitable[str]]
"""Takes a model's name and a prompt, and returns the answer."""

_SECONDS = 120.0
"""Timeout for one answer."""


async def answer_at_once(model: str, prompt: str) -> str:  # noqa: ARG001  (the signature of `Ask`)
    """Return the answer at once."""
    return ANSWER


@asynccontextmanager
async def tuned_aiohttp(base_url: str) -> AsyncGenerator[Ask, None]:
    """Call models with aiohttp, without features that the job does not need."""
    import aiohttp  # noqa: PLC0415

    url = f"{base_url}/chat/completions"
    headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(_SECONDS),
        raise_for_status=True,
    ) as session:

        async def ask(model: str, prompt: str) -> str:
            body = json.dumps({"model": model, "messages": [{"role": "user", "content": prompt}]})
            async with session.post(url, data=body.encode(), headers=headers) as response:
                return _answer(json.loads(await response.read()))

        yield ask


@asynccontextmanager
async def plain_httpx2(base_url: str) -> AsyncGenerator[Ask, None]:
    """Call models with one `httpx2.AsyncClient`, in the usual way."""
    import httpx2  # noqa: PLC0415

    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx2.AsyncClient(base_url=base_url, timeout=_SECONDS, limits=limits) as client:

        async def ask(model: str, prompt: str) -> str:
            body = {"model": model, "messages": [{"role": "user", "content": prompt}]}
            response = await client.post("/chat/completions", json=body)
            response.raise_for_status()
            return _answer(response.json())

        yield ask


@asynccontextmanager
async def chat_openai(base_url: str) -> AsyncGenerator[Ask, None]:
    """Call models with LangChain's `ChatOpenAI`, one for each model, with its defaults."""
    from langchain_openai import ChatOpenAI  # noqa: PLC0415
    from pydantic import SecretStr  # noqa: PLC0415

    key = SecretStr("none")
    models = {name: ChatOpenAI(model=name, base_url=base_url, api_key=key) for name in MODELS}

    async def ask(model: str, prompt: str) -> str:
        message = await models[model].ainvoke(prompt)
        return str(message.content)

    yield ask


def _answer(raw: object) -> str:
    match raw:
        case {"choices": [{"message": {"content": str(text)}}]}:
            return text
        case _:
            raise ValueError(f"not a chat completion: {raw!r:.200}")
