"""LangChain's chat models of a loopback server, as tests of many event loops can have them."""

from typing import Any

import httpx
from langchain_openai import ChatOpenAI


def openai(url: str, name: str, **more: Any) -> ChatOpenAI:
    """Return the model `name` of the server, which keeps no connection from one loop to the next."""
    client = httpx.AsyncClient(limits=httpx.Limits(max_keepalive_connections=0))
    more = {"max_retries": 0, "stream_usage": True, "http_async_client": client, **more}
    return ChatOpenAI(model=name, base_url=url, api_key="key", **more)
