"""Tools of the run's caller: offered to steps, called there, answered in the next turn."""

from typing import Any

import pytest
from servers.chat_server import Call, ChatServer, Reply, says, whole

from podium import Card, ChatWorker, Conductor, Endpoint, FunctionWorker, Plan, ScriptedWorker, Step
from podium.errors import QueryError
from podium.journal import MemoryJournal, export
from podium.planners import FixedPlanner
from podium.policy import Policy
from podium.run_state import unbilled
from podium.types import Event, Problem, Sampling, Tools

pytestmark = pytest.mark.anyio

WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
ASKED = {"id": "call-1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Bern"}'}}
TURNS = [
    {"role": "user", "content": "Is it warm in Bern?"},
    {"role": "assistant", "content": "", "tool_calls": [ASKED]},
    {"role": "tool", "content": "31 degrees", "tool_call_id": "call-1"},
]
PLAN = (
    '{"worker": 0, "subtask": "Look it up.", "access": []}\n'
    '{"worker": 1, "subtask": "Say it.", "access": [0]}\n'
)


def model(call: Call) -> Reply:
    """Ask for the tool where it is offered and has not answered, else say what it answered."""
    last = call.body["messages"][-1]
    if "tools" in call.body and last["role"] != "tool":
        message = {"content": None, "tool_calls": [ASKED]}
        return whole({"choices": [{"message": message, "finish_reason": "tool_calls"}], "usage": {}})
    return says(call, f"Answer: {last['content']}")


def conductor(server: ChatServer) -> Conductor:
    """Return one whose last step is a model's."""
    endpoint = Endpoint(server.url)
    pool = [
        ChatWorker("a", endpoint=endpoint, card=Card(name="a")),
        ChatWorker("b", endpoint=endpoint, card=Card(name="b")),
    ]
    return Conductor(FixedPlanner(PLAN), pool)


async def test_each_step_is_offered_them() -> None:
    """A call comes back to the caller, in a run that is whole; the steps that see the step wait."""
    async with ChatServer(model) as server:
        result = await conductor(server).run("Is it warm in Bern?", tools=[WEATHER])
        bodies: list[dict[str, Any]] = [call.body for call in server.calls]
    (body,) = bodies
    assert body["tools"] == [WEATHER]
    assert "tool_choice" not in body
    assert (result.status, result.answer) == ("ok", "")
    assert [dict(call) for call in result.tool_calls] == [ASKED]
    assert result.outcomes[0].tool_calls == result.tool_calls
    assert result.outcomes[0].finish_reason == "tool_calls"
    assert (result.outcomes[1].status, result.outcomes[1].problem) == (
        "skipped",
        Problem("tool_calls", "it waits for the results of tool calls of step 0"),
    )


async def test_a_choice_and_sampling_reach_the_last_step() -> None:
    """As they were given, and only there."""
    async with ChatServer(model) as server:
        tools = Tools((WEATHER,), choice="required")
        await conductor(server).run("Warm?", tools=tools, sampling=Sampling(temperature=0.0, stop=("END",)))
        bodies = [call.body for call in server.calls]
    assert [body.get("tool_choice") for body in bodies] == [None, "required"]
    assert [(body.get("temperature"), body.get("stop")) for body in bodies] == [(None, None), (0.0, ["END"])]


async def test_the_next_turn_pays_for_the_paused_step_only() -> None:
    """With the record of the turn before, plan and other steps are taken from there, without a bill."""
    async with ChatServer(model) as server:
        asked, journal = conductor(server), MemoryJournal()
        forced = Tools((WEATHER,), "required")  # for the last step
        first = await asked.run(TURNS[:1], tools=forced, journal=journal)
        lines = [line async for line in export(journal, [first.run_id])]
        before = len(server.calls)

        events: list[Event] = [e.event for e in await MemoryJournal.of(lines).read(first.run_id)]
        paid_results = unbilled(events, asked.pool.names)
        second = await asked.run(TURNS, tools=[WEATHER], paid_results=paid_results, journal=MemoryJournal())
        made = server.calls[before:]
    assert second.answer == "Answer: 31 degrees"
    assert [outcome.reused for outcome in second.outcomes] == [True, False]
    assert second.outcomes[0].usage.total_tokens == 0
    assert [call.body["messages"][-2:] for call in made] == [TURNS[1:]]


async def test_who_takes_no_tools_is_offered_none() -> None:
    """A last step of plain code answers as ever."""
    worker = FunctionWorker(lambda step_input: "plain", card=Card(name="code"))
    result = await Conductor(FixedPlanner("x"), [worker]).run(Plan((Step(0, "do"),)), tools=[WEATHER])
    assert (result.answer, result.tool_calls) == ("plain", ())


async def test_a_nested_conductor_takes_them() -> None:
    """What its last step asks for comes back through both runs."""
    async with ChatServer(model) as server:
        inner = conductor(server)
        outer = Conductor(FixedPlanner("x"), [inner])
        plan = Plan((Step(0, "do"),))
        result = await outer.run(plan, tools=[WEATHER])
    (call,) = result.tool_calls
    assert (call["function"], len(call["id"])) == (ASKED["function"], 9)  # a new id: other runs may have it


async def test_a_run_that_waited_still_offers_them() -> None:
    """The record holds them, so that a resumed run offers the same."""
    async with ChatServer(model) as server:
        asked, journal = conductor(server), MemoryJournal()
        waits = await asked.run(TURNS[:1], tools=[WEATHER], journal=journal, policy=Policy(approve="later"))
        lines = [line async for line in export(journal, [waits.run_id])]
        loaded = MemoryJournal.of(lines)
        await asked.decide(waits.run_id, approved=True, journal=loaded)
        result = await asked.resume(waits.run_id, journal=loaded)
    assert [dict(call) for call in result.tool_calls] == [ASKED]


async def test_turns_need_a_question() -> None:
    """What tools returned answers nothing by itself."""
    with pytest.raises(QueryError, match="no question"):
        await Conductor(FixedPlanner("x"), [ScriptedWorker("a", "x")]).run(TURNS[1:])
