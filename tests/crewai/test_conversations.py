"""Labels in conversations."""

from collections.abc import Sequence
from typing import Any

import pytest
from contracts.conversation_contract import ConversationContract
from core.actors import boss
from crewai import Agent, Crew, Process, Task
from servers.speaking_llm import SpeakingLLM

from crewai_podium import ConductorLLM, ConductorManager
from podium import Card, Conductor, ScriptedWorker
from podium.errors import PlannerError
from podium.policy import Policy, Rule


class TestConductorLLM(ConversationContract):
    async def ask(self, used: Conductor, texts: Sequence[str]) -> Any:
        said = [{"role": ("user", "assistant")[at % 2], "content": text} for at, text in enumerate(texts)]
        return await ConductorLLM(used).acall(said)


_FIND, _MAIL = (f'{{"worker": "{name}", "subtask": "x", "access": []}}\n' for name in ("web", "mailer"))


def crew_of(*plans: str, guardrail: Any = None, **context: Any) -> tuple[Crew, ScriptedWorker]:
    """Return a crew whose manager has a search and a mailer, and the mailer."""
    mailer = ScriptedWorker(Card(name="mailer", labels=frozenset({"write-tools"})), "sent")
    manager = ConductorManager(
        planner=boss(*plans),
        workers=[ScriptedWorker(Card(name="web", labels=frozenset({"untrusted"})), "It is 330 m."), mailer],
        policy=Policy(rules=[Rule("untrusted", never="write-tools")]),
    )
    agent = Agent(role="R", goal="g", backstory="b", llm=SpeakingLLM(model="s", say=lambda shown, tools: "x"))
    first = Task(description="How high is it?", expected_output="a number", guardrail=guardrail)
    tasks = [first]
    if guardrail is None:
        tasks.append(Task(description="Mail it.", expected_output="a mail", **context))
    return Crew(agents=[agent], tasks=tasks, process=Process.hierarchical, manager_agent=manager), mailer


@pytest.mark.anyio
@pytest.mark.parametrize(
    "context",
    [{}, {"guardrail": lambda output: (False, "again")}],
    ids=["implicit", "again"],
)
async def test_a_task_knows_the_labels_of_its_context(context: dict[str, Any]) -> None:
    """The planner of the next task, or after a guardrail, is shown only workers that the policy allows."""
    crew, mailer = crew_of(_FIND, _MAIL, _MAIL, **context)
    with pytest.raises(PlannerError, match="worker 'mailer', which may not work here"):
        await crew.akickoff()
    assert not mailer.requests


@pytest.mark.anyio
async def test_a_task_without_context_has_no_labels_of_others() -> None:
    crew, mailer = crew_of(_FIND, _MAIL, _FIND, _MAIL, context=[])
    for _ in range(2):
        await crew.akickoff()
    assert len(mailer.requests) == 2
