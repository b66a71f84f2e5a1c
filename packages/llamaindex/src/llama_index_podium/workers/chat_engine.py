"""A worker that calls a LlamaIndex chat engine."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from copy import copy
from dataclasses import replace
from typing import Any, Final

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.chat_engine import CondenseQuestionChatEngine
from llama_index.core.chat_engine.types import BaseChatEngine, StreamingAgentChatResponse
from llama_index.core.memory import BaseMemory, ChatMemoryBuffer
from llama_index.core.schema import NodeWithScore

from llama_index_podium.messages import to_llama
from llama_index_podium.sources import note
from llama_index_podium.usage import Spent, spending
from llama_index_podium.workers.answers import completion_of
from llama_index_podium.workers.blocking import in_thread, is_blocking
from llama_index_podium.workers.search import is_empty_text, nothing_found
from podium.aio.calls import shielded
from podium.errors import WorkerBroken
from podium.hosts import worker_errors
from podium.prompts.prompt import worker_messages
from podium.types import Completion
from podium.types.messages import storable
from podium.workers import Card, Request, Worker, step_input_of

_MEMORY_TOKENS: Final = 10**9
"""A limit so high that LlamaIndex's memory never drops messages.

With its default limit, the memory drops messages silently.
"""
_NEXT: Final = "It is the next message."
_NO_STREAM: Final = (CondenseQuestionChatEngine,)
"""Engines that, when they stream, change a query engine that other calls use too."""


class ChatEngineWorker(Worker):
    """Sends the subtask to a chat engine, as the next message of a conversation.

    The conversation has the run's query and the visible steps, so the engine searches only for the subtask.
    The engine's own memory is not used.

    Args:
        engine: the chat engine.
        card: the worker's card; its price is the price of the models that the engine calls.
    """

    reads_prose = False  # the subtask is the search query, without other text

    def __init__(self, engine: BaseChatEngine, *, card: Card) -> None:
        self.engine = engine
        self.card = card

    def __repr__(self) -> str:
        return f"ChatEngineWorker({self.card.name!r})"

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Chat with a copy of the engine, streamed if the step is streamed.

        Raises:
            WorkerBroken: the engine's model gave no answer.
        """
        spent, text, held = Spent(), "", ""
        with worker_errors(self.card.name, usage=lambda: spent.known), spending(spent):
            response = await self._ask(request)
        if isinstance(response, StreamingAgentChatResponse):
            async with aclosing(_pieces(response)) as pieces:
                while True:
                    with worker_errors(self.card.name, usage=lambda: spent.known):
                        piece = await anext(pieces, None)
                    if piece is None:
                        break
                    text, held = text + piece, held + piece
                    if held and not is_empty_text(text):  # LlamaIndex's text for an empty answer is one chunk
                        yield held
                        held = ""
        with worker_errors(self.card.name, usage=lambda: spent.known):
            note(response.source_nodes)
            completion = self._completion(text or response.response, request, spent)
        if request.stream and (held or not text):
            yield completion.text
        yield completion

    async def _ask(self, request: Request) -> Any:
        subtask, history = step_input_of(request).subtask, _history(request, self.card)
        engine = _own_copy(self.engine)
        if is_blocking(engine):
            return await in_thread(engine.chat, subtask, history)
        if request.stream and not isinstance(engine, _NO_STREAM):
            return await engine.astream_chat(subtask, history)
        return await engine.achat(subtask, history)

    def _completion(self, text: str, request: Request, spent: Spent) -> Completion:
        is_empty = is_empty_text(text)
        completion = completion_of("" if is_empty else storable(text), spent, self.card)
        if is_empty and not text.strip():
            raise WorkerBroken(f"chat engine {self.card.name!r} gave no answer", maybe_paid=True)
        return nothing_found(step_input_of(request).subtask, completion) if is_empty else completion


def _history(request: Request, card: Card) -> list[ChatMessage]:
    """Return the conversation before the subtask: the run's query and the visible steps."""
    step_input = step_input_of(request)
    if not step_input.query and not step_input.visible:
        return []
    return to_llama(worker_messages(replace(step_input, subtask=_NEXT), card))


def _own_copy(engine: BaseChatEngine) -> BaseChatEngine:
    """Return a copy of an engine with empty memory, so that concurrent calls do not mix.

    A blocking retriever is called in a thread, so that the answer can still be streamed.
    """
    own = copy(engine)
    for name, part in list(vars(own).items()):
        if isinstance(part, BaseRetriever) and is_blocking(part):
            own.__dict__[name] = _InThread(part)
    if isinstance(getattr(own, "_memory", None), BaseMemory):
        own.__dict__["_memory"] = ChatMemoryBuffer.from_defaults(token_limit=_MEMORY_TOKENS)
    return own


class _InThread:
    """A retriever of a chat engine that is called in a thread."""

    def __init__(self, retriever: BaseRetriever) -> None:
        self.retrieve = retriever.retrieve

    async def aretrieve(self, query: Any) -> list[NodeWithScore]:
        return await in_thread(self.retrieve, query)


async def _pieces(response: StreamingAgentChatResponse) -> AsyncGenerator[str, None]:
    """Yield the text of a streamed response. Leaving the iteration ends the task that reads the model."""
    task = response.awrite_response_to_history_task
    response.awrite_response_to_history_task = None  # otherwise leaving would wait for the whole answer
    try:
        async with aclosing(response.async_response_gen()) as pieces:
            async for piece in pieces:
                yield piece
    finally:
        if task is not None:
            task.cancel()
            await shielded(asyncio.wait([task]))
            if not task.cancelled():
                task.exception()  # raised above; retrieved here, so that asyncio does not log it
