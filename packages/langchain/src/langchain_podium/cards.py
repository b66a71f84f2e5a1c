"""What a planner is told of a Runnable: a card derived from what it is.

It owns how names, descriptions, context windows and kinds of input are read off LangChain's
objects. It calls none of them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from langchain_core.language_models import BaseChatModel
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableLambda, RunnableWithFallbacks
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.runnables.configurable import DynamicRunnable
from langchain_core.tools import BaseTool

from podium.errors import ConfigError
from podium.workers import Card, Price

_PARTS: Final[Mapping[str, str]] = {
    "image_inputs": "image_url",
    "image_url_inputs": "image_url",
    "audio_inputs": "input_audio",
    "pdf_inputs": "file",
}
"""Which fact of a model's profile says that it takes which content part."""


def card_of(
    thing: Runnable[Any, Any],
    *,
    name: str | None = None,
    description: str | None = None,
    price: Price | None = None,
    labels: frozenset[str] = frozenset(),
) -> Card:
    """Return the card of a Runnable; what is given stands in place of what can be told from it."""
    inner = innermost(thing)
    derived = _of_model(inner, settings(thing)) if isinstance(inner, BaseChatModel) else _of_other(inner)
    named = name or given_name(thing) or derived.name
    said = derived.description if description is None else description
    return replace(derived, name=named, description=said, price=price, labels=labels)


def innermost(thing: Runnable[Any, Any]) -> Runnable[Any, Any]:
    """Return what is bound, configured, retried or first tried before fallbacks, without all that."""
    *_, last = _layers(thing)
    return last


def settings(thing: Runnable[Any, Any]) -> dict[str, Any]:
    """Return the arguments bound around a Runnable, the outermost counting most."""
    found: dict[str, Any] = {}
    for layer in _layers(thing):
        found = {**layer.kwargs, **found} if isinstance(layer, RunnableBindingBase) else found
    return found


def given_name(thing: Runnable[Any, Any]) -> str | None:
    """Return what its owner called it: its `name`, or the run name it was configured with."""
    for layer in _layers(thing):
        if isinstance(layer, RunnableBindingBase) and layer.config.get("run_name"):
            return layer.config["run_name"]
        if not isinstance(layer, BaseTool) and (name := getattr(layer, "name", None)):
            return str(name)
    return None


def facts_of(model: BaseChatModel, bound: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a chat model says of itself for tracing: provider, name, limits."""
    return model._get_ls_params(**bound)  # noqa: SLF001 - the one place where every integration says it


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


def _of_model(model: BaseChatModel, bound: Mapping[str, Any]) -> Card:
    facts = facts_of(model, bound)
    named = next((getattr(model, key) for key in ("model_name", "model") if getattr(model, key, None)), None)
    name = str(facts.get("ls_model_name") or named or model.get_name())
    provider = facts.get("ls_provider")
    profile = getattr(model, "profile", None) or {}
    return Card(
        name=_printable(name),
        description=f"A chat model of {provider}." if provider else "A chat model.",
        context_window=profile.get("max_input_tokens"),
        parts=frozenset(part for fact, part in _PARTS.items() if profile.get(fact)),
    )


def _of_other(thing: Runnable[Any, Any]) -> Card:
    if isinstance(thing, BaseTool):
        return Card(name=_printable(thing.name), description=thing.description.strip())
    said = _own_words(thing)
    if isinstance(thing, BaseRetriever):
        said = said or "Searches its documents for the subtask's words; answers with passages and sources."
    return Card(name=_printable(thing.get_name()), description=said)


def _own_words(thing: Runnable[Any, Any]) -> str:
    """Return the docstring somebody wrote for it; a framework's own says nothing of this one."""
    own: object = type(thing)
    if isinstance(thing, RunnableLambda):
        own = getattr(thing, "func", None) or getattr(thing, "afunc", None)
    elif type(thing).__module__.split(".")[0] in ("langchain", "langchain_core", "langgraph"):
        return ""
    paragraphs = (getattr(own, "__doc__", None) or "").strip().split("\n\n")
    return " ".join(paragraphs[0].split())


def _printable(name: str) -> str:
    clean = " ".join("".join(char if char.isprintable() else " " for char in name).split())
    if not clean:
        raise ConfigError("a worker needs a name: as_worker(..., name=...)")
    return clean
