"""LangChain's chat models for a loopback server, for tests with many event loops."""

from typing import Any

import httpx
from langchain_openai import ChatOpenAI


def openai(url: str, name: str, **more: Any) -> ChatOpenAI:
    """Return the model `name` of the server, which does not keep connections between event loops."""
    client = httpx.AsyncClient(limits=httpx.Limits(max_keepalive_connections=0))
    more = {"max_retries": 0, "stream_usage": True, "http_async_client": client, **more}
    return ChatOpenAI(model=name, base_url=url, api_key="key", **more)
