"""Refusals, calls of tools that nobody offered, and bytes that are not UTF-8, by Podium's own client."""

import pytest
from contracts.odd_answers import ODD_ANSWERS, OF_OTHER_SERVERS, REFUSED, OddAnswer, check, check_wrong_url
from servers.chat_server import Call, ChatServer, Reply, chunk, completion, events, says, whole

from podium import Conductor
from podium.errors import PlannerError
from podium.execution import Retry
from podium.planners import ChatPlanner, FixedPlanner
from podium.types import Plan, Step
from podium.workers import ChatWorker, Endpoint, ScriptedWorker, Worker

pytestmark = pytest.mark.anyio


def _worker(url: str) -> Worker:
    return ChatWorker("m", endpoint=Endpoint(url))


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("odd", ODD_ANSWERS, ids=lambda odd: odd.name)
async def test_an_answer_that_is_none_has_its_own_code(odd: OddAnswer, *, stream: bool) -> None:
    """The worker is called once, and the problem says what came."""
    await check(_worker, odd, stream=stream)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_url_of_another_server_is_told(*, stream: bool) -> None:
    """By a worker."""
    await check_wrong_url(_worker, stream=stream)


async def test_a_planner_whose_url_leads_to_another_server_has_no_plan() -> None:
    """The error says what to check."""
    for reply in OF_OTHER_SERVERS:
        async with ChatServer(lambda _, reply=reply: reply) as server:
            planner = ChatPlanner(_worker(server.url))
            conductor = Conductor(planner, [ScriptedWorker("a", "A")], retry=Retry(attempts=1))
            with pytest.raises(PlannerError, match="does the base URL lead to an OpenAI-compatible server"):
                await conductor.run("What?")


async def test_a_fallback_answers_in_its_place() -> None:
    """Another worker may answer what the first refused."""
    plan = FixedPlanner(Plan((Step(0, "Say it."),)))
    async with ChatServer(REFUSED.reply) as server:
        pool = [_worker(server.url), ScriptedWorker("other", "with pleasure")]
        result = await Conductor(plan, pool, retry=Retry(fallbacks={"m": ("other",)})).run("What?")
        assert len(server.calls) == 1
    assert (result.answer, result.status) == ("with pleasure", "ok")


async def test_the_last_character_of_a_cut_stream_is_no_wrong_encoding() -> None:
    """A stream that breaks within a character is told as cut off."""
    frames = (chunk({"content": "half"}), b'data: {"choices": [{"delta": {"content": "caf\xc3')

    async with ChatServer(lambda call: events(*frames, done=False)) as server:
        pool = [_worker(server.url)]
        result = await Conductor(FixedPlanner(Plan((Step(0, "x"),))), pool, retry=Retry(attempts=1)).run(
            "What?", on_event=lambda event: None
        )
    assert result.problem is not None
    assert result.problem.code == "worker_broken"
    assert "finish_reason" in result.problem.message


@pytest.mark.parametrize("reason", ["insufficient_system_resource", "weird"])
async def test_an_unknown_finish_reason_is_a_failure(reason: str) -> None:
    """The answer may be cut: it is asked for again, and the problem names the reason."""
    async with ChatServer(lambda call: says(call, "half an answer", finish_reason=reason)) as server:
        plan, retry = FixedPlanner(Plan((Step(0, "x"),))), Retry(attempts=2, first_wait=0.01)
        result = await Conductor(plan, [_worker(server.url)], retry=retry).run("What?")
        assert len(server.calls) == 2
    assert result.problem is not None
    assert (result.status, result.problem.code) == ("failed", "worker_broken")
    assert reason in result.problem.message


async def test_a_planner_that_ends_for_an_unknown_reason_has_no_plan() -> None:
    """Its text may be cut, too."""
    row = '{"worker": 0, "subtask": "Say it.", "access": []}'
    async with ChatServer(lambda call: says(call, row, finish_reason="weird")) as server:
        planner = ChatPlanner(_worker(server.url))
        conductor = Conductor(planner, [ScriptedWorker("a", "A")], retry=Retry(attempts=1))
        with pytest.raises(PlannerError, match="weird") as caught:
            await conductor.run("What?")
    assert caught.value.code == "planner_unreachable"


async def test_a_legacy_function_call_is_a_call_of_a_tool() -> None:
    """OpenAI's form before `tool_calls` has the code of calls that nobody offered, after one call."""
    body = completion(None, finish_reason="function_call")
    body["choices"][0]["message"]["function_call"] = {"name": "look", "arguments": "{}"}
    async with ChatServer(lambda call: whole(body)) as server:
        result = await Conductor(FixedPlanner(Plan((Step(0, "x"),))), [_worker(server.url)]).run("What?")
        assert len(server.calls) == 1
    assert result.problem is not None
    assert result.problem.code == "answer_tool_calls"


async def test_bytes_after_the_end_of_an_answer_do_not_count() -> None:
    """An answer whose end was seen is an answer."""
    frames = (chunk({"content": "whole"}), chunk({}, finish_reason="stop"), b"data: \xe9\n\n")
    async with ChatServer(lambda call: events(*frames)) as server:
        planner = FixedPlanner(Plan((Step(0, "x"),)))
        result = await Conductor(planner, [_worker(server.url)]).run("What?", on_event=lambda event: None)
    assert (result.answer, result.status) == ("whole", "ok")


async def test_a_filter_that_refuses_the_prompt_is_a_refusal() -> None:
    """Some servers answer 400 with a code of their filter."""
    body = {"error": {"code": "content_filter", "message": "The prompt was filtered."}}
    async with ChatServer(lambda call: whole(body, status=400)) as server:
        planner = FixedPlanner(Plan((Step(0, "x"),)))
        result = await Conductor(planner, [_worker(server.url)]).run("What?")
        assert len(server.calls) == 1
    assert result.problem is not None
    assert result.problem.code == "answer_refused"


@pytest.mark.parametrize("name", ["look", "jump"])
async def test_tools_that_were_offered_may_be_called(name: str) -> None:
    """The calls are the caller's to make, also one of another name."""
    offered = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    call = {"id": "1", "type": "function", "function": {"name": name, "arguments": "{}"}}

    def reply(asked: Call) -> Reply:
        return says(asked, "", tool_calls=[call], finish_reason="tool_calls")

    async with ChatServer(reply) as server:
        planner = FixedPlanner(Plan((Step(0, "x"),)))
        result = await Conductor(planner, [_worker(server.url)]).run("What?", tools=[offered])
    assert result.status == "ok"
    assert [each["function"]["name"] for each in result.tool_calls] == [name]


@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_a_hosted_conductor_may_refuse(api: str) -> None:
    """In the field of either API."""
    chat = completion(None)
    chat["choices"][0]["message"]["refusal"] = "I would rather not"
    part = {"type": "refusal", "refusal": "I would rather not"}
    response = {"status": "completed", "output": [{"type": "message", "content": [part]}]}
    async with ChatServer(lambda call: whole(chat if api == "chat" else response)) as server:
        worker = ChatWorker("fugu", endpoint=Endpoint(server.url), api=api)  # type: ignore[arg-type]  # parametrized
        hosted = Conductor.of(worker)
        result = await hosted.run("What?")
    assert result.problem is not None
    assert (result.status, result.problem.code) == ("failed", "answer_refused")
    assert "I would rather not" in result.problem.message
