"""Labels in conversations."""

from collections.abc import Sequence
from typing import Any

from agent_framework import Message
from autogen_core.models import AssistantMessage, LLMMessage, UserMessage
from contracts.conversation_contract import ConversationContract

from autogen_podium import ConductorChatCompletionClient
from autogen_podium.agent_framework import ConductorChatClient
from podium import Conductor


class TestModelClient(ConversationContract):
    async def ask(self, used: Conductor, texts: Sequence[str]) -> Any:
        said: list[LLMMessage] = [
            AssistantMessage(content=text, source="a") if at % 2 else UserMessage(content=text, source="u")
            for at, text in enumerate(texts)
        ]
        return (await ConductorChatCompletionClient(used).create(said)).content


class TestChatClient(ConversationContract):
    async def ask(self, used: Conductor, texts: Sequence[str]) -> Any:
        said = [Message(("user", "assistant")[at % 2], [text]) for at, text in enumerate(texts)]
        return (await ConductorChatClient(used).get_response(said)).text
