"""A call of a host's chat model as a run: answers, pieces, tools, and the turn after these."""

from typing import Any

import pytest
from core.actors import breaking_off, in_a_row as team

from podium import Conductor, Message, Retry, ScriptedWorker
from podium.errors import QueryError, RunFailed, WorkerFailed
from podium.hosts import ChatCall, ContinuationStore, tool_call
from podium.hosts.continuation import continuation_names
from podium.journal import MemoryJournal
from podium.run import RunOptions
from podium.types import RunEnded, Tools

pytestmark = pytest.mark.anyio

ASK = (Message("user", "Is it warm in Bern?"),)
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
CALL = tool_call("call-1", "weather", {"city": "Bern"})
AFTER = (*ASK, Message("assistant", "", (CALL,)), Message("tool", "31 degrees", (), "call-1"))


async def test_a_step_that_is_tried_again_is_streamed_on_if_it_writes_the_same() -> None:
    def conductor(first: str, second: str) -> Conductor:
        return team(breaking_off(first, second), retry=Retry(attempts=2, first_wait=0.001))

    items = [item async for item in ChatCall(conductor("Yes, but", "Yes, it is."), ASK).stream()]
    assert "".join(item for item in items if isinstance(item, str)) == "Yes, it is."
    with pytest.raises(RunFailed, match="differs from the streamed text") as raised:
        [item async for item in ChatCall(conductor("Yes, but", "No."), ASK).stream()]
    assert raised.value.result.answer == "No."
    assert raised.value.result.run_id in str(raised.value)
    assert (await ChatCall(conductor("Yes, but", "No."), ASK).run()).text == "No."


def test_a_store_keeps_the_latest() -> None:
    """By the ids of the calls and the question, or, if several have these, by the whole conversation."""
    store, clock = ContinuationStore(most=4), Message("system", "It is 10:00.")
    store.keep(continuation_names(ASK, [CALL]), {"n": 1})
    found = {"n": 1}
    for turn in (AFTER, (clock, *AFTER), (*AFTER, Message("user", "Thank you."))):
        assert store.find(continuation_names(turn)) == found
    answered = (*AFTER, Message("assistant", "It is 31 degrees."), Message("user", "And now?"))
    for turn in (answered, (Message("user", "Other?"), *AFTER[1:]), AFTER[1:]):
        assert store.find(continuation_names(turn)) is None
    later = Message("assistant", "", (tool_call("call-2", "weather", {}),))
    assert store.find(continuation_names((*ASK, later, Message("tool", "31", (), "call-2")))) is None
    store.keep(continuation_names((clock, *ASK), [CALL]), {"n": 2})
    assert store.find(continuation_names(AFTER)) == found
    assert store.find(continuation_names((clock, *AFTER))) == {"n": 2}
    assert store.find(continuation_names((Message("system", "Be nice."), *AFTER))) is None
    for number in (2, 3):
        store.keep(continuation_names(ASK, [tool_call(f"call-{number}", "weather", {})]), {"n": number})
    assert store.find(continuation_names(AFTER)) is None


async def test_what_no_caller_can_take_is_raised_with_the_result() -> None:
    broken = ScriptedWorker("writer", WorkerFailed("out of order"))
    with pytest.raises(RunFailed, match="out of order") as raised:
        await ChatCall(team(broken), ASK).run()
    assert raised.value.result.status == "failed"
    plain = team(ScriptedWorker("writer", "Yes."))
    with pytest.raises(RunFailed, match="requires a tool call") as raised:
        await ChatCall(plain, ASK, tools=Tools((WEATHER,), "required")).run()
    assert raised.value.result.answer == "Yes."
    with pytest.raises(QueryError):
        ChatCall(plain, ())


async def test_the_end_of_an_earlier_call_is_not_told_where_the_run_goes_on() -> None:
    replies: list[str | Exception] = [WorkerFailed("down"), "Yes."]
    worker = ScriptedWorker("one", lambda request: replies.pop(0))
    told: list[Any] = []
    async with MemoryJournal() as journal:
        conductor = team(worker, journal=journal)
        options = RunOptions(run_id="order-17")
        with pytest.raises(RunFailed):
            await ChatCall(conductor, ASK, options=options).run()
        answer = await ChatCall(conductor, ASK, options=options, on_event=told.append).run()
    assert answer.text == "Yes."
    assert [event.result.status for event in told if isinstance(event, RunEnded)] == ["ok"]
