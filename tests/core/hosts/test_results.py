"""What hosts are given of a result, and what a call may say."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import podium.hosts
from podium import Conductor, Message, Plan, ScriptedWorker, Step
from podium.errors import ConfigError, RunFailed, RunWaiting, WorkerBroken, WorkerFailed, WorkerRefused
from podium.execution import Retry
from podium.hosts import read_completion, read_sampling, read_tools, result_metadata, sampling_arguments
from podium.hosts.results import answered, plan_lines
from podium.planners import FixedPlanner
from podium.secrets import register
from podium.types import Completion, Constraint, Problem, Result, Sampling
from podium.usage import Usage

pytestmark = pytest.mark.anyio
PLAN = Plan((Step(0, "look"), Step(1, "guess"), Step(2, "write", (0,))))
SECRET = "loopback-secret-of-results-0123"  # noqa: S105 - of a test
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
CHOSEN = {"type": "function", "function": {"name": "weather"}}


async def result(*replies: Any) -> Result:
    """Return the result of a run of three steps, the second of which nobody sees."""
    workers = [ScriptedWorker(name, reply) for name, reply in zip("abc", replies, strict=True)]
    return await Conductor(FixedPlanner(PLAN), workers, retry=Retry(attempts=1)).run("What?")


async def test_metadata_is_plain_json_without_secrets() -> None:
    """Of each step what it was, and what it cost; outputs only where they are wanted."""
    register(SECRET)
    ended = await result("red", "blue", f"It is {SECRET}.")
    metadata = result_metadata(ended, outputs=True)
    assert json.loads(json.dumps(metadata)) == metadata
    assert [step["status"] for step in metadata["steps"]] == ["ok", "skipped", "ok"]
    assert (metadata["steps"][2]["subtask"], metadata["steps"][2]["access"]) == ("write", [0])
    assert SECRET not in json.dumps(metadata)
    assert "query" not in metadata["plan"] or not metadata["plan"]["query"]
    counted = result_metadata(ended, usage=lambda usage: {"total": usage.total_tokens})
    assert counted["usage"] == {"total": ended.usage.total_tokens}
    assert "output" not in counted["steps"][0]
    assert metadata["planner"] == {
        "name": "fixed",
        "why": "the plan is fixed",
        "is_fallback": False,
    }
    assert plan_lines(PLAN, ended.workers)[1:] == ["1. b: guess", "2. c: write (shown step 0)"]


async def test_an_answer_that_lacks_something_is_returned_or_raised() -> None:
    """One that is none is raised, with the result."""
    part = await result("red", "blue", Completion("It is r", "length"))
    assert answered(part) is part
    with pytest.raises(RunFailed, match=r"is partial \(cut: ") as raised:
        answered(part, partial="raise")
    assert raised.value.result is part
    with pytest.raises(RunFailed, match=r"^run \w+: there is no answer \(worker_failed: "):
        answered(await result(WorkerFailed("no"), "x", WorkerFailed("no")))
    with pytest.raises(RunWaiting, match=r"^run \w+ waits for approval.*podium decide \w+ approve"):
        answered(replace(part, status="waiting"))
    asks = Problem("waiting", "step 1 waits for an answer: Why?")
    with pytest.raises(RunWaiting, match=r"^run \w+ waits for an answer.*podium decide \w+ --answer"):
        answered(replace(part, status="waiting", problem=asks))


def test_sampling_is_read_and_written() -> None:
    """Every chat model takes the same, under OpenAI's names, and refuses the rest by name."""
    form = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}}
    said = {
        "temperature": 0.0,
        "top_p": 0.5,
        "max_tokens": 9,
        "seed": 1,
        "stop": "END",
        "response_format": form,
    }
    sampling = read_sampling({**said, "reasoning_effort": "low", "extra": None}, of="Model")
    assert sampling == Sampling(0.0, 0.5, 9, ("END",), 1, "low", Constraint("json", {"type": "object"}))
    shared = ("temperature", "top_p", "max_tokens", "seed")
    assert sampling_arguments(sampling) == {**{name: said[name] for name in shared}, "stop": ["END"]}
    assert sampling_arguments(Sampling()) == {}
    with pytest.raises(ConfigError, match=r"Model does not accept logprobs: its options .*timeout"):
        read_sampling({"logprobs": 1}, of="Model", takes=["timeout"])
    for wrong in ("json", {"type": "text"}, {"type": "json_schema", "json_schema": {"schema": "x"}}):
        with pytest.raises(ConfigError, match="json_schema"):
            read_sampling({"response_format": wrong}, of="Model")


def test_a_choice_of_tools_is_read() -> None:
    """However a host spells it; one of a tool that is not offered could only fail later."""
    for choice, read in (
        (None, None),
        (True, "required"),
        ("any", "required"),
        ("none", "none"),
        ("weather", CHOSEN),
        (CHOSEN, CHOSEN),
    ):
        assert read_tools([WEATHER], choice).choice == read
    for wrong in ("time", {"function": {"name": "time"}}, {}):
        with pytest.raises(ConfigError, match="not an offered tool: the tools are weather"):
            read_tools([WEATHER], wrong)


def test_an_answer_is_one_whose_end_was_seen_and_that_says_something() -> None:
    """As for Podium's own chat workers; tokens are the provider's, or estimated."""
    asked = (Message("user", "What?"),)
    done = read_completion(
        asked, text="Red.", finish_reason="max_tokens", usage={"input_tokens": 3, "output_tokens": 1}
    )
    assert (done.text, done.finish_reason, done.usage) == ("Red.", "length", Usage(3, 1))
    assert read_completion(asked, text="Red.", finish_reason="stop", usage=Usage(1, 1)).usage == Usage(1, 1)
    assert read_completion(asked, text="Red.", finish_reason="stop").usage.estimated
    with pytest.raises(WorkerBroken, match="finish_reason"):
        read_completion(asked, text="Re", finish_reason=None)
    with pytest.raises(WorkerBroken, match="empty"):
        read_completion(asked, text=" ", finish_reason="stop")
    with pytest.raises(WorkerRefused, match="refused"):
        read_completion(asked, text="", finish_reason="stop", refusal="I cannot.")


def test_the_page_for_adapters_has_every_name() -> None:
    """Whoever writes another adapter finds them there."""
    page = (Path(__file__).parents[3] / "CONTRIBUTING.md").read_text("utf-8")
    table = page[page.index("## Write an adapter") :]
    assert [name for name in podium.hosts.__all__ if f"`{name}`" not in table] == []
