"""Bad input gives a clear error or an explained result; nothing hangs and nothing leaks."""

from typing import Any

import pytest
from core.actors import boss, rows

from podium.budget import Limits
from podium.conductor import Conductor
from podium.errors import ConfigError, QueryError
from podium.planners import ChatPlanner, RulePlanner
from podium.types import Message, Query
from podium.workers import Price, ScriptedWorker, StepInput

pytestmark = pytest.mark.anyio

CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
ONE = rows((0, "go", ()))


def _conductor(worker: ScriptedWorker | None = None, **options: object) -> Conductor:
    return Conductor(boss(ONE), [worker or ScriptedWorker("a", "A")], **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("", "empty"),
        (" \n\t", "empty"),
        ([], "empty"),
        ([Message("user", "")], "empty"),
        ([Message("assistant", "I said")], "no question"),
        ([Message("system", " ")], "empty"),
        ([Message("user", "a"), Message("assistant", "b"), Message("user", " ")], "empty"),
        ([Message("user", "a"), Message("assistant", "", (CALL,))], "add the tool results"),
        ([{"role": "robot", "content": "x"}], "robot"),
        ([{"role": "user", "content": 7}], "text or a list of parts"),
        ([{"role": "user"}], "text or a list of parts"),
        ([{"role": "assistant", "content": None, "tool_calls": 5}], "tool_calls must be a list of objects"),
        (
            [{"role": "assistant", "content": None, "tool_calls": "abc"}],
            "tool_calls must be a list of objects",
        ),
        (
            [{"role": "assistant", "content": "x", "tool_calls": ["abc"]}],
            "tool_calls must be a list of objects",
        ),
        ([{"role": "tool", "content": "x", "tool_call_id": 5}], "tool_call_id must be text"),
        ("x" * (4 * 2**20 + 1), "longer than"),
    ],
)
async def test_a_question_that_is_none_is_refused(query: Query, reason: str) -> None:
    worker = ScriptedWorker("a", "A")
    conductor = _conductor(worker)
    for asked in (conductor.run, conductor.plan):
        with pytest.raises(QueryError, match=reason):
            await asked(query)
    assert not worker.requests


@pytest.mark.parametrize(
    "question", ["\0", "a\0b", "\ud800 what?", "</question>", "🦀" * 1000, "$subtask ${x}"]
)
async def test_odd_characters_are_a_question_like_any_other(question: str) -> None:
    result = await _conductor().run(question)
    assert result.status == "ok"


def test_a_pool_of_none_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match=r"at least one worker: pass workers=\[\.\.\.\]"):
        Conductor(boss(ONE), [])


def test_two_workers_of_one_name_are_refused_at_once() -> None:
    with pytest.raises(ConfigError, match=r"two workers have the name 'a': .* as_worker\(x, name="):
        Conductor(boss(ONE), [ScriptedWorker("a", "A"), ScriptedWorker("a", "B")])


def _function(step_input: StepInput) -> str:
    return "x"


@pytest.mark.parametrize(
    ("make", "hint"),
    [
        (lambda: Conductor(RulePlanner(), [_function]), "FunctionWorker"),
        (lambda: Conductor(ScriptedWorker("a", "A"), [ScriptedWorker("a", "A")]), "ChatPlanner"),
        (lambda: Conductor("gpt", [ScriptedWorker("a", "A")]), "is not a planner"),
        (lambda: ChatPlanner(ScriptedWorker("a", "A"), spelling="yaml"), "spelling"),
        (lambda: Limits(rounds=1.5), "whole number"),
        (lambda: Limits(seconds="5"), "a number"),
        (lambda: Price(input=-1, output=1), "0 or more"),
    ],
)
def test_what_people_hand_over_by_mistake_is_told_with_its_mend(make: Any, hint: str) -> None:
    with pytest.raises(ConfigError, match=hint):
        make()
