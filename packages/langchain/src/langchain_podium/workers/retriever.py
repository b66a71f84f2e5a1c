"""A worker that calls a LangChain retriever."""

from collections.abc import AsyncGenerator

from langchain_core.retrievers import BaseRetriever

from langchain_podium.cancellation import apart
from langchain_podium.messages import cited
from langchain_podium.workers.commands import documents_data
from langchain_podium.workers.errors import langchain_errors
from podium.types import Completion
from podium.workers import Card, Request, Worker, step_input_of


class RetrieverWorker(Worker):
    """Searches for the subtask; answers with the texts found, each with its source."""

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
        with langchain_errors(self.card.name):
            found = await apart(self.retriever.ainvoke(subtask))
            text = cited(found)
        answer = Completion(text, data=documents_data(found))
        if not text.strip():
            answer = Completion(f"Nothing was found for: {subtask[:200]}", missing="nothing was found")
        if request.stream:
            yield answer.text
        yield answer
