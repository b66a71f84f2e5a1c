"""Actions over the APIs of the server: carried out once, told in each body, and decided by people."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest
from server.scene import ASKED, BODIES, Serve, called, ended, until
from servers.chat_server import STALL, Call, ChatServer, Reply, says, whole
from servers.shop import Shop, shop

from podium import ChatWorker, Conductor, Endpoint, Plan, Retry, Step
from podium.a2a import RemoteAgent
from podium.mcp import McpServer, StreamableHttp
from podium.planners import FixedPlanner

REFUND = {"worker": "shop.refund", "subtask": '{"order": 1017}'}
WRITE = {"worker": "two", "subtask": "Write.", "access": [0]}
ALONE = {**WRITE, "access": []}
LATER = '[policy]\napprove = "later"\nask = "actions"\n'


@pytest.fixture(scope="module")
def open_shop() -> Iterator[Shop]:
    with shop() as served:
        yield served


@pytest.fixture
def orders(open_shop: Shop) -> Shop:
    """Return a shop whose tool refunds orders; it has refunded none."""
    open_shop.refunds.clear()
    open_shop.late = 0
    return open_shop


def rows(*steps: dict[str, Any]) -> str:
    return "".join(json.dumps({"access": [], **step}) + "\n" for step in steps)


def planning(plan: str) -> Callable[[Call], Reply]:
    """Return a server whose planner writes a plan, and whose workers answer; `one` fails."""

    def reply(call: Call) -> Reply:
        match call.body["model"]:
            case "planner":
                return says(call, plan)
            case "one":
                return whole({}, status=400)
        return says(call, "the answer")

    return reply


def chat(client: httpx2.Client, **more: Any) -> httpx2.Response:
    body = {"model": "podium", "messages": ASKED}
    return client.post("/chat/completions", json=body, **more)


def last_frame(text: str) -> dict[str, Any]:
    """Return the last frame of a stream that has data about the run; an error may come before the stream."""
    if text.startswith("{"):
        return dict(json.loads(text))
    frames = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
    return next(dict(frame) for frame in reversed(frames) if "podium" in json.dumps(frame))


def told(client: httpx2.Client, path: str, *, stream: bool) -> dict[str, Any]:
    """Ask over an API, and return the body of its answer; of a stream, the last frame about the run."""
    if path == "runs":
        run = ended(client, client.post("/runs", json={"model": "podium", "query": "What?"}).json()["id"])
        return {"podium": run} if run["answer"] else {"error": {"podium": run}}
    answer = client.post(path, json={"model": "podium", "stream": stream, **BODIES[path]})
    found = last_frame(answer.text) if stream else dict(answer.json())
    return dict(found["response"]) if stream and "response" in found else found


ONCE = "[retry]\nattempts = 1\nbreak_after = 100\n"
CASES: dict[str, tuple[str, int, str | None, str]] = {
    # the plan, how many calls are late, the status (None: an error), the end of the action
    "unseen": (rows(REFUND, ALONE), 0, "ok", "done"),
    "unknown": (rows(REFUND, ALONE), 1, "partial", "unknown"),
    "a run without an answer": (rows(REFUND, {**WRITE, "worker": "one"}), 0, None, "done"),
}


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
def test_each_api(serve: Serve, upstream: ChatServer, orders: Shop, case: str) -> None:
    plan, late, status, end = CASES[case]
    client = serve(models=(orders.table if late else orders.patient) + ONCE).http()
    for path, stream in (*((path, stream) for path in BODIES for stream in (False, True)), ("runs", False)):
        upstream.reply = planning(plan)
        orders.late, orders.refunds[:] = late, []
        body = told(client, path, stream=stream)
        podium = body["podium"] if status else body["error"]["podium"]
        shown = [(action["worker"], action["asked"], action["end"]) for action in podium.get("actions", [])]
        assert orders.refunds == [1017], path
        assert shown == [("shop.refund", '{"order": 1017}', end)], path
        if status:
            assert podium["status"] == status, path


@pytest.mark.long
@pytest.mark.parametrize("path", BODIES)
def test_an_interrupted_run(serve: Serve, upstream: ChatServer, orders: Shop, path: str) -> None:
    """Its action is done, and its writer never answers: it is cancelled, or the server stops."""
    is_cancelled = path != "messages"
    served, stream = serve(models=orders.patient, server="drain_seconds = 0.1"), path == "responses"
    client, reply = served.http(), planning(rows(REFUND, WRITE))
    upstream.reply = lambda call: Reply((STALL,)) if call.body["model"] == "two" else reply(call)
    body = {"model": "podium", "stream": stream, **BODIES[path]}
    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(client.post, path, json=body)
        assert until(lambda: "two" in called(upstream))
        if is_cancelled:
            run_id = client.get("/runs").json()["data"][0]["id"]
            client.post(f"/runs/{run_id}/cancel", json={}).raise_for_status()
        else:
            served.server.tell()
        answer = asked.result(20)
    found = last_frame(answer.text) if stream else answer.json()
    error = found.get("response", found)["error"]
    assert error["code"] == ("run_cancelled" if is_cancelled else "server_stopping")
    (action,) = error["podium"]["actions"]
    assert (action["worker"], action["end"], orders.refunds) == ("shop.refund", "done", [1017])
    if not stream:
        assert answer.headers["x-should-retry"] == "false"
        if is_cancelled:
            assert error["run_id"] == action["run_id"]


def test_approvals_of_actions(serve: Serve, upstream: ChatServer, orders: Shop) -> None:
    client = serve(models=orders.patient + LATER).http()
    each = {**REFUND, "subtask": '{"order": {{item}}}', "each": [1017, 1018]}
    upstream.reply, names = planning(rows(each, WRITE)), ("0[0]", "0[1]")
    waiting = chat(client)
    error = waiting.json()["error"]
    assert (waiting.status_code, error["code"], orders.refunds) == (409, "waiting", [])
    assert error["message"].endswith("/approve or /v1/runs/" + error["run_id"] + "/refuse")
    path = f"/runs/{error['run_id']}"
    shown = client.get(path).json()["waits_for"]["actions"]
    asked = ('{"order": 1017}', '{"order": 1018}')
    assert [(action["path"], action["asked"]) for action in shown] == list(zip(names, asked, strict=True))
    wrong = client.post(f"{path}/approve", json={"action": 2})
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (409, "not_waiting")
    seen = {"action": names[0], "why": "seen", "arguments": "1020"}
    wrong = client.post(f"{path}/approve", json=seen)
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (400, "query")
    seen["arguments"] = '{"order": 1020}'
    assert client.post(f"{path}/approve", json=seen).status_code == 202
    run = ended(client, error["run_id"])
    assert (run["status"], orders.refunds, len(run["waits_for"]["actions"])) == ("waiting", [], 1)
    assert run["problem"]["message"] == f"step {names[1]} waits for approval: {asked[1]}"
    client.post(f"{path}/refuse", json={"why": "not this one"}).raise_for_status()
    run = ended(client, error["run_id"])
    assert (run["status"], run["answer"], orders.refunds) == ("partial", "the answer", [1020])
    assert "not this one" in run["problem"]["message"]


def test_a_question_of_a_step(serve: Serve, upstream: ChatServer) -> None:
    ann = '[workers.ann]\ntype = "person"\nchoices = ["yes", "no"]\n'
    client = serve(models=ann).http()
    upstream.reply = planning(rows({"worker": "ann", "subtask": "May I?"}, WRITE))
    error = chat(client).json()["error"]
    path = f"/runs/{error['run_id']}"
    assert error["code"] == "waiting"
    assert error["message"].endswith(f"step 0 waits for an answer: May I?: POST /v1{path}/decide")
    (asked,) = client.get(path).json()["waits_for"]["actions"]
    assert (asked["asked"], asked["question"]["choices"]) == ("May I?", ["yes", "no"])
    for body, status in (({"answer": "perhaps"}, 400), ({"answer": "yes", "done": True}, 400)):
        assert client.post(f"{path}/decide", json={"action": 0, **body}).status_code == status
    assert client.post(f"{path}/decide", json={"action": 0, "answer": "yes"}).status_code == 202
    run = ended(client, error["run_id"])
    assert (run["status"], run["rounds"][0]["steps"][0]["text"]) == ("ok", "yes")


@pytest.mark.long
@pytest.mark.parametrize("is_done", [True, False])
def test_an_unknown_end(serve: Serve, upstream: ChatServer, orders: Shop, *, is_done: bool) -> None:
    """Until a person decides, no repeated request and no resumed run carries the action out again."""
    client = serve(models=orders.table + ONCE).http()
    upstream.reply, orders.late = planning(rows(REFUND, WRITE)), 1
    same = {"headers": {"Idempotency-Key": "k1"}}
    first, again = chat(client, **same), chat(client, **same)
    assert first.headers["x-should-retry"] == "false"
    for failed in (first, again):
        (action,) = failed.json()["error"]["podium"]["actions"]
        assert (failed.status_code >= 500, action["end"], orders.refunds) == (True, "unknown", [1017])
    path = f"/runs/{action['run_id']}"
    client.post(f"{path}/resume", json={}).raise_for_status()
    assert (ended(client, action["run_id"])["status"], orders.refunds) == ("failed", [1017])
    for body, status in (({"action": 0}, 400), ({"action": 1, "done": True}, 409), ({"done": True}, 400)):
        assert client.post(f"{path}/decide", json=body).status_code == status
    decided = client.post(f"{path}/decide", json={"action": 0, "done": is_done, "why": "looked"})
    assert decided.status_code == 202, decided.text
    run = ended(client, action["run_id"])
    assert (run["status"], run["actions"][0]["end"]) == ("ok", "done")
    assert orders.refunds == ([1017] if is_done else [1017, 1017])
    replayed = chat(client, **same)
    assert (replayed.status_code, replayed.headers["idempotent-replayed"]) == (200, "true")


def test_clients_do_not_repeat_what_has_acted(serve: Serve, upstream: ChatServer, orders: Shop) -> None:
    """Also if nothing was paid and a worker was overloaded, after which clients repeat requests."""
    client, planned = serve(models=orders.patient + ONCE).http(), planning(rows(REFUND, WRITE))
    busy = whole({}, status=503)
    upstream.reply = lambda call: planned(call) if call.body["model"] == "planner" else busy
    failed = chat(client)
    assert (failed.status_code, failed.json()["error"]["code"]) == (503, "worker_unavailable")
    assert (failed.headers["x-should-retry"], "retry-after" in failed.headers) == ("false", False)


class TestAnotherPodium:
    """A conductor that is served by another Podium acts if a worker of its pool does."""

    @pytest.mark.anyio
    async def test_agents_and_tools(self, serve: Serve, orders: Shop) -> None:
        for tables, acts in ((orders.patient, True), ("", False)):
            root = serve(models=tables).root
            agent = await RemoteAgent(f"{root}/a2a/podium").worker()
            tools = await McpServer("remote", StreamableHttp(f"{root}/mcp")).workers()
            told = {tool.card.name: tool.acts for tool in tools}
            only_read = {"remote.plan": False, "remote.list_models": False}
            assert (agent.acts, told) == (acts, {"remote.ask": acts, "remote.run_plan": acts, **only_read})

    @pytest.mark.anyio
    async def test_its_steps_are_actions(self, serve: Serve, upstream: ChatServer, orders: Shop) -> None:
        """Never from a gap, also at the first call: the server refuses it before anything is done."""
        upstream.reply = planning(rows(REFUND, WRITE))
        remote = ChatWorker("podium", endpoint=Endpoint(serve(models=orders.patient).url, provider="podium"))
        here = Endpoint(upstream.url)
        pool = [remote, ChatWorker("two", endpoint=here), ChatWorker("one", endpoint=here)]
        steps = (Step(2, "Read."), Step(1, "Draft."), Step(0, "Refund.", (0, 1)), Step(1, "Write.", (1, 2)))
        for _ in range(2):
            result = await Conductor(FixedPlanner(Plan(steps)), pool, retry=Retry(attempts=1)).run("What?")
            assert (result.status, orders.refunds, remote.acts) == ("partial", [], True)
        plan = Plan((Step(0, "Refund."), Step(1, "Write.", (0,))))
        result = await Conductor(FixedPlanner(plan), pool[:2]).run("What?")
        assert (result.status, orders.refunds) == ("ok", [1017])
        assert [(action.worker, action.end) for action in result.actions] == [("podium", "done")]

    @pytest.mark.anyio
    async def test_a_model_that_does_not_act(self, serve: Serve, upstream: ChatServer) -> None:
        """It counts as acting until its first answer; a foreign server never does."""
        upstream.reply = planning(rows(ALONE))
        remote = ChatWorker("podium", endpoint=Endpoint(serve().url, provider="podium"))
        foreign = ChatWorker("two", endpoint=Endpoint(upstream.url))
        assert (remote.acts, foreign.acts) == (True, False)
        plan = Plan((Step(1, "x"), Step(0, "y", (0,))))
        result = await Conductor(FixedPlanner(plan), [remote, foreign]).run("?")
        assert (result.status, remote.acts, foreign.acts) == ("ok", False, False)
        assert called(upstream).count("two") == 2
