"""A conductor behind version 3 of OpenAI's client, which uses httpx2; version 2 is tested with core."""

from typing import Any

import openai
import pytest

from podium import Conductor, Plan, ScriptedWorker, Step
from podium.errors import RunFailed, WorkerRefused
from podium.hosts import BASE_URL, ConductorTransport, run_errors
from podium.planners import FixedPlanner

pytestmark = pytest.mark.anyio

ASKED: Any = {"model": "mine", "messages": [{"role": "user", "content": "Is it warm in Bern?"}]}
GIVEN: Any = {"base_url": BASE_URL, "api_key": "none", "max_retries": 0}


def transport(reply: Any) -> ConductorTransport:
    plan = Plan((Step(0, "Answer."),))
    return ConductorTransport(Conductor(FixedPlanner(plan), [ScriptedWorker("writer", reply, piece=2)]))


async def test_answers_and_streams() -> None:
    http = transport("Yes.")
    client = openai.AsyncOpenAI(http_client=http.async_client("httpx2"), **GIVEN)
    sync = openai.OpenAI(http_client=http.client("httpx2"), **GIVEN)
    answer: Any = await client.chat.completions.create(**ASKED)
    again: Any = sync.chat.completions.create(**ASKED)
    assert [each.choices[0].message.content for each in (answer, again)] == ["Yes.", "Yes."]
    assert answer.podium["status"] == "ok"
    chunks = [chunk async for chunk in await client.chat.completions.create(**ASKED, stream=True)]
    others = list(sync.chat.completions.create(**ASKED, stream=True))
    for pieces in (chunks, others):
        said = [piece.choices[0].delta.content for piece in pieces]
        assert [text for text in said if text] == ["Ye", "s."]
        assert pieces[-1].podium["status"] == "ok"  # type: ignore[attr-defined]


@pytest.mark.parametrize("stream", [False, True])
async def test_the_error_of_a_run(*, stream: bool) -> None:
    http = transport(WorkerRefused("out of order"))
    client = openai.AsyncOpenAI(http_client=http.async_client("httpx2"), **GIVEN)

    async def ask() -> None:
        with run_errors():
            answer = await client.chat.completions.create(**ASKED, stream=stream)
            [chunk async for chunk in answer]

    with pytest.raises(RunFailed, match="out of order") as raised:
        await ask()
    assert raised.value.result.status == "failed"
