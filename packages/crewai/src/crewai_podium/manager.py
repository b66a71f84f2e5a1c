"""The manager of a crew that plans each task and has the crew's agents carry the plan out.

It owns how a task of CrewAI's becomes a run, and a run's result the task's output. It knows
no step: how an agent does one is its worker's.
"""

from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from contextvars import ContextVar
from hashlib import sha256
from typing import Any, Final, Literal, Self

from crewai import Crew, Task
from crewai.agents.agent_builder.base_agent import BaseAgent
from crewai.llms.base_llm import BaseLLM
from crewai.tools.base_tool import BaseTool
from crewai.utilities.converter import Converter
from crewai.utilities.llm_utils import create_llm
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, model_validator

from crewai_podium.cards import card_of
from crewai_podium.outputs import form_of, read_answer, sampling_for
from crewai_podium.spending import Meter, Tally, metrics_of
from crewai_podium.team import asked_of, last_word, number_of, team_of
from crewai_podium.workers.agent import AgentWorker
from crewai_podium.workers.llm import LLMWorker
from podium.aio import run_sync
from podium.budget import Limits
from podium.conductor import Conductor
from podium.errors import ConfigError, RunFailed
from podium.execution import Accept, OnFailure, Retry
from podium.journal import Journal
from podium.planners import ChatPlanner, Planner
from podium.policy import Policy
from podium.run import Listener
from podium.types import Completion, Result
from podium.workers import Card, Request, Worker

MOST_KEPT: Final = 64
"""Results a manager remembers."""
_CONTEXT: Final = "This is the context you are working with:"
_said: ContextVar[tuple[dict[str, str], ...]] = ContextVar("crewai_podium_said", default=())


