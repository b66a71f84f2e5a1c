"""What calls of LangChain's objects in a worker spend and raise.

LangChain's callbacks report the tokens of all model calls within one Runnable, and the finish reason of the
last of them. `podium.hosts` translates exceptions of client libraries; this module translates those of
LangChain itself. There are two kinds: LangGraph's control flow uses exceptions, and chat models raise
exceptions for an empty answer.
"""

import sys
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import Any, Final
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, LLMResult

from langchain_podium.messages import PROVIDER, finish_of, read_usage, refusal_of
from podium.errors import WorkerBroken, WorkerError, WorkerFailed
from podium.hosts import worker_errors
from podium.hosts.errors import cut_answer_usage
from podium.types.messages import Message, usage_or_estimate
from podium.usage import Usage
from podium.workers.openai.errors import ASK_URL


class Spent(BaseCallbackHandler):
    """Counts the tokens of model calls; impossible reports are replaced by an estimate from the text."""

    run_inline = True  # adding up is faster than starting a thread

    def __init__(self) -> None:
        self.usage = Usage()
        self.finish: str | None = None
        """The provider's finish reason of the call that ended last; `None` if none was reported."""
        self.refusal: str | None = None
        """The refusal of the call that ended last."""
        self.is_elsewhere = False
        """Whether models are called in another process, which reports no tokens."""
        self._asked: dict[UUID, str] = {}
        self._lock = Lock()

    @property
    def is_open(self) -> bool:
        """Whether a call has not ended, failed, or was made elsewhere: its tokens are unknown."""
        return self.is_elsewhere or bool(self._asked)

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Add the tokens of a call whose answer could not be parsed; other failed calls stay open."""
        del kwargs
        if (used := cut_answer_usage(error)) is None:
            return
        self._asked.pop(run_id, None)
        with self._lock:
            self.usage += used

    @property
    def known(self) -> Usage | None:
        """The tokens spent; `None` if they are zero, or if a call has not ended successfully."""
        return None if self.is_open or self.usage == Usage() else self.usage

    def on_chat_model_start(
        self, serialized: dict[str, Any], messages: list[list[BaseMessage]], *, run_id: UUID, **kwargs: Any
    ) -> None:
        """Store the text of a chat model's call."""
        del serialized, kwargs
        self._asked[run_id] = "\n".join(str(message.text) for each in messages for message in each)

    def on_llm_start(
        self, serialized: dict[str, Any], prompts: list[str], *, run_id: UUID, **kwargs: Any
    ) -> None:
        """Store the text of an LLM's call."""
        del serialized, kwargs
        self._asked[run_id] = "\n".join(prompts)

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        """Add the tokens that the model reports."""
        del kwargs
        asked, used, text, conducted = self._asked.pop(run_id, ""), None, "", None
        finish = refusal = None
        for generation in (one for each in response.generations for one in each):
            text += generation.text
            finish = (generation.generation_info or {}).get("finish_reason") or finish
            if isinstance(generation, ChatGeneration) and isinstance(generation.message, AIMessage):
                finish = finish_of(generation.message) or finish
                refusal = refusal_of(generation.message) or refusal
                used = used or read_usage(generation.message.usage_metadata)
                conducted = conducted or _conducted_usage(generation.message)
                text += "".join(str(call) for call in generation.message.tool_calls)
        with self._lock:
            self.finish, self.refusal = finish, refusal
            read = (Message("user", asked),)
            self.usage += usage_or_estimate(used, read, text) if conducted is None else conducted


def _conducted_usage(message: AIMessage) -> Usage | None:
    """Return the tokens on a conductor's message; `None` for a model's message.

    Only those tokens are returned that the run's calls do not report to LangChain's callbacks. There may be
    none.
    """
    metadata = message.response_metadata
    if metadata.get("model_provider") != PROVIDER or message.usage_metadata is None:
        return None
    used = read_usage(message.usage_metadata) or Usage()
    estimated = read_usage(metadata.get("podium", {}).get("estimated_usage"))
    return replace(used, estimated=estimated is not None and estimated != Usage())


_NO_ANSWER: Final = (
    "null value for", "No generation", "Unexpected response type from OpenAI-compatible endpoint",
)  # fmt: skip
"""Texts in errors of ChatOpenAI, and of the base class of chat models, for an answer that is none."""


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
    if any(words in str(error) for words in _NO_ANSWER):
        told = f"worker {worker!r} sent no answer ({ASK_URL}): {str(error)[:300]}"
        return WorkerBroken(told, maybe_paid=True)
    return None
