"""A plan as a workflow of Agent Framework's."""

from dataclasses import replace
from typing import Any

import pytest
from agent_framework import Agent, InMemoryCheckpointStorage, Message, WorkflowBuilder
from autogen.framework_speaking import FrameworkServer
from autogen.scripts import model
from contracts.adapter_contract import planner_of
from servers.chat_server import USAGE

from autogen_podium.agent_framework import to_workflow
from podium import Conductor, Plan, ScriptedWorker, Step
from podium.errors import ConfigError, PlanInvalid, QueryError, WorkerFailed
from podium.types import Completion, read_query

pytestmark = pytest.mark.anyio
ROOM = Plan(
    (Step(0, "Find the height."), Step(1, "Find the width."), Step(2, "Multiply them.", (0, 1))),
)
CHAIN = Plan((Step(0, "one"), Step(0, "two", (0,)), Step(0, "three", (1,))))


def team(server: FrameworkServer) -> list[Agent[Any]]:
    """Return agents that ask the server."""
    return [Agent(server.client(), name=name) for name in ("researcher", "coder", "writer")]


async def test_it_gives_the_answer_of_a_run() -> None:
    """The other steps are intermediate outputs; with the usage of each."""
    async with FrameworkServer(model) as server:
        workflow = to_workflow(ROOM, team(server))
        result = await workflow.run("How large?")
    (answer,) = result.get_outputs()
    assert answer.text == "12 square metres."
    assert answer.usage_details["input_token_count"] == USAGE["prompt_tokens"]
    assert sorted(one.text for one in result.get_intermediate_outputs()) == ["It is 3 m.", "It is 4 m."]
    done = [event.executor_id for event in result if event.type == "executor_completed"]
    assert (done[0], sorted(done[1:3]), done[3]) == ("question", ["step_0", "step_1"], "step_2")


async def test_steps_are_shown_what_they_are_in_a_run() -> None:
    """Message for message; a step that nobody sees is left out, and another number is told as such."""
    plan = Plan(
        (
            Step(0, "one", label=7),
            Step(0, "unseen", label=9),
            Step(1, "two of {{0}}", (0,), label=8),
            Step(0, "three", (2,), label=5),
            Step(1, "four", (0, 3), label=6),
        )
    )

    def pool() -> list[ScriptedWorker]:
        return [ScriptedWorker("a", "from a"), ScriptedWorker("b", "from b")]

    ran, flowed = pool(), pool()
    result = await Conductor(planner_of((0, "x", ())), ran).run(replace(plan, query=read_query("How large?")))
    outputs = (await to_workflow(plan, flowed).run("How large?")).get_outputs()
    assert [output.text for output in outputs] == [result.answer]
    for one, other in zip(ran, flowed, strict=True):
        assert [request.messages for request in one.requests] == [r.messages for r in other.requests]


async def test_it_goes_on_from_a_checkpoint() -> None:
    """In another workflow of the same plan and name; what was done is not done again."""
    storage = InMemoryCheckpointStorage()
    replies = iter(["1", "2", WorkerFailed("no ruler", maybe_paid=True)])
    first = ScriptedWorker("one", lambda request: next(replies))
    workflow = to_workflow(CHAIN, [first], name="chain", checkpoint_storage=storage)
    with pytest.raises(WorkerFailed, match="no ruler"):
        await workflow.run([Message("user", ["How large?"])])
    latest = await storage.get_latest(workflow_name="chain")
    assert latest is not None
    second = ScriptedWorker("one", "3")
    again = to_workflow(CHAIN, [second], name="chain", checkpoint_storage=storage)
    outputs = (await again.run(checkpoint_id=latest.checkpoint_id)).get_outputs()
    assert [output.text for output in outputs] == ["3"]
    (request,) = second.requests
    assert request.step_input is not None
    assert [step.output for step in request.step_input.visible] == ["2"]
    assert request.step_input.query[-1].text == "How large?"


async def test_it_is_an_agent_and_a_part_of_workflows() -> None:
    """As any workflow; in a stream, too."""
    agent = to_workflow(CHAIN, [ScriptedWorker("one", "12 m")]).as_agent(name="plan")
    assert (await agent.run("How large?")).messages[-1].text == "12 m"
    updates = [update async for update in agent.run("How large?", stream=True)]
    assert updates[-1].text == "12 m"
    outer = WorkflowBuilder(start_executor=agent).build()
    assert "12 m" in str((await outer.run("How large?")).get_outputs()[-1])


async def test_an_answer_that_lacks_something_says_so() -> None:
    """In the response's properties, and by its finish reason."""
    cut = Completion("half", finish_reason="length", missing="its tool failed")
    result = await to_workflow(Plan((Step(0, "x"),)), [ScriptedWorker("one", cut)]).run("?")
    (answer,) = result.get_outputs()
    assert answer.finish_reason == "length"
    assert answer.additional_properties == {"podium_step": 0, "podium_missing": "its tool failed"}


async def test_what_it_cannot_do_is_told() -> None:
    """Before it runs; and a conversation without a question when it does."""
    worker = ScriptedWorker("one", "x")
    with pytest.raises(ConfigError, match="plan it without `enough`"):
        to_workflow(Plan((Step(0, "x"), Step(0, "y"), Step(0, "z", (0, 1), enough=1))), [worker])
    with pytest.raises(PlanInvalid):
        to_workflow(Plan((Step(1, "x"),)), [worker])
    with pytest.raises(QueryError):
        await to_workflow(CHAIN, [worker]).run([Message("assistant", ["x"])])
    conductor = Conductor(planner_of((0, "x", ())), [worker])
    assert (await to_workflow(CHAIN, conductor).run("?")).get_outputs()[0].text == "x"
