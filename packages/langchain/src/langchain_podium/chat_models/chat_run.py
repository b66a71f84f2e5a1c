"""What a chat model's run is to the runs below it.

LangChain gives a chat model's run no manager of children, and one that streams no run at all,
since chat models call nobody. This one does: here its run is made the parent of its steps'
runs, and what those report of their tokens is added up. It knows no conductor.
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

from langchain_podium.chat_models.told_chunk import ToldChunk
from langchain_podium.messages import read_usage
from langchain_podium.tracing import under
from podium.usage import Usage

NOSTREAM: Final = "nostream"
"""The tag that keeps a run's tokens out of LangGraph's stream of messages: the answer's are this model's."""
_OWN: Final = frozenset(LangSmithParams.__annotations__)
"""Metadata that tell of the chat model itself, and are wrong of what it calls."""


class Counter(UsageMetadataCallbackHandler):
    """Adds up what the runs below report, as LangChain's own handler of this kind would."""

    run_inline = True

    @property
    def seen(self) -> Usage:
        """All tokens that were reported so far."""
        return Usage.total(usage for told in self.usage_metadata.values() if (usage := read_usage(told)))


@dataclass(slots=True)
class ChatRun:
    """The run of a chat model, as far as those below it go."""

    run_id: UUID
    handlers: list[BaseCallbackHandler]
    tags: list[str]
    metadata: Mapping[str, Any]
    streams: list[AsyncGenerator[Any, None]] = field(default_factory=list)
    """What answers it in pieces, for whoever leaves before the end to close."""
    is_ours: bool = False
    """Whether the pieces go through `streamed`, which gives the caller each piece as it is."""

    @classmethod
    def of(cls, manager: BaseRunManager | BaseCallbackManager, run_id: UUID) -> Self:
        """Return the run whose handlers, tags and metadata LangChain keeps in `manager`."""
        told = manager.inheritable_handlers, manager.inheritable_tags, manager.inheritable_metadata
        return cls(run_id, *told)

    @classmethod
    def current(cls) -> "ChatRun":
        """Return the run that is under way here; one of nobody's, where LangChain began none."""
        return _current.get() or cls.of(get_async_callback_manager_for_config(ensure_config()), uuid4())

    def told(self, piece: AIMessageChunk) -> AIMessageChunk:
        """Return what LangChain is given of a piece of the answer, and tells callbacks."""
        return ToldChunk.of(piece) if self.is_ours else piece

    def get_child(self, tag: str | None = None) -> AsyncCallbackManager:
        """Return the manager of the runs below."""
        children = AsyncCallbackManager(handlers=[], parent_run_id=self.run_id)
        children.set_handlers(self.handlers)
        children.add_tags(self.tags if tag is None else [*self.tags, tag])
        children.add_metadata({key: value for key, value in self.metadata.items() if key not in _OWN})
        return children

    @contextmanager
    def counted(self) -> Iterator[Counter]:
        """Have what is begun in the block be below this run, and count what it reports."""
        counter, children = Counter(), self.get_child(NOSTREAM)
        children.add_handler(counter)
        with under(children):
            yield counter


_current: ContextVar[ChatRun | None] = ContextVar("podium_chat_run", default=None)


def streamed(config: RunnableConfig | None) -> tuple[RunnableConfig, ChatRun]:
    """Return the configuration of a stream, and the run LangChain will begin by it."""
    config = ensure_config(config)
    manager = get_async_callback_manager_for_config(config)  # with the handlers that the run itself will have
    run = ChatRun.of(manager, config.get("run_id") or uuid4())
    run.is_ours = True
    return {**config, "callbacks": manager, "run_id": run.run_id}, run


@contextmanager
def during(run: BaseRunManager | ChatRun | None) -> Iterator[None]:
    """Have what is done in the block be done for this run; `None` leaves it as it is."""
    if isinstance(run, BaseRunManager):
        run = ChatRun.of(run, run.run_id)
    token = _current.set(run or _current.get())
    try:
        yield
    finally:
        _current.reset(token)
