"""Workers that search and answer from what they find: retrievers and query engines.

They own what of a step such a thing is asked, and note the nodes it finds.
"""

from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.response.schema import AsyncStreamingResponse, StreamingResponse
from llama_index.core.schema import NodeWithScore, QueryBundle

from llama_index_podium.sources import note, text_of
from llama_index_podium.usage import spending
from llama_index_podium.workers.blocking import in_thread, is_blocking
from podium.errors import WorkerBroken
from podium.hosts import spent_completion, worker_errors
from podium.prompts import worker_messages
from podium.types import Completion, storable
from podium.workers import Card, Request, Worker, step_input_of


class RetrieverWorker(Worker):
    """Looks the subtask up; answers with the passages found, each with its metadata.

    Args:
        retriever: who looks it up.
        card: what the planner is told of it.
    """

    uses_tokens = False
    reads_prose = False

    def __init__(self, retriever: BaseRetriever, *, card: Card) -> None:
        self.retriever = retriever
        self.card = card

    def __repr__(self) -> str:
        return f"RetrieverWorker({self.card.name!r})"

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Look the subtask up."""
        subtask = step_input_of(request).subtask
        with spending() as spent, worker_errors(self.card.name, usage=lambda: spent.known):
            found = await self._retrieve(QueryBundle(subtask))
            note(found)
            text = storable(text_of(found))
        text = text if text.strip() else f"Nothing was found for: {subtask[:200]}"
        if request.stream:
            yield text
        yield spent_completion(text, spent.usage_at_end, self.card)

    async def _retrieve(self, asked: QueryBundle) -> list[NodeWithScore]:
        if is_blocking(self.retriever):
            return await in_thread(self.retriever.retrieve, asked)
        return await self.retriever.aretrieve(asked)


class QueryEngineWorker(Worker):
    """Has a query engine answer the subtask.

    A step that is shown others asks it with their outputs; only the subtask is embedded then.
    The question of the run is not put to it: it would search for that, too.

    Args:
        engine: who answers.
        card: what the planner is told of it; its price is that of the models the engine calls.
    """

    reads_prose = False  # the subtask is searched for as it stands

    def __init__(self, engine: BaseQueryEngine, *, card: Card) -> None:
        self.engine = engine
        self.card = card

    def __repr__(self) -> str:
        return f"QueryEngineWorker({self.card.name!r})"

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Query the engine."""
        with spending() as spent, worker_errors(self.card.name, usage=lambda: spent.known):
            response = await self._query(_bundle(request, self.card))
            if isinstance(response, AsyncStreamingResponse):
                response = await response.get_response()
            elif isinstance(response, StreamingResponse):
                response = await in_thread(response.get_response)
            note(response.source_nodes)
            text = storable(str(response) if response.response else "")
            ending = spent.ending
            completion = spent_completion(
                text, spent.usage_at_end, self.card, finish_reason=ending.finish, refusal=ending.refusal
            )
            if not text.strip():
                raise WorkerBroken(f"query engine {self.card.name!r} gave no answer", maybe_paid=True)
        if request.stream:
            yield text
        yield completion

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
