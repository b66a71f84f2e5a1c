"""The keys of the user's state that a conductor's node writes, and their formats."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import ensure_config

from langchain_podium.graph.graph_node import Data
from langchain_podium.graph.state import VIEW
from podium.errors import ConfigError

MESSAGES: Final = "messages"
STRUCTURED: Final = "structured_response"
"""The key of the structured answer, as in LangChain's agents."""
_READ: Final = "__pregel_read"
"""The configuration key of LangGraph's function that reads the graph's state."""
_UNDECLARED: Final = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class StateKeys:
    """The keys of the user's state that a conductor's node writes."""

    output: str
    """The key of the answer."""
    result: str | None
    """The key of the run as plain data; `None` keeps it out of the state."""
    structured: bool = False
    """Whether the answer is structured, and also written to `structured_response`."""
    name: str | None = None
    """The name on the message with the answer."""

    def check(self, config: RunnableConfig) -> None:
        """Check the keys against the node's graph, before anything is paid for.

        Raises:
            ConfigError: the state does not declare the key of the answer, of the run, or of the structured
                answer.
        """
        if self.structured and _held(config, STRUCTURED) is _UNDECLARED:
            told = f"the graph's state has no key {STRUCTURED!r}, which response_format needs"
            raise ConfigError(f"{told}: declare it, of any type")
        for argument, key in (("output", self.output), ("result", self.result)):
            if key is None or (argument == "result" and key == VIEW):  # the default key is optional
                continue
            if _held(config, key) is _UNDECLARED:
                raise ConfigError(
                    f"the graph's state has no key {key!r}, so LangGraph would drop what the conductor "
                    f"writes there: declare it, or set another key with conductor_node(..., {argument}=...)"
                )

    def written(self, update: Data, config: RunnableConfig) -> Data:
        """Return the result of a run as an update of the user's state.

        If a key holds a list, the value is appended by the reducer that the state must declare.

        Args:
            update: the answer under `output`, the run under `podium`.
            config: the node's configuration.
        """
        view = update[VIEW]
        answer = update.get(self.output)
        held = _held(config, self.output)
        if isinstance(held, list) and isinstance(answer, str):
            has_messages = any(isinstance(item, BaseMessage) for item in held)
            answer = [answer_message(answer, view, self.name) if has_messages else answer]
        data = {self.output: answer}
        if self.structured:
            data[STRUCTURED] = update.get(STRUCTURED)
        if self.result is not None and (held := _held(config, self.result)) is not _UNDECLARED:
            data[self.result] = [view] if isinstance(held, list) else view
        return data


def answer_message(text: str, view: Data, name: str | None = None) -> AIMessage:
    """Return the message with an answer; its id is the id of the streamed message."""
    finish = "length" if view["status"] == "partial" else "stop"
    facts = {"finish_reason": finish, "podium_run_id": view["run_id"], "podium_status": view["status"]}
    facts["podium_labels"] = view.get("labels", [])
    return AIMessage(text, name=name, id=view.get("message_id"), response_metadata=facts)


class InParent(Runnable[Any, Any]):
    """A function of a node's input and configuration, as a part of the node without tracing."""

    acts = False

    def __init__(self, do: Callable[[Any, RunnableConfig], Any]) -> None:
        self._do = do

    def invoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:  # noqa: A002
        """Call the function."""
        return self._do(input, ensure_config(config))

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **_: Any) -> Any:  # noqa: A002
        """Call the function."""
        return self._do(input, ensure_config(config))


def _held(config: RunnableConfig, key: str) -> object:
    """Return the state's value of a key; `None` if it is empty, `_UNDECLARED` if the key is unknown."""
    read: Callable[[str], object] | None = config.get("configurable", {}).get(_READ)
    if read is None:  # outside of a graph, where the node raises an error
        return None
    try:
        return read(key)
    except KeyError:
        return _UNDECLARED
