"""Parts of messages and answers that every adapter writes and reads in the same way."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel

from podium.errors import AnswerRefused
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
    """Return what a tool or a chain returned as text: text as it is, anything else as JSON."""
    if value is None or isinstance(value, str):
        return storable(value or "")
    return storable(json.dumps(value, ensure_ascii=False, default=_plain))


def _plain(value: object) -> Any:
    return value.model_dump(mode="json") if isinstance(value, BaseModel) else str(value)


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
