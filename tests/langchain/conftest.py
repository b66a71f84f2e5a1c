"""LangChain's own chat models for loopback servers."""

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

OpenAI = Callable[..., ChatOpenAI]
"""Makes a `ChatOpenAI` for the URL of a server."""


@pytest.fixture
def openai() -> Iterator[OpenAI]:
    """Yield a function that makes models, which keep no connections open between calls."""
    limits = httpx.Limits(max_keepalive_connections=0)
    # Separate clients, because ChatOpenAI shares one client for each URL and never closes it.
    async_client = httpx.AsyncClient(limits=limits)
    with httpx.Client(limits=limits) as client:

        def make(url: str, model: str = "writer", **options: Any) -> ChatOpenAI:
            given: Any = {"http_client": client, "http_async_client": async_client, "max_retries": 0}
            key = SecretStr("sk-key-of-a-loopback-server")
            return ChatOpenAI(model=model, base_url=url, api_key=key, **(given | options))

        yield make
