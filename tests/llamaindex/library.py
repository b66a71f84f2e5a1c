"""Indexes over a few documents, searched by their words: no model, no network, no download."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from llama_index.core import VectorStoreIndex
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from podium import Plan, Step
from podium.planners import FixedPlanner

AGENTS = pytest.mark.filterwarnings(
    "ignore::pydantic.warnings.PydanticDeprecatedSince20",
    "ignore::pydantic.warnings.PydanticDeprecatedSince211",
    "ignore:is_running called:DeprecationWarning",
)
"""Agents themselves use what pydantic and workflows have deprecated."""
SILOS: Mapping[str, Mapping[str, str]] = {
    "contracts": {
        "c1": "The contract with Acme ends in March and renews for twelve months.",
        "c2": "The contract with Bolt ends in July.",
        "shared": "Acme and Bolt are both suppliers.",
    },
    "invoices": {
        "i1": "Acme invoiced 1200 euros in January.",
        "i2": "Bolt invoiced 300 euros in January.",
        "shared": "Acme and Bolt are both suppliers.",
    },
}


class Words(BaseEmbedding):
    """Places a text by the words it holds."""

    def _get_text_embedding(self, text: str) -> list[float]:
        vector = [0.01] * 64
        for word in text.lower().split():
            vector[sum(word.strip(".,?").encode()) % 64] += 1.0
        return vector

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)


def nodes_of(silo: str) -> list[TextNode]:
    texts = SILOS[silo].items()
    return [TextNode(id_=own, text=text, metadata={"file_name": f"{own}.txt"}) for own, text in texts]


def index_of(silo: str) -> VectorStoreIndex:
    return VectorStoreIndex(nodes_of(silo), embed_model=Words())


class Shelf(BaseRetriever):
    """Finds what holds a word of the question; its async method is the default, which blocks."""

    def __init__(self, silo: str, seen: list[str] | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.nodes: Sequence[TextNode] = nodes_of(silo)
        self.seen = [] if seen is None else seen

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        self.seen.append(query_bundle.query_str)
        words = {word.strip(".,?").lower() for word in query_bundle.query_str.split()}
        found = []
        for node in self.nodes:
            score = len(words & {word.strip(".,?").lower() for word in node.text.split()})
            if score:
                found.append(NodeWithScore(node=node, score=float(score)))
        return found


def planned(*steps: tuple[int, str, tuple[int, ...]]) -> FixedPlanner:
    """Return a planner that gives these steps: worker, subtask, access list."""
    return FixedPlanner(Plan(tuple(Step(*step) for step in steps)))
