"""Copies of LLMs that count what they spend themselves.

CrewAI counts on the LLM, which agents share and steps side by side would mix up: each call
of a worker therefore has a copy of its own, over the same client. It knows no worker.
"""

from collections.abc import Callable
from threading import Lock
from typing import Any, TypeVar

from crewai.agents.agent_builder.utilities.base_token_process import TokenProcess
from crewai.llms.base_llm import BaseLLM
from crewai.types.usage_metrics import UsageMetrics
from pydantic import PrivateAttr

from podium.usage import Usage

Spent = Callable[[UsageMetrics], None]
"""Takes what a call of a worker has spent."""
L = TypeVar("L", bound=BaseLLM)


class Meter:
    """Makes copies of LLMs, and adds up what they spend."""

    def __init__(self) -> None:
        self._llms: list[BaseLLM] = []

    def copy_of(self, llm: L) -> L:
        """Return a copy of an LLM that counts from nothing."""
        copy = llm.model_copy()
        copy._token_usage = dict.fromkeys(llm._token_usage, 0)  # noqa: SLF001 - the only counter there is
        self._llms.append(copy)
        return copy

    @property
    def metrics(self) -> UsageMetrics:
        """What the copies have spent so far, as CrewAI tells it."""
        total = UsageMetrics()
        for llm in self._llms:
            total.add_usage_metrics(llm.get_token_usage_summary())
        return total

    @property
    def usage(self) -> Usage | None:
        """The same as Podium tells it; `None` where no LLM has reported anything."""
        return usage_of(self.metrics)


class Tally(TokenProcess):
    """What a manager has spent, its crew's steps included, for the crew's own metrics."""

    _metrics: UsageMetrics = PrivateAttr(default_factory=UsageMetrics)
    _meters: list[Meter] = PrivateAttr(default_factory=list)
    _lock: Any = PrivateAttr(default_factory=Lock)

    def add(self, metrics: UsageMetrics) -> None:
        """Add what a call has spent; threads may do so at once."""
        with self._lock:
            self._metrics.add_usage_metrics(metrics)

    def watch(self, meter: Meter) -> None:
        """Count what a meter counts, from now on."""
        with self._lock:
            self._meters.append(meter)

    def get_summary(self) -> UsageMetrics:
        """Return all of it."""
        with self._lock:
            total = self._metrics.model_copy()
            for meter in self._meters:
                total.add_usage_metrics(meter.metrics)
        return total


def usage_of(metrics: UsageMetrics) -> Usage | None:
    """Return CrewAI's metrics as Podium's usage; `None` where they tell of no call."""
    if not metrics.successful_requests:
        return None
    return Usage(
        metrics.prompt_tokens,
        metrics.completion_tokens,
        cached_tokens=metrics.cached_prompt_tokens,
        reasoning_tokens=metrics.reasoning_tokens,
    )


def metrics_of(usage: Usage) -> UsageMetrics:
    """Return what one call has spent as CrewAI tells it, which has no word for what was estimated."""
    if usage == Usage():
        return UsageMetrics()
    read = usage.input_tokens + usage.orchestration_input_tokens
    written = usage.output_tokens + usage.orchestration_output_tokens
    return UsageMetrics(
        total_tokens=read + written,
        prompt_tokens=read,
        completion_tokens=written,
        cached_prompt_tokens=usage.cached_tokens,
        reasoning_tokens=usage.reasoning_tokens,
        successful_requests=1,
    )
