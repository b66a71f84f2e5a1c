"""Reads the answers of models in exports: the finish reason, and whether an answer is empty or a refusal."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from podium.workers.openai.chat_response import read_finish
from podium_evals.audit.texts import digest, text_of


class Answer(NamedTuple):
    """Facts from an answer, as fields of a `Span`."""

    answer: str = ""
    finish: str = ""
    is_empty: bool = False
    is_refusal: bool = False


def finish_of(said: object) -> str:
    """Translate a finish reason into Podium's words. Unknown reasons stay unchanged; empty for none."""
    if isinstance(said, Sequence) and not isinstance(said, str):
        said = said[0] if said else None
    if not isinstance(said, str) or not said:
        return ""
    return read_finish(said) or said[:40]


def chat_answer(message: object, finish: object = None) -> Answer:
    """Read an assistant's message in the form of OpenAI, LangChain or OpenTelemetry."""
    if not isinstance(message, Mapping):
        return Answer(finish=finish_of(finish))
    why = finish_of(finish) or finish_of(message.get("finish_reason"))
    parts = [part for key in ("content", "parts") for part in _parts(message.get(key))]
    kinds = {str(part.get("type")) for part in parts}
    refused = bool(message.get("refusal")) or "refusal" in kinds or why == "content_filter"
    calls = message.get("tool_calls") or message.get("function_call") or kinds & _CALLS
    text = text_of(message.get("content") or message.get("parts") or "").strip()
    is_empty = not text and not calls and not refused and not message.get("audio") and not kinds - _TEXTS
    return Answer(digest(_said(message)), why, is_empty, refused)


def responses_answer(body: Mapping[str, Any]) -> Answer:
    """Read an answer in the form of OpenAI's Responses API."""
    output = [item for item in body.get("output") or () if isinstance(item, Mapping)]
    parts = [part for item in output if item.get("type") == "message" for part in _parts(item.get("content"))]
    refused = any(part.get("type") == "refusal" for part in parts)
    details = body.get("incomplete_details")
    why = finish_of(details.get("reason")) if isinstance(details, Mapping) else ""
    calls = any(str(item.get("type", "")).endswith("_call") for item in output)
    if not why and body.get("status") == "completed":
        why = "tool_calls" if calls else "stop"
    text = "".join(text_of(part) for part in parts) or body.get("output_text")
    done = body.get("status") in ("completed", None)
    return Answer(digest(output), why, done and not text and not calls and not refused, refused)


_CALLS = {"tool_call", "tool_use", "function_call"}
_TEXTS = {"text", "output_text", "reasoning", "thinking", "None", "refusal"}


def _parts(content: object) -> list[Mapping[str, Any]]:
    if not isinstance(content, list | tuple):
        return []
    return [part for part in content if isinstance(part, Mapping)]


def _said(message: Mapping[str, Any]) -> dict[str, Any]:
    return {key: message.get(key) for key in ("content", "parts", "tool_calls", "function_call", "refusal")}
