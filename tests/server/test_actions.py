"""Actions over the APIs of the server: carried out once, told in each body, and decided by people."""

import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest
from server.scene import ASKED, Serve, until
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
    open_shop.ends.clear()
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
    frames: list[dict[str, Any]] = [
        json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")
    ]
    return next(frame for frame in reversed(frames) if "podium" in json.dumps(frame))


def done(client: httpx2.Client, run_id: str) -> dict[str, Any]:
    """Wait until no process carries out a run, and return it."""
    client.get(f"/runs/{run_id}/events")
    return dict(client.get(f"/runs/{run_id}").json())


BODIES: dict[str, dict[str, Any]] = {
    "/chat/completions": {"messages": ASKED},
    "/responses": {"input": "What?"},
    "/messages": {"messages": ASKED, "max_tokens": 100},
}


def told(client: httpx2.Client, path: str, *, stream: bool) -> dict[str, Any]:
    """Ask over an API, and return the body of its answer; of a stream, the last frame about the run."""
    if path == "/runs":
        run_id = client.post("/runs", json={"model": "podium", "query": "What?"}).json()["id"]
        run = done(client, run_id)
        return {"podium": run} if run["answer"] else {"error": {"podium": run}}
    answer = client.post(path, json={"model": "podium", "stream": stream, **BODIES[path]})
    found = last_frame(answer.text) if stream else dict(answer.json())
    return dict(found["response"]) if stream and "response" in found else found


