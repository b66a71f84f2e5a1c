"""Labels in conversations."""

from collections.abc import Sequence
from typing import Any

from contracts.conversation_contract import ConversationContract

from crewai_podium import ConductorLLM
from podium import Conductor


class TestConductorLLM(ConversationContract):
    """Its messages are plain data."""

    async def ask(self, used: Conductor, texts: Sequence[str]) -> Any:
        """Return the answer."""
        said = [{"role": ("user", "assistant")[at % 2], "content": text} for at, text in enumerate(texts)]
        return await ConductorLLM(used).acall(said)
