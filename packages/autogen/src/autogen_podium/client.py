"""A conductor as an AutoGen model client, over AutoGen's own client of OpenAI's SDK."""

from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Unpack

from autogen_core.models import ChatCompletionClient, CreateResult, LLMMessage, ModelInfo
from autogen_core.tools import Tool, ToolSchema
from autogen_ext.models.openai import BaseOpenAIChatCompletionClient
from pydantic import BaseModel

from autogen_podium.messages import from_autogen
from autogen_podium.workers.wrap import Participant, conductor_of
from podium.aio.sync import events_of
from podium.conductor import Conductor
from podium.errors import ConfigError, RunFailed, RunWaiting
from podium.hosts import ConductorFace, ConductorTransport, HostCall, Partial
from podium.hosts.faces import ConductorOptions
from podium.planners import Planner
from podium.types import Message, Result
from podium.types.messages import estimate_usage
from podium.workers import Worker

MAX_RESULTS: Final = 64
"""Maximum number of results that a client keeps."""
JsonOutput = bool | type[BaseModel] | None
"""`json_output` of AutoGen's clients."""


@ConductorFace.register
class ConductorChatCompletionClient(BaseOpenAIChatCompletionClient):
    """A model client that plans the question and has workers execute the plan.

    If the answer is incomplete, its finish reason is `length`, and its text ends with the sentence `(Not
    complete: …)`; a structured answer raises `RunFailed`. `results` has the full results of the latest calls.
    Tools are offered to each step; its tool calls are the result's content, and the text of the last step
    beside them is the result's `thought`. The next turn, which has the tool results, continues the plan, with
    a journal also in a new process. The worker of the last step also gets the `json_output` model
    and `extra_create_args` (temperature, top_p, max_tokens, seed, stop, reasoning_effort, response_format).

    Args:
        conductor: a conductor, instead of its parts.
        planner: writes the plans: a model client, or a planner or worker of Podium.
        workers: execute the steps; see `ConductorAgent`.
        model_info: the capabilities of the client; `None` derives them from the workers.
        context_window: maximum tokens of a conversation and its answer; `None` uses the smallest context
            window of the workers' cards.
        partial: whether an incomplete answer is returned, or raised as `RunFailed`.
        run_id: names the runs in the conductor's journal: the same call, also in a new process, continues its
            run. With `None`, each call is a new run.
        options: further options of `podium.Conductor`: `limits`, `policy`, `journal`, …; and `workflows`.

    Raises:
        ConfigError: there is no planner, or a conductor and its parts; from each call: an option is invalid.
        RunFailed: from each call: there is no answer; `result` is the run's result.
        RunWaiting: from each call: a person must decide.
    """

    component_type = "model"

    def __init__(  # noqa: PLR0913 - the options of AutoGen's clients
        self,
        conductor: Conductor | None = None,
        *,
        planner: ChatCompletionClient | Planner | Worker | None = None,
        workers: Sequence[Participant] = (),
        model_info: ModelInfo | None = None,
        context_window: int | None = None,
        partial: Partial = "return",
        run_id: str | None = None,
        **options: Unpack[ConductorOptions],
    ) -> None:
        self._conductor = conductor_of(
            conductor, planner, workers, options, face=ConductorChatCompletionClient
        )
        self._window = context_window
        self._run_id = run_id
        self._kept = deque[Result](maxlen=MAX_RESULTS)
        super().__init__(
            ConductorTransport(self.conductor, partial=partial).openai_client(),
            create_args={"model": "podium"},
            model_info=model_info or _model_info(self.conductor.pool.workers),
        )

    @property
    def conductor(self) -> Conductor:
        """The conductor that plans and runs each call."""
        return self._conductor

    @property
    def results(self) -> tuple[Result, ...]:
        """The results of the latest 64 calls, including failed runs, ordered from oldest to newest."""
        return tuple(self._kept)

    async def create(
        self, messages: Sequence[LLMMessage], *, json_output: JsonOutput = None, **options: Any
    ) -> CreateResult:
        """Answer a conversation; the options are those of AutoGen's clients."""
        call = self._host_call(messages)
        with self._asked(call):
            result = await super().create(messages, **_with_form(json_output, options))
        return self._told(call, result)

    def create_stream(
        self, messages: Sequence[LLMMessage], *, json_output: JsonOutput = None, **options: Any
    ) -> AsyncGenerator[str | CreateResult, None]:
        """Answer a conversation, and yield the pieces of the answer; the last item is the result.

        If a step is retried after part of its text was sent, the stream continues if the new text begins with
        that part; otherwise `RunFailed` is raised.
        """
        call = self._host_call(messages)
        options = {"include_usage": True, **_with_form(json_output, options)}
        pieces = super().create_stream(messages, **options)

        async def answering(emit: Callable[[str | CreateResult], None]) -> None:
            with self._asked(call):
                async for piece in pieces:
                    emit(self._told(call, piece) if isinstance(piece, CreateResult) else piece)

        return events_of(answering)  # a task of its own: leaving the stream cancels the run

    @contextmanager
    def _asked(self, call: HostCall) -> Iterator[None]:
        try:
            with call.asked():
                yield
        except (RunFailed, RunWaiting) as error:
            if error.result is not None:
                self._kept.append(error.result)
            raise

    def _host_call(self, messages: Sequence[LLMMessage]) -> HostCall:
        return HostCall(messages=from_autogen(messages), run_name=self._run_id)

    def _told(self, call: HostCall, result: CreateResult) -> CreateResult:
        assert call.answer is not None
        ended = call.answer.result
        self._kept.append(ended)
        result.cached = bool(ended.outcomes) and all(outcome.reused for outcome in ended.outcomes)
        return result

    def count_tokens(self, messages: Sequence[LLMMessage], *, tools: Sequence[Tool | ToolSchema] = ()) -> int:
        """Estimate the tokens of a conversation, assuming four characters per token."""
        schemas = [str(tool.schema if isinstance(tool, Tool) else tool) for tool in tools]
        told = [*from_autogen(messages), *(Message("system", schema) for schema in schemas)]
        return estimate_usage(told, "").input_tokens

    def remaining_tokens(
        self, messages: Sequence[LLMMessage], *, tools: Sequence[Tool | ToolSchema] = ()
    ) -> int:
        """Estimate the tokens that a conversation leaves in the context window.

        Raises:
            ConfigError: the context window is unknown.
        """
        known = [card.context_window for card in self.conductor.pool.cards if card.context_window is not None]
        window = self._window or min(known, default=None)
        if window is None:
            raise ConfigError("no worker's card has a context window: give context_window=")
        return window - self.count_tokens(messages, tools=tools)


def _with_form(form: JsonOutput, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a call with its structured output as OpenAI's JSON schema.

    AutoGen's client would parse a Pydantic model, and then warn about what it logs.
    """
    if not isinstance(form, type):
        return {**options, "json_output": form}
    schema = {"name": form.__name__, "schema": form.model_json_schema(), "strict": True}
    extra = {"response_format": {"type": "json_schema", "json_schema": schema}}
    return {**options, "extra_create_args": {**(options.get("extra_create_args") or {}), **extra}}


def _model_info(workers: Sequence[Worker]) -> ModelInfo:
    """Return the capabilities of a conductor: of any worker, or for structured output of all workers."""
    is_structured = all("json" in worker.constraint_kinds for worker in workers)
    return ModelInfo(
        vision=any("image_url" in worker.card.parts for worker in workers),
        function_calling=any(worker.takes_tools for worker in workers),
        json_output=is_structured,
        structured_output=is_structured,
        family="unknown",
        multiple_system_messages=True,  # a worker that accepts only one joins them
    )
