"""Derive the card of a Runnable, for the planner.

The module reads names, descriptions, context windows and kinds of input from LangChain's objects. The module
calls none of these objects.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from langchain_core.language_models import BaseChatModel
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableLambda, RunnableWithFallbacks
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.runnables.configurable import DynamicRunnable
from langchain_core.tools import BaseTool

from podium.hosts import CardMaker
from podium.hosts.workers import base_url_of
from podium.workers import Card

_PARTS: Final[Mapping[str, str]] = {
    "image_inputs": "image_url",
    "image_url_inputs": "image_url",
    "audio_inputs": "input_audio",
    "pdf_inputs": "file",
}
"""The content parts that a model accepts, by the fact in its profile."""
_SEARCHES: Final = "Searches its documents for the subtask's words; answers with passages and sources."


def card_of(thing: Runnable[Any, Any], maker: CardMaker | None = None) -> Card:
    """Return the card of a Runnable; the card options of `as_worker` override derived values."""
    inner, maker = innermost(thing), maker or CardMaker({})
    if isinstance(inner, BaseChatModel):
        facts = _model_facts(inner, settings(thing))
        if not any(isinstance(each, RunnableWithFallbacks | DynamicRunnable) for each in _layers(thing)):
            # otherwise another model may answer, at another price
            facts |= {"model": facts["name"], "base_url": _base_url(inner)}
    else:
        own_name = inner.name if isinstance(inner, BaseTool) else inner.get_name()
        facts = {"name": own_name, "description": _own_words(inner)}
    return maker.card(**{**facts, "name": given_name(thing) or facts["name"]})


def innermost(thing: Runnable[Any, Any]) -> Runnable[Any, Any]:
    """Return the Runnable inside bindings, configuration, retries and fallbacks."""
    *_, last = _layers(thing)
    return last


def settings(thing: Runnable[Any, Any]) -> dict[str, Any]:
    """Return the arguments bound around a Runnable; outer arguments override inner ones."""
    found: dict[str, Any] = {}
    for layer in _layers(thing):
        found = {**layer.kwargs, **found} if isinstance(layer, RunnableBindingBase) else found
    return found


def given_name(thing: Runnable[Any, Any]) -> str | None:
    """Return the name given by the user: the `name`, or the configured run name."""
    for layer in _layers(thing):
        if isinstance(layer, RunnableBindingBase) and layer.config.get("run_name"):
            return layer.config["run_name"]
        if not isinstance(layer, BaseTool) and (name := getattr(layer, "name", None)):
            return str(name)
    return None


def facts_of(model: BaseChatModel, bound: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a chat model's facts for tracing: provider, name, limits."""
    return model._get_ls_params(**bound)  # noqa: SLF001 - every integration implements it


def _layers(thing: Runnable[Any, Any]) -> Iterator[Runnable[Any, Any]]:
    while True:
        yield thing
        if isinstance(thing, RunnableBindingBase):
            thing = thing.bound
        elif isinstance(thing, RunnableWithFallbacks):
            thing = thing.runnable
        elif isinstance(thing, DynamicRunnable):
            thing = thing.default
        else:
            return


def _model_facts(model: BaseChatModel, bound: Mapping[str, Any]) -> dict[str, Any]:
    facts = facts_of(model, bound)
    named = next((getattr(model, key) for key in ("model_name", "model") if getattr(model, key, None)), None)
    provider = facts.get("ls_provider")
    profile = getattr(model, "profile", None) or {}
    return {
        "name": str(facts.get("ls_model_name") or named or model.get_name()),
        "description": f"A chat model of {provider}." if provider else "A chat model.",
        "context_window": profile.get("max_input_tokens"),
        "parts": frozenset(part for fact, part in _PARTS.items() if profile.get(fact)),
    }


def _base_url(model: BaseChatModel) -> str:
    """Return the URL of a model's endpoint, if known."""
    clients = ("root_client", "root_async_client", "client", "async_client")
    known = base_url_of(*(getattr(model, name, None) for name in clients))
    return known or getattr(model, "anthropic_api_url", None) or ""


def _own_words(thing: Runnable[Any, Any]) -> str:
    """Return the user's description of an object; a framework's own docstring does not describe it."""
    if isinstance(thing, BaseTool):
        return thing.description
    own: object = type(thing)
    if isinstance(thing, RunnableLambda):
        own = getattr(thing, "func", None) or getattr(thing, "afunc", None)
    elif type(thing).__module__.split(".")[0] in ("langchain", "langchain_core", "langgraph"):
        own = None
    words = "" if own is None else (getattr(own, "__doc__", None) or "").strip().split("\n\n")[0]
    return _SEARCHES if isinstance(thing, BaseRetriever) and not words else words
