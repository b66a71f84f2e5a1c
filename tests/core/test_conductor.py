"""A conductor's face: what it takes and returns, and a conductor of one worker, such as a hosted one."""

from typing import Any, Self

import pytest
from core.actors import ONCE, boss, pair, plan_of, rows
from servers.chat_server import Call, ChatServer, Reply, events, says, whole

from podium import Conductor, FunctionWorker, Limits, Message, Plan, Sampling, ScriptedWorker, Step
from podium.errors import LimitExceeded, PlanInvalid, PlannerError, QueryError
from podium.journal import MemoryJournal
from podium.planners import ChatPlanner
from podium.policy import Policy, Rule
from podium.types import AnswerDelta, Completion
from podium.usage import Usage
from podium.workers import FREE, Card, ChatWorker, Endpoint, Price, Worker

pytestmark = pytest.mark.anyio

GOOD = rows((0, "find", ()), (1, "tell", (0,)))
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "high"}}
ASKED = [{"role": "user", "content": [{"type": "text", "text": "What is on it?"}, IMAGE]}]
KEY = "fish_" + "0123456789abcdef" * 4
READ = {"cached_tokens": 0, "orchestration_input_tokens": 30, "orchestration_input_cached_tokens": 3}
USAGE = {"input_tokens": 20, "output_tokens": 7, "total_tokens": 63, "input_tokens_details": READ}
USAGE |= {"output_tokens_details": {"orchestration_output_tokens": 6}}


async def test_a_plan_is_run_as_it_is() -> None:
    result = await Conductor(boss(GOOD), pair()).run(plan_of((1, "go", ())))
    assert result.answer == "B"
    assert not result.proposals
    assert "given by the user" in result.explain()


@pytest.mark.parametrize(
    ("plan", "code"),
    [
        (Plan(()), "nothing_to_keep"),
        (plan_of((2, "go", ())), "unknown_worker"),
        (plan_of(*[(0, "go", ())] * 33), "too_many_steps"),
    ],
)
async def test_a_plan_that_does_not_fit_is_refused_before_anything_runs(plan: Plan, code: str) -> None:
    pool = pair()
    with pytest.raises(PlanInvalid) as caught:
        await Conductor(boss(GOOD), pool).run(plan)
    assert (caught.value.code, pool[0].requests) == (code, [])


SAID = {"system": "Be brief.", "user": "Who are you?", "assistant": "A bot."}
TALK = [*(Message(role, text) for role, text in SAID.items()), Message("user", "Why is the sky blue?")]
MEMORIES: list[tuple[Any, list[int], str]] = [
    ("all", [0, 1, 2, 3], ""),
    ("question", [3], "not shown the whole conversation"),
    ("none", [], "not shown the question"),
    (1, [2, 3], "not shown the whole conversation"),
    (lambda talk: [talk[0], talk[-1]], [0, 3], "not shown the whole conversation"),
]


@pytest.mark.parametrize(("memory", "seen", "told"), MEMORIES)
async def test_a_worker_is_shown_what_its_card_says(memory: Any, seen: list[int], told: str) -> None:
    worker, model = ScriptedWorker(Card(name="w", memory=memory), "done"), ScriptedWorker("boss", GOOD)
    result = await Conductor(ChatPlanner(model), [worker, ScriptedWorker("other", "done")]).run(TALK)
    assert result.status == "ok"
    assert worker.requests[0].step_input.query == tuple(TALK[number] for number in seen)
    prompt = "".join(message.text for message in model.requests[0].messages)
    assert all(message.text in prompt for message in TALK)
    assert told in prompt
    assert bool(told) == ("is not shown" in prompt)


def _conversations() -> dict[str, list[Any]]:
    asked = {"role": "user", "content": "And now?"}
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    called = {"role": "assistant", "content": None, "tool_calls": [call]}
    return {
        "question": ASKED,
        "assistant": [asked, {"role": "assistant", "content": [IMAGE]}, asked],
        "tool": [asked, called, {"role": "tool", "tool_call_id": "c", "content": [IMAGE]}],
        "earlier tool": [asked, called, {"role": "tool", "tool_call_id": "c", "content": [IMAGE]}, asked],
    }


