"""A planner that speaks turn by turn with tool calls, against a scripted server of that format."""

import json
from typing import Any

import pytest
from core.actors import ONCE, Shop, problem_of
from servers.chat_server import Call, ChatServer, Reply, says

from podium import Conductor, Limits, Plan, Result, Sampling
from podium.errors import ConfigError, WorkerTimeout, WorkerUnavailable
from podium.journal import MemoryJournal
from podium.planners import CachedPlanner, RulePlanner, TurnPlanner
from podium.policy import ApprovalRequest, Policy, Rule
from podium.replay import replay
from podium.types import AnswerDelta
from podium.workers import FREE, Card, ChatWorker, Endpoint, Price, ScriptedWorker

pytestmark = pytest.mark.anyio
Said = str | tuple[str, str, object]
"""A message of the model: its text, or its text, the name of a tool and the arguments."""


def calls(name: str, request: object, said: str = "") -> Said:
    return said, name, {"request": request}


class Orchestrator:
    """A server whose model says its messages in turn, by the number of its messages in the conversation.

    `mended` has the number of a message that repairs the one before, which is in no later conversation. With
    `obeys`, it answers when it is told that a message is the last.
    """

    def __init__(self, *messages: Said, native: bool = True, mended: int = 99, obeys: bool = False) -> None:
        self.messages = messages
        self.obeys = obeys
        self.mended = mended
        self.native = native
        self.server = ChatServer(self._reply)

    def _reply(self, call: Call) -> Reply:
        number = sum(each["role"] == "assistant" for each in call.body["messages"])
        asks_again = "cannot be carried out" in call.body["messages"][-1]["content"]
        said = self.messages[number + (number >= self.mended and not asks_again)]
        if self.obeys and "your last message" in call.body["messages"][-1]["content"]:
            said = "Enough."
        if isinstance(said, str):
            return says(call, said)
        text, name, arguments = said
        if not self.native:
            told = json.dumps({"name": name, "arguments": arguments})
            return says(call, f"<think>\nHm.\n</think>\n\n{text}<tool_call>\n{told}\n</tool_call>")
        function = {"name": name, "arguments": json.dumps(arguments)}
        tool_call = {"id": "chatcmpl-tool-1", "type": "function", "function": function}
        return says(call, text, finish_reason="tool_calls", tool_calls=[tool_call])

    def planner(self, *, price: Price = FREE, **options: Any) -> TurnPlanner:
        endpoint = Endpoint(self.server.url, api_key="key")
        card = Card(name="boss", price=price)
        options.setdefault("native", self.native)
        return TurnPlanner(ChatWorker("orchestrator", endpoint=endpoint, card=card), **options)

    def conversation(self, number: int) -> list[dict[str, Any]]:
        """Return the messages of a request, after the question."""
        messages: list[dict[str, Any]] = self.server.calls[number].body["messages"]
        return messages[2:]


def expert(name: str = "expert", *replies: str | Exception, **facts: Any) -> ScriptedWorker:
    """Return a model that says this in turn, or else how many outputs it saw."""
    left = list(replies)

    def reply(request: Any) -> str | Exception:
        return left.pop(0) if left else f"{name} {len(request.step_input.visible)}"

    return ScriptedWorker(Card(name=name, price=FREE, **facts), reply)


def texts(result: Result) -> list[str]:
    return [outcome.text for outcome in result.outcomes]


@pytest.mark.parametrize("native", [True, False])
async def test_a_conversation_of_ten_turns(*, native: bool) -> None:
    turns = [calls("expert", f"Part {number}?", "Let me ask. ") for number in range(9)]
    boss = Orchestrator(*turns, "It is so.", native=native)
    async with boss.server:
        conductor = Conductor(boss.planner(), [expert(description="Knows all.")])
        events = [event async for event in conductor.stream("What?")]
    result: Result = events[-1].result  # type: ignore[union-attr]
    assert (result.answer, result.status, result.problem) == ("It is so.", "ok", None)
    assert [event.text for event in events if isinstance(event, AnswerDelta)] == ["It is so."]
    assert len(result.rounds) == len(result.proposals) == len(boss.server.calls) == 10
    assert texts(result) == [f"expert {number}" for number in range(9)]
    assert [call.subtask for plan in result.plans for call in plan.calls] == [f"Part {n}?" for n in range(9)]
    assert result.planner.name == "boss"
    assert result.usage.output_tokens >= 10 * 7
    said = boss.conversation(-1)
    assert len(said) == 2 * 9
    body = boss.server.calls[-1].body
    if native:
        assert [tool["function"]["name"] for tool in body["tools"]] == ["expert"]
        assert body["tools"][0]["function"]["description"] == "Knows all."
        assert json.loads(said[-2]["tool_calls"][0]["function"]["arguments"]) == {"request": "Part 8?"}
        assert said[-1]["tool_call_id"] == said[-2]["tool_calls"][0]["id"]
        assert [each["content"] for each in said[-2:]] == ["Let me ask.", "expert 8"]
    else:
        assert "tools" not in body
        assert '<tools>\n{"type": "function", "function": {"name": "expert"' in body["messages"][0]["content"]
        call = '{"name": "expert", "arguments": {"request": "Part 8?"}}'
        assert said[-2]["content"] == f"Let me ask.\n<tool_call>\n{call}\n</tool_call>"
        assert said[-1] == {"role": "user", "content": "<tool_response>\nexpert 8\n</tool_response>"}


