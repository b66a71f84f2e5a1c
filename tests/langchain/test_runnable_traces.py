"""What LangChain's callbacks, events and configuration see of a run, and what a cancel of it closes."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partialmethod
from typing import Any

import anyio
import anyio.to_thread
import pytest
from langchain_core.callbacks import BaseCallbackHandler, UsageMetadataCallbackHandler
from langchain_core.messages import AIMessageChunk, HumanMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda
from servers.chat_server import STALL, Call, ChatServer, Reply, chunk, events, says

from langchain_podium import ChatPodium, ConductorRunnable, as_planner, as_worker
from podium import Card, ChatPlanner, Conductor, FunctionWorker, Plan, ScriptedWorker, Step
from podium.errors import PodiumError, WorkerFailed
from podium.execution import Retry
from podium.hosts import tool_call
from podium.plan_text import write_plan
from podium.planners import FixedPlanner
from podium.types import Completion
from podium.workers import FREE, Request, StepInput, Worker

pytestmark = pytest.mark.anyio
Make = Callable[..., Any]
DIAMOND = Plan((Step(0, "begin"), Step(1, "left", (0,)), Step(1, "right", (0,)), Step(2, "join", (1, 2))))


class _Tree(BaseCallbackHandler):
    def __init__(self) -> None:
        self.names: dict[Any, str] = {}
        self.parents: dict[Any, Any] = {}
        self.facts: dict[Any, dict[str, Any]] = {}
        self.tags: dict[Any, list[str]] = {}
        self.ended: dict[Any, Any] = {}
        self.events: list[tuple[str, dict[str, Any], Any]] = []

    def _begin(self, *_: Any, run_id: Any, parent_run_id: Any = None, **told: Any) -> None:
        self.names[run_id] = told.get("name") or "model"
        self.parents[run_id] = parent_run_id
        self.facts[run_id] = dict(told.get("metadata") or {})
        self.tags[run_id] = list(told.get("tags") or [])

    def _end(self, outputs: Any, *, run_id: Any, **_: Any) -> None:
        assert run_id not in self.ended
        self.ended[run_id] = outputs

    def on_custom_event(self, name: str, data: Any, *, run_id: Any, **_: Any) -> None:
        self.events.append((name, data, run_id))

    on_chain_start = _begin
    on_chain_end = on_chain_error = on_llm_end = on_llm_error = _end

    def on_chat_model_start(self, *_: Any, **told: Any) -> None:
        self._begin(**(told | {"name": "model"}))

    def drawn(self) -> list[str]:
        return sorted("/".join(reversed([*self._path(run_id)])) for run_id in self.names)

    def _path(self, run_id: Any) -> Iterator[str]:
        while run_id is not None:
            yield self.names[run_id]
            run_id = self.parents[run_id]

    def only(self, name: str) -> Any:
        (found,) = [run_id for run_id, each in self.names.items() if each == name]
        return found


def _team(call: Call) -> Reply:
    conducts = "You are the conductor" in json.dumps(call.body["messages"])
    steps = [
        '{"worker": 0, "subtask": "Look it up.", "access": []}',
        '{"worker": 1, "subtask": "Write it.", "access": [0]}',
    ]
    return says(call, "\n".join(steps) + "\n" if conducts else "Forty-two.")


async def test_every_step_is_a_child_run_in_which_what_the_worker_calls_stands(openai: Make) -> None:
    """The planner's call too; metadata say which step it is, down to the model's own run."""
    async with ChatServer(_team) as server:

        async def look(step_input: StepInput) -> str:
            """A worker of Podium's own that calls something of LangChain's."""
            return str((await openai(server.url, "inner").ainvoke(step_input.subtask)).text)

        workers: list[Worker] = [FunctionWorker(look, price=FREE), as_worker(openai(server.url, "writer"))]
        runnable = ConductorRunnable(Conductor(as_planner(openai(server.url, "boss")), workers))
        tree, usage = _Tree(), UsageMetadataCallbackHandler()
        config = RunnableConfig(
            callbacks=[tree, usage], tags=["mine"], metadata={"user": "7"}, run_name="asking"
        )
        chain = RunnableLambda(lambda text: text) | runnable.with_config(run_name="team")
        assert await chain.ainvoke("What?", config) == "Forty-two."
    assert tree.drawn() == [
        "asking",
        "asking/RunnableLambda",
        "asking/team",
        "asking/team/boss",
        "asking/team/boss/model",
        "asking/team/look",
        "asking/team/look/model",
        "asking/team/writer",
        "asking/team/writer/model",
    ]
    assert all(facts["user"] == "7" for facts in tree.facts.values())
    assert all("mine" in tags for tags in tree.tags.values())
    assert set(tree.ended) == set(tree.names)
    steps = {name: tree.facts[tree.only(name)] for name in ("boss", "look", "writer")}
    assert [facts.get("podium_step") for facts in steps.values()] == [None, 0, 1]
    assert steps["writer"]["podium_attempt"] == 1
    assert "podium:planner" in tree.tags[tree.only("boss")]
    assert "podium:step" in tree.tags[tree.only("writer")]
    models = [run_id for run_id, name in tree.names.items() if name == "model"]
    assert sorted(tree.facts[run_id].get("podium_step", -1) for run_id in models) == [-1, 0, 1]
    assert usage.usage_metadata["scripted-1"]["total_tokens"] == 3 * 218
    assert tree.ended[tree.only("writer")] == {"output": "Forty-two."}


async def test_events_of_the_run_are_custom_events_in_order() -> None:
    """Under the conductor's own run, as plain JSON, with what the run took at the end."""
    tree = _Tree()
    workers = [ScriptedWorker(name, name) for name in ("a", "b", "c")]
    runnable = ConductorRunnable(Conductor(FixedPlanner(DIAMOND), workers))
    assert await runnable.ainvoke("What?", {"callbacks": [tree]}) == "c"
    names = [name.removeprefix("podium_") for name, _, _ in tree.events]
    assert names[0] == "run_started"
    assert names[-1] == "run_ended"
    assert names.index("plan_ready") < names.index("step_started")
    assert names.count("step_ended") == 4
    assert "step_delta" not in names  # nobody reads along
    assert {run_id for _, _, run_id in tree.events} == {tree.only("conductor")}
    last = json.loads(json.dumps([data for _, data, _ in tree.events]))[-1]
    assert (last["calls"], last["cost"], last["result"]["answer"]) == (4, 0.0, "c")
    assert last["usage"]["output_tokens"] == 4


