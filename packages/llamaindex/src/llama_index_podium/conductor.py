"""The conductor of a face, from its parts, and one call of it, whose steps LlamaIndex is told of."""

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict
from inspect import signature
from typing import Any

from llama_index.core.llms import LLM
from llama_index.core.schema import NodeWithScore
from llama_index.core.settings import Settings

from llama_index_podium.sources import behind, merge
from llama_index_podium.tracing import Steps
from llama_index_podium.workers.wrap import as_worker
from podium.conductor import Conductor
from podium.errors import ConfigError, unknown_options
from podium.hosts import ChatAnswer, ChatCall, faces, result_metadata
from podium.hosts.faces import ConductorOptions
from podium.hosts.results import plan_metadata
from podium.planners import Planner
from podium.run import Listener, RunOptions
from podium.secrets import scrub_data
from podium.types import AnswerDelta, Event, Message, Outcome, Plan, PlannedBy, PlanReady, Result, StepEnded
from podium.usage import Usage
from podium.workers import Worker


def as_planner(model: LLM | Planner | Worker, **options: Any) -> Planner:
    """Return a planner that asks an LLM or a worker for the plan, or the given planner.

    Args:
        model: the LLM, worker or planner.
        options: options of `podium.ChatPlanner`, such as `workflows`.

    Raises:
        ConfigError: `model` is none of these, or is a planner with options.
    """
    if not isinstance(model, LLM | Worker | Planner):
        raise ConfigError(f"{model!r:.80} is neither an LLM nor a planner: give one of them")
    return faces.planner_of(model, as_worker, options)


class FaceOptions(ConductorOptions, total=False):
    """What a face takes in place of a conductor, and `run_id`, which it takes in any case."""

    planner: LLM | Planner | Worker | None
    """Writes the plans; by default `Settings.llm`, if it is set."""
    workers: Sequence[Any]
    """Retrievers, query engines, LLMs, tools, and all else that `as_worker` accepts."""
    run_id: str | None
    """Prefix of the ids of runs in the conductor's journal; a hash of the question follows it. The same call,
    also in a new process, continues its run. By default (`None`), each call is a new run."""


def conductor_of(
    face: type, conductor: object, options: Mapping[str, Any], *more: Worker, takes: Iterable[str] = ()
) -> Conductor:
    """Return the given conductor, or a new one from its parts; `more` follows the given workers."""
    known = ["planner", "workers", *FaceOptions.__annotations__, *signature(face).parameters, *takes]
    if told := unknown_options(face.__name__, options, [name for name in known if name != "options"]):
        raise TypeError(told)
    given = dict(options)
    run_id, planner = given.pop("run_id", None), given.pop("planner", None)
    workers = [*given.pop("workers", ()), *more]
    if conductor is None and planner is None:
        planner = getattr(Settings, "_llm", None)
    made = faces.conductor_of(
        conductor,
        planner,
        workers,
        given,
        as_worker=as_worker,
        as_planner=as_planner,
        face=face,
    )
    if run_id:
        check_run_id(run_id, made)
    return made


def check_run_id(run_id: str, conductor: Conductor) -> None:
    """Raise `ConfigError` if there is no journal in which the id names a run."""
    if conductor.journal is None:
        raise ConfigError(f"run_id={run_id!r} names runs in a journal: give the conductor a journal")


def metadata_of(result: Result) -> dict[str, Any]:
    """Return a run as plain JSON, with the output of each step and LlamaIndex's names of token counts."""
    return result_metadata(result, usage=counts_of, outputs=True)


def counts_of(usage: Usage) -> dict[str, Any]:
    """Return usage under the names that OpenAI's clients and LlamaIndex's counters use."""
    return {
        "prompt_tokens": usage.total_input_tokens,
        "completion_tokens": usage.total_output_tokens,
        "total_tokens": usage.total_tokens,
        "cached_tokens": usage.cached_tokens,
        "estimated": usage.estimated,
    }


class ConductedCall:
    """One call of a face. Create one object per call."""

    def __init__(
        self,
        conductor: Conductor,
        asked: str | Sequence[Message],
        *,
        run: RunOptions | None = None,
        on_event: Listener | None = None,
        **chat: Any,
    ) -> None:
        self._steps = Steps()
        self._also = on_event
        self._call = ChatCall(
            conductor,
            (Message("user", asked),) if isinstance(asked, str) else asked,
            options={**(run or RunOptions()), "middleware": self._steps.middleware},
            on_event=self._tell,
            **chat,
        )
        self._plans: dict[int, Plan] = {}
        self._ended: dict[int, dict[int, Outcome]] = {}
        self.nodes: list[NodeWithScore] = []
        """The nodes that the answer depends on.

        Until the end, the list has only the nodes that were known when the first chunk was sent.
        """
        self.metadata: dict[str, Any] = {}
        """The run as metadata. Until the end, it has only the values that were known when the plan was ready.
        """
        self.rest = self._call.rest

    @property
    def text(self) -> str:
        """The text streamed so far."""
        return self._call.text

    async def run(self) -> ChatAnswer:
        """Run the call and return its whole answer. Raises what `events` and `answer` raise."""
        async with aclosing(self.events(stream=False)) as events:
            async for _ in events:
                pass
        return self.answer()

    async def events(self, *, stream: bool) -> AsyncGenerator[str, None]:
        """Run the call; yield the new text of the answer at each event, empty if there is none.

        The run begins at the first item, with the caller's context variables. Leaving the iteration cancels
        the run. Raises what `Conductor.run` raises.
        """
        run_id = ""
        async with aclosing(self._call.events(stream=stream)) as events:
            async for event, text in events:
                run_id = run_id or event.run_id  # the first event belongs to the outer run
                if event.run_id == run_id:
                    self._note(event, text)
                yield text

    def answer(self) -> ChatAnswer:
        """Return the answer after `events` has ended. Raises what `ChatCall.answer` raises."""
        answer = self._call.answer()
        self.nodes[:] = merge(answer.result, self._steps.found)
        self.metadata |= metadata_of(answer.result)
        return answer

    def _tell(self, event: Event) -> None:
        self._steps.tell(event)
        if self._also is not None:
            self._also(event)

    def _note(self, event: Event, text: str) -> None:
        """Record the known facts about the answer before the run has ended."""
        if isinstance(event, PlanReady):
            self._plans[event.round] = event.plan
            planner = PlannedBy(event.planner, event.why, event.is_fallback)
            known = {"run_id": event.run_id, "planner": asdict(planner), "plan": plan_metadata(event.plan)}
            self.metadata |= scrub_data(known)
        elif isinstance(event, StepEnded) and event.outcome.status == "ok":
            self._ended.setdefault(event.round, {})[event.step] = event.outcome
        elif isinstance(event, AnswerDelta) and text and text == self._call.text:
            self._note_nodes(event)

    def _note_nodes(self, begun: AnswerDelta) -> None:
        """Record the nodes found before the answer began, also by the step that writes the answer."""
        number, step, attempt = begun.round, begun.step, begun.attempt
        if number is None or step is None or attempt is None or number not in self._plans:
            return
        writing = Outcome(round=number, step=step, worker="", status="ok", attempts=attempt)
        found = self._steps.found.get(begun.run_id, {})
        ended = {step: writing, **self._ended.get(number, {})}
        self.nodes[:] = behind(self._plans[number], ended, step, found)
