"""Actions in CrewAI: its tools and agents as workers, in its LLM and its manager."""

import traceback
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from contracts.actions_contract import ONCE, REFUND, ActionHost, ActionsContract, Refund, Shop
from crewai import LLM, Agent, Crew, Process, Task
from crewai.tools import tool
from pydantic import BaseModel
from servers.speaking_llm import SpeakingLLM

from crewai_podium import ConductorLLM, ConductorManager, as_worker
from podium import Conductor, FunctionWorker, Plan, Step
from podium.errors import RunFailed
from podium.journal import MemoryJournal
from podium.planners import FixedPlanner
from podium.types import Completion
from podium.workers import FREE, ScriptedWorker, Worker


def model_at(url: str) -> LLM:
    return LLM(model="openai/gpt-4o-mini", base_url=url, api_key="k", max_retries=0)


class Model(ActionHost):
    def tool(self, refund: Refund) -> Worker:
        return as_worker(tool(refund), price=FREE)

    def agent(self, refund: Refund | None, url: str) -> Worker:
        """Return an agent, which would retry."""
        tools: Any = [] if refund is None else [tool(refund)]
        return as_worker(agent(*tools, llm=model_at(url), role="agent"))

    def own(self, refund: Refund, url: str) -> Worker:
        class Acting(Agent):
            async def aexecute_task(self, task: Any, context: Any = None, tools: Any = None) -> Any:
                refund(1017)
                return await super().aexecute_task(task, context, tools)

        return as_worker(agent(kind=Acting, llm=model_at(url), role="agent"))

    async def ask(self, conductor: Conductor) -> tuple[str, str]:
        llm = ConductorLLM(conductor)
        text = await llm.acall("Refund it.")
        return llm.results[-1].status, text


@tool
def look() -> str:
    """Look."""
    return ""


class Own(Agent):
    """An agent of the user's own class."""


def team(*, acts: bool) -> ConductorLLM:
    return ConductorLLM(Conductor(FixedPlanner("x"), [FunctionWorker(lambda step: "x", acts=acts)]))


def agent(*tools: Any, kind: Any = Agent, llm: Any = None, role: str = "one", **options: Any) -> Any:
    model = llm or SpeakingLLM(model="speaking", say=lambda shown, tools: "x")
    return kind(role=role, goal="Look.", backstory="Of a test.", llm=model, tools=list(tools), **options)


def crew(member: Any, *tools: Any, llm: Any = None) -> Crew:
    task = Task(description="{topic}", expected_output="an answer", agent=member, tools=list(tools))
    return Crew(agents=[member], tasks=[task], planning_llm=llm)


KINDS: list[tuple[str, bool, Callable[[], Any]]] = [
    ("an LLM", False, lambda: SpeakingLLM(model="speaking", say=None)),
    ("a tool", True, lambda: look),
    ("an agent without tools", False, agent),
    ("an agent with a tool", True, lambda: agent(look)),
    ("an agent of a class of its own", True, lambda: agent(kind=Own)),
    ("an agent whose LLM is a team that acts", True, lambda: agent(llm=team(acts=True))),
    ("an agent that calls by a team that acts", True, lambda: agent(function_calling_llm=team(acts=True))),
    ("a crew that a team that acts plans", True, lambda: crew(agent(), llm=team(acts=True))),
    ("a crew whose task has a tool", True, lambda: crew(agent(), look)),
]


@pytest.mark.parametrize(("acts", "make"), [kind[1:] for kind in KINDS], ids=[kind[0] for kind in KINDS])
def test_what_acts(make: Callable[[], Any], *, acts: bool) -> None:
    """What cannot be seen counts as what may act, unless the user says otherwise."""
    made = make()
    assert as_worker(made, name="it").acts == acts
    assert as_worker(made, name="it", acts=not acts).acts != acts


