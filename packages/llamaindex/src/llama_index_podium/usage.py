"""What the models within a step report: their tokens, added up, and the finish reason of the last call.

A query engine, a retriever or a tool reports no tokens itself. The models that it calls report their tokens
in the events of their calls. The module reads the usage from the responses in these events.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from inspect import BoundArguments
from threading import Lock
from typing import Any, Final

from llama_index.core.base.llms.types import ChatResponse, CompletionResponse
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.instrumentation.events import BaseEvent
from llama_index.core.instrumentation.events.llm import (
    LLMChatEndEvent,
    LLMChatInProgressEvent,
    LLMChatStartEvent,
    LLMCompletionEndEvent,
    LLMCompletionInProgressEvent,
    LLMCompletionStartEvent,
)
from llama_index.core.instrumentation.span_handlers import NullSpanHandler
from llama_index_instrumentation import get_dispatcher

from podium.errors import WorkerBroken
from podium.hosts.results import spent_completion
from podium.types import Completion
from podium.types.messages import Message, usage_or_estimate
from podium.usage import Usage
from podium.workers import Card
from podium.workers.openai.chat_response import joined_finish, read_usage

_FINISHES: Final = ("finish_reason", "stop_reason", "done_reason")


class Ending:
    """The finish reason and the refusal of one answer, read from its chunks."""

    def __init__(self) -> None:
        self.refusal = ""
        """The text in which the model refused to answer."""
        self.finish: str | None = None
        """The provider's finish reason; `None` if no chunk had one."""
        self.states = False
        """Whether the provider always sends a finish reason: an answer without one was cut off."""

    @property
    def is_broken_off(self) -> bool:
        """Whether the answer ended without the finish reason that its provider always sends."""
        return self.states and self.finish is None

    def take(self, response: ChatResponse | CompletionResponse) -> None:
        """Read the whole answer, or its next chunk."""
        raw = _mapping(response.raw)
        self.states = self.states or "choices" in raw
        choice = (raw.get("choices") or [raw])[0]
        spoken = choice.get("message") or choice.get("delta") or {}
        self.refusal += str(spoken.get("refusal") or "") if isinstance(spoken, Mapping) else ""
        said = next((choice[key] for key in _FINISHES if choice.get(key)), None)
        self.finish = joined_finish(self.finish, said)


_SPENDING: ContextVar["Spent | None"] = ContextVar("podium_spending", default=None)


class Spent:
    """The tokens of the model calls in a block; tokens that a model does not report are estimated."""

    def __init__(self) -> None:
        self.usage = Usage()
        self.ending = Ending()
        """The finish reason of the call that ended last."""
        self.is_broken_off = False
        """Whether the answer of a call broke off, such as by a lost connection."""
        self._endings: dict[str, Ending] = {}
        self._parents: dict[str, str | None] = {}
        self._calls: dict[str, str] = {}
        """The prompt text of each model call, by its span."""
        self._open: set[str] = set()
        self._lock = Lock()

    @property
    def has_calls(self) -> bool:
        """Whether a model was called."""
        return bool(self._calls)

    @property
    def usage_at_end(self) -> Usage | None:
        """The tokens spent; `None` if a call has not ended, because the tokens are then unknown."""
        return None if self._open else self.usage

    @property
    def known(self) -> Usage | None:
        """The tokens spent; `None` if they are zero or if a call has not ended."""
        return None if self._open or self.usage == Usage() else self.usage

    def entered(self, span: str, parent: str | None) -> None:
        """Record a span."""
        self._parents[span] = parent

    def begun(self, span: str | None, asked: str) -> None:
        """Record the start of a model call."""
        if span is not None and not self._within(span):
            self._calls[span] = asked
            self._open.add(span)

    def read(self, span: str | None, response: ChatResponse | CompletionResponse | None) -> None:
        """Read a chunk of an answer, which may have the finish reason."""
        if span in self._calls and response is not None:
            self._endings.setdefault(span, Ending()).take(response)

    def ended(self, span: str | None, response: ChatResponse | CompletionResponse | None) -> None:
        """Add the tokens of a call; a call inside another model call is counted with the outer call."""
        if span not in self._open:
            return
        self._open.discard(span)
        self.read(span, response)
        self.ending = self._endings.get(span, Ending())
        self.is_broken_off = self.is_broken_off or self.ending.is_broken_off
        text = "" if response is None else str(_text(response))
        reported = None if response is None else usage_of(response)
        with self._lock:
            self.usage += usage_or_estimate(reported, (Message("user", self._calls[span]),), text)

    def _within(self, span: str) -> bool:
        above = self._parents.get(span)
        while above is not None:
            if above in self._calls:
                return True
            above = self._parents.get(above)
        return False


@contextmanager
def spending(spent: Spent | None = None) -> Iterator[Spent]:
    """Count the tokens of models in the block, and in all tasks started in it."""
    root = get_dispatcher()
    if _EVENTS not in root.event_handlers:
        root.add_event_handler(_EVENTS)
    if _SPANS not in root.span_handlers:
        root.add_span_handler(_SPANS)
    spent = spent or Spent()
    token = _SPENDING.set(spent)
    try:
        yield spent
    finally:
        _SPENDING.reset(token)


def completion_of(text: str, spent: Spent, card: Card) -> Completion:
    """Return the answer of such an object."""
    if spent.is_broken_off and not spent.ending.refusal:
        told = f"the stream of a model behind worker {card.name!r} ended with no finish_reason"
        raise WorkerBroken(told, maybe_paid=True)
    ending = spent.ending
    return spent_completion(
        text, spent.usage_at_end, card, finish_reason=ending.finish, refusal=ending.refusal
    )


def usage_of(response: ChatResponse | CompletionResponse) -> Usage | None:
    """Return the usage that a model reports; `None` if it reports none."""
    raw = _mapping(response.raw)
    said = raw.get("usage") or raw.get("usage_metadata")
    return read_usage(_mapping(said)) or read_usage(response.additional_kwargs)


def _mapping(value: Any) -> Mapping[str, Any]:
    """Return a client's object as plain data; empty if it is not a mapping."""
    if hasattr(value, "model_dump"):
        value = value.model_dump()
    return value if isinstance(value, Mapping) else {}


def _text(response: ChatResponse | CompletionResponse) -> str | None:
    return response.message.content if isinstance(response, ChatResponse) else response.text


class _Events(BaseEventHandler):
    """Reports model calls to the current block; ignores calls outside of a block."""

    @classmethod
    def class_name(cls) -> str:
        return "PodiumSpent"

    def handle(self, event: BaseEvent, **kwargs: Any) -> None:
        del kwargs
        spent = _SPENDING.get()
        if spent is None:
            return
        if isinstance(event, LLMChatStartEvent):
            spent.begun(event.span_id, "\n".join(message.content or "" for message in event.messages))
        elif isinstance(event, LLMCompletionStartEvent):
            spent.begun(event.span_id, event.prompt)
        elif isinstance(event, LLMChatInProgressEvent | LLMCompletionInProgressEvent):
            spent.read(event.span_id, event.response)
        elif isinstance(event, LLMChatEndEvent | LLMCompletionEndEvent):
            spent.ended(event.span_id, event.response)


class _Spans(NullSpanHandler):
    """Reports the parents of spans to the current block."""

    def span_enter(
        self,
        id_: str,
        bound_args: BoundArguments,
        instance: Any | None = None,
        parent_id: str | None = None,
        tags: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        del bound_args, instance, tags, kwargs
        if (spent := _SPENDING.get()) is not None:
            spent.entered(id_, parent_id)


_EVENTS = _Events()
_SPANS = _Spans()
