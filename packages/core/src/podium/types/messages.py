"""The inputs and outputs of a model: messages, sampling, completions."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self, get_args

from podium.errors import QueryError
from podium.usage import Usage, estimate_tokens, is_well_formed

Role = Literal["system", "developer", "user", "assistant", "tool"]
FinishReason = Literal["stop", "length", "content_filter", "tool_calls"]
Part = Mapping[str, Any]
"""One content part in OpenAI's form: `{"type": "text", "text": …}`, `{"type": "image_url", …}`."""

MAX_QUERY_CHARS = 4 * 2**20
"""Maximum length of a query's text, in characters. Workers check the context window of their model."""


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message."""

    role: Role
    content: str | tuple[Part, ...]
    """Text, or content parts, which the workers get unchanged."""
    tool_calls: tuple[Part, ...] = ()
    """Tool calls of an assistant, in OpenAI's form."""
    tool_call_id: str | None = None
    """For the role `tool`: the id of the tool call."""
    labels: frozenset[str] | None = field(default=None, compare=False)
    """The labels of the text, for the rules of a policy. `None` means that they are not known: an assistant's
    text then has the labels of an equal earlier answer, or else those of `Policy.unknown`."""

    @property
    def text(self) -> str:
        """The text of the message; text parts are joined with newlines."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(str(part.get("text", "")) for part in self.content if part.get("type") == "text")

    @classmethod
    def from_wire(cls, raw: Mapping[str, Any]) -> Self:
        """Read a message in the form of OpenAI's chat completions.

        Raises:
            QueryError: the role, the content or the tool calls are invalid.
        """
        content, asked, answered = raw.get("content"), raw.get("tool_calls"), raw.get("tool_call_id")
        role: Role | None = next((r for r in get_args(Role) if r == raw.get("role")), None)
        if role is None:
            raise QueryError(f"role {raw.get('role')!r} is not one of {', '.join(get_args(Role))}")
        calls = () if asked is None else _mappings(asked)
        if calls is None:
            raise QueryError(f"a message's tool_calls must be a list of objects, not {asked!r:.80}")
        if answered is not None and not isinstance(answered, str):
            raise QueryError(f"a message's tool_call_id must be text, not {answered!r:.80}")
        if content is None and calls:
            content = ""
        parts = storable(content) if isinstance(content, str) else _mappings(content)
        if parts is None:
            raise QueryError(f"a message's content must be text or a list of parts, not {content!r:.80}")
        return cls(role, parts, calls, answered)

    def to_wire(self) -> dict[str, Any]:
        """Return the message in the form of OpenAI's chat completions."""
        content = self.content if isinstance(self.content, str) else list(self.content)
        wire: dict[str, Any] = {"role": self.role, "content": content}
        if self.tool_calls:
            wire["tool_calls"] = list(self.tool_calls)
        if self.tool_call_id is not None:
            wire["tool_call_id"] = self.tool_call_id
        return wire


@dataclass(frozen=True, slots=True)
class Tools:
    """The tools that workers may call. The caller of the run executes the calls."""

    offered: tuple[Part, ...]
    """Functions in OpenAI's form: `{"type": "function", "function": {"name": …, …}}`."""
    choice: str | Part | None = None
    """`auto`, `required`, `none`, or one function in OpenAI's form; `None` means the server's default."""
    last: tuple[str, ...] = ()
    """The names of tools that end the caller's turn, such as handoffs: only the last step may call them."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the tools."""
        return tuple(str(tool.get("function", {}).get("name")) for tool in self.offered)

    def of_step(self, names: Collection[str] | None, *, last: bool) -> "Tools | None":
        """Return the tools for a step, which may have these names, or any name; `None` if there are none."""
        some = tuple(
            tool
            for tool, name in zip(self.offered, self.names, strict=True)
            if (names is None or name in names) and (last or name not in self.last)
        )
        return replace(self, offered=some) if some else None

    @property
    def is_forced(self) -> bool:
        """Whether the answer must be a call of one function, so that no text is left to constrain."""
        return isinstance(self.choice, Mapping)