async def test_astream_events_shows_tokens_steps_and_events(openai: Make) -> None:
    """What a front end is fed with: each token says whose step's it is."""
    async with ChatServer(_team) as server:
        workers = [as_worker(openai(server.url, name)) for name in ("reader", "writer")]
        runnable = ConductorRunnable(Conductor(as_planner(openai(server.url, "boss")), workers))
        seen = [event async for event in runnable.astream_events("What?", version="v2")]
    tokens: dict[Any, str] = {}
    for event in seen:
        if event["event"] == "on_chat_model_stream":
            step = event["metadata"].get("podium_step")
            tokens[step] = tokens.get(step, "") + event["data"]["chunk"].text
    assert (tokens[0], tokens[1]) == ("Forty-two.", "Forty-two.")
    assert "Look it up." in tokens[None]
    custom = [event["name"] for event in seen if event["event"] == "on_custom_event"]
    assert "podium_plan_ready" in custom
    assert "podium_answer_delta" in custom
    pieces = [
        e["data"]["chunk"] for e in seen if e["event"] == "on_chain_stream" and e["name"] == "conductor"
    ]
    assert "".join(pieces) == "Forty-two."


async def test_a_failing_step_s_run_ends_with_its_error_and_each_attempt_has_a_run() -> None:
    """Retries can be seen."""
    broken = iter([True, False])

    def reply(request: Any) -> Any:
        return TimeoutError("slow") if next(broken) else "done"

    tree = _Tree()
    conductor = Conductor(
        FixedPlanner(Plan((Step(0, "do"),))),
        [ScriptedWorker("a", reply)],
        retry=Retry(retry_on=frozenset({"worker_failed"}), first_wait=0.001),
    )
    assert await ConductorRunnable(conductor).ainvoke("What?", {"callbacks": [tree]}) == "done"
    attempts = [run_id for run_id, name in tree.names.items() if name == "a"]
    assert [tree.facts[run_id]["podium_attempt"] for run_id in attempts] == [1, 2]
    assert "slow" in str(tree.ended[attempts[0]])
    assert tree.ended[attempts[1]] == {"output": "done"}


