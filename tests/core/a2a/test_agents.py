"""Remote agents as workers, over loopback."""

from collections.abc import Iterator

import anyio
import anyio.to_thread
import pytest
from contracts.worker_contract import WorkerContract
from core.actors import plan_of
from servers.a2a_server import Served, serving

from podium import Conductor, Limits, Retry
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
from podium.types import Completion, Message
from podium.workers import FREE, Request, Worker, complete

pytestmark = pytest.mark.anyio


def request(text: str, *, stream: bool = False) -> Request:
    """Return a request for a text."""
    return Request(messages=(Message("user", text),), stream=stream)


@pytest.fixture(params=[True, False], ids=["streaming", "whole"])
def served(request: pytest.FixtureRequest) -> Iterator[Served]:
    """Serve the agent, which streams or does not."""
    with serving(streaming=request.param) as found:
        yield found


@pytest.fixture
async def agent(served: Served) -> Worker:
    """Return the agent as a worker."""
    return await RemoteAgent(served.url).worker()


class TestContract(WorkerContract):
    """An agent keeps the contract of workers."""

    @pytest.fixture
    async def worker(self, agent: Worker) -> Worker:
        """Answer with the question."""
        return agent

    @pytest.fixture
    async def slow_worker(self, agent: Worker) -> Worker:
        """Wait for longer than a test."""
        self.questions = ("slow",)
        return agent


async def test_the_card_tells_name_and_skills(agent: Worker, served: Served) -> None:
    """What is given replaces it."""
    assert agent.card.name == "parrot"
    assert agent.card.description == "Says things. Skills: Saying: Repeats what it is told."
    other = await RemoteAgent(served.url).worker(name="bird", price=FREE, acts=True)
    assert (other.card.name, other.card.price, other.acts) == ("bird", FREE, True)
    assert (await RemoteAgent(served.url).worker()).acts


async def test_artifacts_are_the_answer(agent: Worker) -> None:
    """Pieces of one are joined; a message beside them is not the answer, and alone it is."""
    assert (await complete(agent, request("hi"))).text == "You said: hi\n\nAnything else?"
    assert (await complete(agent, request("message"))).text == "all is done"
    assert (await complete(agent, request("data"))).text == '{"rows": [1.0, 2.0]}\na: https://example.com/a'


async def test_a_step_of_a_run(agent: Worker, served: Served) -> None:
    """The agent is shown the question, the visible outputs and the subtask, and nothing else."""
    plan = plan_of((0, "hello", ()), (0, "again", (0,)))
    result = await Conductor(FixedPlanner(plan), [agent]).run("What is the matter?")
    assert result.status == "ok"
    assert "What is the matter?" in served.asked[1]
    assert "You said:" in served.asked[1]
    assert "again" in served.asked[1]
    assert result.usage.estimated


@pytest.mark.parametrize("stream", [False, True])
async def test_a_file_is_never_dropped_in_silence(agent: Worker, *, stream: bool) -> None:
    """Beside text it is a stated gap; alone it is a failure."""
    pieces = [piece async for piece in agent.call(request("picture", stream=stream))]
    done = pieces[-1]
    assert isinstance(done, Completion)
    told = "not passed on, since the output of a step is text: cat.png (image/png, 10 bytes)"
    assert (done.text, done.missing) == (f"A cat:\n\n[{told}]", told)
    assert not stream or "".join(map(str, pieces[:-1])) == done.text
    with pytest.raises(WorkerFailed, match="returned no text"):
        await complete(agent, request("file"))


@pytest.mark.parametrize(
    ("text", "kind", "code", "told"),
    [
        ("fail", AgentFailed, "agent_failed", "failed: the printer is on fire"),
        ("cancel", AgentFailed, "agent_failed", "cancelled the task itself"),
        ("reject", AgentRejected, "agent_rejected", "rejected the task: not my job"),
        ("input", AgentRejected, "agent_rejected", "which colour?"),
        ("auth", AgentRejected, "agent_rejected", "log in first"),
        ("nothing", WorkerBroken, "worker_broken", "without an answer"),
    ],
)
async def test_each_end_of_a_task_has_its_code(
    agent: Worker, text: str, kind: type[WorkerFailed], code: str, told: str
) -> None:
    """The agent's reason is quoted."""
    with pytest.raises(kind) as raised:
        await complete(agent, request(text))
    assert raised.value.code == code
    assert told in str(raised.value)


async def test_a_task_that_waits_for_input_is_cancelled(agent: Worker, served: Served) -> None:
    """Nobody will answer it."""
    with pytest.raises(AgentRejected):
        await complete(agent, request("input"))
    assert await anyio.to_thread.run_sync(served.cancelled.wait, 10)


