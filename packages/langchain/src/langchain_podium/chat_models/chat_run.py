"""A chat model's run as the parent of its steps' runs, and what callbacks are told of it.

Ordinary chat models make no calls of other models. So LangChain gives the run of a chat model no callback
manager for child runs, and a streaming chat model no run at all.
"""

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, Self
from uuid import UUID, uuid4

from langchain_core.callbacks import (
    AsyncCallbackManager,
    BaseCallbackHandler,
    BaseCallbackManager,
    UsageMetadataCallbackHandler,
)
from langchain_core.callbacks.manager import BaseRunManager
from langchain_core.language_models.base import LangSmithParams
from langchain_core.messages import AIMessageChunk
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config, get_async_callback_manager_for_config
from pydantic import PrivateAttr

from langchain_podium.messages import read_usage
from langchain_podium.scrubbed_runs import shown
from langchain_podium.tracing import under
from podium.usage import Usage

NOSTREAM: Final = "nostream"
"""The tag that keeps a run's tokens out of LangGraph's stream of messages; only the answer is streamed."""
_OWN: Final = frozenset(LangSmithParams.__annotations__)
"""Metadata of the chat model itself, which are wrong for its child runs."""


class Counter(UsageMetadataCallbackHandler):
    """Adds up the tokens that child runs report, like LangChain's own handler."""

    run_inline = True

    @property
    def seen(self) -> Usage:
        """All tokens reported so far."""
        return Usage.total(usage for told in self.usage_metadata.values() if (usage := read_usage(told)))


class ToldChunk(AIMessageChunk):
    """A chunk without secrets, for callbacks, that keeps the original for the caller.

    `BaseChatModel.astream` passes the same chunks to callbacks and to the caller, and joins them.
    """

    _whole: AIMessageChunk = PrivateAttr()

    @classmethod
    def of(cls, whole: AIMessageChunk) -> "ToldChunk":
        """Return a chunk for callbacks."""
        told = cls(**dict(shown(whole)))
        told._whole = whole
        return told

    @classmethod
    def lc_id(cls) -> list[str]:
        """Return the id of the message class in LangChain's serialization."""
        return AIMessageChunk.lc_id()

    def __add__(self, other: Any) -> "ToldChunk":  # type: ignore[override]
        """Join chunks; a secret may be split between two of them."""
        others = other if isinstance(other, list) else [other]
        whole = self._whole.__add__([original(each) for each in others])
        assert isinstance(whole, AIMessageChunk)
        return ToldChunk.of(whole)


def original(chunk: Any) -> Any:
    """Return the original chunk, with LangChain's additions; other objects are returned unchanged."""
    if not isinstance(chunk, ToldChunk):
        return chunk
    facts = {"content", "tool_calls", "tool_call_chunks", "invalid_tool_calls", "additional_kwargs"}
    own = {name: getattr(chunk._whole, name) for name in facts}  # noqa: SLF001  (a class of this module)
    return AIMessageChunk(**dict(chunk) | own)


@dataclass(slots=True)
class ChatRun:
    """The run of a chat model, with the data that its child runs need."""

    run_id: UUID
    handlers: list[BaseCallbackHandler]
    tags: list[str]
    metadata: Mapping[str, Any]
    streams: list[AsyncGenerator[Any, None]] = field(default_factory=list)
    """The streams of the answer, to be closed if the caller leaves early."""
    is_ours: bool = False
    """Whether the chunks go through `streamed`, which returns the original chunks to the caller."""

    @classmethod
    def of(cls, manager: BaseRunManager | BaseCallbackManager, run_id: UUID) -> Self:
        """Return the run whose handlers, tags and metadata are in a LangChain manager."""
        told = manager.inheritable_handlers, manager.inheritable_tags, manager.inheritable_metadata
        return cls(run_id, *told)

    @classmethod
    def current(cls) -> "ChatRun":
        """Return the current run; a new run if LangChain started none."""
        return _current.get() or cls.of(get_async_callback_manager_for_config(ensure_config()), uuid4())

    def told(self, piece: AIMessageChunk) -> AIMessageChunk:
        """Return a chunk for LangChain, which passes it to callbacks."""
        return ToldChunk.of(piece) if self.is_ours else piece

    def get_child(self, tag: str | None = None) -> AsyncCallbackManager:
        """Return the callback manager for child runs."""
        children = AsyncCallbackManager(handlers=[], parent_run_id=self.run_id)
        children.set_handlers(self.handlers)
        children.add_tags(self.tags if tag is None else [*self.tags, tag])
        children.add_metadata({key: value for key, value in self.metadata.items() if key not in _OWN})
        return children

    @contextmanager
    def counted(self) -> Iterator[Counter]:
        """Make everything that starts in the block a child of this run, and count its tokens."""
        counter, children = Counter(), self.get_child(NOSTREAM)
        children.add_handler(counter)
        with under(children):
            yield counter


_current: ContextVar[ChatRun | None] = ContextVar("podium_chat_run", default=None)


def streamed(config: RunnableConfig | None) -> tuple[RunnableConfig, ChatRun]:
    """Return the configuration of a stream, and the run that LangChain will start with it."""
    config = ensure_config(config)
    manager = get_async_callback_manager_for_config(config)  # with the same handlers as the run itself
    run = ChatRun.of(manager, config.get("run_id") or uuid4())
    run.is_ours = True
    return {**config, "callbacks": manager, "run_id": run.run_id}, run


@contextmanager
def during(run: BaseRunManager | ChatRun | None) -> Iterator[ChatRun]:
    """Set the current run in the block, and yield it; `None` changes nothing."""
    if isinstance(run, BaseRunManager):
        run = ChatRun.of(run, run.run_id)
    token = _current.set(run or _current.get())
    try:
        yield ChatRun.current()
    finally:
        _current.reset(token)
