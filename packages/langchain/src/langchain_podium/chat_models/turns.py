"""Where a message keeps what the turn after its calls of tools goes on from.

In the message that holds the calls, so that it is where the conversation is, in memory or
in a checkpoint. What it is, is `podium.resume.tool_continuation`'s business.
"""

from collections.abc import Sequence

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage


def latest_turn(messages: Sequence[BaseMessage]) -> object:
    """Return what the model's last message since the question keeps; `None` where there is none."""
    for message in reversed(messages):
        if isinstance(message, HumanMessage):
            return None
        if isinstance(message, AIMessage):
            podium = message.response_metadata.get("podium")
            return podium.get("turn") if isinstance(podium, dict) else None
    return None
