"""A piece of an answer on its way through LangChain, which tells its callbacks what it is given.

`BaseChatModel.astream` has its run's manager to itself. So it is given pieces without secrets, which it tells
and joins; each keeps the piece as it is, which the caller gets.
"""

from typing import Any

from langchain_core.messages import AIMessageChunk
from pydantic import PrivateAttr

from langchain_podium.scrubbed_runs import shown


class ToldChunk(AIMessageChunk):
    """A piece of an answer without secrets."""

    _whole: AIMessageChunk = PrivateAttr()

    @classmethod
    def of(cls, whole: AIMessageChunk) -> "ToldChunk":
        """Return what callbacks are told of a piece."""
        told = cls(**dict(shown(whole)))
        told._whole = whole
        return told

    @classmethod
    def lc_id(cls) -> list[str]:
        """Return the id that LangChain writes a message under."""
        return AIMessageChunk.lc_id()

    def __add__(self, other: Any) -> "ToldChunk":  # type: ignore[override]
        """Join pieces: a secret may be in two of them."""
        others = other if isinstance(other, list) else [other]
        whole = self._whole.__add__([original(each) for each in others])
        assert isinstance(whole, AIMessageChunk)
        return ToldChunk.of(whole)


def original(chunk: Any) -> Any:
    """Return the piece as it is, with what LangChain added to it; other objects are returned as they are."""
    if not isinstance(chunk, ToldChunk):
        return chunk
    facts = {"content", "tool_calls", "tool_call_chunks", "invalid_tool_calls", "additional_kwargs"}
    own = {name: getattr(chunk._whole, name) for name in facts}  # noqa: SLF001  (of this module)
    return AIMessageChunk(**dict(chunk) | own)
