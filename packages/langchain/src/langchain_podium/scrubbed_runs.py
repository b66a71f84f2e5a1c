"""Remove secrets from the data that tracers and other callbacks get about a conductor's runs.

LangChain passes the output of a run to callbacks, and returns the same object to the caller. The caller must
get the unchanged output. So Podium wraps the callback manager that LangChain creates for each run: the
wrapper removes secrets from its arguments.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

from langchain_core.callbacks.manager import BaseRunManager
from langchain_core.messages import BaseMessage, message_to_dict, messages_from_dict
from langchain_core.outputs import ChatGeneration, LLMResult
from langchain_core.prompt_values import PromptValue

from podium.errors import PodiumError
from podium.secrets import scrub, scrub_data, scrub_error
from podium.types import Result, RunEnded

_ENDS = ("on_chain_end", "on_chain_error", "on_llm_end", "on_llm_error", "on_llm_new_token")


def scrub_run(run: BaseRunManager | None) -> None:
    """Wrap a run's manager so that callbacks get its output or error without secrets."""
    for name in _ENDS:
        tell = getattr(run, name, None)
        if tell is not None and not hasattr(tell, "scrubs"):
            setattr(run, name, _scrubbing(tell))


def shown(value: Any) -> Any:
    """Return an input or output without secrets; an object without secrets is returned unchanged."""
    if isinstance(value, BaseException):
        return value if scrub_error(value) else PodiumError(scrub(repr(value)))
    return value if scrub(repr(value)) == repr(value) else _clean(value)


def _clean(value: object) -> Any:  # noqa: PLR0911 - one case for each kind
    match value:
        case str():
            return scrub(value)
        case list() | tuple():
            return [shown(item) for item in value]
        case dict():
            return {scrub(key): shown(item) for key, item in value.items()}
        case Result():
            return RunEnded.of(value).to_json()["result"]
        case BaseMessage():
            return messages_from_dict([scrub_data(message_to_dict(value))])[0]
        case PromptValue():
            return [shown(message) for message in value.to_messages()]
        case ChatGeneration():
            return type(value)(message=shown(value.message), generation_info=shown(value.generation_info))
        case LLMResult():
            generations = [[shown(each) for each in several] for several in value.generations]
            told = {"generations": generations, "llm_output": shown(value.llm_output)}
            return value.model_copy(update=told)
    return scrub(repr(value))


def _scrubbing(tell: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of a run's manager that passes on its arguments without secrets."""

    @wraps(tell)
    def scrubbing(*args: Any, **facts: Any) -> Any:
        return tell(*map(shown, args), **{name: shown(fact) for name, fact in facts.items()})

    scrubbing.scrubs = True  # type: ignore[attr-defined]
    return scrubbing
