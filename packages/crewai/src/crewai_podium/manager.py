"""The manager of a crew that plans each task and has the crew's agents execute the plan.

A task becomes a run, and the run's answer becomes the task's output.
"""

from collections import deque
from collections.abc import Collection, Mapping, Sequence
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

from crewai_podium.events import MAX_RESULTS, show, tell_piece, tell_result
from crewai_podium.human import decide, review
from crewai_podium.llm import output_constraint, output_model, read_output
from crewai_podium.tasks import (
    NOT_RESTORED,
    TaskState,
    TaskStates,
    agent_and_tools,
    agents_of,
    check_task,
    last_step_policy,
    number_of,
    question_labels,
    task_key,
    task_number,
    with_gaps,
)
from crewai_podium.usage import UsageMeter, UsageTotal
from crewai_podium.workers.agent import AgentWorker
from crewai_podium.workers.wrap import as_planner
from podium.aio import run_sync
from podium.budget import Limits
from podium.conductor import Conductor
from podium.errors import ConfigError, PlannerError, unknown_options
from podium.execution import Accept, OnFailure, Retry
from podium.hosts import RecordedRun
from podium.hosts.chat import whole_answers
from podium.hosts.faces import ConductorOptions
from podium.hosts.results import answered, plan_lines, run_failed, text_answer
from podium.journal import Journal, MemoryJournal
from podium.plan_text.saved import SavedPlan
from podium.policy import Policy
from podium.policy.rules import AnswerLabels
from podium.run import Listener, RunOptions
from podium.secrets import printable
from podium.types import (
    AnswerDelta,
    Event,
    Message,
    Plan,
    PlanReady,
    Result,
    Sampling,
    Step,
)
from podium.types.messages import storable
from podium.usage import Usage
from podium.workers import Card, PersonWorker, Pool, Worker

_CONTEXT: Final = "This is the context you are working with:"
_OPTIONS: Final = tuple(ConductorOptions.__annotations__.keys() - {"card", "workflows"})
_AGENT_OPTIONS: Final = (
    "allow_delegation", "backstory", "crew", "goal", "id", "llm", "role", "verbose",
)  # fmt: skip
"""Fields of CrewAI's agents that a manager supports, too; other fields would have no effect."""
_SET_BY_CREW: Final = ("function_calling_llm", "step_callback")
_said: ContextVar[tuple[dict[str, str], ...]] = ContextVar("crewai_podium_said", default=())


