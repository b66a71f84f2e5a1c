"""What a planner is told of a thing of LlamaIndex's: a card derived from what it is. It calls none."""

from typing import Any, Final

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.constants import DEFAULT_CONTEXT_WINDOW
from llama_index.core.llms import LLM
from llama_index.core.tools import BaseTool

from podium.hosts import CardMaker, base_url_of
from podium.workers import Card

_SEARCHES: Final = "Searches its documents for what the subtask asks; answers with the passages found."
_ANSWERS: Final = "Answers questions about its documents."


def card_of(thing: object, maker: CardMaker | None = None) -> Card:
    """Return the card of an object; what `as_worker` was told stands in place of what can be derived."""
    name, words, window = type(thing).__name__, "", None
    model = url = ""
    if isinstance(thing, LLM):
        facts = thing.metadata
        name = thing.class_name() if facts.model_name == "unknown" else facts.model_name
        words = f"A model ({thing.class_name()})."
        window = None if facts.context_window == DEFAULT_CONTEXT_WINDOW else facts.context_window
        model, url = facts.model_name, _base_url(thing)
    elif isinstance(thing, BaseTool):
        name, words = thing.metadata.name or name, thing.metadata.description
    elif isinstance(thing, BaseRetriever):
        words = _own_words(thing) or _SEARCHES
    elif isinstance(thing, BaseQueryEngine):
        words = _own_words(thing) or _ANSWERS
    maker = maker or CardMaker({})
    return maker.card(name=name, description=words, context_window=window, model=model, base_url=url)


def _base_url(llm: LLM) -> str:
    """Return the URL of a model's endpoint, where its class says it."""
    for name in ("azure_endpoint", "api_base", "base_url"):  # classes for Azure inherit OpenAI's api_base
        url = getattr(llm, name, None)
        if url and isinstance(url, str):
            return url
    return base_url_of(getattr(llm, "_client", None))


def _own_words(thing: Any) -> str:
    """Return the docstring somebody wrote for it; LlamaIndex's own says nothing of this one."""
    kind = type(thing)
    if kind.__module__.split(".")[0] == "llama_index":
        return ""
    return (vars(kind).get("__doc__") or "").strip().split("\n\n")[0]
