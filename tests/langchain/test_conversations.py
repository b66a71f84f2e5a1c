"""Labels in conversations."""

from collections.abc import Sequence
from typing import Any

from contracts.conversation_contract import ConversationContract
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from langchain_podium import ChatPodium
from podium import Conductor


class TestChatPodium(ConversationContract):
    """The history has no metadata."""

    async def ask(self, used: Conductor, texts: Sequence[str]) -> Any:
        """Return the answer."""
        kinds: tuple[type[BaseMessage], ...] = (HumanMessage, AIMessage)
        said = [kinds[index % 2](text) for index, text in enumerate(texts)]
        return (await ChatPodium(conductor=used).ainvoke(said)).text
