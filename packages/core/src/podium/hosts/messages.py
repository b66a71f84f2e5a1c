"""Parts of messages and answers that every adapter writes and reads in the same way."""

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
from podium.types import Completion, Message, Part, Sampling, storable
from podium.usage import Usage
from podium.workers import FREE, Card
from podium.workers.openai import finish_reasons
from podium.workers.openai.chat_response import AnswerReader

joined_finish = finish_reasons.joined_finish
read_finish = finish_reasons.read_finish


def tool_call(call_id: str | None, name: str | None, arguments: Mapping[str, Any] | str | None) -> Part:
    """Return a call of a tool as OpenAI writes it.

    Args:
        call_id: the call's id.
        name: the tool's name.
        arguments: as an object, or as the text a model wrote, which stays as it is.
    """
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
    return {"id": call_id or "", "type": "function", "function": {"name": name or "", "arguments": text}}


def tool_arguments(call: Part) -> dict[str, Any] | None:
    """Return the arguments of a call; `None` where the model wrote no JSON object."""
    try:
        arguments = json.loads(call["function"].get("arguments") or "{}", strict=False)
    except (ValueError, RecursionError):
        return None
    return arguments if isinstance(arguments, dict) else None


def prompt_text(messages: Sequence[Message]) -> str:
    """Return messages as one text, for objects that take no messages."""
    if len(messages) == 1:
        return messages[0].text
    return "\n\n".join(f"{message.role}: {message.text}" for message in messages)


def text_of(value: object) -> str:
    """Return what a tool or a chain returned as text: text as it is, other data as JSON.

    Models of pydantic, data classes, dates, times, UUIDs, decimals, paths and enums are data. `None` is
    empty text.

    Raises:
        WorkerFailed: the value, or a part of it, is not data, such as a coroutine, a function, bytes, NaN.
    """
    if value is None or isinstance(value, str):
        return storable(value or "")
    try:
        return storable(json.dumps(value, ensure_ascii=False, allow_nan=False, default=_plain))
    except (TypeError, ValueError, RecursionError) as error:
        if isinstance(value, Coroutine):
            value.close()  # else Python warns that nobody awaited it
        returned = type(value).__name__
        told = f"the worker returned a value of type {returned} that is not data ({error})"
        told += ": return text, or values that JSON can hold"
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
    """Return what a request says of sampling, under the names that clients of chat models share.

    These are `temperature`, `top_p`, `max_tokens`, `seed` and `stop`, each only where it is said.
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
    """Return the answer of an object that may have called models, whose tokens were counted meanwhile.

    Args:
        text: the answer.
        usage: what the models reported; `Usage()` where none was called, `None` where it is not known.
        card: the worker's. With a price above 0, the object has used tokens even if no call was seen.
        finish_reason: why the last call of a model stopped, in the provider's word; `None` where nobody
            said.
        refusal: the text in which that model refused to answer.

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
    return Completion(text, finish_reason=ending, usage=usage or Usage(), uses_tokens=uses_tokens)


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
    """Return the answer of a host's chat model, by the rules for Podium's own chat workers.

    Args:
        messages: what the model was sent, from which tokens are estimated where none are reported.
        text: what it wrote.
        finish_reason: why it stopped, in the provider's word; `None` where nobody said, which
            means that the answer was cut off.
        tool_calls: calls it asks for, as `tool_call` writes them.
        refusal: the text in which it refused to answer.
        usage: reported tokens, as Podium or as any provider writes them; `None` where none are.
        model: the model that answered.

    Raises:
        AnswerRefused: the model or its provider's filter refused to answer.
        WorkerBroken: the end of the answer was not seen, its finish reason is not a known one, or the
            answer is empty.
    """
    message = {"content": text, "tool_calls": list(tool_calls), "refusal": refusal}
    reader = AnswerReader(usage if isinstance(usage, Usage) else None)
    raw = None if isinstance(usage, Usage) else usage
    choices = [{"message": message, "finish_reason": finish_reason}]
    reader.feed({"choices": choices, "usage": raw, "model": model})
    return reader.completion(messages)
