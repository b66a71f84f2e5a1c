"""A conductor as a CrewAI LLM; each call is a run."""

from collections import deque
from collections.abc import Callable, Collection, Sequence
from threading import Lock
from typing import Any, Final, Literal, TypeVar

from crewai.events.types.llm_events import LLMCallType
from crewai.llms.base_llm import BaseLLM, llm_call_context
from pydantic import BaseModel, PrivateAttr

from crewai_podium.call import (
    answer_text,
    call_sampling,
    estimate_tokens,
    function_arguments,
    new_call,
    run_call,
    stopped,
)
from crewai_podium.events import MAX_RESULTS, tell_result
from crewai_podium.usage import write_usage
from podium.aio import run_sync
from podium.conductor import Conductor
from podium.errors import RunFailed, RunWaiting
from podium.hosts import ChatAnswer, ConductorFace, ContinuationStore
from podium.hosts.results import answered
from podium.policy import Policy
from podium.secrets import printable, scrub, scrub_data
from podium.types import Result

_UNKNOWN_WINDOW: Final = 128_000
_OPTIONS: Final = (
    "context_window", "labels", "max_tokens", "model", "partial", "policy", "provider", "seed", "stop",
    "stream", "temperature", "top_p",
)  # fmt: skip
F = TypeVar("F", bound=Callable[..., Any])


def _called_once(method: F) -> F:
    """Prevent CrewAI from repeating a call whose error mentions rate limits; the run has already retried."""
    method._crewai_rate_limit_wrapped = True  # type: ignore[attr-defined]  # noqa: SLF001 - CrewAI's own mark
    return method