async def test_an_answer_without_a_call() -> None:
    boss = Orchestrator("<think>Easy.</think>\n\nFour.", native=False)
    async with boss.server:
        conductor = Conductor(boss.planner(), [expert()])
        result = await conductor.run("2 + 2?", sampling=Sampling(seed=3), forecast=True)
    assert boss.server.calls[0].body["seed"] == 3
    assert (result.answer, result.status, result.outcomes) == ("Four.", "ok", ())
    assert "This is the answer." in result.explain()


WRONG = {
    "json": '<tool_call>{"name": "expert", "arguments": {</tool_call>',
    "name": '<tool_call>{"name": "expart", "arguments": {"request": "Well?"}}</tool_call>',
    "silence": "<think>Well</think>\n",
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
async def test_an_invalid_message_is_repaired_once(wrong: str) -> None:
    right = '<tool_call>{"name": "expert", "arguments": {"request": "Well?"}}</tool_call>'
    boss = Orchestrator(right, wrong, right, "Yes.", mended=2)
    async with boss.server:
        result = await Conductor(boss.planner(native=False), [expert()]).run("What?")
        assert [call.role for call in result.proposals] == ["plan", "plan", "repair", "plan"]
        assert len(boss.conversation(-1)) == 4
        boss.messages = (right, wrong, wrong)
        failed = await Conductor(boss.planner(native=False), [expert()]).run("What?")
        assert (failed.status, failed.answer) == ("partial", "expert 0")
        assert problem_of(failed).code == "planner_unusable"
        assert "the planner wrote no answer by turn 1" in problem_of(failed).message


async def test_only_the_first_call_of_a_message_is_made() -> None:
    text = '<tool_call>{"name": "expert", "arguments": {"request": "%s"}}</tool_call>'
    one, two = text % 1, text % 2
    boss = Orchestrator(f"{one}\n{two}", two, "Done.", native=False)
    async with boss.server:
        result = await Conductor(boss.planner(), [expert()]).run("What?")
    assert texts(result) == ["expert 0", "expert 1"]
    assert "1 further tool call(s) were left out" in result.explain()
    assert two not in json.dumps(boss.conversation(1))


async def test_what_failed_is_told_and_is_in_the_status() -> None:
    boss = Orchestrator(calls("expert", "A"), calls("expert", "B"), calls("expert", "C"), "So-so.")
    async with boss.server:
        replies = ("fine", WorkerUnavailable("overloaded", status=503), "good")
        result = await Conductor(boss.planner(), [expert("expert", *replies)], retry=ONCE).run("What?")
        told = boss.conversation(-1)[3]["content"]
        assert told.startswith("(expert gave no result, failed: worker_unavailable: overloaded")
        assert (result.status, result.answer) == ("partial", "So-so.")
        told = "the answer lacks results: round 2: step 0 (expert): over"
        assert problem_of(result).message.startswith(told)
        boss.messages = (calls("expert", "A"), "Never said.")
        failing = expert("expert", WorkerUnavailable("overloaded", status=503))
        ended = await Conductor(boss.planner(), [failing], retry=ONCE, on_failure="fail").run("What?")
        assert (ended.status, ended.answer, len(ended.rounds)) == ("failed", "", 1)


LIMITS = {
    "rounds": ({}, {"rounds": 4}, 4, "the planner wrote no answer by turn 4"),
    "calls": ({"calls": 6}, {}, 3, "calls"),
    "steps": ({"steps": 3}, {}, 4, "Limits.steps"),
    "cost": ({"cost": 0.03}, {}, None, "Limits.cost"),
}


@pytest.mark.parametrize(("limits", "own", "turns", "told"), LIMITS.values(), ids=LIMITS)
async def test_limits(limits: dict[str, Any], own: dict[str, int], turns: int | None, told: str) -> None:
    """At a limit the latest output is the answer, and the problem says so; `Limits.rounds` plays no part."""
    boss = Orchestrator(*[calls("expert", f"Part {number}?") for number in range(60)])
    async with boss.server:
        planner = boss.planner(price=Price(input=10, output=10), **own)
        result = await Conductor(planner, [expert()], limits=Limits(rounds=1, **limits)).run("What?")
    assert (result.status, result.answer) == ("partial", texts(result)[-1] or texts(result)[-2])
    assert all(text in problem_of(result).message for text in (told, "this is the output of its latest step"))
    assert turns is None or len(boss.server.calls) == turns
    assert result.cost <= 0.03 or "cost" not in limits
    if "rounds" in own:
        assert "your last message" in boss.conversation(-1)[-1]["content"]
        assert "your last message" not in boss.conversation(-2)[-1]["content"]


async def test_labels() -> None:
    """The planner is held to the labels of what it reads; its calls and its answer have them, too."""
    secret, other = expert("vault", labels=frozenset({"secret"})), expert("web", labels=frozenset({"open"}))
    boss = Orchestrator(calls("vault", "Open."), calls("web", "Tell it."), "Done.", mended=2)
    never = Policy(rules=[Rule("secret", never=["boss"])])
    async with boss.server:
        barred = await Conductor(boss.planner(), [secret, other], policy=never).run("What?")
        assert len(boss.server.calls) == 1
        assert (barred.status, barred.answer, barred.labels) == ("partial", "vault 0", {"vault", "secret"})
        assert problem_of(barred).code == "planner_refused"
        boss.messages = (calls("vault", "Open."), calls("web", "Tell it."), calls("vault", "Again."), "Done.")
        inside = Policy(rules=[Rule("secret", never=["open"])])
        held = await Conductor(boss.planner(), [secret, other], policy=inside).run("What?")
        assert [call.role for call in held.proposals] == ["plan", "plan", "repair", "plan"]
        assert [tool["function"]["name"] for tool in boss.server.calls[2].body["tools"]] == ["vault"]
        assert other.requests == []
        assert (held.status, held.answer, held.labels) == ("ok", "Done.", {"boss", "vault", "secret"})


async def test_equal_calls_act_once_each() -> None:
    order = {"order": 7}
    turns = [("", "shop_refund", order), calls("shop_refund", json.dumps(order)), calls("expert", "Well?")]
    boss, shop, journal = Orchestrator(*turns, "Done."), Shop(name="shop.refund"), MemoryJournal()
    failing = expert("expert", WorkerTimeout("late"))
    async with boss.server:
        conductor = Conductor(boss.planner(rounds=3), [shop.worker, failing], journal=journal, retry=ONCE)
        first = await conductor.run("Refund it twice.", run_id="one")
        assert (first.status, shop.refunds, len(boss.server.calls)) == ("partial", [7, 7], 3)
        assert [action.end for action in first.actions] == ["done", "done"]
        assert boss.conversation(-1)[1]["content"] == "refunded 7"
        more = Conductor(boss.planner(rounds=4), [shop.worker, failing], journal=journal, retry=ONCE)
        second = await more.resume("one")
        assert (second.status, second.answer, second.problem) == ("ok", "Done.", None)
        assert (shop.refunds, len(boss.server.calls)) == ([7, 7], 4)
        assert [len(outcome.calls) for outcome in second.outcomes] == [0, 0, 2]
        again = await replay(more, [entry.event for entry in await journal.read("one")])
        assert (again.status, again.answer, shop.refunds) == ("ok", "Done.", [7, 7])
        assert len(boss.server.calls) == 4


async def test_each_turn_is_approved() -> None:
    """A person sees each call before it is made, may change it, and refuses one; the answer needs none."""
    asked: list[ApprovalRequest] = []

    def approve(request: ApprovalRequest) -> bool | str | Plan:
        asked.append(request)
        if len(asked) == 2:
            return Plan((request.plan.calls[0].__class__(0, "Rather this."),))
        return "no more" if request.plan.calls[0].subtask == "Bad" else True

    boss = Orchestrator(calls("expert", "A"), calls("expert", "B"), "Done.")
    async with boss.server:
        conductor = Conductor(boss.planner(), [expert()], policy=Policy(approve=approve))
        result = await conductor.run("What?")
        assert (result.status, result.answer) == ("ok", "Done.")
        calls_ = [(one.round, one.plan.calls[0].subtask, one.plan.calls[0].previous) for one in asked]
        assert calls_ == [(1, "A", False), (2, "B", True)]
        told = "(A person changed this call before it was made.)"
        assert boss.conversation(-1)[-1]["content"].startswith(told)
        boss.messages = (calls("expert", "A"), calls("expert", "Bad"))
        asked.append(asked[0])
        refused = await conductor.run("What?")
    assert (refused.status, refused.answer) == ("partial", "expert 0")
    assert problem_of(refused).message.startswith("the plan of round 2 was refused: no more")


async def test_what_needs_whole_plans_is_refused() -> None:
    boss, pool = Orchestrator("Hi."), [expert("a"), expert("b")]
    async with boss.server:
        planner = boss.planner()
        for policy in (Policy(required=["a"]), Policy(apart=[("a", "b")])):
            with pytest.raises(ConfigError, match="whole plans"):
                await Conductor(planner, pool).run("What?", policy=policy)
        with pytest.raises(ConfigError, match="fallback"):
            Conductor(RulePlanner(), pool, fallback_planner=planner)
        with pytest.raises(ConfigError, match="wrap"):
            CachedPlanner(planner)
        with pytest.raises(ConfigError, match="no plan before the run"):
            await Conductor(planner, pool).plan("What?")
        tool = {"type": "function", "function": {"name": "f", "parameters": {}}}
        with pytest.raises(ConfigError, match="leave out tools"):
            await Conductor(planner, pool).run("What?", tools=[tool])
    assert boss.server.calls == []
