"""A conductor as an LLM: each call of it is a run.

It owns how a call of CrewAI's becomes a run, and a result what CrewAI expects of an LLM:
text, calls of tools, a structured answer; events, and tokens counted.
"""

import json
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, Final, TypeVar

from crewai.events.types.llm_events import LLMCallType
from crewai.llms.base_llm import BaseLLM, llm_call_context
from pydantic import BaseModel, PrivateAttr

from crewai_podium.outputs import read_answer, sampling_for
from crewai_podium.spending import metrics_of
from crewai_podium.turns import Turns, query_of
from podium.aio import run_sync
from podium.conductor import Conductor
from podium.errors import RunFailed
from podium.hosted import HostedConductor
from podium.run import Listener
from podium.types import AnswerDelta, Event, Result, Sampling, Tools

_SAID: Final = ("temperature", "top_p", "seed")
_UNKNOWN_WINDOW: Final = 128_000
F = TypeVar("F", bound=Callable[..., Any])


def _tried_once(method: F) -> F:
    """Keep CrewAI from calling it again where an error's words speak of rate limits: the run has retried."""
    method._crewai_rate_limit_wrapped = True  # type: ignore[attr-defined]  # noqa: SLF001 - its mark for that
    return method


class ConductorLLM(BaseLLM):
    """An LLM for `Agent(llm=...)` and `Crew(manager_llm=...)` that plans, and has a pool do the work.

    An agent's tools are offered to the worker of the plan's last step, if it takes any; the
    turns after a call of them reuse the plan and what the other steps came to.

    Args:
        conductor: who is asked.
        model: what events and logs call it.
        context_window: tokens that a conversation may have; `None` takes the smallest of the
            pool's workers that is known, else 128,000.
        stream: whether chunks of the answer are told as events while it is written.

    Raises:
        RunFailed: from each call: the run came to no answer; `result` is what it came to.
        PodiumError: from each call: as `Conductor.run`.
    """

    llm_type: str = "podium"
    conductor: Any
    context_window: int | None = None

    _turns: Turns = PrivateAttr(default_factory=Turns)
    _lock: Any = PrivateAttr(default_factory=Lock)

    def __init__(self, conductor: Conductor | HostedConductor, **options: Any) -> None:
        super().__init__(**{"model": "podium", "provider": "podium", **options, "conductor": conductor})

    @_tried_once
    def call(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        """Ask, from code that is not async: any thread's, inside a running event loop too."""
        return run_sync(lambda: self.acall(messages, *args, **kwargs))

    @_tried_once
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
        """Ask.

        Returns:
            The answer's text; calls of tools, as OpenAI writes them, or what the first came to
            where functions are there to call; the answer as JSON, where `response_model` says so.
        """
        about = {"from_task": from_task, "from_agent": from_agent}
        with llm_call_context():
            self._emit_call_started_event(
                messages, list(tools or ()), callbacks, available_functions, **about
            )
            try:
                result = await self._run(messages, tools or (), response_model, about)
            except Exception as error:  # CrewAI is told of whatever failed, and it goes on
                self._emit_call_failed_event(str(error), **about)
                raise
            kind = LLMCallType.TOOL_CALL if result.tool_calls else LLMCallType.LLM_CALL
            calls = [dict(call) for call in result.tool_calls]
            given = calls or _text(self._apply_stop_words(result.answer), response_model)
            metrics = metrics_of(result.usage)
            usage = metrics.model_dump()
            with self._lock:
                self._track_token_usage_internal(usage)
            self._emit_call_completed_event(
                given,
                kind,
                **about,
                messages=self._format_messages(messages),
                usage=usage,
                finish_reason="stop",
            )
            return (
                self._called(calls[0], available_functions, about) if calls and available_functions else given
            )

    def supports_function_calling(self) -> bool:
        """Say whether there is a worker that tools can be offered to."""
        if isinstance(self.conductor, HostedConductor):
            return True
        return any(worker.takes_tools for worker in self.conductor.pool)

    def supports_stop_words(self) -> bool:
        """Say that it stops at them."""
        return True

    def get_context_window_size(self) -> int:
        """Return how many tokens a conversation may have, with the room that CrewAI leaves."""
        cards = () if isinstance(self.conductor, HostedConductor) else self.conductor.pool.cards
        known = [card.context_window for card in cards if card.context_window is not None]
        return int(0.85 * (self.context_window or min(known, default=_UNKNOWN_WINDOW)))

    def get_input_tokens_count(
        self, messages: Any, tools: Any = None, response_model: type[BaseModel] | None = None
    ) -> int:
        """Count a conversation's tokens, four characters each: its workers count each in their own way."""
        schema = None if response_model is None else response_model.model_json_schema()
        text = (
            messages if isinstance(messages, str) else json.dumps(messages, default=str, ensure_ascii=False)
        )
        told = [json.dumps(part, default=str) for part in (tools, schema) if part]
        return -(-sum(map(len, (text, *told))) // 4)

    async def _run(
        self,
        messages: Any,
        tools: Sequence[dict[str, Any]],
        response_model: type[BaseModel] | None,
        about: dict[str, Any],
    ) -> Result:
        query = query_of(messages if isinstance(messages, str) else self._format_messages(messages))
        offered, sampling = Tools(tuple(tools)), self._sampling(response_model)
        if isinstance(self.conductor, HostedConductor):
            return _answered(await self.conductor.run(query, tools=offered, sampling=sampling))
        events = list[Event]()
        chunk = self._chunks(about) if self._streams() else None

        def listen(event: Event) -> None:
            if not events or event.run_id == events[0].run_id:
                events.append(event)
                if chunk is not None:
                    chunk(event)

        paid_results = self._turns.paid_results(query, self.conductor.pool.names) if tools else None
        result = _answered(
            await self.conductor.run(
                query,
                tools=offered,
                sampling=sampling,
                paid_results=paid_results,
                on_event=listen if tools or chunk is not None else None,
            )
        )
        if result.tool_calls:
            self._turns.keep(query, events)
        return result

    def _streams(self) -> bool:
        """Say whether somebody reads along: by the call, or where crewai is too old for that, by the LLM."""
        said = getattr(self, "_effective_stream", None)
        return bool(self.stream if said is None else said())

    def _chunks(self, about: dict[str, Any]) -> Listener:
        """Return what tells of the answer's pieces: of the first attempt at it alone."""
        attempts = list[tuple[int | None, int | None, int | None]]()

        def chunk(event: Event) -> None:
            if isinstance(event, AnswerDelta):
                attempts.append((event.round, event.step, event.attempt))
                if attempts[0] == attempts[-1]:
                    self._emit_stream_chunk_event(event.text, **about)

        return chunk

    def _sampling(self, response_model: type[BaseModel] | None) -> Sampling:
        said = {name: getattr(self, name) for name in _SAID}
        most = None if self.max_tokens is None else int(self.max_tokens)
        form = sampling_for(response_model)
        stops = tuple(self.stop_sequences)
        return Sampling(**said, max_tokens=most, stop=stops, constraint=form.constraint)

    def _called(self, call: dict[str, Any], functions: dict[str, Any], about: dict[str, Any]) -> Any:
        function = call["function"]
        given = json.loads(function.get("arguments") or "{}")
        return self._handle_tool_execution(function["name"], given, functions, **about)


def _text(answer: str, form: type[BaseModel] | None) -> str:
    """Return the answer; as the JSON of a model, where it holds that."""
    read = answer if form is None else read_answer(answer, form)
    return read.model_dump_json() if isinstance(read, BaseModel) else answer


def _answered(result: Result) -> Result:
    if result.status not in ("failed", "waiting"):
        return result
    problem = result.problem
    told = "it waits for approval" if problem is None else f"{problem.code}: {problem.message}"
    error = RunFailed(f"the run came to no answer ({told})")
    error.result = result
    raise error
