"""Remote agents as workers, over loopback."""

from collections.abc import Iterator

import anyio
import anyio.to_thread
import pytest
from contracts.worker_contract import WorkerContract, question
from core.actors import plan_of
from servers.a2a_server import Served, serving

from podium import Conductor, Retry
from podium.a2a import RemoteAgent
from podium.errors import (
    AgentFailed,
    AgentRejected,
    ConfigError,
    WorkerBroken,
    WorkerFailed,
    WorkerRefused,
    WorkerTimeout,
    WorkerUnavailable,
)
from podium.planners import FixedPlanner
from podium.workers import FREE, Worker, complete

pytestmark = pytest.mark.anyio


def _fresh(served: Served) -> Served:
    served.status = None
    served.asked.clear()
    served.began.clear()
    served.cancelled.clear()
    return served


@pytest.fixture(scope="module")
def parrots() -> Iterator[dict[bool, Served]]:
    with serving() as streaming, serving(streaming=False) as whole:
        yield {True: streaming, False: whole}


@pytest.fixture
def served(parrots: dict[bool, Served]) -> Served:
    return _fresh(parrots[True])


@pytest.fixture(params=[True, False], ids=["streaming", "whole"])
async def either(request: pytest.FixtureRequest, parrots: dict[bool, Served]) -> Worker:
    return await RemoteAgent(_fresh(parrots[request.param]).url).worker()


@pytest.fixture
async def agent(served: Served) -> Worker:
    return await RemoteAgent(served.url).worker()


class TestContract(WorkerContract):
    @pytest.fixture
    async def worker(self, agent: Worker) -> Worker:
        return agent

    @pytest.fixture
    async def slow_worker(self, either: Worker) -> Worker:
        self.questions = ("slow",)
        return either


async def test_the_card_tells_name_and_skills(agent: Worker, served: Served) -> None:
    assert (agent.card.name, agent.acts) == ("parrot", True)
    assert agent.card.description == "Says things. Skills: Saying: Repeats what it is told."
    other = await RemoteAgent(served.url).worker(name="bird", price=FREE, acts=False)
    assert (other.card.name, other.card.price, other.acts) == ("bird", FREE, False)


async def test_artifacts_are_the_answer(either: Worker) -> None:
    told = {"hi": "You said: hi\n\nAnything else?", "message": "all is done"}
    told["data"] = '{"rows": [1.0, 2.0]}\na: https://example.com/a'
    for word, answer in told.items():
        assert (await complete(either, question(word))).text == answer


@pytest.mark.parametrize("stream", [False, True])
async def test_a_file_is_never_dropped_in_silence(agent: Worker, *, stream: bool) -> None:
    pieces = [piece async for piece in agent.call(question("picture", stream=stream))]
    done = pieces[-1]
    told = "not passed on, since the output of a step is text: cat.png (image/png, 10 bytes)"
    assert (done.text, done.missing) == (f"A cat:\n\n[{told}]", told)
    assert not stream or "".join(map(str, pieces[:-1])) == done.text
    with pytest.raises(WorkerFailed, match="returned no text"):
        await complete(agent, question("file"))


ENDS = [
    ("fail", AgentFailed, "agent_failed", "failed: the printer is on fire"),
    ("cancel", AgentFailed, "agent_failed", "cancelled the task itself"),
    ("reject", AgentRejected, "agent_rejected", "rejected the task: not my job"),
    ("input", AgentRejected, "agent_rejected", "which colour?"),
    ("auth", AgentRejected, "agent_rejected", "log in first"),
    ("nothing", WorkerBroken, "worker_broken", "without an answer"),
    ("raise", WorkerFailed, "", ""),
]


async def test_each_end_of_a_task_has_its_code(either: Worker) -> None:
    for word, kind, code, told in ENDS:
        with pytest.raises(kind) as raised:
            await complete(either, question(word))
        assert not code or raised.value.code == code
        assert told in str(raised.value)


