"""What a planner is told of a thing of LlamaIndex's: a card derived from what it is. It calls none."""

from typing import Any, Final

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.constants import DEFAULT_CONTEXT_WINDOW
from llama_index.core.llms import LLM
from llama_index.core.tools import BaseTool

from podium.errors import ConfigError
from podium.workers import Card, Price

_SEARCHES: Final = "Searches its documents for what the subtask asks; answers with the passages found."
_ANSWERS: Final = "Answers questions about its documents."


def card_of(
    thing: object,
    *,
    name: str | None = None,
    description: str | None = None,
    price: Price | None = None,
    labels: frozenset[str] = frozenset(),
) -> Card:
    """Return the card of a thing; what is given stands in place of what can be told from it."""
    own, said, window = type(thing).__name__, "", None
    if isinstance(thing, LLM):
        facts = thing.metadata
        own = thing.class_name() if facts.model_name == "unknown" else facts.model_name
        said = f"A model ({thing.class_name()})."
        window = None if facts.context_window == DEFAULT_CONTEXT_WINDOW else facts.context_window
    elif isinstance(thing, BaseTool):
        own, said = thing.metadata.name or own, thing.metadata.description
    elif isinstance(thing, BaseRetriever):
        said = _own_words(thing) or _SEARCHES
    elif isinstance(thing, BaseQueryEngine):
        said = _own_words(thing) or _ANSWERS
    return Card(
        name=_printable(name or own),
        description=" ".join((said if description is None else description).split()),
        price=price,
        labels=labels,
        context_window=window,
    )


def _own_words(thing: Any) -> str:
    """Return the docstring somebody wrote for it; LlamaIndex's own says nothing of this one."""
    kind = type(thing)
    if kind.__module__.split(".")[0] == "llama_index":
        return ""
    return (vars(kind).get("__doc__") or "").strip().split("\n\n")[0]


def _printable(name: str) -> str:
    clean = " ".join("".join(char if char.isprintable() else " " for char in name).split())
    if not clean:
        raise ConfigError("a worker needs a name: as_worker(..., name=...)")
    return clean
