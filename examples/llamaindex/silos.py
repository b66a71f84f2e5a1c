"""A retriever over a folder of text and Markdown that needs no model, no network and no download."""

from collections import Counter
from math import log
from pathlib import Path
from re import findall

from llama_index.core import SimpleDirectoryReader
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.node_parser import MarkdownNodeParser
from llama_index.core.schema import BaseNode, NodeWithScore, QueryBundle

REPOSITORY = Path(__file__).parents[2]


class Silo(BaseRetriever):
    """Finds sections by their words, weighted as in BM25.

    Args:
        folder: what it searches: the `.md` and `.txt` in it, not those in folders of it.
        top: most sections it returns.
    """

    def __init__(self, folder: Path, top: int = 2) -> None:
        super().__init__()
        read = SimpleDirectoryReader(str(folder), required_exts=[".md", ".txt"]).load_data()
        self.nodes: list[BaseNode] = MarkdownNodeParser()(read)
        self._words = [Counter(_words(node.get_content())) for node in self.nodes]
        self._found_in = Counter(word for words in self._words for word in words)
        self._mean = sum(map(Counter.total, self._words)) / len(self._words)
        self._top = top

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        asked = set(_words(query_bundle.query_str))
        scored = [
            NodeWithScore(node=node, score=sum(self._weight(word, words) for word in asked))
            for node, words in zip(self.nodes, self._words, strict=True)
        ]
        best = sorted(scored, key=NodeWithScore.get_score, reverse=True)
        return [node for node in best[: self._top] if node.get_score() > 0]

    def _weight(self, word: str, words: Counter[str]) -> float:
        rare = log(1 + (len(self.nodes) - self._found_in[word] + 0.5) / (self._found_in[word] + 0.5))
        length = 0.25 + 0.75 * words.total() / self._mean
        return rare * words[word] * 2.2 / (words[word] + 1.2 * length)


def _words(text: str) -> list[str]:
    return findall(r"[a-z0-9]+", text.lower())