async def test_steps_of_a_run(agent: Worker, served: Served) -> None:
    other = await RemoteAgent(served.url).worker(name="other", acts=False)
    agent.acts = False
    plan = plan_of((0, "hello", ()), (0, "again", (0,)), (0, "reject", (1,)))
    retry = Retry(first_wait=0.01, fallbacks={"parrot": ["other"]})
    result = await Conductor(FixedPlanner(plan), [agent, other], retry=retry).run("What is the matter?")
    assert all(text in served.asked[1] for text in ("What is the matter?", "You said:", "again"))
    assert result.usage.estimated
    assert [call.worker for call in result.outcomes[2].calls] == ["parrot", "other"]


async def test_a_task_that_nobody_waits_for_is_cancelled(agent: Worker, served: Served) -> None:
    """By `tasks/cancel`: one that waits for input, one that is late, and one whose call is cancelled."""
    with pytest.raises(AgentRejected):
        await complete(agent, question("input"))
    assert await anyio.to_thread.run_sync(served.cancelled.wait, 10)
    late = await RemoteAgent(_fresh(served).url, seconds=0.3).worker()
    with pytest.raises(WorkerTimeout, match=r"did not answer within 0\.3 s") as raised:
        await complete(late, question("slow"))
    assert raised.value.maybe_paid
    assert await anyio.to_thread.run_sync(served.cancelled.wait, 10)
    _fresh(served)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(complete, agent, question("slow"))
        assert await anyio.to_thread.run_sync(served.began.wait, 10)
        await anyio.sleep(0.2)  # the first event has the id of the task
        tasks.cancel_scope.cancel()
    assert await anyio.to_thread.run_sync(served.cancelled.wait, 10)


async def test_pieces_come_as_they_are_written(agent: Worker) -> None:
    pieces = [piece async for piece in agent.call(question("hi", stream=True))]
    assert pieces[:-1] == ["You said: ", "hi", "\n\nAnything else?"]
    assert (await complete(agent, question("replace"))).text == "second"
    with pytest.raises(WorkerBroken, match="replaced an artifact"):
        await complete(agent, question("replace", stream=True))


async def test_answers_that_are_no_agents(agent: Worker, served: Served) -> None:
    for status, kind in ((401, WorkerRefused), (503, WorkerUnavailable)):
        served.status = status
        with pytest.raises(kind, match=str(status)):
            await complete(agent, question("hi"))
        with pytest.raises(kind, match=str(status)):
            await RemoteAgent(served.url).worker()
    served.status = 200
    for served.body in ('{"hello": 1}', "[1]", '{"name": 1}', "<html>"):
        with pytest.raises(WorkerRefused, match="has no agent card"):
            await RemoteAgent(served.url).worker(name="bird")
    with pytest.raises(WorkerUnavailable, match="cannot be reached") as raised:
        await RemoteAgent("http://127.0.0.1:1").worker()
    assert not raised.value.maybe_paid


async def test_headers_go_to_the_agent_and_nowhere_else(served: Served) -> None:
    """Neither to another host that its card names, nor into texts."""
    agent = RemoteAgent(served.url, headers={"Authorization": "Bearer key-of-mine"})
    await complete(await agent.worker(), question("hi"))
    assert served.authorization == "Bearer key-of-mine"
    assert "key-of-mine" not in repr(agent)
    with serving(called_at=lambda url: "http://elsewhere.example/rpc") as other:
        with pytest.raises(WorkerRefused, match="another host"):
            await RemoteAgent(other.url, headers={"Authorization": "Bearer key-of-mine"}).worker()
        assert (await RemoteAgent(other.url).worker()).card.name == "parrot"


@pytest.mark.parametrize(("url", "seconds"), [("ftp://x", 1), ("http://x", 0)])
def test_wrong_settings_are_refused(url: str, seconds: float) -> None:
    with pytest.raises(ConfigError):
        RemoteAgent(url, seconds=seconds)
