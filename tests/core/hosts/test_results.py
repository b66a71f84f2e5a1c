"""Foreign exceptions, what hosts are given of a result, and what a call may say."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from contracts.provider_errors import PROVIDER_ERRORS

import podium.hosts
from podium import Conductor, Message, Plan, Result, Retry, Sampling, ScriptedWorker, Step
from podium.errors import (
    ConfigError,
    RunFailed,
    RunWaiting,
    WorkerBroken,
    WorkerFailed,
    WorkerRefused,
    WorkerTimeout,
)
from podium.hosts import read_completion, read_sampling, result_metadata, sampling_arguments, worker_errors
from podium.hosts.errors import worker_error
from podium.hosts.results import answered, plan_lines
from podium.planners import FixedPlanner
from podium.secrets import register
from podium.types import Completion, Constraint, Problem
from podium.usage import Usage

pytestmark = pytest.mark.anyio
PLAN = Plan((Step(0, "look"), Step(1, "guess"), Step(2, "write", (0,))))
SECRET = "loopback-secret-of-results-0123"  # noqa: S105 - of a test


async def result(*replies: Any) -> Result:
    """Return the result of a run of three steps, the second of which nobody sees."""
    workers = [ScriptedWorker(name, reply) for name, reply in zip("abc", replies, strict=True)]
    return await Conductor(FixedPlanner(PLAN), workers, retry=Retry(attempts=1)).run("What?")


async def test_metadata_is_plain_json_without_secrets() -> None:
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
    assert metadata["planner"] == {"name": "fixed", "why": "the plan is fixed", "is_fallback": False}
    assert plan_lines(PLAN, ended.workers)[1:] == ["1. b: guess", "2. c: write (shown step 0)"]


async def test_an_answer_that_lacks_something_is_returned_or_raised() -> None:
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
    form = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}}
    said = {"temperature": 0.0, "top_p": 0.5, "max_tokens": 9, "seed": 1, "stop": "END"}
    said |= {"response_format": form}
    sampling = read_sampling({**said, "reasoning_effort": "low", "extra": None}, of="Model")
    assert sampling == Sampling(0.0, 0.5, 9, ("END",), 1, "low", Constraint("json", {"type": "object"}))
    shared = ("temperature", "top_p", "max_tokens", "seed")
    assert sampling_arguments(sampling) == {**{name: said[name] for name in shared}, "stop": ["END"]}
    assert sampling_arguments(Sampling()) == {}
    for wrong in ("json", {"type": "text"}, {"type": "json_schema", "json_schema": {"schema": "x"}}):
        with pytest.raises(ConfigError, match="json_schema"):
            read_sampling({"response_format": wrong}, of="Model")


def test_an_answer_is_one_whose_end_was_seen_and_that_says_something() -> None:
    asked = (Message("user", "What?"),)
    usage = {"input_tokens": 3, "output_tokens": 1}
    done = read_completion(asked, text="Red.", finish_reason="max_tokens", usage=usage)
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
    page = (Path(__file__).parents[3] / "CONTRIBUTING.md").read_text("utf-8")
    table = page[page.index("## Write an adapter") :]
    assert [name for name in podium.hosts.__all__ if f"`{name}`" not in table] == []


def test_a_provider_exception_is_told_in_one_way() -> None:
    for case in PROVIDER_ERRORS:
        error = worker_error(case.make(), "writer")
        told = (type(error), error.maybe_paid, error.retry_after, error.status)
        assert told == (case.kind, case.maybe_paid, case.retry_after, case.status), case.name
        assert all(text in str(error) for text in (case.says, "worker 'writer'"))


def test_the_original_is_the_cause_and_podium_s_own_errors_pass() -> None:
    with pytest.raises(WorkerTimeout) as raised, worker_errors("writer"):
        raise TimeoutError("late")
    assert isinstance(raised.value.__cause__, TimeoutError)
    with pytest.raises(ConfigError, match="mine"), worker_errors("writer"):
        raise ConfigError("mine")


def test_what_was_spent_is_on_the_error() -> None:
    spent, own = Usage(3, 4), Usage(1, 1)
    with pytest.raises(WorkerFailed) as raised, worker_errors("writer", usage=lambda: spent):
        raise ValueError("late")
    assert raised.value.usage == spent
    with pytest.raises(WorkerFailed) as raised, worker_errors("writer", usage=lambda: spent):
        raise WorkerFailed("own", usage=own)
    assert raised.value.usage == own
    with pytest.raises(WorkerFailed) as raised, worker_errors("writer", usage=lambda: None):
        raise ValueError("late")
    assert raised.value.usage is None


class HookAborted(Exception):
    """What a host raises to stop a call."""


def hook(error: BaseException) -> WorkerRefused | None:
    return WorkerRefused("stopped by a hook") if isinstance(error, HookAborted) else None


def test_a_host_s_own_exceptions_are_read_first_wherever_they_stand() -> None:
    error = TimeoutError("late")
    error.__cause__ = HookAborted()
    assert isinstance(worker_error(error, "writer", reader=hook), WorkerRefused)
    assert isinstance(worker_error(TimeoutError("late"), "writer", reader=hook), WorkerTimeout)


async def test_a_cancellation_that_nobody_asked_for_is_a_failure() -> None:
    """A cancelled future inside would otherwise stop the whole run; a cancel of the task passes."""
    with pytest.raises(WorkerFailed), worker_errors("writer"):
        raise asyncio.CancelledError

    async def call() -> None:
        with worker_errors("writer"):
            await asyncio.sleep(60)

    task = asyncio.create_task(call())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
