"""Translates what LangChain's objects raise in a worker.

What client libraries raise is read by `podium.hosts`. Two kinds of exception are LangChain's own:
LangGraph steers with exceptions, and chat models raise ones for an answer that is empty.
"""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Final

from podium.errors import WorkerBroken, WorkerError, WorkerFailed
from podium.hosts import worker_errors
from podium.usage import Usage

_EMPTY: Final = ("null value for", "No generation")
"""Words of ChatOpenAI, and of the base of all chat models, for an answer with nothing in it."""
_NO_JSON: Final = (
    "Unexpected response type from OpenAI-compatible endpoint",
    "'str' object has no attribute 'model_dump'",  # before langchain-openai 1.6
)
"""Words of ChatOpenAI for an answer that is no JSON, such as a page of HTML."""


def langchain_errors(
    worker: str, usage: Callable[[], Usage | None] | None = None
) -> AbstractContextManager[None]:
    """Translate every exception that the block raises, as `podium.hosts.worker_errors`.

    Args:
        worker: the name on the worker's card.
        usage: returns the tokens known to be spent.
    """
    return worker_errors(worker, usage=usage, reader=partial(_read, worker))


def interrupted(worker: str) -> WorkerFailed:
    """Return the error for a worker that calls `interrupt()` or sends a command to a parent graph."""
    return WorkerFailed(
        f"worker {worker!r} interrupted its graph, to ask somebody or to leave it: only "
        'conductor_node(..., executor="langgraph") can wait for the answer and go on there',
        maybe_paid=True,
    )


def _read(worker: str, error: BaseException) -> WorkerError | None:
    langgraph = sys.modules.get("langgraph.errors")  # code that raises one has imported it
    if langgraph is not None and isinstance(error, langgraph.GraphBubbleUp):
        return interrupted(worker)
    if any(words in str(error) for words in _EMPTY):
        return WorkerBroken(f"worker {worker!r} sent no answer: {str(error)[:300]}", maybe_paid=True)
    if any(words in str(error) for words in _NO_JSON):
        return WorkerBroken(f"worker {worker!r} sent no JSON: {str(error)[:300]}", maybe_paid=True)
    return None
