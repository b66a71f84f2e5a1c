"""Workers that search: retrievers, query engines, and chat engines.

The module builds their queries from steps, and collects the nodes that they find.
"""

from abc import abstractmethod
from collections.abc import AsyncGenerator, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Final

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.base.response.schema import AsyncStreamingResponse, StreamingResponse
from llama_index.core.memory import BaseMemory
from llama_index.core.response_synthesizers.no_text import NoText
from llama_index.core.schema import NodeWithScore, QueryBundle

from llama_index_podium.cards import called, in_thread, parts_of
from llama_index_podium.messages import to_llama, whole_memory
from llama_index_podium.sources import gaps_of, note, text_of
from llama_index_podium.usage import Spent, completion_of, spending
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


class _Engine(Worker):
    """Calls an object that searches for the subtask."""

    reads_prose = False  # the subtask is the search query, without other text

    def __init__(self, engine: Any, *, card: Card) -> None:
        self.engine = engine
        self.card = card

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Call the engine."""
        with spending() as spent, worker_errors(self.card.name, usage=lambda: spent.known):
            completion = await self._answer(request, step_input_of(request).subtask, spent)
        if request.stream:
            yield completion.text
        yield completion

    @abstractmethod
    async def _answer(self, request: Request, subtask: str, spent: Spent) -> Completion:
        """Return the answer of the engine."""


class RetrieverWorker(_Engine):
    """Searches for the subtask; answers with the passages found, each with its metadata."""

    uses_tokens = False

    async def _answer(self, request: Request, subtask: str, spent: Spent) -> Completion:  # noqa: ARG002
        found = await called(self.engine, "retrieve", QueryBundle(subtask))
        note(found)
        completion = spent_completion(storable(text_of(found)), spent.usage_at_end, self.card)
        return _with_gaps(subtask, completion, found)


class QueryEngineWorker(_Engine):
    """Sends the subtask to a query engine.

    If the step sees other steps, the query also has their outputs, but the engine searches only for the
    subtask. The query does not contain the run's question, because the engine would also search for the
    question. If the engine writes no text, the text of its nodes is the answer.
    """

    async def _answer(self, request: Request, subtask: str, spent: Spent) -> Completion:
        response = await self._query(_bundle(request, self.card))
        nodes = response.source_nodes
        note(nodes)
        text = storable(str(response) if response.response else "")
        if not is_empty_text(text):
            return completion_of(text, spent, self.card)
        if not spent.has_calls or any(isinstance(part, NoText) for part in parts_of(self.engine)):
            return _with_gaps(subtask, completion_of(storable(text_of(nodes)), spent, self.card), nodes)
        completion = completion_of("", spent, self.card)
        if nodes or not response.response:
            raise WorkerBroken(f"query engine {self.card.name!r} gave no answer", maybe_paid=True)
        return nothing_found(subtask, completion)

    async def _query(self, asked: QueryBundle) -> Any:
        response = await called(self.engine, "query", asked)
        if isinstance(response, AsyncStreamingResponse):
            return await response.get_response()
        if isinstance(response, StreamingResponse):
            return await in_thread(response.get_response)
        return response


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
    """Return the answer of a search without results, which makes the run partial."""
    text = f"Nothing was found for: {subtask[:200]}"
    return replace(completion, text=text, missing="nothing was found")


_NEXT: Final = "It is the next message."


class ChatEngineWorker(_Engine):
    """Sends the subtask to a chat engine, as the next message of a conversation.

    The conversation has the run's query and the visible steps, so the engine searches only for the subtask.
    A copy of the engine is called, with an empty memory, so that calls at the same time do not mix.
    """

    async def _answer(self, request: Request, subtask: str, spent: Spent) -> Completion:
        engine, history = copy(self.engine), _history(request, self.card)
        if isinstance(getattr(engine, "_memory", None), BaseMemory):
            engine._memory = whole_memory()  # noqa: SLF001 - its constructor differs from class to class
        response = await called(engine, "chat", subtask, history)
        note(response.source_nodes)
        text = response.response
        is_empty = is_empty_text(text)
        completion = completion_of("" if is_empty else storable(text), spent, self.card)
        if is_empty and not text.strip():
            raise WorkerBroken(f"chat engine {self.card.name!r} gave no answer", maybe_paid=True)
        return nothing_found(subtask, completion) if is_empty else completion


def _history(request: Request, card: Card) -> list[ChatMessage]:
    """Return the conversation before the subtask: the run's query and the visible steps."""
    step_input = step_input_of(request)
    if not step_input.query and not step_input.visible:
        return []
    return to_llama(worker_messages(replace(step_input, subtask=_NEXT), card))
