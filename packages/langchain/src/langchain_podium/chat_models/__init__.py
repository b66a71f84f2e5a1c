"""A conductor as a chat model."""

from langchain_podium.chat_models.model import ChatPodium

__all__ = ["ChatPodium"]
