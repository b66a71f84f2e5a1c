"""A conductor as a chat model: what it answers, what it tells of itself, what it refuses."""

import json
from typing import Any
from uuid import uuid4

import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.callbacks import UsageMetadataCallbackHandler
from langchain_core.globals import set_llm_cache
from langchain_core.messages import AIMessage
from pydantic import ValidationError

from langchain_podium.chat_models import ChatPodium
from podium import ChatPlanner, Conductor, Limits, ScriptedWorker
from podium.errors import ConfigError, RunFailed, WorkerBroken
from podium.journal import MemoryJournal
from podium.types import Completion
from podium.usage import Usage
from podium.workers import Request

pytestmark = pytest.mark.anyio

PLAN = (
    '{"worker": 0, "subtask": "Look it up.", "access": []}\n'
    '{"worker": 1, "subtask": "Answer.", "access": [0]}\n'
)


def _planner(plan: str = PLAN) -> ChatPlanner:
    return ChatPlanner(ScriptedWorker("planner", Completion(plan, usage=Usage(208, 2))))


def _scripted(**more: Any) -> ChatPodium:
    """Return a chat model over two scripted workers, the second of which answers in pieces."""
    return ChatPodium(conductor=Conductor(_planner(), [_finder(), _writer()], **more))


def _finder() -> ScriptedWorker:
    return ScriptedWorker("finder", Completion("It is 42.", usage=Usage(20, 5)))


def _writer(reply: Any = None) -> ScriptedWorker:
    return ScriptedWorker("writer", reply or Completion("Forty-two.", usage=Usage(30, 7)), piece=4)


async def test_the_answer_and_what_is_told_of_the_run() -> None:
    """The plan, its steps, their tokens and the run's id stand in the message, as plain JSON."""
    message = await _scripted().ainvoke("What is six times seven?")
    assert isinstance(message, AIMessage)
    assert message.content == "Forty-two."
    told = message.response_metadata
    assert (told["model_name"], told["finish_reason"]) == ("podium", "stop")
    podium = told["podium"]
    assert json.loads(json.dumps(podium)) == podium
    assert [step["subtask"] for step in podium["plan"]["steps"]] == ["Look it up.", "Answer."]
    assert [(s["worker"], s["status"], s["access"]) for s in podium["steps"]] == [
        ("finder", "ok", []),
        ("writer", "ok", [0]),
    ]
    assert podium["steps"][0]["usage"]["total_tokens"] == 25
    assert podium["usage"]["total_tokens"] == 272
    assert (podium["status"], podium["problem"], podium["cost"]) == ("ok", None, 0.0)
    assert "continuation" not in podium


async def test_the_answer_alone_is_streamed_as_it_comes() -> None:
    """Pieces of the last step's text; what the run came to is in the last chunk, and only there."""
    chunks = [chunk async for chunk in _scripted().astream("What?")]
    assert [chunk.content for chunk in chunks] == ["Fort", "y-tw", "o.", ""]
    assert [chunk.chunk_position for chunk in chunks] == [None, None, None, "last"]
    assert all(chunk.usage_metadata is None for chunk in chunks[:-1])
    last = chunks[-1]
    assert last.usage_metadata["total_tokens"] == 272
    assert last.response_metadata["podium"]["status"] == "ok"
    assert len({chunk.id for chunk in chunks}) == 1


async def test_tokens_of_a_result_that_is_read_back_are_not_reported_again() -> None:
    """So `UsageMetadataCallbackHandler` counts each call once; the metadata has the whole run's."""
    pool, run_id, seen = [_finder(), _writer()], uuid4(), UsageMetadataCallbackHandler()
    model = ChatPodium(conductor=Conductor(_planner(), pool, journal=MemoryJournal()))

    config: Any = {"run_id": run_id, "callbacks": [seen]}
    assert (await model.ainvoke("What?", config=config)).usage_metadata["total_tokens"] == 272
    chunks = [chunk async for chunk in model.astream("What?", config=config)]
    again: Any = sum(chunks[1:], chunks[0])
    assert again.usage_metadata["total_tokens"] == 0
    assert again.response_metadata["podium"]["usage"]["total_tokens"] == 272
    assert seen.usage_metadata["podium"]["total_tokens"] == 272
    assert len(pool[1].requests) == 1


async def test_sampling_is_the_last_workers() -> None:
    """Temperature, length and stops are for who writes the answer; the others write as they do."""
    pool = [_finder(), _writer()]
    model = ChatPodium(conductor=Conductor(_planner(), pool), temperature=0.5, max_tokens=9)
    await model.bind(max_tokens=99).ainvoke("What?", stop=["END"])
    first, last = pool[0].requests[0].sampling, pool[1].requests[0].sampling
    assert (last.temperature, last.max_tokens, last.stop) == (0.5, 99, ("END",))
    assert (first.temperature, first.max_tokens, first.stop) == (None, None, ())


async def test_made_of_parts() -> None:
    """A planner and workers make a conductor; `max_retries` is its number of further calls."""
    attempts: list[Request] = []

    def reply(request: Request) -> Any:
        attempts.append(request)
        return WorkerBroken("cut off") if len(attempts) < 3 else "Forty-two."

    made = ChatPodium(planner=_planner(), workers=[_finder(), _writer(reply)], max_retries=2)
    assert (await made.ainvoke("What?")).content == "Forty-two."
    assert len(attempts) == 3
    attempts.clear()
    once = ChatPodium(planner=_planner(), workers=[_finder(), _writer(reply)], max_retries=0)
    with pytest.raises(RunFailed, match="cut off"):
        await once.ainvoke("What?")
    assert len(attempts) == 1


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({}, "has no planner"),
        ({"conductor": Conductor(_planner(), [_finder()]), "max_retries": 2}, "has its own"),
        ({"conductor": Conductor(_planner(), [_finder()]), "api_key": "key"}, "not accept api_key: its opt"),
        (
            {"planner": _planner(), "workers": [_finder()], "limit": Limits()},
            r"limit \(did you mean limits\?",
        ),
        ({"conductor": Conductor(_planner(), [_finder()]), "timeout": 0}, "greater than 0"),
    ],
)
def test_wrong_parameters_are_refused(said: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        ChatPodium(**said)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"model": "gpt-5"}, "a conductor has no model of its own"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
    ],
)
async def test_wrong_arguments_of_a_call_are_refused(said: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        await _scripted().ainvoke("What?", **said)


async def test_langchains_cache_is_not_asked_unless_it_is_wanted() -> None:
    """It would know an answer by the question alone, and nothing of the conductor's policy or journal."""
    pool = [_finder(), _writer()]
    conductor = Conductor(_planner(), pool)
    set_llm_cache(InMemoryCache())
    try:
        for _ in range(2):
            await ChatPodium(conductor=conductor).ainvoke("What?")
        assert len(pool[1].requests) == 2
        for _ in range(2):
            await ChatPodium(conductor=conductor, cache=True).ainvoke("What?")
        assert len(pool[1].requests) == 3
    finally:
        set_llm_cache(None)
