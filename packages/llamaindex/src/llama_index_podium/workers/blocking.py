"""Which of LlamaIndex's things block the event loop in their async methods, and calling these in threads.

Many async methods of LlamaIndex are defaults that call the sync one. Of a thing that is, or
is made of, such a one, the sync method is called, in a thread, so that steps side by side
stay side by side. It knows no worker.
"""

from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from typing import Any, Final, TypeVar, cast

import anyio.to_thread
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.llms import LLM, CustomLLM
from llama_index.core.prompts.mixin import PromptMixin
from llama_index.core.query_engine import CustomQueryEngine
from llama_index.core.tools import BaseTool
from llama_index.core.vector_stores.types import BasePydanticVectorStore

T = TypeVar("T")

_DEFAULTS: Final[tuple[tuple[type, str], ...]] = (
    (BaseRetriever, "_aretrieve"),
    (CustomLLM, "achat"),
    (CustomLLM, "acomplete"),
    (CustomQueryEngine, "acustom_query"),
    (BasePydanticVectorStore, "aquery"),
)
"""Async methods that call the sync one, where nobody has overridden them."""
_PARTS: Final = (PromptMixin, LLM, BaseTool, BasePydanticVectorStore)
"""What a thing may be made of that can block."""


def is_blocking(thing: object) -> bool:
    """Say whether the async methods of a thing, or of what it is made of, are known to block."""
    return any(inherits(part, owner, method) for part in parts_of(thing) for owner, method in _DEFAULTS)


def inherits(thing: object, owner: type, method: str) -> bool:
    """Say whether a thing has this method from `owner`, and from nobody nearer."""
    return isinstance(thing, owner) and next(k for k in type(thing).__mro__ if method in vars(k)) is owner


async def in_thread(call: Callable[..., T], *arguments: Any) -> T:
    """Call what blocks in a thread; after a cancel it is left behind there, as nothing can stop it."""
    return await anyio.to_thread.run_sync(call, *arguments, abandon_on_cancel=True)


async def pieces_in_thread(make: Callable[[], Generator[T, None, None]]) -> AsyncGenerator[T, None]:
    """Yield what a generator that blocks does, each piece had in a thread."""
    pieces, end, waits = await in_thread(make), object(), False
    try:
        while True:
            waits = True
            piece = await in_thread(next, pieces, end)
            waits = False
            if piece is end:
                break
            yield cast("T", piece)
    finally:
        if not waits:  # else a thread that was left behind is still in it
            pieces.close()


def parts_of(thing: object) -> Iterator[object]:
    """Yield a thing, what it is made of, what that is made of, and so on."""
    seen, todo = set[int](), [thing]
    while todo:
        part = todo.pop()
        if id(part) not in seen:
            seen.add(id(part))
            yield part
            todo += [inner for value in getattr(part, "__dict__", {}).values() for inner in _inside(value)]


def _inside(value: object) -> list[object]:
    held = list(value.values()) if isinstance(value, dict) else value
    held = held if isinstance(held, list | tuple) else [value]
    return [one for one in held if isinstance(one, _PARTS)]
