"""Translate exceptions that LangChain's objects raise in a worker.

`podium.hosts` translates exceptions of client libraries. This module translates exceptions of LangChain
itself. There are two kinds: LangGraph's control flow uses exceptions, and chat models raise exceptions for an
empty answer.
"""

import sys
from contextlib import AbstractContextManager
from functools import partial
from typing import Final

from langchain_podium.usage import Spent
from podium.errors import WorkerBroken, WorkerError, WorkerFailed
from podium.hosts import worker_errors

_EMPTY: Final = ("null value for", "No generation")
"""Texts in errors of ChatOpenAI, and of the base class of chat models, for an empty answer."""
_NO_JSON: Final = (
    "Unexpected response type from OpenAI-compatible endpoint",
    "'str' object has no attribute 'model_dump'",  # before langchain-openai 1.6
)
"""Texts in errors of ChatOpenAI for an answer that is not JSON, such as an HTML page."""


def langchain_errors(
    worker: str, spent: Spent | None = None, *, acts_first: bool = False
) -> AbstractContextManager[None]:
    """Translate every exception that the block raises, like `podium.hosts.worker_errors`."""
    usage = None if spent is None else lambda: spent.known
    return worker_errors(
        worker,
        usage=usage,
        reader=partial(_read, worker, spent),
        has_run=lambda: acts_first or (spent is not None and spent.usage.total_tokens > 0),
    )


def interrupted(worker: str, spent: Spent | None = None) -> WorkerFailed:
    """Return the error for a worker that calls `interrupt()` or sends a command to a parent graph."""
    usage = None if spent is None or spent.is_open else spent.usage
    return WorkerFailed(
        f"worker {worker!r} interrupted or left its graph: only "
        'conductor_node(..., executor="langgraph") can wait for an answer and continue',
        maybe_paid=True,
        usage=usage,
    )


def _read(worker: str, spent: Spent | None, error: BaseException) -> WorkerError | None:
    langgraph = sys.modules.get("langgraph.errors")  # code that raises one has imported it
    if langgraph is not None and isinstance(error, langgraph.GraphBubbleUp):
        return interrupted(worker, spent)
    if any(words in str(error) for words in _EMPTY):
        return WorkerBroken(f"worker {worker!r} sent no answer: {str(error)[:300]}", maybe_paid=True)
    if any(words in str(error) for words in _NO_JSON):
        return WorkerBroken(f"worker {worker!r} sent no JSON: {str(error)[:300]}", maybe_paid=True)
    return None