@pytest.mark.anyio
@pytest.mark.parametrize(("said", "count"), [({}, 1), ({"one": False}, 0)])
async def test_the_agents_of_a_manager(said: dict[str, bool], count: int) -> None:
    """One with a tool acts, unless the manager says otherwise; then no step needs to see it."""
    manager = ConductorManager(planner=FixedPlanner(Plan((Step(0, "Look."), Step(1, "Write.")))), acts=said)
    task = Task(description="Look.", expected_output="an answer")
    options: Any = {"process": Process.hierarchical, "manager_agent": manager}
    managed = Crew(agents=[agent(look), agent(role="two")], tasks=[task], **options)
    await managed.akickoff()
    (result,) = manager.results
    assert (result.status, len(result.actions)) == ("ok", count)


class Value(BaseModel):
    value: str


def team_that_refunds(shop: Shop, *ends: Any) -> ConductorLLM:
    """Return an LLM that refunds, and then has a writer, whose calls end as told, write the answer."""
    left = iter([*ends, '{"value": "Refunded."}'])

    def write(_: Any) -> Any:
        end = next(left)
        if isinstance(end, Exception):
            raise end
        return end

    workers = [as_worker(tool(shop.refund)), FunctionWorker(write)]
    plan = Plan((REFUND, Step(1, "Write.", (0,))))
    return ConductorLLM(Conductor(FixedPlanner(plan), workers, retry=ONCE))


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("ends", "kind", "output"),
    [
        ([TypeError("a bug")] * 2, TypeError, {}),
        ([Completion("half", finish_reason="length")] * 2, RunFailed, {"output_pydantic": Value}),
    ],
    ids=["bug", "structured and incomplete"],
)
async def test_an_agent_does_not_repeat_a_run(ends: list[Any], kind: type[Exception], output: Any) -> None:
    """CrewAI's agents do a task again after most errors of their LLM: it would be refunded again."""
    shop = Shop()
    member = agent(llm=team_that_refunds(shop, *ends))
    task = Task(description="Refund it.", expected_output="an answer", agent=member, **output)
    with pytest.raises(kind) as caught:
        await Crew(agents=[member], tasks=[task]).akickoff()
    told = "".join(traceback.format_exception_only(caught.value))  # the message and its notes
    assert shop.refunds == [1017]
    assert 'refund {"order": 1017}: done' in told


@pytest.mark.anyio
@pytest.mark.parametrize("run", [None, "order"], ids=["no journal", "a journal"])
async def test_a_guardrail_of_a_task_does_not_repeat_actions(run: str | None) -> None:
    """Its task runs again, and takes the refund of the run before; the next kickoff is another order."""
    shop, seen = Shop(), list[str]()

    def guardrail(output: Any) -> tuple[bool, Any]:
        seen.append(output.raw)
        return (len(seen) % 3 == 0, output if len(seen) % 3 == 0 else "too short")

    writer = ScriptedWorker("writer", lambda request: f"answer {len(seen)}")
    async with MemoryJournal() as journal:
        manager = ConductorManager(
            planner=FixedPlanner(Plan((replace(REFUND, worker=1), Step(2, "Write.")))),
            workers=[as_worker(tool(shop.refund)), writer],
            journal=None if run is None else journal,
            run_id=run,
        )
        task = Task(description="Refund it.", expected_output="an answer", guardrail=guardrail)
        options: Any = {"process": Process.hierarchical, "manager_agent": manager}
        managed = Crew(agents=[agent()], tasks=[task], **options)
        for refunds in ([1017], [1017] if run else [1017, 1017]):
            output: Any = await managed.akickoff()
            assert (shop.refunds, output.raw) == (refunds, seen[-1])
        assert len(writer.requests) == (3 if run else 6)
        assert {result.status for result in manager.results} == {"ok"}
        assert [[action.end for action in result.actions] for result in manager.results] == [["done"]] * 6


class TestActions(ActionsContract):
    @pytest.fixture
    def host(self) -> ActionHost:
        return Model()
