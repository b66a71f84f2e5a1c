"""A conductor as an LLM of CrewAI."""

import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from threading import Lock
from typing import Any, Final, Literal, TypeVar

from crewai import Task
from crewai.events.types.llm_events import LLMCallType
from crewai.llms.base_llm import BaseLLM, llm_call_context
from pydantic import BaseModel, PrivateAttr, ValidationError

from crewai_podium.events import MAX_RESULTS, tell_result
from crewai_podium.usage import write_usage
from crewai_podium.workers.errors import stopped
from crewai_podium.workers.wrap import as_planner, as_worker
from podium.aio import run_sync
from podium.conductor import Conductor
from podium.errors import RunFailed, RunWaiting, unknown_options
from podium.hosts import ChatAnswer, ChatCall, ConductorFace, ContinuationStore
from podium.hosts.faces import ConductorOptions, conductor_of, run_id_of
from podium.hosts.results import run_failed, tool_arguments
from podium.secrets import printable, scrub, scrub_data
from podium.types import Constraint, Message, Result, Sampling, Tools
from podium.types.messages import storable
from podium.usage import estimate_tokens


def from_crewai(messages: str | Sequence[Mapping[str, Any]]) -> tuple[Message, ...]:
    """Return an LLM's messages as a conversation.

    After a tool has run, CrewAI adds an instruction as a user message. It is not a new question, so it
    becomes part of the tool's result.
    """
    if isinstance(messages, str):
        return (Message("user", storable(messages)),)
    found: list[Mapping[str, Any]] = []
    for message in messages:
        last = found[-1] if found else {}
        if message["role"] == "user" and last.get("role") == "tool":
            found[-1] = {**last, "content": f"{last['content']}\n\n{message['content']}"}
        else:
            found.append(message)
    return tuple(Message.from_wire(message) for message in found)


def output_model(task: Task) -> type[BaseModel] | None:
    """Return the Pydantic model of a task's output; `None` for text."""
    return task.output_pydantic or task.output_json or task.response_model


def output_constraint(model: type[BaseModel] | None) -> Constraint | None:
    """Return the constraint for a Pydantic model; `None` for text."""
    return None if model is None else Constraint("json", model.model_json_schema())


def read_output(answer: str, model: type[BaseModel]) -> BaseModel | str:
    """Return an answer as an instance of a model, or the reason why it is not one."""
    start, end = answer.find("{"), answer.rfind("}")
    reason = "it contains no JSON object"
    for text in (answer, answer[start : end + 1]):
        try:
            return model.model_validate_json(text)
        except ValidationError as error:
            reason = _first_reason(error)
    return f"the answer is not a valid {model.__name__}: {reason}"


def _first_reason(error: ValidationError) -> str:
    first: Any = error.errors(include_url=False, include_context=False)[0]
    where = ".".join(map(str, first["loc"]))
    return f"{where}: {first['msg']}" if where else str(first["msg"])


_UNKNOWN_WINDOW: Final = 128_000
_OPTIONS: Final = (
    "context_window", "max_tokens", "model", "partial", "provider", "run_id", "seed", "stop", "stream",
    "temperature", "top_p",
)  # fmt: skip
F = TypeVar("F", bound=Callable[..., Any])


def _called_once(method: F) -> F:
    """Prevent CrewAI from repeating a call whose error mentions rate limits; the run has already retried."""
    method._crewai_rate_limit_wrapped = True  # type: ignore[attr-defined]  # noqa: SLF001 - CrewAI's own mark
    return method


