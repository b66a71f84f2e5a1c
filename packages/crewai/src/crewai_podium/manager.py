"""The manager of a crew that plans each task and has the crew's agents execute the plan.

A task becomes a run, and the run's answer becomes the task's output.
"""

from collections import deque
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import aclosing
from contextvars import ContextVar
from hashlib import sha256
from typing import Any, Final, Literal, Self
from weakref import WeakKeyDictionary, WeakValueDictionary

from crewai import Crew, Task
from crewai.agents.agent_builder.base_agent import BaseAgent
from crewai.llms.base_llm import BaseLLM
from crewai.tools.base_tool import BaseTool
from crewai.utilities.converter import Converter
from crewai.utilities.llm_utils import create_llm
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    model_serializer,
    model_validator,
)

from crewai_podium.cards import card_of
from crewai_podium.events import MAX_RESULTS, tell_result
from crewai_podium.outputs import output_constraint, output_model, read_answer
from crewai_podium.plan_table import show_plan
from crewai_podium.task_gaps import TaskGaps
from crewai_podium.task_tries import TaskTries
from crewai_podium.team import (
    NOT_RESTORED,
    check_task,
    last_step_policy,
    number_of,
    task_facts,
    task_key,
    task_number,
    team_of,
)
from crewai_podium.usage import UsageMeter, UsageTotal, write_usage
from crewai_podium.workers.llm import LLMWorker
from podium.aio import run_sync
from podium.budget import Limits
from podium.conductor import Conductor
from podium.errors import ConfigError, RunUnknown, WorkerError
from podium.execution import Accept, OnFailure, Retry
from podium.hosts.chat import whole_answers
from podium.hosts.results import answered, run_failed, text_answer
from podium.hosts.workers import make_conductor
from podium.journal import Journal
from podium.planners import ChatPlanner, Planner
from podium.policy import Policy
from podium.policy.rules import AnswerLabels
from podium.run import Listener
from podium.secrets import printable
from podium.types import Completion, Event, PlanReady, Result, RunEnded, Sampling
from podium.usage import Usage
from podium.workers import Card, Pool, Request, Worker

_CONTEXT: Final = "This is the context you are working with:"
_OPTIONS: Final = (
    "accept", "fallback_planner", "journal", "labels", "limits", "on_failure", "policy", "retry",
    "show_question",
)  # fmt: skip
_AGENT_OPTIONS: Final = (
    "allow_delegation", "backstory", "config", "crew", "goal", "id", "llm", "role", "verbose",
)  # fmt: skip
"""Fields of CrewAI's agents that a manager supports, too; other fields would have no effect."""
_SET_BY_CREW: Final = ("function_calling_llm", "step_callback")
_COPIED: Final = ""
"""Stands for any crew: a copied manager keeps the names from its original under this id."""
_said: ContextVar[tuple[dict[str, str], ...]] = ContextVar("crewai_podium_said", default=())


