"""Workers that search: retrievers, query engines, and chat engines.

The module builds their queries from steps, and collects the nodes that they find.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from copy import copy
from dataclasses import replace
from typing import Any, Final

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.base.response.schema import AsyncStreamingResponse, StreamingResponse
from llama_index.core.chat_engine import CondenseQuestionChatEngine
from llama_index.core.chat_engine.types import BaseChatEngine, StreamingAgentChatResponse
from llama_index.core.memory import BaseMemory
from llama_index.core.response_synthesizers.no_text import NoText
from llama_index.core.schema import NodeWithScore, QueryBundle

from llama_index_podium.cards import in_thread, is_blocking, parts_of
from llama_index_podium.messages import to_llama, whole_memory
from llama_index_podium.sources import gaps_of, note, text_of
from llama_index_podium.usage import Spent, completion_of, spending
from podium.aio.calls import shielded
from podium.errors import WorkerBroken
from podium.hosts import worker_errors
from podium.hosts.chat import gaps_told
from podium.hosts.results import spent_completion
from podium.prompts.prompt import worker_messages
from podium.types import Completion
from podium.types.messages import storable
from podium.workers import Card, Request, Worker, step_input_of

_EMPTY: Final = "Empty Response"
"""The answer of LlamaIndex's synthesizers if there are no nodes, or if a model wrote nothing."""


class RetrieverWorker(Worker):
    """Searches for the subtask; answers with the passages found, each with its metadata.

    Args:
        retriever: the retriever.
        card: the worker's card.
    """

    uses_tokens = False
    reads_prose = False

    def __init__(self, retriever: BaseRetriever, *, card: Card) -> None:
        self.retriever = retriever
        self.card = card

    def __repr__(self) -> str:
        return f"RetrieverWorker({self.card.name!r})"

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Search for the subtask."""
        subtask = step_input_of(request).subtask
        with spending() as spent, worker_errors(self.card.name, usage=lambda: spent.known):
            found = await self._retrieve(QueryBundle(subtask))
            note(found)
            completion = spent_completion(storable(text_of(found)), spent.usage_at_end, self.card)
        completion = _with_gaps(subtask, completion, found)
        if request.stream:
            yield completion.text
        yield completion

    async def _retrieve(self, asked: QueryBundle) -> list[NodeWithScore]:
        if is_blocking(self.retriever):
            return await in_thread(self.retriever.retrieve, asked)
        return await self.retriever.aretrieve(asked)


class QueryEngineWorker(Worker):
    """Sends the subtask to a query engine.

    If the step sees other steps, the query also has their outputs, but the engine searches only for the
    subtask. The query does not contain the run's question, because the engine would also search for the
    question. If the engine writes no text, the text of its nodes is the answer.

    Args:
        engine: the query engine.
        card: the worker's card; its price is the price of the models that the engine calls.
    """

    reads_prose = False  # the subtask is the search query, without other text

    def __init__(self, engine: BaseQueryEngine, *, card: Card) -> None:
        self.engine = engine
        self.card = card

    def __repr__(self) -> str:
        return f"QueryEngineWorker({self.card.name!r})"

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Query the engine.

        Raises:
            WorkerBroken: a model was called and gave no answer.
        """
        with spending() as spent, worker_errors(self.card.name, usage=lambda: spent.known):
            bundle = _bundle(request, self.card)
            response = await self._query(bundle)
            if isinstance(response, AsyncStreamingResponse):
                response = await response.get_response()
            elif isinstance(response, StreamingResponse):
                response = await in_thread(response.get_response)
            nodes = response.source_nodes
            note(nodes)
            text = storable(str(response) if response.response else "")
            is_empty = is_empty_text(text)
            searches = is_empty and (not spent.has_calls or self._has_no_text)
            if is_empty:
                text = storable(text_of(nodes)) if searches else ""
            completion = completion_of(text, spent, self.card)
            if searches:
                completion = _with_gaps(step_input_of(request).subtask, completion, nodes)
            elif not text.strip():
                if nodes or not response.response:
                    raise WorkerBroken(f"query engine {self.card.name!r} gave no answer", maybe_paid=True)
                completion = nothing_found(step_input_of(request).subtask, completion)
        if request.stream:
            yield completion.text
        yield completion

    @property
    def _has_no_text(self) -> bool:
        """Whether the engine is set to answer only with its nodes (`response_mode="no_text"`)."""
        return any(isinstance(part, NoText) for part in parts_of(self.engine))

    async def _query(self, asked: QueryBundle) -> Any:
        if is_blocking(self.engine):
            return await in_thread(self.engine.query, asked)
        return await self.engine.aquery(asked)


def _bundle(request: Request, card: Card) -> QueryBundle:
    step_input = step_input_of(request)
    if not step_input.visible:
        return QueryBundle(step_input.subtask)
    told = worker_messages(replace(step_input, query=()), card)[-1].text
    return QueryBundle(told, custom_embedding_strs=[step_input.subtask])


def is_empty_text(text: str) -> bool:
    """Return whether a response has no text, or LlamaIndex's placeholder for no text."""
    return text.strip() in ("", _EMPTY)


def _with_gaps(subtask: str, completion: Completion, found: Sequence[NodeWithScore]) -> Completion:
    """Return a search's answer, with the nodes' parts that are not text, or that nothing was found."""
    if gaps := gaps_of(found):
        told = gaps_told(gaps)
        return replace(completion, text=f"{completion.text}\n\n[{told}]".strip(), missing=told)
    return completion if completion.text.strip() else nothing_found(subtask, completion)


def nothing_found(subtask: str, completion: Completion) -> Completion:
    """Return the answer of a search without results, which makes the run partial.

    Args:
        subtask: the search query.
        completion: the answer, whose text is empty.
    """
    text = f"Nothing was found for: {subtask[:200]}"
    return replace(completion, text=text, missing="nothing was found")


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
        own.__dict__["_memory"] = whole_memory()
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
