"""Converts results of tools and contents of resources to text.

Images, sound and binary resources are left out, and the answer names them; see `text_completion`.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from podium.errors import ToolFailed
from podium.hosts import encoded_size, text_completion
from podium.types import Completion
from podium.types.outcome import inner_problem
from podium.workers.openai.error_mapping import Origin

_DONE = "The tool succeeded and returned nothing."


def tool_completion(result: Mapping[str, Any], worker: str) -> Completion:
    """Return the result of a tool.

    Args:
        result: a `CallToolResult` as JSON data.
        worker: the worker's name.

    Raises:
        ToolFailed: the tool failed.
        WorkerFailed: the result has parts, but none of them is text.
    """
    blocks = result.get("content") or []
    texts, gaps = _read(blocks)
    if result.get("isError"):
        said = Origin(worker).quote("\n".join(texts)) or "it gave no reason"
        raise ToolFailed(f"tool {worker!r} failed: {said}", maybe_paid=True)
    structured, facts = result.get("structuredContent"), (result.get("_meta") or {}).get("podium")
    if structured is not None and facts is None and not _is_told(structured, texts):
        texts.append(json.dumps(structured, ensure_ascii=False))
    found = text_completion(texts, gaps, worker) or Completion(_DONE)
    problem = inner_problem(facts)
    return found if problem is None else replace(found, missing=problem.message)


def resource_completion(result: Mapping[str, Any], worker: str) -> Completion:
    """Return the contents of a resource.

    Args:
        result: a `ReadResourceResult` as JSON data.
        worker: the worker's name.

    Raises:
        WorkerFailed: the contents are not text.
    """
    texts, gaps = _read({"type": "resource", "resource": part} for part in result.get("contents") or [])
    return text_completion(texts, gaps, worker) or Completion("The resource is empty.")


def _read(blocks: Iterable[Mapping[str, Any]]) -> tuple[list[str], list[str]]:
    """Return the texts of content blocks, and descriptions of the blocks without text."""
    texts: list[str] = []
    gaps: list[str] = []
    for block in blocks:
        match block:
            case {"type": "text", "text": str(text)}:
                texts.append(text)
            case {"type": "resource", "resource": {"text": str(text)}}:
                texts.append(text)
            case {"type": "resource", "resource": {"blob": str(data), "uri": uri, **rest}}:
                gaps.append(f"the resource {uri} ({rest.get('mimeType') or 'binary'}, {encoded_size(data)})")
            case {"type": "resource_link", "uri": uri}:
                texts.append(f"{block.get('title') or block.get('name') or 'resource'}: {uri}")
            case {"type": "image" | "audio" as kind, "data": str(data)}:
                gaps.append(f"an {kind} ({block.get('mimeType') or 'of unknown type'}, {encoded_size(data)})")
            case _:
                gaps.append(f"content of type {block.get('type')!r}")
    return texts, gaps


def _is_told(structured: object, texts: list[str]) -> bool:
    """Return whether the texts already contain the structured content, as MCP recommends.

    If the value is not an object, SDKs put it under the key `result`. They write each item of a list as a
    separate text.
    """
    value = structured
    if isinstance(structured, dict) and structured.keys() == {"result"}:
        value = structured["result"]
    told = [_parsed(text) for text in texts]
    return any(each in (structured, value) for each in (told, texts, *told, *texts))


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
