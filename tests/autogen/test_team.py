"""A conductor as a team of AutoGen's: what ends its runs, and what it remembers."""

from collections.abc import Awaitable, Callable

import pytest
from autogen.scripts import model, team
from autogen.speaking import READ, WRITTEN, ModelServer, Speaker
from autogen_agentchat.base import TerminationCondition
from autogen_agentchat.conditions import (
    MaxMessageTermination,
    SourceMatchTermination,
    TokenUsageTermination,
)
from contracts.adapter_contract import planner_of

from autogen_podium import ConductorTeam
from autogen_podium.team import ANSWERED
from podium import Conductor, ScriptedWorker
from podium.errors import ConfigError, QueryError

pytestmark = pytest.mark.anyio
CHAIN = ((0, "x", ()), (1, "y", (0,)), (2, "z", (1,)))


def noting(called: list[str]) -> list[Speaker]:
    def speak(name: str) -> Callable[[str], Awaitable[str]]:
        async def say(text: str) -> str:
            called.append(name)
            return f"{name} has spoken"

        return say

    return [Speaker(name, speak(name)) for name in ("a", "b", "c")]


async def test_a_run_ends_with_the_answer() -> None:
    """Its messages are the task, what the steps said, and the answer."""
    async with ModelServer(model) as server:
        result = await ConductorTeam(workers=team(server), planner=server.client()).run(task="How large?")
    assert result.stop_reason == ANSWERED
    assert [m.source for m in (result.messages[0], *result.messages[-2:])] == [
        "user",
        "writer",
        "ConductorTeam",
    ]
    assert result.messages[-1].to_text() == "12 square metres."


@pytest.mark.parametrize(
    ("condition", "asked", "why"),
    [
        (MaxMessageTermination(2), ["a"], "Maximum number of messages"),
        (MaxMessageTermination(2) & SourceMatchTermination(["b"]), ["a", "b"], "'b' answered"),
        (TokenUsageTermination(max_total_token=2 * (READ + WRITTEN)), ["a", "b"], "Token usage"),
    ],
)
async def test_conditions_end_a_run(condition: TerminationCondition, asked: list[str], why: str) -> None:
    """As soon as they are met; no later step is paid for, and the next run starts afresh."""
    called: list[str] = []
    chat = ConductorTeam(workers=noting(called), planner=planner_of(*CHAIN), termination_condition=condition)
    for _ in range(2):
        called.clear()
        result = await chat.run(task="?")
        assert called == asked
        assert why in (result.stop_reason or "")
        await chat.reset()


async def test_too_few_turns_for_an_answer_pay_for_no_step() -> None:
    called: list[str] = []
    result = await ConductorTeam(workers=noting(called), planner=planner_of(*CHAIN), max_turns=2).run(
        task="?"
    )
    assert called == []
    assert result.stop_reason is not None
    assert result.stop_reason.startswith("Maximum number of turns 2 reached. step 0 (a): the plan needs at ")
    assert [message.to_text() for message in result.messages] == ["?"]
    whole = Conductor(planner_of((0, "x", ())), [ScriptedWorker("one", "hello")])
    with pytest.raises(ConfigError, match=r"Limits\.steps"):
        ConductorTeam(whole, max_turns=2)


async def test_a_run_stopped_early_leaves_its_question() -> None:
    called: list[str] = []
    chat = ConductorTeam(
        workers=noting(called), planner=planner_of(*CHAIN), termination_condition=MaxMessageTermination(2)
    )
    await chat.run(task="my-question")
    result = await chat.run()
    assert [m.source for m in result.messages] == ["a", "b"]
    with pytest.raises(QueryError, match="got no message"):
        await ConductorTeam(workers=noting(called), planner=planner_of(*CHAIN)).run()


async def test_it_runs_once_at_a_time() -> None:
    chat = ConductorTeam(workers=noting([]), planner=planner_of(*CHAIN))
    stream = chat.run_stream(task="?")
    await anext(stream)
    with pytest.raises(ValueError, match="already running"):
        await chat.run(task="?")
    with pytest.raises(RuntimeError, match="currently running"):
        await chat.reset()
    with pytest.raises(RuntimeError, match="while it is running"):
        await chat.load_state(await chat.save_state())
    await stream.aclose()
    assert (await chat.run(task="?")).stop_reason == ANSWERED