@pytest.mark.parametrize("at", _conversations())
async def test_images_of_tools_and_assistants(at: str) -> None:
    asked, card = _conversations()[at], Card(name="seeing", parts=frozenset({"image_url"}))
    for number in (0, 1):
        pool = [ScriptedWorker(card, "a cat"), ScriptedWorker("blind", "a guess")]
        await Conductor(boss(rows((number, "look", ()))), pool).run(asked)
        shown = [part for said in pool[number].requests[0].messages for part in said.content]
        assert (IMAGE in shown, "attachment(s)" in "".join(map(str, shown))) == (number == 0, number == 1)


@pytest.mark.parametrize("at", ["earlier tool", "denied", "hidden", "nested", "plan"])
async def test_an_image_that_no_worker_can_see_is_refused(at: str) -> None:
    model, blind = ScriptedWorker("model", rows((0, "look", ()))), ScriptedWorker("blind", "a guess")
    planner = ChatPlanner(model)
    pool: list[Worker] = [blind]
    asked: Any = _conversations().get(at, ASKED)
    policy, show_question = None, True
    if at in ("denied", "hidden"):
        pool.append(ScriptedWorker(Card(name="seeing", parts=frozenset({"image_url"})), "a cat"))
        policy, show_question = Policy(denied=["seeing"]) if at == "denied" else None, at != "hidden"
    if at == "nested":
        pool = [Conductor(planner, pool)]
    if at == "plan":
        asked = Plan((Step(0, "look"),), query=(Message.from_wire(ASKED[0]),))
    conductor = Conductor(planner, pool, policy=policy, show_question=show_question)
    with pytest.raises(QueryError, match="'image_url' to the `parts` of a worker"):
        await conductor.run(asked)
    assert (model.requests, blind.requests) == ([], [])


class _Opened(ScriptedWorker):
    open = most = 0
    """How often it is open, and was at most."""

    async def __aenter__(self) -> Self:
        self.open += 1
        self.most = max(self.most, self.open)
        return self

    async def __aexit__(self, *error: object) -> None:
        self.open -= 1


async def test_workers_are_open_while_they_are_needed() -> None:
    worker = _Opened("opened", lambda _: "A" if worker.open else "closed")
    with pytest.raises(PlannerError):
        await Conductor(boss("no plan"), [worker]).run("What?")
    assert (worker.open, worker.most) == (0, 1)
    async with Conductor(boss(rows((0, "go", ()))), [worker]) as conductor:
        assert ((await conductor.run("What?")).answer, worker.open) == ("A", 1)
    assert worker.open == 0


async def test_costs_are_told_by_worker_and_in_total() -> None:
    """A card's price makes the cost of a call; a worker may state it; an unknown cost is never 0."""
    priced = Card(name="priced", price=Price(input=10.0, output=30.0, cached_input=1.0))
    usage = Usage(input_tokens=1000, output_tokens=100, cached_tokens=400)
    pool = [ScriptedWorker(priced, Completion("A", usage=usage))]
    pool += [ScriptedWorker(Card(name="knows"), Completion("B", usage=usage, cost=0.5))]
    result = await Conductor(boss(""), pool).run(plan_of((0, "x", ()), (1, "y", (0,))))
    expected = (600 * 10 + 400 * 1 + 100 * 30) / 1e6
    assert result.cost_by_worker == {"priced": pytest.approx(expected), "knows": 0.5}
    assert (result.cost, result.usage.total_tokens) == (pytest.approx(expected + 0.5), 2200)
    assert not result.usage.estimated
    pool.append(ScriptedWorker(Card(name="unknown"), "C"))
    result = await Conductor(boss(""), pool).run(plan_of((0, "x", ()), (2, "y", (0,))))
    assert (result.cost, result.cost_by_worker["unknown"]) == (None, None)
    assert "cost unknown" in result.explain()


WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
PIXEL = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
CONVERSATION = [
    {"role": "system", "content": "Be short."},
    {"role": "user", "content": "Where is it wet?"},
    {"role": "assistant", "content": "In Oslo."},
    {"role": "user", "content": [{"type": "text", "text": "And this?"}, PIXEL]},
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "rain"},
]


