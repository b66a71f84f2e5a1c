"""Derive cards of LlamaIndex objects, for the planner."""

from typing import Any, Final

from llama_index.core.base.base_query_engine import BaseQueryEngine
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.chat_engine.types import BaseChatEngine
from llama_index.core.constants import DEFAULT_CONTEXT_WINDOW
from llama_index.core.llms import LLM
from llama_index.core.tools import BaseTool
from llama_index.core.workflow import Workflow

from podium.hosts import CardMaker
from podium.hosts.workers import base_url_of
from podium.workers import Card

_SEARCHES: Final = "Searches its documents for what the subtask asks; answers with the passages found."
_ANSWERS: Final = "Answers questions about its documents."
_CHATS: Final = "Answers in a conversation."
_NO_NAME: Final = "Agent"
_NO_DESCRIPTION: Final = "An agent that can perform a task"
"""LlamaIndex's defaults for an agent without a name or description."""


def card_of(thing: object, maker: CardMaker | None = None) -> Card:
    """Return the card of an object; the card options of `as_worker` override derived values."""
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
    elif isinstance(thing, BaseChatEngine):
        words = _own_words(thing) or _CHATS
    elif isinstance(thing, Workflow):
        name, words = _workflow(thing)
        model, url = _model_of(thing)
    maker = maker or CardMaker({})
    return maker.card(name=name, description=words, context_window=window, model=model, base_url=url)


def _workflow(thing: Any) -> tuple[str, str]:
    """Return the name and the description of a workflow, an agent or a team."""
    name, kind = getattr(thing, "name", ""), type(thing).__name__
    own = getattr(thing, "description", "")
    agents = getattr(thing, "agents", None)
    if isinstance(agents, dict):  # the type is AgentWorkflow
        told = "; ".join(f"{agent.name}: {agent.description}" for agent in agents.values())
        return kind, f"A team of agents ({told})."
    if not name or name == _NO_NAME:
        name = kind
    if not own or own == _NO_DESCRIPTION:
        tools = [tool.metadata.name for tool in getattr(thing, "tools", None) or ()]
        own = f"An agent with the tools {', '.join(tools)}." if tools else _own_words(thing)
    return name, own


def _model_of(workflow: Workflow) -> tuple[str, str]:
    """Return the model and its URL of an agent or of a team; empty if the agents' models differ."""
    agents = getattr(workflow, "agents", None)
    each = agents.values() if isinstance(agents, dict) else [workflow]
    llms = [llm for agent in each if isinstance(llm := getattr(agent, "llm", None), LLM)]
    known = {(llm.metadata.model_name, _base_url(llm)) for llm in llms}
    return known.pop() if len(known) == 1 else ("", "")


def _base_url(llm: LLM) -> str:
    """Return the URL of a model's endpoint, if known."""
    for name in ("azure_endpoint", "api_base", "base_url"):  # classes for Azure inherit OpenAI's api_base
        url = getattr(llm, name, None)
        if url and isinstance(url, str):
            return url
    return base_url_of(getattr(llm, "_client", None))


def _own_words(thing: Any) -> str:
    """Return the docstring of the user's class; LlamaIndex's own docstrings do not describe the object."""
    kind = type(thing)
    if kind.__module__.split(".")[0] == "llama_index":
        return ""
    return (vars(kind).get("__doc__") or "").strip().split("\n\n")[0]