class ConductorManager(BaseAgent):
    """Manages a crew: `Crew(process=Process.hierarchical, manager_agent=ConductorManager(llm=...))`.

    Each task is planned once, and the plan's steps go to the crew's agents, side by side where
    none sees the other. An agent that a task names has the last step of its plans.

    Args:
        llm: who plans, one of CrewAI's LLMs or its name; it also mends an answer that is not in
            the form its task wants, as CrewAI has it.
        planner: who plans in its place: any of Podium's planners.
        workers: who works beside the crew's agents.
        cards: what the planner is told of an agent, by role, in place of its goal and backstory.
        limits: what one task may spend; `None` means as `Limits` has it.
        fallback: as for `Conductor`, as are `accept`, `policy`, `retry`, `on_failure`, `journal`
            and `show_question`; each task is a run of its own.
        run: what the runs are called in the journal, with a hash of the task and its context: kicked
            off again after a crash, the crew pays for nothing twice. `None` makes every run anew.
        partial: whether an answer that lacks something is the task's output, or raised.
        on_event: takes each event of the runs as it happens.

    Raises:
        ConfigError: nobody plans; or a policy has plans wait, which a crew cannot.
        RunFailed: from a kickoff: a run came to no answer; `result` is what it came to.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    role: str = "Conductor"
    goal: str = "Have each task done by those of the crew who are best at its parts."
    backstory: str = "Plans a task once, then has the crew carry the plan out."
    planner: Planner | None = None
    workers: Sequence[Worker] = ()
    cards: Mapping[str, Card] = Field(default_factory=dict)
    limits: Limits | None = None
    fallback: Planner | None = None
    accept: Accept | None = None
    policy: Policy | None = None
    retry: Retry | None = None
    on_failure: OnFailure = "skip"
    journal: Journal | None = None
    show_question: bool = True
    run: str | None = None
    partial: Literal["return", "raise"] = "return"
    on_event: Listener | None = None
    function_calling_llm: Any = None
    """CrewAI's, as the next: it sets them on whoever has done a task, and nothing is done with them."""
    step_callback: Any = None

    _results: tuple[deque[Result], ...] = PrivateAttr(default_factory=lambda: (_kept(),))
    """Its own, then those of the managers it is a copy of."""
    _named: dict[str, int | None] = PrivateAttr(default_factory=dict)
    """Which of the crew's agents a task names: CrewAI forgets it at the first kickoff."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if isinstance(self.llm, str):
            self.llm = create_llm(self.llm)
        if self.llm is None and self.planner is None:
            raise ConfigError("nobody plans: give ConductorManager an llm, or a planner of Podium's")
        if self.policy is not None and self.policy.waits:
            raise ConfigError("a crew cannot wait for approval: give Policy.approve a function that asks")
        self._token_process = Tally()
        return self

    @property
    def results(self) -> tuple[Result, ...]:
        """What the latest tasks came to, the newest last; those of copies of the manager, too."""
        return tuple(self._results[0])

    @property
    def last_messages(self) -> list[dict[str, str]]:
        """What the task at hand was, and what it came to, as CrewAI's task output keeps it."""
        return list(_said.get())

    def execute_task(
        self, task: Task, context: str | None = None, tools: list[BaseTool] | None = None
    ) -> Any:
        """Plan a task and have it done, from code that is not async, inside a running event loop too."""
        answer, said = run_sync(lambda: self._execute(task, context, tools))
        _said.set(said)
        return answer

    async def aexecute_task(
        self, task: Task, context: str | None = None, tools: list[BaseTool] | None = None
    ) -> Any:
        """Plan a task and have it done."""
        answer, said = await self._execute(task, context, tools)
        _said.set(said)
        return answer

    def create_agent_executor(self, tools: list[BaseTool] | None = None) -> None:
        """Do nothing: a run needs no loop of an agent's."""

    def get_delegation_tools(self, agents: Sequence[BaseAgent]) -> list[BaseTool]:
        """Return none: a plan delegates, and does not forget to."""
        del agents
        return []

    def get_platform_tools(self, apps: Any) -> list[BaseTool]:
        """Return none: apps are the agents'."""
        del apps
        return []

    def get_mcp_tools(self, mcps: Any) -> list[BaseTool]:
        """Return none: servers of tools are the agents'."""
        del mcps
        return []

    def get_output_converter(self, llm: BaseLLM, **said: Any) -> Converter:
        """Return who mends an answer that is not in the form its task wants."""
        meter = Meter()
        self._tally.watch(meter)
        return Converter(llm=meter.copy_of(llm), **said)

    def copy(self) -> Self:  # type: ignore[override] # as BaseAgent's
        """Return a manager for another crew, which counts on its own; its results are this one's, too."""
        copy = self.model_copy(update={"crew": None})
        copy._token_process = Tally()  # noqa: SLF001 - of its own kind, as below
        copy._results = (_kept(), *self._results)  # noqa: SLF001
        return copy

    async def _execute(
        self, task: Task, context: str | None, tools: Sequence[BaseTool] | None
    ) -> tuple[str | BaseModel, tuple[dict[str, str], ...]]:
        if task.human_input:
            told = "human_input asks within an agent's loop, which a conductor has none of"
            raise ConfigError(f"{told}: give the manager policy=Policy(approve=...) to look at the plan")
        crew, form = self._crew(), form_of(task)
        query = task.prompt() + (f"\n\n{_CONTEXT}\n{context}" if context else "")
        conductor, policy = self._conductor(crew, task, tools)
        run_id = None if self.run is None else f"{self.run}:{_hash(_place(crew, task), query)}"
        result = await conductor.run(
            query,
            run_id=run_id,
            policy=policy,
            sampling=sampling_for(form),
            middleware=self._through,
            on_event=self.on_event,
        )
        for kept in self._results:
            kept.append(result)
        answer = self._answer(result, form)
        said = ({"role": "user", "content": query}, {"role": "assistant", "content": result.answer})
        return answer, said

    def _conductor(
        self, crew: Crew, task: Task, tools: Sequence[BaseTool] | None
    ) -> tuple[Conductor, Policy | None]:
        """Return who conducts a task, and the policy that the task itself makes."""
        asked, spent = asked_of(tools), self._tally.add
        place = _place(crew, task)
        if asked.named is not None:
            self._named[place] = number_of(crew, asked.named)
        named = self._named.get(place)
        pool = team_of(crew, asked, cards=self.cards, beside=self.workers, spent=spent)
        planner = self.planner
        if planner is None:
            assert isinstance(self.llm, BaseLLM)  # seen to at the start
            planner = ChatPlanner(LLMWorker(self.llm, card=card_of(self.llm), spent=spent))
        conductor = Conductor(
            planner,
            pool,
            limits=self.limits,
            fallback=self.fallback,
            accept=self.accept,
            policy=self.policy,
            retry=self.retry,
            on_failure=self.on_failure,
            journal=self.journal,
            show_question=self.show_question,
        )
        return conductor, None if named is None else last_word(named)

    async def _through(self, worker: Worker, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Call a worker; count here what those have spent that do not count themselves."""
        async with aclosing(worker.call(request)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Completion) and not isinstance(worker, AgentWorker | LLMWorker):
                    self._tally.add(metrics_of(piece.usage))
                yield piece

    def _answer(self, result: Result, form: type[BaseModel] | None) -> str | BaseModel:
        """Return the task's output; where the LLM can, CrewAI mends one that is not in its form.

        Raises:
            RunFailed: there is none.
        """
        problem = result.problem
        told = "" if problem is None else f" ({problem.code}: {problem.message})"
        if result.status in ("failed", "waiting"):
            raise _failed(f"the run came to no answer{told}", result)
        if result.status == "partial" and self.partial == "raise":
            raise _failed(f"the answer is not whole{told}", result)
        if form is None:
            return result.answer
        read = read_answer(result.answer, form)
        if isinstance(read, BaseModel):
            return read
        if self.llm is None:
            raise _failed(f"{read}; give the manager an llm to mend it", result)
        return result.answer

    def _crew(self) -> Crew:
        if not isinstance(self.crew, Crew):
            raise ConfigError("a ConductorManager works for a crew: give it to one as its manager_agent")
        return self.crew

    @property
    def _tally(self) -> Tally:
        assert isinstance(self._token_process, Tally)
        return self._token_process


def _kept() -> deque[Result]:
    return deque(maxlen=MOST_KEPT)


def _failed(told: str, result: Result) -> RunFailed:
    error = RunFailed(told)
    error.result = result
    return error


def _place(crew: Crew, task: Task) -> str:
    """Return what tells a task from the crew's others, those in the same words too, at every kickoff."""
    alike = [other for other in crew.tasks if other.key == task.key]
    number = next((at for at, other in enumerate(alike) if other is task), 0)
    return f"{task.key}:{number}"


def _hash(*texts: str) -> str:
    return sha256("\0".join(texts).encode("utf-8", "surrogatepass")).hexdigest()[:16]