@ConductorFace.register
class ConductorLLM(BaseLLM):
    """An LLM for `Agent(llm=...)` and `Crew(manager_llm=...)` that plans, and has a pool execute the plan.

    An agent's tools are offered to the steps whose workers accept tools. The turn after a
    tool call reuses the plan and the outputs of the other steps.

    Args:
        conductor: plans and runs each call.
        planner: in place of `conductor`: a CrewAI LLM or its name, or a planner of Podium.
        workers: in place of `conductor`: all that `as_worker` accepts.
        model: the model's name in events and logs.
        context_window: maximum tokens of a conversation; `None` uses the smallest known context window of the
            pool's workers, or 128,000.
        stream: whether chunks of the answer are sent as events while it is written.
        partial: whether an incomplete answer is returned, or raised as `RunFailed`.
        run_id: prefix of the run ids in the conductor's journal; a hash of the conversation follows it. The
            same call, also in a new process, continues its run. With `None`, each call is a new run.
        options: `temperature`, `top_p`, `max_tokens`, `seed` and `stop`, for the worker of the plan's last
            step; `model` and `provider`, the names in events; and in place of `conductor` the other options
            of `Conductor`: see `podium.hosts.faces.ConductorOptions`.

    Raises:
        TypeError: an option is unknown.
        ConfigError: there is no planner, or a conductor is given with its parts; or see `Conductor`.
        RunFailed: from each call: there is no answer; `result` is the run's result.
        PodiumError: from each call: see `Conductor.run`.

    Each error of a call is also a `crewai.hooks.HookAborted`, so that CrewAI does not repeat the call.
    """

    llm_type: str = "podium"
    conductor: Any
    context_window: int | None = None
    partial: Literal["return", "raise"] = "return"
    run_id: str | None = None

    _results: deque[Result] = PrivateAttr(default_factory=lambda: deque(maxlen=MAX_RESULTS))
    _continuations: ContinuationStore = PrivateAttr(default_factory=ContinuationStore)
    _lock: Any = PrivateAttr(default_factory=Lock)

    def __init__(
        self,
        conductor: Conductor | None = None,
        *,
        planner: object = None,
        workers: Sequence[Any] = (),
        **options: Any,
    ) -> None:
        known = ("conductor", "planner", "workers", *_OPTIONS, *ConductorOptions.__annotations__)
        if told := unknown_options("ConductorLLM", options, known):
            raise TypeError(told)
        own: dict[str, Any] = {name: options.pop(name) for name in _OPTIONS if name in options}
        made = conductor_of(
            conductor,
            planner,
            workers,
            options,
            as_worker=as_worker,
            as_planner=as_planner,
            face=ConductorLLM,
        )
        super().__init__(**{"model": "podium", "provider": "podium", **own, "conductor": made})

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
            read = text if response_model is None else read_output(text, response_model)
            output = calls or (read.model_dump_json() if isinstance(read, BaseModel) else text)
            self._completed(messages, answer, output, source)
            if not calls or not available_functions:
                return output
            function, given = calls[0]["function"], tool_arguments(calls[0])
            if given is None:
                told = f"the arguments of {function['name']!r} are not a JSON object"
                raise run_failed(f"{told}: {function['arguments']!r:.80}", answer.result)
            return self._handle_tool_execution(function["name"], given, available_functions, **source)

    async def _answer(
        self,
        messages: Any,
        tools: Sequence[dict[str, Any]],
        response_model: type[BaseModel] | None,
        source: dict[str, Any],
    ) -> ChatAnswer:
        conversation = from_crewai(messages if isinstance(messages, str) else self._format_messages(messages))
        call = ChatCall(
            self.conductor,
            conversation,
            tools=Tools(tuple(tools)),
            sampling=Sampling(
                temperature=self.temperature,
                top_p=self.top_p,
                seed=self.seed,
                max_tokens=None if self.max_tokens is None else int(self.max_tokens),
                stop=tuple(self.stop_sequences),
                constraint=output_constraint(response_model),
            ),
            store=self._continuations,
            partial=self.partial,
            options=run_id_of(self.run_id, conversation),
        )
        answer = None
        try:
            if not self._effective_stream():
                answer = await call.run()
            else:
                async with aclosing(call.stream()) as items:
                    async for item in items:
                        if isinstance(item, ChatAnswer):
                            answer = item
                        else:
                            self._emit_stream_chunk_event(printable(scrub(item)), **source)
        except (RunFailed, RunWaiting) as error:
            if error.result is not None:
                self._keep(error.result)
            raise
        assert answer is not None  # the last item
        self._keep(answer.result)
        return answer

    def _keep(self, result: Result) -> None:
        self._results.append(result)
        tell_result(self, result)

    def _completed(self, messages: Any, answer: ChatAnswer, output: Any, source: dict[str, Any]) -> None:
        """Count the tokens of an answer, and send the event of a successful call."""
        usage = write_usage(answer.new_usage).model_dump()
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
        schema = None if response_model is None else response_model.model_json_schema()
        shown = [part for part in (messages, tools, schema) if part]
        texts = [part if isinstance(part, str) else json.dumps(part, default=str) for part in shown]
        return estimate_tokens("".join(texts))