def reply(call: Call) -> Reply:
    """Answer in the API of the request, whole or streamed."""
    if call.path.endswith("/chat/completions"):
        return says(call, "forty-two")
    text = {"type": "output_text", "text": "forty-two"}
    body = {"object": "response", "status": "completed", "model": "fugu-ultra-v2.0", "error": None}
    body |= {"output": [{"type": "message", "role": "assistant", "content": [text]}], "usage": USAGE}
    if not call.body["stream"]:
        return whole(body)
    deltas = [{"type": "response.output_text.delta", "delta": piece} for piece in ("for", "ty-two")]
    end = {"type": "response.completed", "response": body}
    return events({"type": "response.created"}, *deltas, end, done=False)


def hosted(server: ChatServer, api: Any = "responses", sampling: Any = None, **more: Any) -> Conductor:
    """Return a conductor of the model that `server` serves."""
    card = Card(name="fugu", price=Price(input=5, output=30), parts=frozenset({"image_url"}))
    endpoint = Endpoint(server.url, api_key=KEY)
    worker = ChatWorker("fugu", endpoint=endpoint, card=card, sampling=sampling or Sampling(), api=api)
    return Conductor.of(worker, **{"retry": ONCE, **more})


async def test_an_answer_streams_and_its_tokens_are_whole() -> None:
    """The pieces come as they are written; the server's orchestration tokens are counted and paid."""
    async with ChatServer(reply) as server:
        conductor = hosted(server, sampling=Sampling(effort="xhigh", max_tokens=500))
        seen = [event async for event in conductor.stream("What is six times seven?")]
        (call,) = server.calls
    assert [event.text for event in seen if isinstance(event, AnswerDelta)] == ["for", "ty-two"]
    result = seen[-1].result  # type: ignore[union-attr]  # the last event is the end
    assert (result.answer, result.status, result.usage.total_tokens) == ("forty-two", "ok", 63)
    assert result.usage.orchestration_cached_tokens == 3
    assert result.cost == pytest.approx((50 * 5 + 13 * 30) / 1e6)
    assert call.path.endswith("/responses")
    assert call.headers["authorization"] == f"Bearer {KEY}"
    assert (call.body["reasoning"], call.body["max_output_tokens"]) == ({"effort": "xhigh"}, 500)
    assert KEY not in result.explain()


async def test_a_function_is_sent_the_question() -> None:
    conductor = Conductor.of(FunctionWorker(lambda given: given.subtask, card=Card(name="f", price=FREE)))
    for context in ({}, {"x": "text"}):
        assert (await conductor.run("Why {{0}}, {{x}}?", context=context)).answer == "Why {{0}}, {{x}}?"


async def test_a_conversation_reaches_the_model_unchanged() -> None:
    """With its system prompt, images and tool results; a question alone without anything about a plan."""
    async with ChatServer(reply) as server:
        for api in ("chat", "responses"):
            await hosted(server, api).run(CONVERSATION, tools=[WEATHER])
            await hosted(server, api).run("Why?")
        chat, question, responses, item = (call.body for call in server.calls)
    assert (chat["messages"], question["messages"]) == (CONVERSATION, [{"role": "user", "content": "Why?"}])
    assert item["input"] == [{"role": "user", "content": "Why?"}]
    image = {"type": "input_image", "image_url": "data:image/png;base64,AA=="}
    asked = {"role": "user", "content": [{"type": "input_text", "text": "And this?"}, image]}
    called = {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "c1", "output": "rain"}
    assert responses["input"] == [*CONVERSATION[:3], asked, called, result]


async def test_its_runs_are_recorded_and_limited() -> None:
    """A journal, limits, labels and a policy apply as to any conductor, and other plans run as they are."""
    journal, rules = MemoryJournal(), Policy(rules=[Rule("secret", never="fugu")], labels="secret")
    async with ChatServer(reply) as server:
        conductor = hosted(server, name="hosted", journal=journal)
        first = await conductor.run("hello", run_id="r")
        assert ((await conductor.resume("r")).answer, conductor.card.name) == (first.answer, "hosted")
        assert len(server.calls) == 1
        costly = await hosted(server, limits=Limits(cost=1e-9)).run("hello")
        assert costly.problem.code == LimitExceeded.code
        with pytest.raises(PlannerError, match="allows no worker"):
            await hosted(server, policy=rules).run("hello", labels=["secret"])
