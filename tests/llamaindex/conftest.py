"""LLMs for loopback servers."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest
from llama_index.llms.openai_like import OpenAILike

Make = Callable[..., Any]


@pytest.fixture
async def llm() -> AsyncIterator[Make]:
    """Yield a function that makes models, which keep no connections open between calls."""
    limits = httpx.Limits(max_keepalive_connections=0)
    async with httpx.AsyncClient(limits=limits) as async_client:
        with httpx.Client(limits=limits) as client:

            def make(url: str, **options: Any) -> Any:
                facts = {"is_chat_model": True, "is_function_calling_model": True, "max_retries": 0}
                clients = {"http_client": client, "async_http_client": async_client}
                key = "sk-loopback-key"
                return OpenAILike(model="writer", api_base=url, api_key=key, **(facts | clients | options))

            yield make
