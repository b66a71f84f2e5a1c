"""What goes into a model and what comes out: messages, sampling, completions.

Knows nothing of plans, pools or transports.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, get_args

from podium.errors import QueryError
from podium.usage import Usage, estimate_tokens, is_plausible

Role = Literal["system", "developer", "user", "assistant", "tool"]
FinishReason = Literal["stop", "length", "content_filter", "tool_calls"]
Part = Mapping[str, Any]
"""One content part as OpenAI writes it: `{"type": "text", "text": …}`, `{"type": "image_url", …}`."""

MAX_QUERY_CHARS = 4 * 2**20
"""Longest text of a query, in characters; what a model's context takes is the worker's to say."""


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message."""

    role: Role
    content: str | tuple[Part, ...]
    """Text, or content parts, which reach the workers untouched."""
    tool_calls: tuple[Part, ...] = ()
    """Calls an assistant asked for, as OpenAI writes them."""
    tool_call_id: str | None = None
    """For the role `tool`: the call it answers."""

    @property
    def text(self) -> str:
        """The text of the message, its text parts joined by newlines."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(str(part.get("text", "")) for part in self.content if part.get("type") == "text")

    @classmethod
    def from_wire(cls, raw: Mapping[str, Any]) -> Self:
        """Read a message in the form of OpenAI's chat completions.

        Raises:
            QueryError: the role, the content or the calls are none that a chat message has.
        """
        content, asked, answered = raw.get("content"), raw.get("tool_calls"), raw.get("tool_call_id")
        role: Role | None = next((r for r in get_args(Role) if r == raw.get("role")), None)
        if role is None:
            raise QueryError(f"role {raw.get('role')!r} is not one of {', '.join(get_args(Role))}")
        calls = () if asked is None else _mappings(asked)
        if calls is None:
            raise QueryError(f"a message's tool_calls is a list of objects, not {asked!r:.80}")
        if answered is not None and not isinstance(answered, str):
            raise QueryError(f"a message's tool_call_id is text, not {answered!r:.80}")
        if content is None and calls:
            content = ""
        parts = storable(content) if isinstance(content, str) else _mappings(content)
        if parts is None:
            raise QueryError(f"a message's content is text or a list of parts, not {content!r:.80}")
        return cls(role, parts, calls, answered)

    def to_wire(self) -> dict[str, Any]:
        """Write the message in the form of OpenAI's chat completions."""
        content = self.content if isinstance(self.content, str) else list(self.content)
        wire: dict[str, Any] = {"role": self.role, "content": content}
        if self.tool_calls:
            wire["tool_calls"] = list(self.tool_calls)
        if self.tool_call_id is not None:
            wire["tool_call_id"] = self.tool_call_id
        return wire


@dataclass(frozen=True, slots=True)
class Tools:
    """What the worker that writes the answer may ask its caller to do."""

    offered: tuple[Part, ...]
    """Functions, as OpenAI writes them: `{"type": "function", "function": {"name": …, …}}`."""
    choice: str | Part | None = None
    """`auto`, `required`, `none`, or one function, as OpenAI writes it; `None` leaves it to the server."""


Query = str | Sequence[Message | Mapping[str, Any]]
"""What a user asks: text, or chat messages with their history. See `read_conversation` for the question."""


def read_query(query: Query) -> tuple[Message, ...]:
    """Return the query as messages, the last of which is the question.

    Args:
        query: text, or chat messages.

    Raises:
        QueryError: it is empty, too long, not made of chat messages, or the last is not the user's.
    """
    messages = _read_messages(query)
    if messages[-1].role != "user":
        raise QueryError(f"the last message must be the user's, not the {messages[-1].role}'s")
    _check_question(messages[-1])
    return messages


def read_conversation(query: Query) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """Return a conversation's query, and the turn after its question: tool calls and their results.

    The question is the last message of the user. In a conversation without any, it is the last
    system message. The query ends with it. System messages that follow the question are put
    before it. Where an assistant has answered the question already, the query is the whole
    conversation, and then the question again.

    Raises:
        QueryError: it is empty, too long, malformed, has no question, or ends in tool calls without
            results.
    """
    messages = _read_messages(query)
    if messages[-1].tool_calls:
        raise QueryError("the conversation ends in calls of tools: add what the tools returned")
    asked = _last(messages, "user")
    is_users = asked is not None
    if asked is None and (asked := _last(messages, *_INSTRUCTING)) is None:
        raise QueryError("the messages hold no question: add a message of the user")
    question = replace(messages[asked], role="user")
    _check_question(question)
    after = messages[asked + 1 :]
    said, turn = _split_turn(after)
    if is_users and all(message.role in _INSTRUCTING for message in said):
        return (*messages[:asked], *said, question), turn
    return (*messages[: asked + 1], *said, question), turn


_INSTRUCTING: tuple[Role, ...] = ("system", "developer")


def _last(messages: Sequence[Message], *roles: Role) -> int | None:
    return max((at for at, message in enumerate(messages) if message.role in roles), default=None)


def _split_turn(after: tuple[Message, ...]) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """Return the messages after a question up to the first tool call, and those from there on.

    Where an assistant has answered after the last tool result, the turn is over: it is among the former.
    """
    begin = next((at for at, message in enumerate(after) if _is_of_tools(message)), len(after))
    spoken = [message for message in after[begin:] if message.role not in _INSTRUCTING]
    is_open = bool(spoken) and spoken[-1].role == "tool"
    return (after[:begin], after[begin:]) if is_open else (after, ())