class ConductorManager(BaseAgent):
    """Manages a crew: `Crew(process=Process.hierarchical, manager_agent=ConductorManager(planner=...))`.

    The planner writes one plan for each task. The steps of the plan go to the crew's agents, in parallel if
    they do not depend on each other. If a task names an agent, this agent executes the last step of every
    plan for the task. What waits for a person (a plan or an action with `Policy(approve="later")`, a
    `PersonWorker`, a task with `human_input`) is asked with CrewAI's provider of human input, by default the
    terminal. If nobody answers, the kickoff raises `RunWaiting`, and a later kickoff with the same `run_id`
    asks again.

    Args:
        conductor: a conductor, whose workers are joined by the crew's agents, instead of `planner` and the
            other options of `Conductor`.
        planner: writes the plans: a CrewAI LLM or its name, or a planner of Podium. `None` means `llm`.
        llm: converts an answer that does not fit the output format of its task, as in CrewAI; `None` means
            the planner's LLM.
        workers: workers in addition to the crew's agents.
        cards: cards of agents by role, instead of cards made from goal and backstory.
        acts: whether agents act (see `Worker.acts`), by role; by default, agents with tools, apps or MCP
            servers do.
        workflows: see `podium.hosts.faces.ConductorOptions`, also for the other options of `Conductor`. Each
            task is a separate run, with these limits.
        run_id: prefix of run ids in the journal; a hash of the task and its context follows it. If the crew
            is kicked off again with this prefix, only failed steps run again and are paid for. With `None`,
            each kickoff makes new runs.
        partial: whether an incomplete answer is the task's output, or raised as `RunFailed`.
        on_event: called with each event of the runs as it happens.

    Raises:
        TypeError: a manager does not accept an option.
        ConfigError: there is no planner; a conductor is given with its parts; or `run_id` is set without
            `journal`. From a kickoff: the crew is trained or checkpointed, or a task names an agent that is
            not in the crew.
        RunFailed: from a kickoff: a run has no answer; `result` is the run's result.
        RunWaiting: from a kickoff: a person must decide, and cannot be asked.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    role: str = "Conductor"
    goal: str = "Give each part of a task to the agent that is best at it."
    backstory: str = "Plans a task once, then has the crew execute the plan."
    conductor: Conductor | None = None
    planner: Any = None
    workers: Sequence[Worker] = ()
    cards: Mapping[str, Card] = Field(default_factory=dict)
    acts: Mapping[str, bool] = Field(default_factory=dict)
    workflows: bool = False
    limits: Limits | None = None
    fallback_planner: Any = None
    direct: bool | str = False
    accept: Accept | None = None
    policy: Policy | None = None
    labels: Collection[str] = ()
    retry: Retry | None = None
    on_failure: OnFailure = "note"
    cache: Any = None  # not CrewAI's: the manager has no tools
    journal: Journal | None = None
    show_question: bool = True
    warm_prefix: bool = False
    plans: Collection[SavedPlan] = ()
    run_id: str | None = None
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
    _tasks: WeakKeyDictionary[Crew, TaskStates] = PrivateAttr(default_factory=WeakKeyDictionary)
    _named: dict[int, int | None] = PrivateAttr(default_factory=dict)
    """The numbers of the agents that tasks name, by the task, of the manager from which it was copied."""

    @model_validator(mode="before")
    @classmethod
    def _check_options(cls, values: Any) -> Any:
        if isinstance(values, Mapping):
            own = {name for name in cls.__annotations__ if name[0] != "_"} - set(_SET_BY_CREW)
            if told := unknown_options("ConductorManager", values, sorted({*own, *_AGENT_OPTIONS})):
                raise TypeError(told)
        return values

    @model_validator(mode="after")
    def _check(self) -> Self:
        if isinstance(self.llm, str):
            self.llm = create_llm(self.llm)
        if self.conductor is None:
            self._check_parts()
        elif parts := sorted(self.model_fields_set & {"planner", "workers", "workflows", *_OPTIONS}):
            raise ConfigError(f"a conductor is given with {', '.join(parts)}: the conductor has its own")
        if self.run_id is not None and self._journal is None:
            raise ConfigError(f"run_id={self.run_id!r} names runs in a journal: give a journal, too")
        self._token_process = UsageTotal()
        if isinstance(self.llm, BaseLLM):
            self.llm = UsageMeter().copy_of(self.llm)  # CrewAI adds up the tokens of this object, too
        return self

    def _check_parts(self) -> None:
        planner = create_llm(self.planner) if isinstance(self.planner, str) else self.planner or self.llm
        if isinstance(planner, BaseLLM) and self.llm is None:
            self.llm = planner
        if planner is None:
            told = "give planner=... (a CrewAI LLM, its name, a planner of Podium), or conductor=..."
            raise ConfigError(f"ConductorManager has no planner: {told}")
        options = {"workflows": True} if self.workflows else {}
        self.planner = as_planner(planner, **options)
        if self.fallback_planner is not None:
            self.fallback_planner = as_planner(self.fallback_planner)
        waits = any(isinstance(worker, PersonWorker) for worker in self.workers)
        if self.journal is None and (waits or (self.policy is not None and self.policy.waits)):
            self.journal = MemoryJournal()

    @property
    def _journal(self) -> Journal | None:
        return self.journal if self.conductor is None else self.conductor.journal

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
        return Converter(llm=llm, **said)

    def copy(self) -> Self:  # type: ignore[override] # as BaseAgent's
        """Return a manager for another crew, with its own token counts; this manager gets its results too."""
        copy = self.model_copy(update={"crew": None})
        copy._token_process = UsageTotal()  # noqa: SLF001 - an object of this class, as below
        if isinstance(self.llm, BaseLLM):
            copy.llm = UsageMeter().copy_of(self.llm)
        copy._results = (_kept(), *self._results)  # noqa: SLF001
        copy._crews = WeakValueDictionary()  # noqa: SLF001
        copy._tasks = WeakKeyDictionary()  # noqa: SLF001
        for states in self._tasks.values():
            copy._named = {number: state.named for number, state in states.items()}  # noqa: SLF001
        return copy

    async def _execute(
        self, task: Task, context: str | None, tools: Sequence[BaseTool] | None
    ) -> tuple[str | BaseModel, tuple[dict[str, str], ...]]:
        crew, model = self._crew_of(task), output_model(task)
        check_task(crew)
        conductor = self._conductor(crew, task, tools)
        query = [Message("user", task.prompt() + (f"\n\n{_CONTEXT}\n{context}" if context else ""))]
        result = await self._run(conductor, crew, task, context, query)
        answer = self._answer(result, model)
        told = printable(text_answer(result))

        async def again(feedback: str) -> str:
            nonlocal answer, told
            query.extend((Message("assistant", told), Message("user", storable(feedback))))
            result = await self._run(conductor, crew, task, context, query)
            answer = self._answer(result, model)
            told = printable(text_answer(result))
            return told

        if task.human_input:
            await review(crew, self, told, again)
        return answer, ({"role": "user", "content": query[0].text}, {"role": "assistant", "content": told})

    async def _run(
        self,
        conductor: Conductor,
        crew: Crew,
        task: Task,
        context: str | None,
        query: Sequence[Message],
    ) -> Result:
        """Run a task, or continue its run, until its end."""
        states = self._tasks[crew]
        state = states[task_number(crew, task)]
        state.begin(task)
        on_event = state.listener(task, conductor, self._listener(conductor, crew, task))
        asked: RunOptions = {
            "middleware": None if on_event is not None else whole_answers(),
            "paid_results": await state.actions(task, conductor),
            "labels": question_labels(crew, states, task, context),
            "sampling": Sampling(constraint=output_constraint(output_model(task))),
        }
        if self.run_id is not None:
            asked["run_id"] = f"{self.run_id}:{_hash(task_key(crew, task), *(each.text for each in query))}"
        run = RecordedRun(conductor, query, asked, on_event=on_event, refresh=self.partial == "raise")
        try:
            result = await run.run()
            while result.status == "waiting" and await decide(conductor, result, crew, self):
                result = await conductor.resume(
                    result.run_id,
                    on_event=on_event,
                    middleware=asked["middleware"],
                    paid_results=asked["paid_results"],
                )
        except PlannerError as error:
            self._usage_total.add(error.usage, len(error.calls))
            raise
        known, calls = Usage() if run.before is None else run.before.usage, _calls(result)
        self._usage_total.add(result.usage.beyond(known), calls - _calls(run.before))
        result = with_gaps(crew, states, task, context, result)
        state.run_ids.append(result.run_id)
        state.labels, state.problem = result.labels, result.problem if result.status == "partial" else None
        for kept in self._results:
            kept.append(result)
        tell_result(self, result)
        return result

    def _listener(self, conductor: Conductor, crew: Crew, task: Task) -> Listener | None:
        """Return a listener that shows plans, streams what the crew's LLMs do not, and calls `on_event`."""
        is_verbose = self.verbose or crew.verbose
        # `Crew.stream` is false during a streamed kickoff; CrewAI sets it on the LLMs of the agents.
        streams = any(getattr(agent.llm, "stream", False) for agent in crew.agents)
        if not is_verbose and not streams:
            return self.on_event
        run_id, plans = "", dict[int | None, Plan]()

        def hear(event: Event) -> None:
            nonlocal run_id
            run_id = run_id or event.run_id  # events of nested runs have other ids
            if isinstance(event, PlanReady):
                if event.run_id == run_id:
                    plans[event.round] = event.plan
                if is_verbose:
                    lines = plan_lines(event.plan, conductor.pool.names)
                    show(f"Plan of round {event.round}", "\n".join(lines))
            elif streams and isinstance(event, AnswerDelta) and event.run_id == run_id:
                step = None if event.step is None else plans[event.round].steps[event.step]
                worker = conductor.pool[step.worker] if isinstance(step, Step) else None
                if not isinstance(worker, AgentWorker):
                    tell_piece(self, task, event.text, event.run_id)
            if self.on_event is not None:
                self.on_event(event)

        return hear

    def _conductor(self, crew: Crew, task: Task, tools: Sequence[BaseTool] | None) -> Conductor:
        """Return the conductor for a task."""
        number, (named, _) = task_number(crew, task), agent_and_tools(tools)
        state = self._tasks.setdefault(crew, {}).setdefault(number, TaskState(self._named.get(number)))
        if named is not None:
            state.named = number_of(crew, named)
        agents = agents_of(crew, tools, cards=self.cards, acts=self.acts)
        before = 0
        if self.conductor is not None:
            conductor, before = self.conductor.bind(workers=agents), len(self.conductor.pool)
        else:
            pool = Pool([*agents, *self.workers], answers=self._answers)
            options = {name: getattr(self, name) for name in _OPTIONS}
            conductor = Conductor(self.planner, pool, **options)
        if state.named is None:
            return conductor
        return conductor.bind(policy=last_step_policy(before + state.named))

    def _answer(self, result: Result, model: type[BaseModel] | None) -> str | BaseModel:
        """Return the task's output.

        The text of a partial answer ends with the sentence that says so. A partial answer for `model` raises,
        because an object would look complete. CrewAI's converter has `llm` rewrite an answer that does not
        fit `model`.
        """
        if model is None:
            return printable(text_answer(answered(result, partial=self.partial)))  # CrewAI prints it
        answer = printable(answered(result, partial="raise").answer)
        read = read_output(answer, model)
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


def _calls(result: Result | None) -> int:
    """Return how many calls of models a run has made."""
    return sum(bill.usage != Usage() for bill in (() if result is None else result.bills))


def _hash(*texts: str) -> str:
    return sha256("\0".join(texts).encode("utf-8", "surrogatepass")).hexdigest()[:16]