KEY = "sk-ponmlkjihgfedcba4321"


class _Spilling(Worker):
    """Returns a key: in a tool call, in an error, or in text that never comes to an end."""

    def __init__(self, how: str) -> None:
        self.card = Card(name=how, price=FREE)

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        if self.card.name == "tool call":
            yield Completion("", tool_calls=(tool_call("1", "look", json.dumps({"key": KEY})),))
        elif self.card.name == "error":
            raise WorkerFailed(f"the key {KEY} is wrong", maybe_paid=False)
        else:
            yield f"the key is {KEY}"


@pytest.mark.parametrize("how", ["tool call", "error", "no end"])
async def test_no_tracer_is_shown_a_secret(how: str) -> None:
    """Neither in what steps and planners are asked nor in what they return, however they end."""
    seen = _Seen()
    steps = write_plan(Plan((Step(0, f"Look it up with {KEY}."), Step(1, "Answer.", (0,)))), "rows")
    planner = ChatPlanner(ScriptedWorker("boss", steps))
    pool = [ScriptedWorker("finder", f"found {KEY}"), _Spilling(how)]
    with suppress(PodiumError):
        await ConductorRunnable(Conductor(planner, pool)).ainvoke(
            f"What does {KEY} open?", {"callbacks": [seen]}
        )
    assert any("Look it up with" in told for told in seen.told)
    assert any("found sk-[secret]" in told for told in seen.told)
    assert [told for told in seen.told if KEY in told] == []


class _Seen(BaseCallbackHandler):
    def __init__(self) -> None:
        self.told: list[str] = []

    def _take(self, kind: str, /, *args: Any, **kwargs: Any) -> None:
        self.told.append(f"{kind} {args!r} {kwargs!r}")


for _name in ("chain_start", "chain_end", "chain_error", "llm_end", "llm_error", "llm_new_token"):
    setattr(_Seen, f"on_{_name}", partialmethod(_Seen._take, _name))
_Seen.on_custom_event = partialmethod(_Seen._take, "custom_event")


async def test_no_callback_is_shown_a_secret_of_a_conductor() -> None:
    """Neither in what it is asked nor in its answer; the caller gets the answer as it is."""
    conductor = Conductor(FixedPlanner(Plan((Step(0, "do"),))), [ScriptedWorker("a", f"the key is {KEY}")])
    seen, runnable = _Seen(), ConductorRunnable(conductor, output="result")
    question: list[Any] = [HumanMessage(f"What does {KEY} open?"), {"role": "user", "content": f"{KEY}?"}]
    result: Any = await runnable.ainvoke(question, {"callbacks": [seen]})
    assert result.answer == f"the key is {KEY}"
    assert {told.split()[0] for told in seen.told} == {"chain_start", "chain_end", "custom_event"}
    assert any("the key is sk-[secret]" in told for told in seen.told if told.startswith("chain_end"))
    assert [told for told in seen.told if KEY in told] == []


