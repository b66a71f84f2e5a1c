"""Runs that wait for a person: of CrewAI's LLM, and of a manager, which asks as CrewAI does."""

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from contracts.conversation_contract import FIND, MAIL, ConversationContract, mailing
from contracts.waiting_contract import QUESTION, check_waiting
from crewai import Agent, Crew, Process, Task
from crewai.core.providers.human_input import SyncHumanInputProvider, reset_provider, set_provider
from servers.crew_scene import Scene
from servers.speaking_llm import SpeakingLLM

from crewai_podium import ConductorLLM, ConductorManager
from podium import Card, Conductor, FunctionWorker, Plan, Step
from podium.aio import run_sync
from podium.errors import PlannerError, RunFailed, RunWaiting
from podium.journal import MemoryJournal
from podium.planners import FixedPlanner
from podium.policy import Policy
from podium.run import decide
from podium.workers import PersonWorker, StepInput

pytestmark = pytest.mark.anyio


class Person(SyncHumanInputProvider):
    """A person who writes these texts, one after the other, and then nothing."""

    def __init__(self, *said: str) -> None:
        self.said = [*said]
        self.asked: list[str] = []

    async def handle_feedback_async(self, formatted_answer: Any, context: Any) -> Any:
        self.asked.append(str(formatted_answer.output))
        return await super().handle_feedback_async(formatted_answer, context)

    async def _prompt_input_async(self, crew: Crew | None) -> str:  # type: ignore[override]
        del crew
        return self.said.pop(0) if self.said else ""


@pytest.fixture
def ask(request: pytest.FixtureRequest) -> Iterator[Person]:
    person = Person(*request.param)
    token = set_provider(person)
    yield person
    reset_provider(token)


async def test_a_plan_may_wait_and_go_on_later() -> None:
    """The LLM cannot wait: its error has the run, which the conductor decides and goes on with."""

    async def ask(conductor: Conductor) -> object:
        return await ConductorLLM(conductor).acall(QUESTION)

    await check_waiting(ask)


async def test_an_agent_does_not_ask_again() -> None:
    """CrewAI's agents do a task again after most errors of their LLM: each time, another run would wait."""

    async def ask(conductor: Conductor) -> object:
        guide = Agent(role="guide", goal="Answer.", backstory="Old.", llm=ConductorLLM(conductor))
        task = Task(description=QUESTION, expected_output="an answer", agent=guide)
        return (await Crew(agents=[guide], tasks=[task]).akickoff()).raw

    await check_waiting(ask)


@pytest.mark.parametrize("ask", [("Shorter.", "Shorter still.")], indirect=True)
def test_a_task_is_done_again_with_a_persons_feedback(ask: Person) -> None:
    """As often as there is some; the planner and the agents see the answers before, and what was said."""
    scene = Scene()
    crew = scene.crew(scene.task(human_input=True))
    assert crew.kickoff().raw.startswith('{"height": 330')
    assert ask.said == []
    plans = [shown for shown in scene.sent if "You are the conductor" in shown]
    seen = [("Shorter." in shown, "Shorter still." in shown) for shown in plans]
    assert seen == [(False, False), (True, False), (True, True)]


@pytest.mark.parametrize(
    ("ask", "answer", "times"),
    [(("perhaps", "approve"), "refunded", 2), (("no, too much",), "refused", 1), ((), None, 1)],
    indirect=["ask"],
)
def test_an_action_waits_for_a_person(ask: Person, answer: str | None, times: int) -> None:
    """A text that is no decision is asked again; without an answer the run waits in its journal."""
    done: list[str] = []

    def refund(step_input: StepInput) -> str:
        done.append(step_input.subtask)
        return "refunded"

    clerk = FunctionWorker(refund, card=Card(name="clerk"), acts=True)
    scene = Scene(
        planner=FixedPlanner(Plan((Step(2, "refund order 17"),))),
        workers=[clerk],
        policy=Policy(ask="actions", approve="later"),
        journal=MemoryJournal(),
        run_id="refund",
    )
    crew = scene.crew()
    if answer is None:
        with pytest.raises(RunWaiting, match=r"`Conductor.decide`, then repeat the call") as waiting:
            crew.kickoff()
        assert not done
        run_id = waiting.value.result.run_id
        run_sync(lambda: decide(scene.manager.journal, run_id, approved=True))
        assert crew.kickoff().raw == "refunded"
    elif answer == "refused":
        with pytest.raises(RunFailed, match="too much"):
            crew.kickoff()
    else:
        assert crew.kickoff().raw == answer
    assert (done, len(ask.asked)) == ([] if answer == "refused" else ["refund order 17"], times)
    assert "May clerk do this? refund order 17" in ask.asked[0]


def test_a_process_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is asked at an input such as `/dev/null`, at which CrewAI itself would wait for ever."""
    clerk = FunctionWorker(lambda _: "refunded", card=Card(name="clerk"), acts=True)
    plan, policy = Plan((Step(2, "refund order 17"),)), Policy(ask="actions", approve="later")
    scene = Scene(planner=FixedPlanner(plan), workers=[clerk], policy=policy, journal=MemoryJournal())
    set_provider(SyncHumanInputProvider())
    with Path(os.devnull).open() as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        with pytest.raises(RunWaiting):
            scene.crew().kickoff()


@pytest.mark.parametrize("ask", [("green", "blue")], indirect=True)
def test_a_step_asks_a_person(ask: Person) -> None:
    """Until the answer is one of the choices; the kickoff that follows takes the recorded answer."""
    person = PersonWorker("owner", choices=["red", "blue"])
    planner = FixedPlanner(Plan((Step(0, "Which colour?"),)))
    conductor = Conductor(planner, [person], journal=MemoryJournal())
    scene = Scene(planner=planner)
    for _ in range(2):
        manager = ConductorManager(conductor=conductor, run_id="paint")
        crew = Scene.crew_of(manager, [scene.finder, scene.writer], [scene.task()])
        assert crew.kickoff().raw == "blue"
    assert len(ask.asked) == 2
    assert "Choices: red, blue" in ask.asked[0]
    assert scene.sent == []


class TestConductorLLM(ConversationContract):
    async def ask(self, used: Conductor, texts: Sequence[str]) -> Any:
        said = [{"role": ("user", "assistant")[at % 2], "content": text} for at, text in enumerate(texts)]
        return await ConductorLLM(used).acall(said)


@pytest.mark.parametrize("guardrail", [None, lambda output: (False, "again")], ids=["next task", "again"])
async def test_a_task_knows_the_labels_of_its_context(guardrail: Any) -> None:
    """The planner of the next task, or after a guardrail, is shown only workers that the policy allows."""
    made = mailing(FIND, MAIL, MAIL)
    manager = ConductorManager(planner=made.planner, workers=made.pool.workers[:2], policy=made.policy)
    agent = Agent(role="R", goal="g", backstory="b", llm=SpeakingLLM(model="s", say=lambda shown, tools: "x"))
    tasks = [Task(description="How high is it?", expected_output="a number", guardrail=guardrail)]
    if guardrail is None:
        tasks.append(Task(description="Mail it.", expected_output="a mail"))
    crew = Crew(agents=[agent], tasks=tasks, process=Process.hierarchical, manager_agent=manager)
    with pytest.raises(PlannerError, match="worker 'mailer', which may not work here"):
        await crew.akickoff()
    assert not made.pool.workers[1].requests
