"""Reads what formats have in common: values, messages, errors and answers, as digests and short excerpts.

Messages may have the form of OpenAI, LangChain or OpenTelemetry. Ids and metadata are ignored, so that a
message has the same digest each time it is sent. Excerpts have no secrets.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, NamedTuple

from podium.secrets import printable, scrub
from podium.types.messages import storable
from podium.usage import MAX_COUNT, Usage
from podium.workers.openai.chat_response import read_finish
from podium_evals.audit.queries import DIGEST_BYTES

_MILLISECONDS = 1e11
"""A larger Unix time is read as milliseconds: as seconds, it would be after the year 5000."""


def mapping(value: object) -> dict[str, Any]:
    """Return a JSON object unchanged; an empty object for any other value."""
    return value if isinstance(value, dict) else {}


def text(value: object) -> str:
    """Return a text unchanged; an empty text for any other value."""
    return value if isinstance(value, str) else ""


def first_text(of: Mapping[str, Any], *keys: str) -> str:
    """Return the first text that is not empty; an empty text if there is none."""
    return next((found for key in keys if (found := text(of.get(key)))), "")


def number(value: object) -> float | None:
    """Return a finite number of 0 or more. Texts are parsed; `None` for any other value."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if 0 <= found < 1e21 else None  # false for nan


def count(value: object) -> int | None:
    """Return a count of tokens. Texts are parsed; `None` for any other value."""
    found = number(value)
    return None if found is None or found >= MAX_COUNT else int(found)


def first_count(of: Mapping[str, Any], *keys: str) -> int | None:
    """Return the first count of tokens among some fields of an object."""
    return next((found for key in keys if (found := count(of.get(key))) is not None), None)


def moment(value: object) -> float | None:
    """Return a Unix time in seconds. The value is ISO 8601 (default: UTC), seconds or milliseconds."""
    if isinstance(value, str) and not value.replace(".", "", 1).isdigit():
        try:
            at = datetime.fromisoformat(value)
        except ValueError:
            return None
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    found = number(value)
    if not found:
        return None
    return found / 1000 if found > _MILLISECONDS else found


def usage_of(
    read: int | None, written: int | None, cached: int | None, reasoning: int | None
) -> Usage | None:
    """Return the usage of a call; `None` if neither input nor output tokens are known.

    Anthropic's own counts leave cached tokens out of the input. If there are more cached tokens than input
    tokens, they are added to the input.
    """
    if read is None and written is None:
        return None
    read, written, cached, reasoning = read or 0, written or 0, cached or 0, reasoning or 0
    if cached > read:
        read += cached
    return Usage(read, max(written, reasoning), cached, reasoning)


def tier_of(said: object) -> str:
    """Return a service tier; empty for the standard tier."""
    told = text(said)
    return "" if told in ("default", "standard", "auto", "scale") else told


EXCERPT = 100
"""Length of an excerpt in characters."""
_READ = 4000
"""Number of characters that are searched for secrets before the excerpt is cut."""
_IGNORED = frozenset(
    {"id", "tool_call_id", "call_id", "response_metadata", "usage_metadata", "additional_kwargs", "lc"}
    | {"annotations", "status", "logprobs", "cache_control", "phase"}
)
_USERS = ("user", "human")
_DEEPEST = 50


def digest(value: object) -> str:
    """Return the digest of a JSON value in hex."""
    spelled = json.dumps(_essence(value), sort_keys=True, default=str)
    return blake2b(spelled.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).hexdigest()


def digests(messages: Iterable[object]) -> str:
    """Return the digests of the messages of a prompt, joined."""
    return "".join(digest(unwrapped(message)) for message in messages)


def unwrapped(message: object) -> object:
    """Return a message without the envelope of LangChain's serialization."""
    if isinstance(message, Mapping) and isinstance(inner := message.get("kwargs"), Mapping):
        return inner
    if isinstance(message, list | tuple) and len(message) == 2 and all(isinstance(x, str) for x in message):
        return {"role": message[0], "content": message[1]}
    return message


