"""Steps with `returns`: how workers are asked, what their answers are, and what becomes of a misfit."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from core.actors import boss, in_turn, problem_of
from servers.chat_server import ChatServer, says

from podium import Card, ChatWorker, Conductor, Endpoint, FunctionWorker, Plan, Result, ScriptedWorker, Step
from podium.errors import ConfigError, PlanInvalid
from podium.hosts import ToolWorker
from podium.planners import FixedPlanner
from podium.types import AnswerDelta, Completion
from podium.workers import FREE, Worker

pytestmark = pytest.mark.anyio

VERDICT = {"verdict": "ok|bad", "notes": ["string"]}
GOOD = '{"verdict": "ok", "notes": ["a", "ü"]}'
ELSEWHERE = {"$ref": "#/$defs/x", "$defs": {"x": {"$ref": "https://example.com/x"}}}
COMPACT = '{"verdict":"ok","notes":["a","ü"]}'


def typed(returns: Any, subtask: str = "Judge it.", worker: int = 0) -> Step:
    return Step(worker, subtask, returns=returns)


async def run(steps: Sequence[Step], *workers: Worker, **options: Any) -> Result:
    async with Conductor(FixedPlanner(Plan(tuple(steps))), list(workers), **options) as conductor:
        return await conductor.run("Why?")


@pytest.mark.parametrize(
    ("answer", "returns", "text"),
    [
        (GOOD, VERDICT, COMPACT),
        (f"Here it is:\n```json\n{GOOD}\n```\nDone {{so}} far.", VERDICT, COMPACT),
        ('Found: [{"a": 1}, {"a": 2}]!', [{"a": "integer"}], '[{"a":1},{"a":2}]'),
        (f"As in [1], it is {GOOD}.", VERDICT, COMPACT),
        ("7.0", "integer", "7.0"),
        ("7", "string", '"7"'),
        ("good", "good|bad", '"good"'),
        ('say {"a": 1}', "string", '"say {\\"a\\": 1}"'),
        ('{"a": "\\ud800"}', {"a": "string"}, '{"a":"\N{REPLACEMENT CHARACTER}"}'),
    ],
)
async def test_an_output_is_the_json_in_the_answer(answer: str, returns: Any, text: str) -> None:
    worker = in_turn("a", answer)
    result = await run([typed(returns)], worker)
    assert (result.status, result.answer, len(worker.requests)) == ("ok", text, 1)


@pytest.mark.parametrize(
    ("answer", "returns", "why"),
    [
        ('{"verdict": "maybe", "notes": []}', VERDICT, "$.verdict: 'maybe' is not one of ['ok', 'bad']"),
        ('{"tags": ["a"]}', ["string"], "is not of type 'array'"),  # no part of a value is taken for it
        ('{"n": 1e999}', {"n": "number"}, "is not of type 'object'"),
        ("{}", ELSEWHERE, "cannot be resolved"),
    ],
)
async def test_a_misfit_is_asked_again_once(answer: str, returns: Any, why: str) -> None:
    worker = in_turn("a", answer)
    result = await run([typed(returns)], worker)
    (outcome,) = result.outcomes
    assert (result.status, outcome.status, outcome.attempts) == ("failed", "failed", 2)
    assert problem_of(outcome).code == "bad_output"
    assert problem_of(outcome).message.startswith("the answer of worker 'a' ")
    assert why in problem_of(outcome).message
    first, second = (request.messages[-1].text for request in worker.requests)
    assert why not in first
    assert second.startswith(first)
    assert why in second
    assert [call.problem and call.problem.code for call in outcome.calls] == ["bad_output", "bad_output"]
    assert outcome.usage.output_tokens == sum(call.usage.output_tokens for call in outcome.calls) > 0


async def test_a_cut_answer_is_put_right() -> None:
    result = await run([typed(VERDICT)], in_turn("a", Completion(GOOD[:9], "length"), GOOD))
    assert (result.status, result.answer) == ("ok", COMPACT)
    result = await run([typed(VERDICT)], in_turn("a", Completion(GOOD[:9], "length")))
    assert (result.status, problem_of(result.outcomes[0]).code) == ("failed", "bad_output")


async def test_code_is_not_asked_and_its_value_is_taken_as_it_is() -> None:
    values: list[Any] = [{"verdict": "ok", "notes": ["a", "ü"]}, {"verdict": "ok"}]
    worker = FunctionWorker(lambda _: values.pop(0), card=Card(name="f", price=FREE))
    assert (await run([typed(VERDICT)], worker)).answer == COMPACT
    result = await run([typed(VERDICT)], worker)
    assert "'notes' is a required property" in problem_of(result.outcomes[0]).message
    assert result.outcomes[0].attempts == 1
    agent = in_turn(Card(name="agent", returns=VERDICT, price=FREE), GOOD, "no")
    assert (await run([typed(VERDICT)], agent)).answer == COMPACT
    assert "schema" not in agent.requests[0].messages[-1].text
    assert (await run([typed(VERDICT)], agent)).outcomes[0].attempts == 1


@pytest.mark.parametrize("provider", ["vllm", "compatible"])
async def test_a_model_is_asked_in_the_way_of_its_server(provider: str) -> None:
    text = '{"value": "good"}' if provider == "vllm" else '"good"'
    async with ChatServer(lambda call: says(call, text)) as server:
        worker = ChatWorker("m", endpoint=Endpoint(server.url, provider=provider))
        result = await run([typed("good|bad")], worker)
        (call,) = server.calls
    assert result.answer == '"good"'
    assert ('"enum":["good","bad"]' in call.body["messages"][-1]["content"]) == (provider == "compatible")
    if provider == "vllm":
        schema = call.body["structured_outputs"]["json"]
        assert schema["properties"]["value"] == {"type": "string", "enum": ["good", "bad"]}
    else:
        assert "structured_outputs" not in call.body


FIND = typed({"files": [{"path": "string"}], "n": "integer"}, "Find.")
FOUND = '{"files": [{"path": "a.py"}, {"path": "{{0.n}} \\"b\\""}], "n": 2}'


async def test_parts_of_outputs_are_filled_in_for_every_worker() -> None:
    called: list[Mapping[str, Any]] = []

    async def call(arguments: dict[str, Any]) -> str:
        called.append(arguments)
        return "done"

    kinds = {"path": {"type": "string"}, "n": {"type": "integer"}, "all": {"type": "array"}}
    schema = {"properties": kinds, "required": list(kinds)}
    tool = ToolWorker(schema, call, card=Card(name="tool", price=FREE))
    model = in_turn("a", FOUND, "read")
    arguments = '{"path": "x/{{0.files.1.path}}", "n": "{{0.n}}", "all": "{{0.files}}"}'
    steps = [FIND, Step(0, "Read {{0.files.0.path}}, {{0.n}}, {{0}}.", (0,)), Step(1, arguments, (0, 1))]
    assert (await run(steps, model, tool)).status == "ok"
    assert model.requests[1].messages[-1].text.endswith("part:\nRead a.py, 2, the output of step 0.")
    assert called == [{"path": 'x/{{0.n}} "b"', "n": 2, "all": [{"path": "a.py"}, {"path": '{{0.n}} "b"'}]}]


async def test_an_untyped_output_has_parts_if_the_card_of_its_worker_has_a_type() -> None:
    code = FunctionWorker(lambda _: {"n": 7}, card=Card(name="f", price=FREE, returns={"n": "integer"}))
    model = in_turn("a", "seven")
    steps = (Step(0, "Count."), Step(1, "Say {{0.n}}.", (0,)))
    assert (await run(steps, code, model)).status == "ok"
    assert "Say 7." in model.requests[0].messages[-1].text
    other = FunctionWorker(lambda _: "7", card=Card(name="f", price=FREE))
    plan = Plan(steps)
    with pytest.raises(PlanInvalid, match="text without a type"):
        await Conductor(boss("unused"), [other, model]).run(plan)
    with pytest.raises(ConfigError, match="worker 'f': returns has the unknown word 'integr'"):
        Card(name="f", returns={"n": "integr"})


async def test_a_reference_that_leads_to_nothing_fails_the_step_before_any_call() -> None:
    model = in_turn("a", '{"files": [], "n": 0}', "never")
    outcome = (await run([FIND, Step(0, "Read {{0.files.5.path}}.", (0,))], model)).outcomes[1]
    assert (outcome.status, problem_of(outcome).code, outcome.attempts) == ("failed", "bad_value", 0)
    told = "{{0.files.5.path}} leads to nothing: there is no '5' in a list of 0"
    assert told in problem_of(outcome).message
    assert len(model.requests) == 1


async def test_a_typed_answer_is_streamed_when_it_is_complete() -> None:
    replies = {"Your last answer": GOOD, "Judge": "no"}
    conductor = Conductor(boss("unused"), [ScriptedWorker("a", replies, piece=2)])
    events = [event async for event in conductor.stream(Plan((typed(VERDICT),)))]
    assert [event.text for event in events if isinstance(event, AnswerDelta)] == [COMPACT]
    assert events[-1].result.answer == COMPACT


async def test_an_action_is_not_repeated_for_its_output() -> None:
    acted = FunctionWorker(lambda _: "sent", card=Card(name="mail", price=FREE), acts=True)
    (outcome,) = (await run([typed({"id": "integer"})], acted)).outcomes
    assert (outcome.status, outcome.action, outcome.attempts) == ("failed", "done", 1)
    assert problem_of(outcome).code == "bad_output"