def names_of(calls: Iterable[Part]) -> str:
    """Return the names of the tools that calls are for, shortened."""
    functions = [call.get("function") for call in calls]
    names = [str(each.get("name")) if isinstance(each, Mapping) else "?" for each in functions]
    return f"{', '.join(names):.200}"


Query = str | Sequence[Message | Mapping[str, Any]]
"""Text, or the chat messages of a conversation. `read_conversation` finds the question in it."""


def read_query(query: Query) -> tuple[Message, ...]:
    """Return the query as messages, of which the last is the question; raise `QueryError`."""
    messages = _read_messages(query)
    if messages[-1].role != "user":
        raise QueryError(f"the last message must have the role user, not {messages[-1].role}")
    _check_question(messages[-1])
    return messages


def read_conversation(query: Query) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """Return a conversation's query, which ends with its question, and the tool messages after it."""
    messages = _read_messages(query)
    if messages[-1].tool_calls:
        raise QueryError("the conversation ends with tool calls: add the tool results")
    asked = _last(messages, "user")  # without user messages, the last system message is the question
    is_users = asked is not None
    if asked is None and (asked := _last(messages, *INSTRUCTING)) is None:
        raise QueryError("the conversation has no question: add a user message")
    question = replace(messages[asked], role="user")
    _check_question(question)
    after = messages[asked + 1 :]
    said, turn = _split_turn(after)
    if is_users and all(message.role in INSTRUCTING for message in said):
        return (*messages[:asked], *said, question), turn
    # an assistant has answered the question: it is asked again
    return (*messages[: asked + 1], *said, question), turn


INSTRUCTING: tuple[Role, ...] = ("system", "developer")
"""The roles of system prompts."""


def _last(messages: Sequence[Message], *roles: Role) -> int | None:
    return max((at for at, message in enumerate(messages) if message.role in roles), default=None)


def _split_turn(after: tuple[Message, ...]) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """Split the messages after a question at the first tool call."""
    of_tools = (at for at, message in enumerate(after) if message.role == "tool" or message.tool_calls)
    begin = next(of_tools, len(after))
    spoken = [message for message in after[begin:] if message.role not in INSTRUCTING]
    is_open = bool(spoken) and spoken[-1].role == "tool"
    return (after[:begin], after[begin:]) if is_open else (after, ())


def _read_messages(query: Query) -> tuple[Message, ...]:
    given: object = query
    if isinstance(given, bytes | Mapping) or not isinstance(given, Sequence):
        told = "a query must be text or a list of chat messages, not one"
        raise QueryError(f"{told} {type(given).__name__}")
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
    parts = () if isinstance(question.content, str) else question.content
    if not question.text.strip() and all(part.get("type") == "text" for part in parts):
        raise QueryError("the question is empty: ask something")


def read_message(message: object) -> Message:
    """Return a `Message` from a `Message` or from the form of OpenAI's chat completions."""
    if isinstance(message, Message):
        text = message.content
        return replace(message, content=storable(text)) if isinstance(text, str) else message
    if isinstance(message, Mapping):
        return Message.from_wire(message)
    raise QueryError(f"a chat message must be a mapping with role and content, not {message!r:.80}")


def _mappings(value: object) -> tuple[Part, ...] | None:
    """Return a list of mappings as a tuple; `None` for other values."""
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        return None
    return tuple(value) if all(isinstance(entry, Mapping) for entry in value) else None


def storable(text: str) -> str:
    """Replace lone surrogates and NUL, which databases and HTTP bodies do not accept, with U+FFFD."""
    if "\0" in text:
        text = text.replace("\0", "\N{REPLACEMENT CHARACTER}")
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


@dataclass(frozen=True, slots=True)
class Constraint:
    """A format that the server enforces on the model's text (constrained decoding)."""

    kind: Literal["json", "grammar"]
    value: Mapping[str, Any] | str
    """A JSON schema, or an EBNF grammar with the start rule `root`."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """The sampling settings of a model. `None` means the server's default."""

    temperature: float | None = None
    """Randomness of the text, from 0."""
    top_p: float | None = None
    """Nucleus sampling, from 0 to 1."""
    max_tokens: int | None = None
    """Maximum tokens of the answer, including reasoning."""
    stop: tuple[str, ...] = ()
    """Strings at which the model stops."""
    seed: int | None = None
    """Random seed, if the server supports one."""
    effort: str | None = None
    """Reasoning effort, in the provider's own words (`low`, `high`, `xhigh`, …)."""
    constraint: Constraint | None = None
    extra: Mapping[str, Any] | None = None
    """Further fields of the request, in the provider's own words, such as `top_k`."""

    @property
    def answers(self) -> int:
        """How many answers the request asks for, each of which is paid for (`n` in `extra`)."""
        asked = (self.extra or {}).get("n")
        return asked if isinstance(asked, int) and asked > 1 else 1