async def test_a_secret_in_two_pieces_is_not_shown_whole() -> None:
    """What callbacks are told of a stream's end is without it, for it is looked for in the whole."""

    class Slow(Worker):
        card = Card(name="slow", price=FREE)

        async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
            yield f"the key is {KEY[:8]}"
            yield KEY[8:]
            yield Completion(f"the key is {KEY}")

    conductor = Conductor(FixedPlanner(Plan((Step(0, "do"),))), [Slow()])
    chat = ChatPodium(conductor=conductor)
    assert (await chat.ainvoke("What?", {"callbacks": [seen := _Seen()]})).text == f"the key is {KEY}"
    assert [told for told in seen.told if KEY in told] == []
    for runnable in (ConductorRunnable(conductor), chat):
        seen = _Seen()
        config: Any = {"callbacks": [seen]}
        pieces = [piece async for piece in runnable.astream("What?", config)]
        texts = [piece if isinstance(piece, str) else piece.text for piece in pieces]
        assert "".join(texts) == f"the key is {KEY}"
        assert len([text for text in texts if text]) == 2
        assert {type(piece) for piece in pieces} in ({str}, {AIMessageChunk})
        assert [told for told in seen.told if KEY in told] == []
        ends = [told for told in seen.told if told.startswith(("chain_end", "llm_end"))]
        assert "the key is sk-[secret]" in ends[-1]


def _hangs(call: Call) -> Reply:
    return events(chunk({"content": "half"}), STALL) if call.body.get("stream") else Reply((STALL,))


async def _until(met: Callable[[], bool]) -> None:
    with anyio.fail_after(5):
        while not met():  # noqa: ASYNC110 - what is waited for is another thread of events
            await anyio.sleep(0.001)


async def _until_they_wait(server: ChatServer) -> None:
    """Wait until both calls hang, and what was sent before has been read."""
    await _until(lambda: len(server.calls) == 2)
    await anyio.sleep(0.05)


async def _invoke(runnable: ConductorRunnable) -> None:
    await runnable.ainvoke("Why?")


async def _stream(runnable: ConductorRunnable) -> None:
    async for _ in runnable.astream("Why?"):
        pass


async def _chain(runnable: ConductorRunnable) -> None:
    await (RunnableLambda(lambda text: text) | runnable).ainvoke("Why?", {"callbacks": [_Tree()]})


async def _cancel_task(work: Awaitable[None], server: ChatServer) -> None:
    task = asyncio.ensure_future(work)
    await _until_they_wait(server)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


async def _cancel_scope(work: Awaitable[None], server: ChatServer) -> None:
    async def run() -> None:
        await work

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await _until_they_wait(server)
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("kind", "way", "cancel"),
    [("chat", _invoke, _cancel_scope), ("chat", _stream, _cancel_task), ("chain", _chain, _cancel_scope)],
)
async def test_a_cancel_closes_the_workers_sockets_and_starts_nothing(
    way: Callable[[ConductorRunnable], Awaitable[None]],
    cancel: Callable[[Awaitable[None], ChatServer], Awaitable[None]],
    kind: str,
    openai: Make,
) -> None:
    """Two calls hang; both connections end, neither is retried, what waits for them is never asked."""
    plan = Plan((Step(0, "left"), Step(0, "right"), Step(0, "join", (0, 1))))
    async with ChatServer(_hangs) as server:
        model = openai(server.url)
        thing = model if kind == "chat" else RunnableLambda(lambda text: text) | model
        runnable = ConductorRunnable(Conductor(FixedPlanner(plan), [as_worker(thing, name="w")]))
        await cancel(way(runnable), server)
        await _until(lambda: all(call.hung_up.is_set() for call in server.calls))
        await _until(lambda: server.open_connections == 0)
        assert len(server.calls) == 2


async def test_leaving_a_stream_closes_the_sockets(openai: Make) -> None:
    """Whoever stops reading stops the run."""

    def answers(call: Call) -> Reply:
        return events(chunk({"content": "half"}), STALL)

    async with ChatServer(answers) as server:
        worker = as_worker(openai(server.url))
        runnable = ConductorRunnable(Conductor(FixedPlanner(Plan((Step(0, "do"),))), [worker]))
        stream = runnable.astream("Why?")
        assert await anext(stream) == "half"
        await stream.aclose()
        await _until(server.calls[0].hung_up.is_set)
