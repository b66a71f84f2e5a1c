"""The keys of the user's state that a conductor's node writes, and their formats."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableConfig

from langchain_podium.graph.around import UNDECLARED, Around
from langchain_podium.graph.graph_node import Data
from langchain_podium.graph.state import VIEW
from langchain_podium.graph.writes import UPDATES
from podium.errors import ConfigError

MESSAGES: Final = "messages"
STRUCTURED: Final = "structured_response"
"""The key of the structured answer, as in LangChain's agents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateKeys:
    """The keys of the user's state that a conductor's node writes."""

    output: str
    """The key of the answer."""
    structured: bool = False
    """Whether the answer is structured, and also written to `structured_response`."""
    name: str | None = None
    """The name on the message with the answer."""
    writes: Collection[str] = ()
    """The keys that get fields of typed outputs."""

    def check(self, config: RunnableConfig) -> None:
        """Check the keys against the node's graph, before anything is paid for."""
        if self.structured and Around(config).held(STRUCTURED) is UNDECLARED:
            told = f"the graph's state has no key {STRUCTURED!r}, which response_format needs"
            raise ConfigError(f"{told}: declare it, of any type")
        fields = (("writes", key) for key in self.writes)
        for argument, key in (("output", self.output), *fields):
            if Around(config).held(key) is UNDECLARED:
                raise ConfigError(
                    f"the graph's state has no key {key!r}, so LangGraph would drop what the conductor "
                    f"writes there: declare it, or set another key with conductor_node(..., {argument}=...)"
                )

    def written(self, update: Data, config: RunnableConfig) -> Data:
        """Return the result of a run as an update of the user's state.

        If a key holds a list, the value is appended by the reducer that the state must declare.
        """
        view = update[VIEW]
        answer = update.get(self.output)
        held = Around(config).held(self.output)
        if isinstance(held, list) and isinstance(answer, str):
            has_messages = any(isinstance(item, BaseMessage) for item in held)
            answer = [answer_message(answer, view, self.name) if has_messages else answer]
        data = {self.output: answer, UPDATES: update.get(UPDATES, ())}
        if self.structured:
            data[STRUCTURED] = update.get(STRUCTURED)
        if (held := Around(config).held(VIEW)) is not UNDECLARED:
            data[VIEW] = [view] if isinstance(held, list) else view
        return data


def answer_message(text: str, view: Data, name: str | None = None) -> AIMessage:
    """Return the message with an answer; its id is the id of the streamed message."""
    finish = "length" if view["status"] == "partial" else "stop"
    facts = {"finish_reason": finish, "podium_run_id": view["run_id"], "podium_status": view["status"]}
    facts["podium_labels"] = view.get("labels", [])
    return AIMessage(text, name=name, id=view.get("message_id"), response_metadata=facts)