@ConductorFace.register
class ConductorLLM(BaseLLM):
    """An LLM for `Agent(llm=...)` and `Crew(manager_llm=...)` that plans, and has a pool execute the plan.

    An agent's tools are offered to the worker of the plan's last step, if it accepts tools. The turn after a
    tool call reuses the plan and the outputs of the other steps.

    Args:
        conductor: the conductor that plans and runs each call.
        model: the model's name in events and logs.
        context_window: maximum tokens of a conversation; `None` uses the smallest known context window of the
            pool's workers, or 128,000.
        stream: whether chunks of the answer are sent as events while it is written.
        partial: whether an incomplete answer is returned, or raised as `RunFailed`.
        labels: labels of the conversations; see `Conductor`.
        policy: a policy in addition to the conductor's.
        options: `temperature`, `top_p`, `max_tokens`, `seed` and `stop`, for the worker of the plan's last
            step; `model` and `provider`, the names in events.

    Raises:
        TypeError: a conductor does not accept an option.
        RunFailed: from each call: there is no answer; `result` is the run's result.
        PodiumError: from each call: see `Conductor.run`.

    Each error of a call is also a `crewai.hooks.HookAborted`, so that CrewAI does not repeat the call.
    """

    llm_type: str = "podium"
    conductor: Any
    context_window: int | None = None
    partial: Literal["return", "raise"] = "return"
    labels: Collection[str] = ()
    policy: Policy | None = None

    _results: deque[Result] = PrivateAttr(default_factory=lambda: deque(maxlen=MAX_RESULTS))
    _continuations: ContinuationStore = PrivateAttr(default_factory=ContinuationStore)
    _lock: Any = PrivateAttr(default_factory=Lock)

    def __init__(self, conductor: Conductor, **options: Any) -> None:
        if unknown := sorted(options.keys() - set(_OPTIONS)):
            raise TypeError(
                f"ConductorLLM does not accept {', '.join(unknown)}: its options are {', '.join(_OPTIONS)}"
            )
        super().__init__(**{"model": "podium", "provider": "podium", **options, "conductor": conductor})

    @property
    def results(self) -> tuple[Result, ...]:
        """The results of the latest 64 calls, including failed runs, ordered from oldest to newest."""
        return tuple(self._results)

    @_called_once
    def call(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        """Answer like `acall` from sync code, in any thread, also inside a running event loop."""
        return run_sync(lambda: self.acall(messages, *args, **kwargs))

    @_called_once
    async def acall(  # noqa: PLR0913, PLR0917 - CrewAI's
        self,
        messages: Any,
        tools: Sequence[dict[str, Any]] | None = None,
        callbacks: list[Any] | None = None,
        available_functions: dict[str, Any] | None = None,
        from_task: Any = None,
        from_agent: Any = None,
        response_model: type[BaseModel] | None = None,
    ) -> Any:
        """Answer a conversation.

        Returns:
            The answer's text; with a `response_model`, as JSON. For an answer with tool calls: the calls in
            OpenAI's format; or, with `available_functions`, the return value of the first call.
        """
        source = {"from_task": from_task, "from_agent": from_agent}
        with llm_call_context():
            self._emit_call_started_event(
                scrub_data(messages), list(tools or ()), callbacks, available_functions, **source
            )
            try:
                answer = await self._answer(messages, tools or (), response_model, source)
            except Exception as error:  # raised again: CrewAI's listeners get every failure
                self._emit_call_failed_event(printable(scrub(str(error))), **source)
                raise stopped(error) from error
            calls = [dict(call) for call in answer.tool_calls]
            text = self._apply_stop_words(printable(answer.result.answer)) + printable(answer.lack)
            output = calls or answer_text(text, response_model)
            self._completed(messages, answer, output, source)
            if not calls or not available_functions:
                return output
            name, given = calls[0]["function"]["name"], function_arguments(calls[0], answer.result)
            return self._handle_tool_execution(name, given, available_functions, **source)

    async def _answer(
        self,
        messages: Any,
        tools: Sequence[dict[str, Any]],
        response_model: type[BaseModel] | None,
        source: dict[str, Any],
    ) -> ChatAnswer:
        call = new_call(
            self.conductor,
            messages if isinstance(messages, str) else self._format_messages(messages),
            tools=tools,
            sampling=call_sampling(self, response_model),
            store=self._continuations,
            options={"labels": self.labels, "policy": self.policy},
        )

        def on_text(text: str) -> None:
            self._emit_stream_chunk_event(printable(scrub(text)), **source)

        try:
            answer = await run_call(call, on_text if self._effective_stream() else None)
            answered(answer.result, partial=self.partial)
        except (RunFailed, RunWaiting) as error:
            if error.result is not None:
                self._keep(error.result)
            raise
        self._keep(answer.result)
        return answer

    def _keep(self, result: Result) -> None:
        self._results.append(result)
        tell_result(self, result)

    def _completed(self, messages: Any, answer: ChatAnswer, output: Any, source: dict[str, Any]) -> None:
        """Count the tokens of an answer, and send the event of a successful call."""
        usage = write_usage(answer.usage).model_dump()
        with self._lock:
            self._track_token_usage_internal(usage)
        self._emit_call_completed_event(
            scrub_data(output),
            LLMCallType.TOOL_CALL if answer.tool_calls else LLMCallType.LLM_CALL,
            **source,
            messages=scrub_data(self._format_messages(messages)),
            usage=usage,
            finish_reason=answer.host_finish_reason,
        )

    def supports_function_calling(self) -> bool:
        """Return whether any worker accepts tools."""
        return any(worker.takes_tools for worker in self.conductor.pool)

    def supports_stop_words(self) -> bool:
        """Return `True`: answers end at stop words."""
        return True

    def get_context_window_size(self) -> int:
        """Return the maximum tokens of a conversation: 85 % of the window, as in CrewAI's own LLMs."""
        cards = self.conductor.pool.cards
        known = [card.context_window for card in cards if card.context_window is not None]
        return int(0.85 * (self.context_window or min(known, default=_UNKNOWN_WINDOW)))

    def get_input_tokens_count(
        self, messages: Any, tools: Any = None, response_model: type[BaseModel] | None = None
    ) -> int:
        """Estimate a conversation's tokens at four characters each; each worker counts differently."""
        return estimate_tokens(
            messages, tools, None if response_model is None else response_model.model_json_schema()
        )