def question_of(messages: Iterable[object]) -> str:
    """Return an excerpt of the last message of the user; empty if there is none."""
    found = ""
    for message in map(unwrapped, messages):
        if isinstance(message, str):
            found = message
        elif isinstance(message, Mapping) and _role(message) in _USERS:
            found = text_of(message) or found
    return excerpt(found)


def text_of(value: object, depth: int = 0) -> str:
    """Return the text of a message, of a message's content, or of a part of the content."""
    if isinstance(value, str):
        return value
    if depth > _DEEPEST:
        return ""
    if isinstance(value, Mapping):
        for key in ("content", "parts", "text", "value"):
            if value.get(key):
                return text_of(value[key], depth + 1)
        return ""
    if isinstance(value, list | tuple):
        return "\n".join(filter(None, (text_of(each, depth + 1) for each in value)))
    return ""


def excerpt(text: str, length: int = EXCERPT) -> str:
    """Return the beginning of a text on one line, without secrets and control characters."""
    line = " ".join(printable(scrub(storable(text[:_READ]))).split())
    return line if len(line) <= length else line[: length - 1] + "…"


def _role(message: Mapping[str, Any]) -> str:
    return str(message.get("role") or message.get("type") or "")


def _essence(value: object, depth: int = 0) -> object:
    if depth > _DEEPEST:
        return str(type(value))
    if isinstance(value, Mapping):
        return {
            str(key): _essence(item, depth + 1)
            for key, item in value.items()
            if key not in _IGNORED and item not in (None, "", [], {})
        }
    if isinstance(value, list | tuple):
        return [_essence(item, depth + 1) for item in value]
    return value


_RATE = re.compile(
    r"\b429\b|rate.?limit|too many requests|throttl|resource.?exhausted|insufficient_quota", re.IGNORECASE
)
_TYPE = re.compile(r"\s*([A-Za-z_][\w.]{0,80}?)\s*[(:]")
"""The class at the beginning of an error, as in `RateLimitError('…')` and `openai.RateLimitError: …`."""
_ERROR_LENGTH = 200


class Failure(NamedTuple):
    """A short code and a message of an error, without secrets."""

    code: str
    text: str


def failure(error: object, status: object = None) -> Failure | None:
    """Return the code and message of an error in an export; `None` if there is no error."""
    wrong = status if isinstance(status, int) and status >= 400 else None
    if isinstance(error, Mapping):
        return _of_object(error, wrong)
    if isinstance(error, str) and error.strip():
        line = next(line for line in error.splitlines() if line.strip())
        found = _TYPE.match(line)
        code = found[1].rpartition(".")[2] if found else f"http_{wrong}" if wrong else "error"
        return Failure(excerpt(code), excerpt(line, _ERROR_LENGTH))
    if error not in (None, "", False):
        return Failure("error", excerpt(str(error), _ERROR_LENGTH))
    return None if wrong is None else Failure(f"http_{wrong}", f"HTTP status {wrong}")


def is_rate_limit(code: str, text: str) -> bool:
    """Return whether an error says that there were too many calls or tokens."""
    return _RATE.search(code) is not None or _RATE.search(text) is not None


def _of_object(error: Mapping[str, Any], status: int | None) -> Failure | None:
    nested = error.get("error")
    if isinstance(nested, Mapping):
        return _of_object(nested, status)
    text = next((str(error[key]) for key in ("message", "detail", "error") if error.get(key)), "")
    code = next((str(error[key]) for key in ("code", "type", "name") if error.get(key)), "")
    if not text and not code and status is None:
        return None
    code = code or (f"http_{status}" if status else "error")
    return Failure(excerpt(code), excerpt(f"{status} {text}" if status else text, _ERROR_LENGTH))


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
