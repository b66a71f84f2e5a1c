"""A scripted LLM with the events and token counts of CrewAI's own LLMs."""

from collections.abc import Callable
from typing import Any

from crewai.events.types.llm_events import LLMCallType
from crewai.llms.base_llm import BaseLLM, llm_call_context

Say = Callable[[str, list[dict[str, Any]] | None], Any]
"""Returns an answer from the text of all messages and the offered tools."""


class SpeakingLLM(BaseLLM):
    """Answers with `say`, and reports 242 tokens for each call."""

    say: Any
    counts: bool = True

    def call(self, messages: Any, tools: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Answer; with `stream`, word by word."""
        about = {"from_task": kwargs.get("from_task"), "from_agent": kwargs.get("from_agent")}
        with llm_call_context():
            self._emit_call_started_event(messages, tools, **about)
            try:
                contents = [str(message.get("content")) for message in self._format_messages(messages)]
                text = self.say("\n".join(contents), tools)
            except Exception as error:
                self._emit_call_failed_event(str(error), **about)
                raise
            if self.stream and isinstance(text, str):
                first, *rest = text.split(" ")
                for word in (first, *(f" {other}" for other in rest)):
                    self._emit_stream_chunk_event(word, **about)
            usage = {"prompt_tokens": 230, "completion_tokens": 12, "total_tokens": 242}
            if self.counts:
                self._track_token_usage_internal(usage)
            self._emit_call_completed_event(text, LLMCallType.LLM_CALL, **about, usage=usage)
            return text

    def supports_function_calling(self) -> bool:
        """Return that it supports tools."""
        return True

    def get_context_window_size(self) -> int:
        """Return a size that no test exceeds."""
        return 100_000

    def get_input_tokens_count(self, *args: Any, **kwargs: Any) -> int:
        """Return 0, because CrewAI would print that its count is a guess."""
        return 0