class ConductorManager(BaseAgent):
    """Manages a crew: `Crew(process=Process.hierarchical, manager_agent=ConductorManager(llm=...))`.

    The planner writes one plan for each task. The steps of the plan go to the crew's agents, in parallel if
    they do not depend on each other. If a task names an agent, this agent executes the last step of every
    plan for the task.

    Args:
        llm: writes the plans: a CrewAI LLM, or its name. As in CrewAI, this LLM also converts an answer that
            does not fit the output format of its task.
        planner: a planner of Podium, used instead of `llm`.
        workers: workers in addition to the crew's agents.
        cards: cards of agents by role, instead of cards made from goal and backstory.
        acts: whether agents act (see `Worker.acts`), by role; by default, agents with tools, apps or MCP
            servers do.
        limits: the limits of one task; `None` means the defaults of `Limits`.
        fallback_planner: writes the plan if the planner returns no valid plan; the run is then partial. An
            LLM like `llm`, or a planner of Podium.
        accept: see `Conductor`, also for `policy`, `labels`, `retry`, `on_failure`, `journal` and
            `show_question`. Each task is a separate run.
        run: prefix of run ids in the journal; a hash of the task and its context follows it. If the crew is
            kicked off again with this prefix, only failed steps run again and are paid for. With `None`, each
            kickoff makes new runs.
        partial: whether an incomplete answer is the task's output, or raised as `RunFailed`.
        on_event: called with each event of the runs as it happens.

    Raises:
        TypeError: a manager does not accept an option.
        ConfigError: both `llm` and `planner` are missing; the policy lets plans wait for approval, which a
            crew cannot do; or `run` is set without `journal`. From a kickoff: the crew is trained or
            checkpointed, a task asks for human input, or it names an agent that is not in the crew.
        RunFailed: from a kickoff: a run has no answer; `result` is the run's result.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    role: str = "Conductor"
    goal: str = "Give each part of a task to the agent that is best at it."
    backstory: str = "Plans a task once, then has the crew execute the plan."
    planner: Planner | None = None
    workers: Sequence[Worker] = ()
    cards: Mapping[str, Card] = Field(default_factory=dict)
    acts: Mapping[str, bool] = Field(default_factory=dict)
    limits: Limits | None = None
    fallback_planner: Any = None
    accept: Accept | None = None
    policy: Policy | None = None
    labels: Collection[str] = ()
    retry: Retry | None = None
    on_failure: OnFailure = "note"
    journal: Journal | None = None
    show_question: bool = True
    run: str | None = None
    partial: Literal["return", "raise"] = "return"
    on_event: Listener | None = None
    function_calling_llm: Any = None
    """CrewAI sets this and `step_callback` on the agent of a task; a conductor does not use them."""
    step_callback: Any = None

    _results: tuple[deque[Result], ...] = PrivateAttr(default_factory=lambda: (_kept(),))
    """The results of this manager, then the results of the managers from which it was copied."""
    _crews: WeakValueDictionary[str, Crew] = PrivateAttr(default_factory=WeakValueDictionary)
    """The manager's crews by id. CrewAI sets `crew` at each kickoff, also while another crew runs."""
    _answers: AnswerLabels = PrivateAttr(default_factory=AnswerLabels)
    """The labels of the latest answers, which later tasks get as texts."""
    _gaps: TaskGaps = PrivateAttr(default_factory=TaskGaps)
    _tries: WeakKeyDictionary[Crew, dict[int, TaskTries]] = PrivateAttr(default_factory=WeakKeyDictionary)
    """The runs of the latest execution of a task, by crew and number of the task."""
    _named: dict[tuple[str, int], int] = PrivateAttr(default_factory=dict)
    """The number of the agent that a task names, by crew and task.

    CrewAI removes the agent from the task at the first kickoff.
    """

    @model_validator(mode="before")
    @classmethod
    def _check_options(cls, values: Any) -> Any:
        if isinstance(values, Mapping):
            config = values.get("config")
            said = {**(config if isinstance(config, Mapping) else {}), **values}
            own = cls.model_fields.keys() - BaseAgent.model_fields.keys() - set(_SET_BY_CREW)
            if unknown := sorted(map(str, said.keys() - own - set(_AGENT_OPTIONS))):
                told = ", ".join(sorted({*own, *_AGENT_OPTIONS}))
                raise TypeError(
                    f"ConductorManager does not accept {', '.join(unknown)}: its options are {told}"
                )
        return values

    @model_validator(mode="after")
    def _check(self) -> Self:
        if isinstance(self.llm, str):
            self.llm = create_llm(self.llm)
        if isinstance(self.fallback_planner, str):
            self.fallback_planner = create_llm(self.fallback_planner)
        if not isinstance(self.fallback_planner, Planner | BaseLLM | None):
            told = f"fallback_planner={self.fallback_planner!r:.80} cannot plan"
            raise ConfigError(
                f"{told}: give an LLM, its name, or a planner such as ChatPlanner(as_worker(llm))"
            )
        if self.llm is None and self.planner is None:
            raise ConfigError("there is no planner: give ConductorManager an llm, or a planner of Podium's")
        if self.run is not None and self.journal is None:
            raise ConfigError(f"run={self.run!r} names runs in a journal: give the manager a journal, too")
        if self.policy is not None and self.policy.waits:
            raise ConfigError("a crew cannot wait for approval: give Policy.approve a function that asks")
        self._token_process = UsageTotal()
        return self

    def __setattr__(self, name: str, value: Any) -> None:
        """Store each crew that is set on the manager."""
        super().__setattr__(name, value)
        if name == "crew" and isinstance(value, Crew):
            self._crews[str(value.id)] = value

    @model_serializer(mode="plain", when_used="json")
    def _dump(self) -> dict[str, Any]:
        """Return a dump that CrewAI cannot restore, because it would restore the manager as a plain agent."""
        said = {"role": self.role, "goal": self.goal, "backstory": self.backstory}
        return {**said, "llm": {"llm_type": NOT_RESTORED}}

    @property
    def results(self) -> tuple[Result, ...]:
        """The results of the latest tasks, including copied managers', ordered from oldest to newest."""
        return tuple(self._results[0])

    @property
    def last_messages(self) -> list[dict[str, str]]:
        """The latest task and its answer; CrewAI stores them in the task's output."""
        return list(_said.get())

    def execute_task(
        self, task: Task, context: str | None = None, tools: list[BaseTool] | None = None
    ) -> Any:
        """Run a task like `aexecute_task` from sync code, also inside a running event loop."""
        answer, said = run_sync(lambda: self._execute(task, context, tools))
        _said.set(said)
        return answer

    async def aexecute_task(
        self, task: Task, context: str | None = None, tools: list[BaseTool] | None = None
    ) -> Any:
        """Plan a task, and execute the plan."""
        answer, said = await self._execute(task, context, tools)
        _said.set(said)
        return answer

    def create_agent_executor(self, tools: list[BaseTool] | None = None) -> None:
        """Do nothing: a conductor has no agent loop."""

    def get_delegation_tools(self, agents: Sequence[BaseAgent]) -> list[BaseTool]:
        """Return an empty list: the plan delegates."""
        del agents
        return []

    def get_platform_tools(self, apps: Any) -> list[BaseTool]:
        """Return an empty list: only agents use apps."""
        del apps
        return []

    def get_mcp_tools(self, mcps: Any) -> list[BaseTool]:
        """Return an empty list: only agents use MCP servers."""
        del mcps
        return []

    def get_output_converter(self, llm: BaseLLM, **said: Any) -> Converter:
        """Return the converter for an answer that does not fit the task's output format."""
        meter = UsageMeter()
        self._usage_total.watch(meter)
        return Converter(llm=meter.copy_of(llm), **said)

    def copy(self) -> Self:  # type: ignore[override] # as BaseAgent's
        """Return a manager for another crew, with its own token counts; this manager gets its results too."""
        copy = self.model_copy(update={"crew": None})
        copy._token_process = UsageTotal()  # noqa: SLF001 - an object of this class, as below
        copy._results = (_kept(), *self._results)  # noqa: SLF001
        copy._crews = WeakValueDictionary()  # noqa: SLF001
        copy._gaps = TaskGaps()  # noqa: SLF001
        copy._tries = WeakKeyDictionary()  # noqa: SLF001
        copy._named = {(_COPIED, task): agent for (_, task), agent in self._named.items()}  # noqa: SLF001
        return copy

    async def _execute(
        self, task: Task, context: str | None, tools: Sequence[BaseTool] | None
    ) -> tuple[str | BaseModel, tuple[dict[str, str], ...]]:
        crew, model = self._crew_of(task), output_model(task)
        check_task(crew, task)
        query = task.prompt() + (f"\n\n{_CONTEXT}\n{context}" if context else "")
        conductor, policy = self._conductor(crew, task, tools)
        on_event = self._listener(conductor) if self.verbose or crew.verbose else self.on_event
        known = self._tries.setdefault(crew, {})
        number = task_number(crew, task)
        tries = known[number] = TaskTries.of(task, known.get(number))
        paid_results = await tries.actions(conductor)
        middleware = self._middleware if on_event is not None else whole_answers(self._middleware)
        on_event = tries.listener(conductor, on_event)
        run_id = None if self.run is None else f"{self.run}:{_hash(task_key(crew, task), query)}"
        if await self._is_unfinished(run_id):
            assert run_id is not None
            result = await conductor.resume(
                run_id,
                policy=policy,
                refresh=self.partial == "raise",
                paid_results=paid_results,
                middleware=middleware,
                on_event=on_event,
            )
        else:
            result = await conductor.run(
                query,
                run_id=run_id,
                labels=self._gaps.labels(crew, task, context, again=bool(tries.run_ids)),
                policy=policy,
                sampling=Sampling(constraint=output_constraint(model)),
                paid_results=paid_results,
                middleware=middleware,
                on_event=on_event,
            )
        tries.run_ids.append(result.run_id)
        result = self._gaps.mark(crew, task, context, result)
        for kept in self._results:
            kept.append(result)
        tell_result(self, result)
        answer = self._answer(result, model)
        told = printable(text_answer(result))
        said = ({"role": "user", "content": query}, {"role": "assistant", "content": told})
        return answer, said

    def _listener(self, conductor: Conductor) -> Listener:
        """Return a listener that prints each plan, and passes each event to `on_event`."""

        def hear(event: Event) -> None:
            if isinstance(event, PlanReady):
                show_plan(event, conductor.pool.names)
            if self.on_event is not None:
                self.on_event(event)

        return hear

    async def _is_unfinished(self, run_id: str | None) -> bool:
        """Return whether a recorded run ended failed or partial, so that it must be resumed."""
        if self.journal is None or run_id is None:
            return False
        try:
            last = (await self.journal.read(run_id))[-1].event
        except RunUnknown:
            return False
        return isinstance(last, RunEnded) and last.result.status in ("failed", "partial")

    def _conductor(
        self, crew: Crew, task: Task, tools: Sequence[BaseTool] | None
    ) -> tuple[Conductor, Policy | None]:
        """Return the conductor for a task, and the policy that the task requires."""
        facts, on_usage = task_facts(tools), self._usage_total.add
        number = task_number(crew, task)
        if facts.named is not None:
            self._named[str(crew.id), number] = number_of(crew, facts.named)
        named = self._named.get((str(crew.id), number), self._named.get((_COPIED, number)))
        team = team_of(crew, facts, cards=self.cards, acts=self.acts, beside=self.workers, on_usage=on_usage)
        conductor = make_conductor(
            self.llm if self.planner is None else self.planner,
            Pool(team, answers=self._answers),
            {name: getattr(self, name) for name in _OPTIONS},
            as_planner=self._planner,
            face="ConductorManager",
        )
        return conductor, None if named is None else last_step_policy(named)

    def _planner(self, llm: BaseLLM) -> Planner:
        return ChatPlanner(LLMWorker(llm, card=card_of(llm), on_usage=self._usage_total.add))

    async def _middleware(self, worker: Worker, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Call a worker; count the tokens of workers that do not report them with `on_usage`.

        A nested conductor is not counted, because the middleware counts its calls.
        """
        counts = getattr(worker, "on_usage", None) is None and not isinstance(worker, Conductor)
        used: Usage | None = None
        try:
            async with aclosing(worker.call(request)) as pieces:
                async for piece in pieces:
                    used = piece.usage if isinstance(piece, Completion) else used
                    yield piece
        except WorkerError as error:
            used = error.usage
            raise
        finally:
            if used is not None and counts:
                self._usage_total.add(write_usage(used))

    def _answer(self, result: Result, model: type[BaseModel] | None) -> str | BaseModel:
        """Return the task's output.

        The text of a partial answer ends with the sentence that says so. A partial answer for `model` raises,
        because an object would look complete. CrewAI's converter has `llm` rewrite an answer that does not
        fit `model`.

        Raises:
            RunFailed: there is no output.
        """
        if model is None:
            return printable(text_answer(answered(result, partial=self.partial)))  # CrewAI prints it
        answer = printable(answered(result, partial="raise").answer)
        read = read_answer(answer, model)
        if isinstance(read, BaseModel):
            return read
        if self.llm is None:
            raise run_failed(f"{read}; give the manager an llm that converts it", result)
        return answer

    def _crew_of(self, task: Task) -> Crew:
        """Return the crew of a task; for a task without a crew, the crew that was set last."""
        for crew in [*self._crews.values()]:
            if any(each is task for each in crew.tasks):
                return crew
        if not isinstance(self.crew, Crew):
            raise ConfigError("a ConductorManager needs a crew: pass it as the crew's manager_agent")
        return self.crew

    @property
    def _usage_total(self) -> UsageTotal:
        assert isinstance(self._token_process, UsageTotal)
        return self._token_process


def _kept() -> deque[Result]:
    return deque(maxlen=MAX_RESULTS)


def _hash(*texts: str) -> str:
    return sha256("\0".join(texts).encode("utf-8", "surrogatepass")).hexdigest()[:16]
