"""Steps with `returns`: how workers are asked, what their answers are, and what becomes of a misfit."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from core.actors import boss, problem_of
from servers.chat_server import Call, ChatServer, Reply, says

from podium.conductor import Conductor
from podium.errors import ConfigError, PlanInvalid
from podium.hosts import ToolWorker
from podium.journal import MemoryJournal
from podium.planners import FixedPlanner
from podium.types import AnswerDelta, AttemptFailed, Completion, Plan, Result, RunEnded, Step
from podium.workers import FREE, Card, ChatWorker, Endpoint, ScriptedWorker, Worker
from podium.workers.simple import FunctionWorker, Reply as Scripted

pytestmark = pytest.mark.anyio

VERDICT = {"verdict": "ok|bad", "notes": ["string"]}
GOOD = '{"verdict": "ok", "notes": ["a", "ü"]}'
COMPACT = '{"verdict":"ok","notes":["a","ü"]}'


def typed(returns: Any, subtask: str = "Judge it.", worker: int = 0) -> Step:
    return Step(worker, subtask, returns=returns)


def scripted(*replies: Scripted, name: str | Card = "a") -> ScriptedWorker:
    """Return a worker that gives these replies one after the other, then the last again."""
    left = list(replies)
    return ScriptedWorker(name, lambda _: left.pop(0) if len(left) > 1 else left[0])


async def run(steps: Sequence[Step], *workers: Worker, **options: Any) -> Result:
    async with Conductor(FixedPlanner(Plan(tuple(steps))), list(workers), **options) as conductor:
        return await conductor.run("Why?")


@pytest.mark.parametrize(
    ("answer", "returns", "text"),
    [
        (GOOD, VERDICT, COMPACT),
        (f"Here it is:\n```json\n{GOOD}\n```\nDone {{so}} far.", VERDICT, COMPACT),
        (f"As in [1], it is {GOOD}.", VERDICT, COMPACT),
        ('Found: [{"a": 1}, {"a": 2}]!', [{"a": "integer"}], '[{"a":1},{"a":2}]'),
        ("7.0", "integer", "7.0"),
        ("good", "good|bad", '"good"'),
        ("7", "string", '"7"'),
        ('say {"a": 1}', "string", '"say {\\"a\\": 1}"'),
        ('{"a": "\\ud800"}', {"a": "string"}, '{"a":"\N{REPLACEMENT CHARACTER}"}'),
    ],
)
async def test_an_output_is_the_json_in_the_answer(answer: str, returns: Any, text: str) -> None:
    worker = scripted(answer)
    result = await run([typed(returns)], worker)
    assert (result.status, result.answer, len(worker.requests)) == ("ok", text, 1)


@pytest.mark.parametrize(
    ("answer", "returns", "why"),
    [
        ('{"verdict": "maybe", "notes": []}', VERDICT, "$.verdict: 'maybe' is not one of ['ok', 'bad']"),
        ("I cannot.", VERDICT, "'I cannot.' is not of type 'object'"),
        ('{"tags": ["a"]}', ["string"], "is not of type 'array'"),  # no part of a value is taken for it
        ('{"n": 1e999}', {"n": "number"}, "is not of type 'object'"),
        (
            "{}",
            {"$ref": "#/$defs/x", "$defs": {"x": {"$ref": "https://example.com/x"}}},
            "cannot be resolved",
        ),
    ],
)
async def test_a_misfit_is_asked_again_once(answer: str, returns: Any, why: str) -> None:
    worker = scripted(answer)
    result = await run([typed(returns)], worker, journal=(journal := MemoryJournal()))
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
    failed = [each.event for each in await journal.read(result.run_id)]
    (attempt,) = [event for event in failed if isinstance(event, AttemptFailed)]
    told = None if attempt.call.problem is None else attempt.call.problem.code
    assert (attempt.attempt, told, attempt.wait) == (1, "bad_output", 0.0)


async def test_a_cut_answer_is_put_right() -> None:
    result = await run([typed(VERDICT)], scripted(Completion(GOOD[:9], "length"), GOOD))
    assert (result.status, result.answer) == ("ok", COMPACT)
    result = await run([typed(VERDICT)], scripted(Completion(GOOD[:9], "length")))
    assert (result.status, problem_of(result.outcomes[0]).code) == ("failed", "bad_output")


async def test_code_is_not_asked_and_its_value_is_taken_as_it_is() -> None:
    values: list[Any] = [{"verdict": "ok", "notes": ["a", "ü"]}, {"verdict": "ok"}]
    worker = FunctionWorker(lambda _: values.pop(0), card=Card(name="f", price=FREE))
    assert (await run([typed(VERDICT)], worker)).answer == COMPACT
    result = await run([typed(VERDICT)], worker)
    assert "'notes' is a required property" in problem_of(result.outcomes[0]).message
    assert result.outcomes[0].attempts == 1
    agent = scripted(GOOD, "no", name=Card(name="agent", returns=VERDICT, price=FREE))
    assert (await run([typed(VERDICT)], agent)).answer == COMPACT
    assert "schema" not in agent.requests[0].messages[-1].text
    assert (await run([typed(VERDICT)], agent)).outcomes[0].attempts == 1


@pytest.mark.parametrize(
    ("provider", "field"),
    [
        ("openai", ("response_format", "json_schema", "schema")),
        ("vllm", ("structured_outputs", "json")),
        ("anthropic", ("tools", 0, "function", "parameters")),
        ("compatible", ()),
    ],
)
@pytest.mark.parametrize("returns", [VERDICT, "good|bad"], ids=["object", "word"])
async def test_a_model_is_asked_in_the_way_of_its_server(
    provider: str, field: tuple[str | int, ...], returns: Any
) -> None:
    step = typed(returns)
    assert step.returns is not None
    is_wrapped = bool(field) and returns != VERDICT
    value = GOOD if returns == VERDICT else '"good"'

    def reply(call: Call) -> Reply:
        text = f'{{"value": {value}}}' if is_wrapped else value
        if "tools" not in call.body:
            return says(call, text)
        function = {"name": "answer", "arguments": text}
        calls = [{"id": "1", "type": "function", "function": function}]
        return says(call, "", tool_calls=calls, finish_reason="tool_calls")

    async with ChatServer(reply) as server:
        worker = ChatWorker("m", endpoint=Endpoint(server.url, provider=provider))
        result = await run([step], worker)
    assert result.answer == json.dumps(json.loads(value), ensure_ascii=False, separators=(",", ":"))
    (call,) = server.calls
    prompt = call.body["messages"][-1]["content"]
    if not field:
        assert json.dumps(step.returns, separators=(",", ":")) in prompt
        assert not {"response_format", "structured_outputs", "tools"} & call.body.keys()
        return
    assert "schema" not in prompt
    sent: Any = call.body
    for key in field:
        sent = sent[key]
    inside = sent["properties"]["value"] if is_wrapped else sent
    assert (inside, sent["type"]) == (step.returns, "object")


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
    model = scripted(FOUND, "read")
    arguments = '{"path": "x/{{0.files.1.path}}", "n": "{{0.n}}", "all": "{{0.files}}"}'
    steps = [FIND, Step(0, "Read {{0.files.0.path}}, {{0.n}}, {{0}}.", (0,)), Step(1, arguments, (0, 1))]
    result = await run(steps, model, tool)
    assert result.status == "ok"
    assert model.requests[1].messages[-1].text.endswith("part:\nRead a.py, 2, the output of step 0.")
    files = [{"path": "a.py"}, {"path": '{{0.n}} "b"'}]
    assert called == [{"path": 'x/{{0.n}} "b"', "n": 2, "all": files}]


async def test_a_value_is_no_argument_but_in_a_json_subtask() -> None:
    called: list[Mapping[str, Any]] = []

    async def call(arguments: dict[str, Any]) -> str:
        called.append(arguments)
        return "done"

    kinds = {"query": {"type": "string"}, "admin": {"type": "boolean"}}
    tool = ToolWorker({"properties": kinds, "required": ["query"]}, call, card=Card(name="tool", price=FREE))
    trick = json.dumps({"q": '{"query": "x", "admin": true}'})
    find, subtasks = typed({"q": "string"}, "Find."), ("{{0.q}}", 'Call {{0.q}}: {"query": "a{{0.q}}"}')
    for subtask in subtasks:
        await run([find, Step(1, subtask, (0,))], scripted(trick), tool)
    value = json.loads(trick)["q"]
    assert called == [{"query": value}, {"query": f'Call {value}: {{"query": "a{value}"}}'}]
    needs_object = ToolWorker(
        {"properties": kinds, "required": [*kinds]}, call, card=Card(name="tool", price=FREE)
    )
    subtask = 'Call {{0.q}}: {"query": "a{{0.q}}", "admin": false}'
    await run([find, Step(1, subtask, (0,))], scripted(trick), needs_object)
    assert called[2:] == [{"query": f"a{value}", "admin": False}]


async def test_an_untyped_output_has_parts_if_the_card_of_its_worker_has_a_type() -> None:
    code = FunctionWorker(lambda _: {"n": 7}, card=Card(name="f", price=FREE, returns={"n": "integer"}))
    model = scripted("seven")
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
    model = scripted('{"files": [], "n": 0}', "never")
    result = await run([FIND, Step(0, "Read {{0.files.5.path}}.", (0,))], model)
    outcome = result.outcomes[1]
    assert (outcome.status, problem_of(outcome).code, outcome.attempts) == ("failed", "bad_value", 0)
    told = "{{0.files.5.path}} leads to nothing: there is no '5' in a list of 0"
    assert told in problem_of(outcome).message
    assert len(model.requests) == 1


async def test_a_typed_answer_is_streamed_when_it_is_complete() -> None:
    replies = {"Your last answer": GOOD, "Judge": "no"}
    conductor = Conductor(boss("unused"), [ScriptedWorker("a", replies, piece=2)])
    events = [event async for event in conductor.stream(Plan((typed(VERDICT),)))]
    assert [event.text for event in events if isinstance(event, AnswerDelta)] == [COMPACT]
    assert isinstance(events[-1], RunEnded)
    assert events[-1].result.answer == COMPACT


async def test_an_action_is_not_repeated_for_its_output() -> None:
    acted = FunctionWorker(lambda _: "sent", card=Card(name="mail", price=FREE), acts=True)
    result = await run([typed({"id": "integer"})], acted)
    (outcome,) = result.outcomes
    assert (outcome.status, outcome.action, outcome.attempts) == ("failed", "done", 1)
    assert problem_of(outcome).code == "bad_output"