async def test_a_bug_of_the_agent_is_a_failure(agent: Worker) -> None:
    """Whatever its framework makes of it."""
    with pytest.raises(WorkerFailed):
        await complete(agent, request("raise"))


async def test_a_rejected_step_goes_to_a_fallback(agent: Worker, served: Served) -> None:
    """And not to the same agent again."""
    other = await RemoteAgent(served.url).worker(name="other", acts=False)
    agent.acts = False
    retry = Retry(first_wait=0.01, fallbacks={"parrot": ["other"]})
    conductor = Conductor(FixedPlanner(plan_of((0, "reject", ()))), [agent, other], retry=retry)
    (outcome,) = (await conductor.run("q")).outcomes
    assert [call.worker for call in outcome.calls] == ["parrot", "other"]


async def test_a_cancelled_call_cancels_the_task() -> None:
    """By `tasks/cancel`, as soon as the task's id is known: from the first event of a stream."""
    with serving() as served:
        worker = await RemoteAgent(served.url).worker()
        limits = Limits(seconds=2.0)
        conductor = Conductor(FixedPlanner(plan_of((0, "slow", ()))), [worker], limits=limits)
        result = await conductor.run("q")
        assert result.status == "failed"
        assert await anyio.to_thread.run_sync(served.cancelled.wait, 10)


async def test_a_late_answer_is_not_waited_for() -> None:
    """The task is cancelled."""
    with serving() as served:
        worker = await RemoteAgent(served.url, seconds=0.5).worker()
        with pytest.raises(WorkerTimeout, match=r"did not answer within 0\.5 s") as raised:
            await complete(worker, request("slow"))
        assert raised.value.maybe_paid
        assert await anyio.to_thread.run_sync(served.cancelled.wait, 10)


async def test_pieces_come_as_they_are_written() -> None:
    """A text that was passed on cannot be taken back."""
    with serving() as served:
        worker = await RemoteAgent(served.url).worker()
        pieces = [piece async for piece in worker.call(request("hi", stream=True))]
        assert pieces[:-1] == ["You said: ", "hi", "\n\nAnything else?"]
        assert (await complete(worker, request("replace"))).text == "second"
        with pytest.raises(WorkerBroken, match="replaced an artifact"):
            await complete(worker, request("replace", stream=True))


async def test_statuses_keep_their_meaning(served: Served) -> None:
    """For the card, and for calls."""
    worker = await RemoteAgent(served.url).worker()
    for status, kind in ((401, WorkerRefused), (503, WorkerUnavailable)):
        served.status = status
        with pytest.raises(kind, match=str(status)):
            await complete(worker, request("hi"))
        with pytest.raises(kind, match=str(status)):
            await RemoteAgent(served.url).worker()


async def test_an_agent_that_is_not_there() -> None:
    """The error says so, and that nothing was paid."""
    with pytest.raises(WorkerUnavailable, match="cannot be reached") as raised:
        await RemoteAgent("http://127.0.0.1:1").worker()
    assert not raised.value.maybe_paid


@pytest.mark.parametrize("body", ['{"hello": 1}', "[1]", '{"name": 1}', "<html>"])
async def test_a_url_without_a_card(body: str) -> None:
    """The error says so, also for JSON that is no card."""
    with serving() as served:
        served.status, served.body = 200, body
        with pytest.raises(WorkerRefused, match="has no agent card"):
            await RemoteAgent(served.url).worker(name="bird")


async def test_headers_go_to_the_agent_and_nowhere_else(served: Served) -> None:
    """Neither to another host that its card names, nor into texts."""
    agent = RemoteAgent(served.url, headers={"Authorization": "Bearer key-of-mine"})
    await complete(await agent.worker(), request("hi"))
    assert served.authorization == "Bearer key-of-mine"
    assert "key-of-mine" not in repr(agent)
    with serving(called_at=lambda url: "http://elsewhere.example/rpc") as other:
        with pytest.raises(WorkerRefused, match="another host"):
            await RemoteAgent(other.url, headers={"Authorization": "Bearer key-of-mine"}).worker()
        assert (await RemoteAgent(other.url).worker()).card.name == "parrot"


def test_from_code_that_is_not_async() -> None:
    """The card is read, and the conductor runs."""
    with serving() as served:
        worker = RemoteAgent(served.url).worker_sync(price=FREE)
        result = Conductor(FixedPlanner(plan_of((0, "hi", ()))), [worker]).run_sync("q")
        assert (result.status, result.cost) == ("ok", 0.0)


@pytest.mark.parametrize(("url", "seconds"), [("ftp://x", 1), ("http://", 1), ("http://x", 0)])
def test_wrong_settings_are_refused(url: str, seconds: float) -> None:
    """At once."""
    with pytest.raises(ConfigError):
        RemoteAgent(url, seconds=seconds)
