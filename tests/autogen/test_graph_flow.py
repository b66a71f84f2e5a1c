"""A plan as a `GraphFlow`: the same steps, the same access lists, without Podium around it."""

import anyio
import pytest
from autogen.scripts import model, shown, team
from autogen.speaking import READ, WRITTEN, ModelServer, Speaker
from autogen_agentchat.base import Team
from autogen_agentchat.messages import TextMessage
from autogen_core.tools import FunctionTool
from contracts.adapter_contract import Speak

from autogen_podium import to_graph_flow
from podium import Plan, ScriptedWorker, Step
from podium.errors import ConfigError, PlanInvalid

pytestmark = pytest.mark.anyio
PLAN = Plan(
    (
        Step(0, "task-one"),
        Step(1, "task-two", (0,)),
        Step(0, "task-three"),
        Step(2, "task-unseen"),
        Step(2, "task-four", (1, 2)),
    )
)


async def test_access_lists_hold() -> None:
    """Though a flow tells all its agents everything; one worker does two steps, its history apart."""
    seen: dict[str, str] = {}

    def spy(name: str) -> Speak:
        async def speak(text: str) -> str:
            task = text.splitlines()[-1]
            seen[task] = text
            return f"canary-of-{task}"

        return speak

    flow = to_graph_flow(PLAN, [Speaker(name, spy(name)) for name in ("a", "b", "c")])
    result = await flow.run(task="the-question")
    answers = [m for m in result.messages if isinstance(m, TextMessage) and m.source == "step_4"]
    assert answers[0].content == "canary-of-task-four"
    assert answers[0].models_usage is not None
    assert (answers[0].models_usage.prompt_tokens, answers[0].models_usage.completion_tokens) == (
        READ,
        WRITTEN,
    )
    expected = {
        "task-one": [],
        "task-two": ["task-one"],
        "task-three": [],
        "task-four": ["task-two", "task-three"],
    }
    assert seen.keys() == expected.keys()
    for task, visible in expected.items():
        assert {other for other in seen if f"canary-of-{other}" in seen[task]} == set(visible)
        assert {other for other in seen if other in seen[task]} == {*visible, task}
        assert "the-question" in seen[task]


async def test_a_tool_in_a_flow_is_given_the_output_it_refers_to() -> None:
    """Tools are given the output, agents and what is shown of a step tell of it."""
    seen: list[str] = []

    async def speak(text: str) -> str:
        seen.append(text)
        return "forty-two"

    def double(text: str) -> str:
        return f"{text} {text}"

    plan = Plan((Step(0, "count"), Step(1, "<{{0}}>", (0,)), Step(0, "compare {{0}} with {{1}}", (0, 1))))
    flow = to_graph_flow(plan, [Speaker("a", speak), FunctionTool(double, description="Doubles.")])
    result = await flow.run(task="the-question")
    said = {m.source: m.content for m in result.messages if isinstance(m, TextMessage)}
    assert said["step_1"] == "<forty-two> <forty-two>"
    assert seen[1].splitlines()[-1] == "compare the output of step 0 with the output of step 1"
    assert "<the output of step 0>" in seen[1]


async def test_steps_run_side_by_side() -> None:
    """As the flow has it."""
    there: set[str] = set()

    def meet(name: str) -> Speak:
        async def speak(text: str) -> str:
            there.add(name)
            with anyio.fail_after(20):
                while len(there) < 2:  # noqa: ASYNC110 - each waits for the other
                    await anyio.sleep(0.01)
            return name

        return speak

    plan = Plan((Step(0, "x"), Step(1, "y"), Step(2, "z", (0, 1))))
    workers = [Speaker("a", meet("a")), Speaker("b", meet("b")), ScriptedWorker("join", "met")]
    result = await to_graph_flow(plan, workers).run(task="?")
    assert any(message.to_text() == "met" for message in result.messages if isinstance(message, TextMessage))


async def test_a_flow_can_be_stored() -> None:
    """With agents over real clients; the loaded one runs."""
    async with ModelServer(model) as server:
        plan = Plan((Step(0, "Find the height."), Step(2, "Multiply them.", (0,))))
        made = to_graph_flow(plan, team(server))
        with server.adopting():
            loaded = Team.load_component(made.dump_component().model_dump())
        result = await loaded.run(task="How large?")
        last = shown(server.calls[-1])
    assert any(
        message.to_text() == "12 square metres."
        for message in result.messages
        if isinstance(message, TextMessage)
    )
    assert "It is 3 m." in last


async def test_a_flow_of_one_step() -> None:
    """Is one, too."""
    result = await to_graph_flow(Plan((Step(0, "x"),)), [ScriptedWorker("a", "alone")]).run(task="?")
    assert any(
        message.to_text() == "alone" for message in result.messages if isinstance(message, TextMessage)
    )


def test_what_a_flow_cannot_do_is_told() -> None:
    """Before anything runs."""
    workers = [ScriptedWorker("a", "x")]
    with pytest.raises(ConfigError, match="waits for all"):
        to_graph_flow(Plan((Step(0, "x"), Step(0, "y"), Step(0, "z", (0, 1), enough=1))), workers)
    with pytest.raises(PlanInvalid, match="worker 3"):
        to_graph_flow(Plan((Step(3, "x"),)), workers)


async def test_agents_are_shown_the_ids_of_the_plan() -> None:
    """A plan that numbers its steps from 1 is shown so, as in a run."""
    worker = ScriptedWorker("w", "forty-two")
    steps = (
        Step(0, "Find it.", label=1),
        Step(0, "Check {{0}}.", (0,), label=2),
        Step(0, "Sum up.", (1,), label=3),
    )
    await to_graph_flow(Plan(steps), [worker]).run(task="?")
    assert "Check the output of step 1." in worker.requests[1].messages[-1].text
    assert "Step 1 was given this subtask" in worker.requests[1].messages[-1].text
    assert "Check the output of step 1." in worker.requests[2].messages[-1].text
    assert "Step 2 was given this subtask" in worker.requests[2].messages[-1].text
