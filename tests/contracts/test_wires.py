"""Every wire between two Podiums: the end of the inner run reaches the outer one."""

import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from core.actors import ONCE
from core.mcp.test_serving import served as serving_mcp
from server.scene import CONFIG
from servers.chat_server import Call, ChatServer, Reply, events, says, whole
from servers.podium_server import serving

from podium import ChatPlanner, ChatWorker, Conductor, Endpoint, Plan, Result, Retry, ScriptedWorker, Step
from podium.a2a import RemoteAgent
from podium.config import load_config
from podium.errors import PlannerError
from podium.mcp import McpServer, StreamableHttp
from podium.planners import FixedPlanner
from podium.workers import Worker

pytestmark = pytest.mark.anyio

ASKED = "Why is the sky blue?"
PLAN = (
    '{"worker": 0, "subtask": "Collect facts.", "access": []}\n'
    '{"worker": 1, "subtask": "Collect more facts.", "access": []}\n'
    '{"worker": 1, "subtask": "Write the answer.", "access": [0, 1]}\n'
)
NEWS = "the archive is closed today"
NOT_OK: list[Any] = [{"status": each} for each in ("partial", "failed", "PARTIAL", 7)]


def replies(end: str) -> Callable[[Call], Reply]:
    """Return the models of a run that ends like this."""
    refusal = whole({"error": {"message": NEWS, "code": "bad"}}, status=400)

    def reply(call: Call) -> Reply:
        match call.body["model"], end:
            case "planner", _:
                return says(call, PLAN)
            case ("one", "partial") | (_, "failed"):
                return refusal
        return says(call, "the answer")

    return reply


class Inner:
    """A Podium whose runs all end in one way."""

    def __init__(self, stack: ExitStack, folder: Path, end: str) -> None:
        self.end = end
        self._stack = stack
        self._config = folder / "podium.toml"
        policy = '\n[policy]\napprove = "later"\n' if end == "waiting" else ""
        self.upstream = stack.enter_context(ChatServer(replies(end)).in_thread())
        """The models behind it."""
        text = CONFIG.format(url=self.upstream.url, models="", server="") + policy
        self.root = stack.enter_context(serving(text, folder)).root
        """The URL of `podium serve`."""
        self.endpoint = Endpoint(f"{self.root}/v1", api_key="no-key")

    def mcp(self) -> str:
        return self._stack.enter_context(serving_mcp(load_config(self._config).conductor()))


@pytest.fixture(scope="module", params=["ok", "partial", "failed", "waiting"])
def inner(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inner]:
    with ExitStack() as stack:
        yield Inner(stack, tmp_path_factory.mktemp("inner"), request.param)


def _of(worker: Worker) -> Conductor:
    return Conductor.of(worker, retry=ONCE)


async def hosted_chat(inner: Inner) -> Worker:
    return _of(ChatWorker("podium", endpoint=inner.endpoint))


async def hosted_responses(inner: Inner) -> Worker:
    return _of(ChatWorker("podium", endpoint=inner.endpoint, api="responses"))


async def chat_worker(inner: Inner) -> Worker:
    return ChatWorker("podium", endpoint=inner.endpoint)


async def mcp_gateway(inner: Inner) -> Worker:
    (ask,) = await McpServer("inner", StreamableHttp(f"{inner.root}/mcp")).workers(tools=["ask"])
    return ask


async def podium_mcp(inner: Inner) -> Worker:
    (ask,) = await McpServer("inner", StreamableHttp(inner.mcp())).workers(tools=["ask"])
    return ask


async def a2a(inner: Inner) -> Worker:
    return await RemoteAgent(f"{inner.root}/a2a/podium").worker()


WIRES = (hosted_chat, hosted_responses, chat_worker, mcp_gateway, podium_mcp, a2a)
Wire = Callable[[Inner], Awaitable[Worker]]


async def ask(asked: Worker, *, stream: bool, retry: Retry = ONCE) -> Result:
    outer = asked
    if not isinstance(asked, Conductor):
        subtask = json.dumps({"question": ASKED})
        outer = Conductor(FixedPlanner(Plan((Step(0, subtask),))), [asked], retry=retry)
    if not stream:
        found: Result = await outer.run(ASKED)
        return found
    async with outer:
        seen = [event async for event in outer.stream(ASKED)]
    result: Result = seen[-1].result
    return result


@pytest.mark.long
@pytest.mark.parametrize("wire", WIRES)
async def test_the_end_of_the_inner_run_is_the_end_of_the_outer(wire: Wire, inner: Inner) -> None:
    """Streamed and whole. Only an inner run that is `ok` makes an outer run that is `ok`."""
    asked, end, before = await wire(inner), inner.end, len(inner.upstream.calls)
    retry = Retry() if end == "waiting" else ONCE
    results = [await ask(asked, stream=stream, retry=retry) for stream in (False, True)]
    if end == "waiting":
        assert len(inner.upstream.calls) == before + 2, "a retry would leave another run that waits"
    for result in results:
        assert result.status == {"ok": "ok", "partial": "partial"}.get(end, "failed")
        assert result.answer.startswith("the answer" if end in ("ok", "partial") else "")
        told = "" if result.problem is None else result.problem.message
        assert (NEWS in told, "approv" in told) == (end in ("partial", "failed"), end == "waiting")
        if end == "ok":
            assert (result.answer, result.problem) == ("the answer", None)
        if end == "partial" and result.outcomes:
            (outcome,) = result.outcomes
            assert (outcome.status, outcome.problem.code) == ("ok", "partial")


NOT_OK += [{"status": "partial", "problem": "x"}]
FOREIGN = ["yes", [], {"status": None}, {"status": "ok", "problem": 1}]


@pytest.mark.parametrize(
    ("said", "is_ok"), [(each, False) for each in NOT_OK] + [(each, True) for each in FOREIGN]
)
async def test_a_status_that_is_not_ok_is_never_ok(said: Any, *, is_ok: bool) -> None:
    """Also one that this version does not know; what another server says changes nothing."""
    async with ChatServer(lambda call: with_podium(call, said)) as server:
        worker = ChatWorker("a", endpoint=Endpoint(server.url))
        results = [await ask(one, stream=stream) for one in (worker, _of(worker)) for stream in (False, True)]
    assert {(result.status, result.answer) for result in results} == {("ok" if is_ok else "partial", "fine")}


async def test_the_text_of_a_planner_that_is_incomplete_is_no_plan() -> None:
    """A planner behind another Podium, whose answer is a valid plan of half the facts."""
    plan = '{"worker": 0, "subtask": "Say hello.", "access": []}'
    said = {"status": "partial", "problem": {"code": "worker_failed", "message": NEWS}}
    async with ChatServer(lambda call: with_podium(call, said, plan)) as server:
        planner = ChatPlanner(ChatWorker("planner", endpoint=Endpoint(server.url)))
        conductor = Conductor(planner, [ScriptedWorker("a", "hello")], retry=Retry(attempts=1))
        with pytest.raises(PlannerError, match=NEWS) as raised:
            await conductor.run(ASKED)
    assert raised.value.usage.total_tokens == 218


def with_podium(call: Call, said: object, text: str = "fine") -> Reply:
    """Reply like a server that says something under `podium`, in its last chunk."""
    usage = {"prompt_tokens": 211, "completion_tokens": 7, "total_tokens": 218}
    if not call.body.get("stream"):
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        return whole({"choices": [choice], "usage": usage, "podium": said})
    first = {"choices": [{"index": 0, "delta": {"role": "assistant", "content": text}}]}
    last = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "podium": said}
    return events(first, last, {"choices": [], "usage": usage})