def prompt_text(messages: Sequence[Message]) -> str:
    """Return messages as one text, for objects that accept only text."""
    if len(messages) == 1:
        return messages[0].text
    return "\n\n".join(f"{message.role}: {message.text}" for message in messages)


def estimate_usage(messages: Sequence[Message], text: str, tool_calls: Sequence[Part] = ()) -> Usage:
    """Estimate the tokens of a call from its texts; attachments are not counted."""
    read = sum(estimate_tokens(_with_calls(message.text, message.tool_calls)) for message in messages)
    return Usage(read, estimate_tokens(_with_calls(text, tool_calls)), estimated=True)


def usage_or_estimate(
    usage: Usage | None,
    messages: Sequence[Message],
    text: str,
    tool_calls: Sequence[Part] = (),
    *,
    most: int = 0,
) -> Usage:
    """Return the reported usage of a call, or an estimate if it is missing or impossible.

    An estimate is at most `most`, the tokens that the request allowed (0 for no maximum), unless the text is
    so long that the worker cannot have kept to it.
    """
    read = (_with_calls(message.text, message.tool_calls) for message in messages)
    if usage is None or not _is_plausible(usage, read, _with_calls(text, tool_calls)):
        usage = estimate_usage(messages, text, tool_calls)
    if usage.estimated and most < usage.output_tokens <= _TOO_HIGH * most:
        return replace(usage, output_tokens=most)
    return usage


_TOO_HIGH = 5
"""The estimate of a text, such as one of numbers or Chinese, is at most about so many times its tokens."""


_LONGEST_TOKEN = 32
"""Maximum average length of a token in characters, without spaces. English has about 4."""
_SLACK = 256
"""Additional characters that a text may have, because horizontal rules and drawings have long tokens."""


def _is_plausible(usage: object, read: Iterable[str], written: str) -> bool:
    """Return whether a reported usage is well formed and possible for a call with these texts."""
    if not is_well_formed(usage):
        return False
    parts_fit = (
        usage.cached_tokens <= usage.input_tokens
        and usage.reasoning_tokens <= usage.output_tokens
        and usage.orchestration_cached_tokens <= usage.orchestration_input_tokens
    )
    if not parts_fit or not usage.total_input_tokens or (written.strip() and not usage.total_output_tokens):
        return False
    return _can_have((written,), usage.total_output_tokens) and _can_have(read, usage.total_input_tokens)


def _can_have(texts: Iterable[str], tokens: int) -> bool:
    """Return whether the texts can have so few tokens."""
    return sum(len(text) - text.count(" ") for text in texts) <= _LONGEST_TOKEN * tokens + _SLACK


def _with_calls(text: str, tool_calls: Sequence[Part]) -> str:
    return text + json.dumps(tool_calls, ensure_ascii=False, default=str) if tool_calls else text


@dataclass(frozen=True, slots=True)
class Completion:
    """A complete answer."""

    text: str
    finish_reason: FinishReason = "stop"
    usage: Usage = Usage()
    model: str | None = None
    """The model that answered, as the server names it; `None` when the server does not name it."""
    tool_calls: tuple[Part, ...] = ()
    """Tool calls for the caller to execute, in OpenAI's form."""
    cost: float | None = None
    """Cost in USD, if the worker knows it; `None` means the cost follows from the card's price."""
    uses_tokens: bool = True
    """Whether the call used tokens; `False` if no model was called."""
    missing: str | None = None
    """The missing parts of the answer, in words; `None` if no part is known to be missing."""
    data: Mapping[str, Any] | None = None
    """What the worker returned beside the text, as JSON data; `None` for nothing. See `Outcome.data`."""
