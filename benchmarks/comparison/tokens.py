"""Counts tokens like a provider, with the encoding of OpenAI's current models.

The table of the encoding is the copy in llama-index-core, so that nothing is downloaded. Tools are counted as
their JSON declarations; OpenAI's own form is a little shorter.
"""

import json
import os
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import tiktoken

_PER_MESSAGE = 3
"""Tokens that OpenAI adds to each message, and to the start of the answer."""


def tokens_of_request(body: dict[str, Any]) -> int:
    """Return the input tokens of a chat completion request."""
    total = _PER_MESSAGE
    for message in body["messages"]:
        content = message.get("content") or ""
        total += _PER_MESSAGE + _count(message["role"]) + _count(message.get("name") or "")
        total += _count(content) if isinstance(content, str) else _count(_texts(content))
        total += sum(_called(call["function"]) for call in message.get("tool_calls") or ())
    declared = [tool["function"] for tool in body.get("tools") or ()]
    schema = body.get("response_format")
    return total + sum(_count(_json(each)) for each in [*declared, *([schema] if schema else [])])


def tokens_of_answer(text: str, calls: Sequence[tuple[str, dict[str, Any]]]) -> int:
    """Return the output tokens of an answer."""
    return _count(text) + sum(_called({"name": n, "arguments": json.dumps(a)}) for n, a in calls)


def _called(function: dict[str, Any]) -> int:
    return _PER_MESSAGE + _count(function["name"]) + _count(function["arguments"])


def _texts(parts: list[dict[str, Any]]) -> str:
    return "".join(part.get("text", "") for part in parts)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _count(text: str) -> int:
    return len(_encoding().encode(text, disallowed_special=()))


@cache
def _encoding() -> tiktoken.Encoding:
    spec = find_spec("llama_index.core")
    assert spec is not None
    assert spec.origin is not None
    os.environ["TIKTOKEN_CACHE_DIR"] = str(Path(spec.origin).parent / "_static" / "tiktoken_cache")
    return tiktoken.get_encoding("o200k_base")
