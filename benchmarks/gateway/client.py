"""The client of the benchmark, which measures the requests that it makes."""

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

import aiohttp

QUESTION = {"role": "user", "content": "What follows from the axiom of choice?"}
_SECONDS = 120.0


@dataclass(slots=True)
class Streams:
    """Streams that were open at the same time."""

    begun: int = 0
    """Number of streams with a first token."""
    ended: int = 0
    """Number of streams that came to their end."""


class Client:
    """Makes requests of chat completions with a key.

    Args:
        session: makes the connections.
        url: base URL of the server.
        key: the key.
    """

    def __init__(self, session: aiohttp.ClientSession, url: str, key: str) -> None:
        self._session = session
        self._url = f"{url}/chat/completions"
        self._headers = {"authorization": f"Bearer {key}"}

    async def whole(self) -> float:
        """Make a request; return its seconds."""
        began = time.perf_counter()
        async with self._post({"model": "fast"}) as response:
            answer = await response.json()
        took = time.perf_counter() - began
        assert answer["choices"][0]["message"]["content"], answer
        return took

    async def first_token(self) -> float:
        """Make a streamed request; return the seconds from the model's first token to its arrival here."""
        delay: float | None = None
        async with self._post({"model": "fast", "stream": True}) as response:
            async for line in response.content:
                if delay is None and (sent := _content(line).strip()):
                    delay = (time.monotonic_ns() - int(sent)) / 1e9
        assert delay is not None
        return delay

    async def held(self, streams: "Streams") -> None:
        """Make a streamed request of the slow model, and count its first token and its end.

        A gateway that cannot serve so many streams breaks some of them: these have no end.
        """
        is_begun = is_ended = False
        with suppress(aiohttp.ClientError, TimeoutError):
            async with self._post({"model": "slow", "stream": True}) as response:
                async for line in response.content:
                    if not is_begun and _content(line).strip():
                        is_begun = True
                        streams.begun += 1
                    is_ended = is_ended or line.startswith(b"data: [DONE]")
        streams.ended += is_ended

    def _post(self, asked: Mapping[str, object]) -> "aiohttp.client._RequestContextManager":
        body = {**asked, "messages": [QUESTION]}
        timeout = aiohttp.ClientTimeout(total=_SECONDS)
        return self._session.post(
            self._url, json=body, headers=self._headers, timeout=timeout, raise_for_status=True
        )


def _content(line: bytes) -> str:
    if not line.startswith(b"data: {"):
        return ""
    choices = json.loads(line[6:])["choices"]
    content: str = (choices[0]["delta"].get("content") or "") if choices else ""
    return content
