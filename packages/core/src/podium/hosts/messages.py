"""Reads and writes parts of messages and answers, for all adapters."""

import json
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel

from podium.errors import AnswerRefused, WorkerFailed
from podium.hosts.results import with_lack
from podium.types import Completion, Message, Part, Sampling, storable
from podium.usage import Usage
from podium.workers import FREE, Card
from podium.workers.openai import finish_reasons
from podium.workers.openai.chat_response import AnswerReader

joined_finish = finish_reasons.joined_finish
read_finish = finish_reasons.read_finish


def tool_call(call_id: str | None, name: str | None, arguments: Mapping[str, Any] | str | None) -> Part:
    """Return a tool call in OpenAI's form.

    Args:
        call_id: the call's id.
        name: the tool's name.
        arguments: an object, or the text of a model, which is not changed.
    """
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
    return {"id": call_id or "", "type": "function", "function": {"name": name or "", "arguments": text}}


def tool_arguments(call: Part) -> dict[str, Any] | None:
    """Return the arguments of a tool call; `None` if they are not a JSON object."""
    try:
        arguments = json.loads(call["function"].get("arguments") or "{}", strict=False)
    except (ValueError, RecursionError):
        return None
    return arguments if isinstance(arguments, dict) else None


def prompt_text(messages: Sequence[Message]) -> str:
    """Return messages as one text, for objects that accept only text."""
    if len(messages) == 1:
        return messages[0].text
    return "\n\n".join(f"{message.role}: {message.text}" for message in messages)


def text_of(value: object) -> str:
    """Return the output of a tool or a chain as text: text unchanged, other data as JSON.

    Supports pydantic models, data classes, dates, times, UUIDs, decimals, paths and enums. `None` becomes
    empty text.

    Raises:
        WorkerFailed: the value, or a part of it, has no JSON form: a coroutine, a function, bytes, NaN.
    """
    if value is None or isinstance(value, str):
        return storable(value or "")
    try:
        return storable(json.dumps(value, ensure_ascii=False, allow_nan=False, default=_plain))
    except (TypeError, ValueError, RecursionError) as error:
        if isinstance(value, Coroutine):
            value.close()  # avoids Python's warning on a coroutine that was never awaited
        returned = type(value).__name__
        told = f"the worker returned a value of type {returned} that has no JSON form ({error})"
        told += ": return text, or JSON values"
        raise WorkerFailed(storable(told), maybe_paid=True) from None


def _plain(value: object) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: getattr(value, each.name) for each in fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, date | time | timedelta | UUID | Decimal | PurePath):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"JSON has no {type(value).__name__}")


def sampling_arguments(sampling: Sampling) -> dict[str, Any]:
    """Return the sampling settings of a request with the names that clients of chat models use.

    These are `temperature`, `top_p`, `max_tokens`, `seed` and `stop`; settings that are not set are left out.
    """
    names = ("temperature", "top_p", "max_tokens", "seed")
    arguments = {name: value for name in names if (value := getattr(sampling, name)) is not None}
    return arguments | ({"stop": list(sampling.stop)} if sampling.stop else {})


def spent_completion(
    text: str,
    usage: Usage | None,
    card: Card,
    *,
    finish_reason: str | None = None,
    refusal: str | None = None,
) -> Completion:
    """Return the answer of an object that may have called models.

    Args:
        text: the answer.
        usage: the tokens that the models reported; `Usage()` if no model was called, `None` if unknown.
        card: the worker's card. With a price above 0, the object used tokens even if no call was counted.
        finish_reason: the provider's finish reason of the last model call; `None` if unknown.
        refusal: the text with which that model refused to answer.

    Raises:
        AnswerRefused: the last model or its provider's filter refused to answer.
    """
    finish = None if finish_reason is None else read_finish(finish_reason)
    if finish == "content_filter" or refusal:
        told = f"the last model behind worker {card.name!r}, or its content filter, refused to answer"
        told += f": {storable(refusal)[:300]!r}" if refusal else ""
        raise AnswerRefused(told, maybe_paid=True, usage=usage)
    uses_tokens = usage != Usage() or card.price not in (None, FREE)
    ending: Literal["length", "stop"] = "length" if finish == "length" else "stop"
    done = Completion(text, finish_reason=ending, usage=usage or Usage(), uses_tokens=uses_tokens)
    return with_lack(done)


def read_completion(  # noqa: PLR0913 - the facts of one answer
    messages: Sequence[Message],
    *,
    text: str,
    finish_reason: str | None,
    tool_calls: Sequence[Part] = (),
    refusal: str | None = None,
    usage: Usage | Mapping[str, Any] | None = None,
    model: str | None = None,
) -> Completion:
    """Return the answer of a host's chat model, with the same checks as for Podium's chat workers.

    Args:
        messages: the messages that were sent, from which missing usage is estimated.
        text: the text of the answer.
        finish_reason: the provider's finish reason; `None` if there is none, which means that the
            answer was cut off.
        tool_calls: the tool calls, in the form of `tool_call`.
        refusal: the text with which the model refused to answer.
        usage: the reported tokens, in Podium's form or a provider's; `None` if none are reported.
        model: the model that answered.

    Raises:
        AnswerRefused: the model or its provider's filter refused to answer.
        WorkerBroken: the answer is incomplete or empty, or its finish reason is unknown.
    """
    message = {"content": text, "tool_calls": list(tool_calls), "refusal": refusal}
    reader = AnswerReader(usage if isinstance(usage, Usage) else None)
    raw = None if isinstance(usage, Usage) else usage
    choices = [{"message": message, "finish_reason": finish_reason}]
    reader.feed({"choices": choices, "usage": raw, "model": model})
    return with_lack(reader.completion(messages))
