"""Labels in conversations."""

from collections.abc import Sequence
from typing import Any

from contracts.conversation_contract import ConversationContract
from llama_index.core.llms import ChatMessage

from llama_index_podium import ConductorLLM
from podium import Conductor


class TestConductorLLM(ConversationContract):
    """Its messages have no metadata."""

    async def ask(self, used: Conductor, texts: Sequence[str]) -> Any:
        """Return the answer."""
        said = [ChatMessage(text, role=("user", "assistant")[at % 2]) for at, text in enumerate(texts)]
        return (await ConductorLLM(used).achat(said)).message.content
