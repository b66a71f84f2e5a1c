"""Estimates the maximum number of tokens of a prompt from its bytes.

With the vocabularies of GPT-4 and GPT-5, a token has four to five bytes in English prose. It has 1.4 to 1.8
bytes in numbers, hexadecimal and base64, and 1.35 bytes in random ASCII. So five bytes of ASCII count as four
tokens. Other scripts than Latin have up to 0.92 tokens per byte (Ethiopic). A byte-level tokenizer makes at
most one token of a byte. So each byte of a character outside ASCII counts as one token.
"""

import json
from collections.abc import Sequence

from podium.budget.charging import Charged
from podium.budget.spend import Spend
from podium.errors import WorkerError
from podium.types.messages import Constraint, Message, Tools, estimate_usage
from podium.usage import Usage

PER_MESSAGE = 16
"""Maximum tokens that a model's template adds to a message."""
PER_REQUEST = 32
"""Maximum tokens that the template adds to a request, such as its own system text."""
PER_ATTACHMENT = 5000
"""Maximum tokens of an image. Any other attachment counts as this number or its bytes, whichever is
larger."""


def most_tokens(
    messages: Sequence[Message], constraint: Constraint | None = None, tools: Tools | None = None
) -> int:
    """Return the maximum number of tokens of a prompt with these messages."""
    total = PER_REQUEST + PER_MESSAGE * len(messages)
    for message in messages:
        if isinstance(message.content, str):
            total += _of_text(message.content)
        else:
            total += sum(map(_of_part, message.content))
        if message.tool_calls:
            total += _of_text(json.dumps(message.tool_calls, default=dict))
    if constraint is not None:  # servers may put it into the prompt
        form = constraint.value
        total += _of_text(form if isinstance(form, str) else json.dumps(form, default=dict))
    if tools is not None:
        total += _of_text(json.dumps(tools.offered, default=dict))
    return total


def unreported_usage(
    messages: Sequence[Message], text: str, error: Exception | None, reserved: Spend
) -> tuple[Usage, Charged]:
    """Return the tokens of a call without a complete answer, and what the call is charged for.

    If the whole response was received, the tokens are the most that the call used; otherwise an estimate.

    Args:
        messages: the messages that were sent.
        text: the text that was read so far.
        error: why there is no answer; `None` if the call was stopped.
        reserved: the worst case of the call.
    """
    received = error.received if isinstance(error, WorkerError) else None
    if received is None:
        return estimate_usage(messages, text), "reservation"
    told = estimate_usage(messages, received)
    read = max(told.input_tokens, reserved.input_tokens)
    written = max(told.output_tokens, min(_of_text(received), reserved.output_tokens))
    return Usage(read, written, estimated=True), "received"


def _of_part(part: object) -> int:
    match part:
        case {"type": "text", "text": str(text)}:
            return _of_text(text)
        case {"type": "image_url"}:
            return PER_ATTACHMENT
    return max(PER_ATTACHMENT, _of_text(json.dumps(part, default=dict)))


def _of_text(text: str) -> int:
    if text.isascii():
        return -(-len(text) * 4 // 5)
    size, ascii_size = len(text.encode("utf-8", "surrogatepass")), len(text.encode("ascii", "ignore"))
    return size - ascii_size - (-ascii_size * 4 // 5)