def _is_of_tools(message: Message) -> bool:
    return message.role == "tool" or bool(message.tool_calls)


def _read_messages(query: Query) -> tuple[Message, ...]:
    """Return text or chat messages as messages, whatever they ask.

    Raises:
        QueryError: there are none, they are too long, or not chat messages.
    """
    _check_query(query)
    if isinstance(query, str):
        messages: tuple[Message, ...] = (Message("user", storable(query)),)
    else:
        messages = tuple(read_message(message) for message in query)
    if not messages:
        raise QueryError("the question is empty: ask something")
    if sum(len(m.text) for m in messages) > MAX_QUERY_CHARS:
        raise QueryError(
            f"the question is longer than {MAX_QUERY_CHARS:,} characters: "
            "put long material behind a retriever and ask about it"
        )
    return messages


def _check_question(question: Message) -> None:
    if not (question.text.strip() or _attached(question)):
        raise QueryError("the question is empty: ask something")


def read_message(message: object) -> Message:
    """Return a message that is one already, or in the form of OpenAI's chat completions.

    Raises:
        QueryError: it is neither.
    """
    if isinstance(message, Message):
        text = message.content
        return replace(message, content=storable(text)) if isinstance(text, str) else message
    if isinstance(message, Mapping):
        return Message.from_wire(message)
    raise QueryError(f"a chat message is a mapping with role and content, not {message!r:.80}")


def _mappings(value: object) -> tuple[Part, ...] | None:
    """Return a list of mappings as a tuple; `None` when it is something else."""
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        return None
    return tuple(value) if all(isinstance(entry, Mapping) for entry in value) else None


def _check_query(query: object) -> None:
    if isinstance(query, Mapping):
        raise QueryError("one chat message alone is no query: put it into a list")
    if isinstance(query, bytes) or not isinstance(query, Sequence):
        raise QueryError(f"a query is text or a list of chat messages, not {type(query).__name__}")


def _attached(message: Message) -> bool:
    return not isinstance(message.content, str) and any(p.get("type") != "text" for p in message.content)


def storable(text: str) -> str:
    """Replace what no database or wire takes (lone surrogates, NUL) by U+FFFD."""
    if "\0" in text:
        text = text.replace("\0", "\N{REPLACEMENT CHARACTER}")
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


@dataclass(frozen=True, slots=True)
class Constraint:
    """A form the model's text is held to by the server while it decodes."""

    kind: Literal["json", "grammar"]
    value: Mapping[str, Any] | str
    """A JSON schema, or an EBNF grammar whose start is `root`."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a model is to write. `None` leaves a choice to the server."""

    temperature: float | None = None
    """Randomness of the text, from 0."""
    top_p: float | None = None
    """Share of the likeliest tokens that are drawn from, 0 to 1."""
    max_tokens: int | None = None
    """Most tokens the answer may have, reasoning included."""
    stop: tuple[str, ...] = ()
    seed: int | None = None
    """Seed of the random choices, where the server takes one."""
    effort: str | None = None
    """Reasoning effort, in the provider's own word (`low`, `high`, `xhigh`, …)."""
    constraint: Constraint | None = None


def estimate_usage(messages: Sequence[Message], text: str, tool_calls: Sequence[Part] = ()) -> Usage:
    """Estimate the tokens of a call from its text, by `podium.usage.estimate_tokens`.

    Args:
        messages: what was read; attachments are not counted.
        text: what was written.
        tool_calls: the tool calls that were written besides, as OpenAI writes them.
    """
    read = sum(estimate_tokens(_with_calls(message.text, message.tool_calls)) for message in messages)
    return Usage(read, estimate_tokens(_with_calls(text, tool_calls)), estimated=True)


def usage_or_estimate(
    usage: Usage | None, messages: Sequence[Message], text: str, tool_calls: Sequence[Part] = ()
) -> Usage:
    """Return the usage that was reported for a call, or an estimate where it cannot be right.

    Args:
        usage: what was reported; `None` where nothing was.
        messages: what was read.
        text: what was written.
        tool_calls: the tool calls that were written besides, as OpenAI writes them.
    """
    read = (_with_calls(message.text, message.tool_calls) for message in messages)
    if usage is not None and is_plausible(usage, read, _with_calls(text, tool_calls)):
        return usage
    return estimate_usage(messages, text, tool_calls)


def _with_calls(text: str, tool_calls: Sequence[Part]) -> str:
    return text + json.dumps(tool_calls, ensure_ascii=False, default=str) if tool_calls else text


@dataclass(frozen=True, slots=True)
class Completion:
    """A whole answer: its end was seen."""

    text: str
    finish_reason: FinishReason = "stop"
    usage: Usage = Usage()
    model: str | None = None
    """The model that answered, in the server's word; `None` when nobody said."""
    tool_calls: tuple[Part, ...] = ()
    """Calls the model asks its caller to make, as OpenAI writes them."""
    cost: float | None = None
    """What it cost in USD, where the worker knows; `None` leaves it to the price on its card."""
    uses_tokens: bool = True
    """Whether tokens were used for it; `False` where the worker knows that no model was asked."""
    missing: str | None = None
    """What the answer lacks, in words, where the worker knows; `None` when it is whole."""
