"""Count the tokens of CrewAI's LLMs for each call of a worker, and record finish reasons.

CrewAI counts tokens on the LLM, which agents share, so parallel steps would mix their counts. Therefore each
call of a worker uses a copy of the LLM with the same client.
"""

from collections.abc import Callable
from threading import Lock
from typing import Any, Final, TypeVar

from crewai.agents.agent_builder.utilities.base_token_process import TokenProcess
from crewai.llms.base_llm import BaseLLM
from crewai.types.usage_metrics import UsageMetrics
from pydantic import PrivateAttr

from podium.usage import Usage
from podium.workers.openai.chat_response import read_usage as read_counts

L = TypeVar("L", bound=BaseLLM)
_TELL_ENDS: Final = ("_emit_call_completed_event", "_handle_emit_call_events")
"""Methods by which LLMs send the event of an answer. Only these methods get the finish reason before the call
returns; listeners of the event run later, in another thread.
"""


class UsageMeter:
    """Copies LLMs, adds up their tokens, and records the latest finish reason."""

    def __init__(self) -> None:
        self._llms: list[BaseLLM] = []
        self._cut = Usage()
        self.finish_reason: str | None = "stop"
        """The provider's finish reason of the latest answer. It is `stop` if the LLM never reports a finish
        reason. It is `None` if the LLM reports finish reasons, but not for this answer, as for a cut stream.
        """
        self.has_answered = False
        """Whether an LLM has answered. Always true for an LLM of the user's own class, which may not tell."""

    def copy_of(self, llm: L) -> L:
        """Return a copy of an LLM with zero tokens counted."""
        copy = llm.model_copy()
        copy._token_usage = dict.fromkeys(llm._token_usage, 0)  # noqa: SLF001 - CrewAI has no other counter
        self.has_answered |= not type(copy).__module__.startswith("crewai.")
        for name in _TELL_ENDS:
            if callable(method := getattr(type(copy), name, None)):
                vars(copy)[name] = self._hearing(method, copy)
        self._llms.append(copy)
        return copy

    def add_cut(self, usage: Usage) -> None:
        """Count the tokens of an answer that its LLM did not count, because it was cut."""
        self._cut += usage

    def _hearing(self, method: Callable[..., Any], llm: BaseLLM) -> Callable[..., Any]:
        def tell(*args: Any, **options: Any) -> Any:
            self.has_answered = True
            self.finish_reason = options.get("finish_reason", "stop")
            return method(llm, *args, **options)

        return tell

    @property
    def metrics(self) -> UsageMetrics:
        """Tokens of all copies so far, also of cut answers, as CrewAI's metrics."""
        total = UsageMetrics()
        for llm in self._llms:
            total.add_usage_metrics(llm.get_token_usage_summary())
        total.add_usage_metrics(write_usage(self._cut))
        return total

    @property
    def usage(self) -> Usage | None:
        """Tokens of all copies so far; `None` if no LLM reported any."""
        return read_usage(self.metrics)


class UsageTotal(TokenProcess):
    """The tokens of a manager's runs, for the crew's usage metrics. Thread-safe."""

    _metrics: UsageMetrics = PrivateAttr(default_factory=UsageMetrics)
    _lock: Any = PrivateAttr(default_factory=Lock)

    def add(self, usage: Usage, calls: int) -> None:
        """Add the tokens of so many calls of models."""
        with self._lock:
            self._metrics.add_usage_metrics(write_usage(usage, calls))

    def get_summary(self) -> UsageMetrics:
        """Return all tokens so far."""
        with self._lock:
            return self._metrics.model_copy()


def read_usage(metrics: UsageMetrics) -> Usage | None:
    """Convert CrewAI's metrics to a usage; `None` if they have no call, or not all tokens of a call."""
    if not metrics.successful_requests:
        return None
    return read_counts(
        {
            "prompt_tokens": metrics.prompt_tokens,
            "completion_tokens": metrics.completion_tokens,
            "cached_tokens": metrics.cached_prompt_tokens,
            "reasoning_tokens": metrics.reasoning_tokens,
        }
    )


def write_usage(usage: Usage, calls: int = 1) -> UsageMetrics:
    """Convert the usage of calls to CrewAI's metrics, which do not mark estimates."""
    if usage == Usage():
        return UsageMetrics()
    return UsageMetrics(
        total_tokens=usage.total_tokens,
        prompt_tokens=usage.total_input_tokens,
        completion_tokens=usage.total_output_tokens,
        cached_prompt_tokens=usage.cached_tokens,
        reasoning_tokens=usage.reasoning_tokens,
        successful_requests=calls,
    )