ONCE = "[retry]\nattempts = 1\nbreak_after = 100\n"
CASES: dict[str, tuple[str, list[str], str | None, str]] = {
    # the plan, the ends of calls, the status (None: an error), the end of the action
    "unseen": (rows(REFUND, ALONE), [], "ok", "done"),
    "unknown": (rows(REFUND, ALONE), ["late"], "partial", "unknown"),
    "a run without an answer": (
        rows(REFUND, {"worker": "one", "subtask": "Write.", "access": [0]}),
        [],
        None,
        "done",
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
def test_each_api(serve: Serve, upstream: ChatServer, orders: Shop, case: str) -> None:
    plan, ends, status, end = CASES[case]
    client = serve(models=(orders.table if ends else orders.patient) + ONCE).http()
    for path, stream in (*((path, stream) for path in BODIES for stream in (False, True)), ("/runs", False)):
        upstream.reply = planning(plan)
        orders.ends, orders.refunds[:] = list(ends), []
        body = told(client, path, stream=stream)
        podium = body["podium"] if status else body["error"]["podium"]
        shown = [(action["worker"], action["asked"], action["end"]) for action in podium.get("actions", [])]
        assert orders.refunds == [1017], path
        assert shown == [("shop.refund", '{"order": 1017}', end)], path
        if status:
            assert podium["status"] == status, path


def stalling(plan: str) -> Callable[[Call], Reply]:
    """As `planning`; the writer never answers."""
    reply = planning(plan)
    return lambda call: Reply((STALL,)) if call.body["model"] == "two" else reply(call)


def interrupted(
    client: httpx2.Client, upstream: ChatServer, path: str, body: dict[str, Any], end: Callable[[str], object]
) -> httpx2.Response:
    """Post a request, end it when its action is done and its writer is called, and return the answer."""
    answers: list[httpx2.Response] = []
    thread = threading.Thread(target=lambda: answers.append(client.post(path, json=body)))
    before = len(upstream.calls)
    thread.start()
    assert until(lambda: any(call.body["model"] == "two" for call in upstream.calls[before:]))
    end(client.get("/runs").json()["data"][0]["id"])
    thread.join(20)
    return answers[0]


@pytest.mark.long
@pytest.mark.parametrize(
    ("path", "stream", "end"),
    [
        ("/chat/completions", False, "cancel"),
        ("/responses", True, "cancel"),
        ("/messages", False, "stop"),
    ],
)
def test_an_interrupted_run(
    serve: Serve, upstream: ChatServer, orders: Shop, path: str, end: str, *, stream: bool
) -> None:
    served = serve(models=orders.patient, server="drain_seconds = 0.1")
    client, upstream.reply = served.http(), stalling(rows(REFUND, WRITE))

    def stop(run_id: str) -> None:
        if end == "cancel":
            client.post(f"/runs/{run_id}/cancel", json={}).raise_for_status()
        else:
            served.server.tell()

    body = {"model": "podium", "stream": stream, **BODIES[path]}
    answer = interrupted(client, upstream, path, body, stop)
    found = last_frame(answer.text) if stream else answer.json()
    error = found.get("response", found)["error"]
    assert error["code"] == ("run_cancelled" if end == "cancel" else "server_stopping")
    (action,) = error["podium"]["actions"]
    assert (action["worker"], action["end"], orders.refunds) == ("shop.refund", "done", [1017])
    if not stream:
        assert answer.headers["x-should-retry"] == "false"
        if path != "/messages":
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
    run = done(client, error["run_id"])
    assert (run["status"], orders.refunds, len(run["waits_for"]["actions"])) == ("waiting", [], 1)
    assert run["problem"]["message"] == f"step {names[1]} waits for approval: {asked[1]}"
    client.post(f"{path}/refuse", json={"why": "not this one"}).raise_for_status()
    run = done(client, error["run_id"])
    assert (run["status"], run["answer"], orders.refunds) == ("partial", "the answer", [1020])
    assert "not this one" in run["problem"]["message"]


def test_a_question_of_a_step(serve: Serve, upstream: ChatServer) -> None:
    ann = '[workers.ann]\ntype = "person"\nchoices = ["yes", "no"]\n'
    client = serve(models=ann).http()
    upstream.reply = planning(rows({"worker": "ann", "subtask": "May I?"}, WRITE))
    error = chat(client).json()["error"]
    assert error["code"] == "waiting"
    assert error["message"].endswith(
        f"step 0 waits for an answer: May I?: POST /v1/runs/{error['run_id']}/decide"
    )
    path = f"/runs/{error['run_id']}"
    (asked,) = client.get(path).json()["waits_for"]["actions"]
    assert (asked["asked"], asked["question"]["choices"]) == ("May I?", ["yes", "no"])
    for body, status in (({"answer": "perhaps"}, 400), ({"answer": "yes", "done": True}, 400)):
        assert client.post(f"{path}/decide", json={"action": 0, **body}).status_code == status
    assert client.post(f"{path}/decide", json={"action": 0, "answer": "yes"}).status_code == 202
    run = done(client, error["run_id"])
    assert (run["status"], run["rounds"][0]["steps"][0]["text"]) == ("ok", "yes")


@pytest.mark.long
@pytest.mark.parametrize("is_done", [True, False])
def test_a_person_decides_on_an_unknown_end(
    serve: Serve, upstream: ChatServer, orders: Shop, *, is_done: bool
) -> None:
    """Until then no repetition of the request, and no resumed run, carries the action out again."""
    client = serve(models=orders.table + ONCE).http()
    upstream.reply, orders.ends = planning(rows(REFUND, WRITE)), ["late"]
    same = {"headers": {"Idempotency-Key": "k1"}}
    first, again = chat(client, **same), chat(client, **same)
    assert first.headers["x-should-retry"] == "false"
    for failed in (first, again):
        (action,) = failed.json()["error"]["podium"]["actions"]
        assert (failed.status_code >= 500, action["end"], orders.refunds) == (True, "unknown", [1017])
    path = f"/runs/{action['run_id']}"
    client.post(f"{path}/resume", json={}).raise_for_status()
    assert (done(client, action["run_id"])["status"], orders.refunds) == ("failed", [1017])
    for body, status in (({"action": 0}, 400), ({"action": 1, "done": True}, 409), ({"done": True}, 400)):
        assert client.post(f"{path}/decide", json=body).status_code == status
    decided = client.post(f"{path}/decide", json={"action": 0, "done": is_done, "why": "looked"})
    assert decided.status_code == 202, decided.text
    run = done(client, action["run_id"])
    assert (run["status"], run["actions"][0]["end"]) == ("ok", "done")
    assert orders.refunds == ([1017] if is_done else [1017, 1017])
    replayed = chat(client, **same)
    assert (replayed.status_code, replayed.headers["idempotent-replayed"]) == (200, "true")


def test_clients_do_not_repeat_what_has_acted(serve: Serve, upstream: ChatServer, orders: Shop) -> None:
    """Also if nothing was paid and a worker was overloaded, after which clients repeat requests."""
    plan = rows(REFUND, WRITE)
    client = serve(models=orders.patient + ONCE).http()
    upstream.reply = lambda call: (
        says(call, plan) if call.body["model"] == "planner" else whole({}, status=503)
    )
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
        result = await Conductor(
            FixedPlanner(Plan((Step(1, "x"), Step(0, "y", (0,))))), [remote, foreign]
        ).run("?")
        assert (result.status, remote.acts, foreign.acts) == ("ok", False, False)
        assert len([call for call in upstream.calls if call.body["model"] == "two"]) == 2
