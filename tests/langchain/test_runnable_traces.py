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
from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler, UsageMetadataCallbackHandler
from langchain_core.messages import AIMessageChunk, HumanMessage
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langchain_core.runnables.config import ensure_config
from servers.chat_server import STALL, Call, ChatServer, Reply, chunk, events, says

from langchain_podium import ChatPodium, ConductorRunnable, as_planner, as_worker
from podium import Card, ChatPlanner, Conductor, FunctionWorker, Limits, Plan, ScriptedWorker, Step
from podium.errors import PodiumError, WorkerFailed
from podium.execution import Retry
from podium.plan_text import write_plan
from podium.planners import FixedPlanner
from podium.types import Completion
from podium.workers import FREE, Request, StepInput, Worker

pytestmark = pytest.mark.anyio
Make = Callable[..., Any]
DIAMOND = Plan((Step(0, "begin"), Step(1, "left", (0,)), Step(1, "right", (0,)), Step(2, "join", (1, 2))))


class Tree(BaseCallbackHandler):
    """Writes down every run there is, and every custom event."""

    def __init__(self) -> None:
        self.names: dict[Any, str] = {}
        self.parents: dict[Any, Any] = {}
        self.facts: dict[Any, dict[str, Any]] = {}
        self.tags: dict[Any, list[str]] = {}
        self.ended: dict[Any, Any] = {}
        self.events: list[tuple[str, dict[str, Any], Any]] = []

    def on_chain_start(
        self, serialized: Any, inputs: Any, *, run_id: Any, parent_run_id: Any = None, **kwargs: Any
    ) -> None:
        """Note a run."""
        self.names[run_id] = kwargs["name"]
        self.parents[run_id] = parent_run_id
        self.facts[run_id] = dict(kwargs.get("metadata") or {})
        self.tags[run_id] = list(kwargs.get("tags") or [])

    def on_chat_model_start(self, serialized: Any, messages: Any, **kwargs: Any) -> None:
        """Note a model's run."""
        self.on_chain_start(serialized, messages, **(kwargs | {"name": "model"}))

    def on_chain_end(self, outputs: Any, *, run_id: Any, **kwargs: Any) -> None:
        """Note a good end, the only one."""
        assert run_id not in self.ended
        self.ended[run_id] = outputs

    def on_chain_error(self, error: BaseException, *, run_id: Any, **kwargs: Any) -> None:
        """Note a bad end, the only one."""
        assert run_id not in self.ended
        self.ended[run_id] = error

    def on_llm_end(self, response: Any, *, run_id: Any, **kwargs: Any) -> None:
        """Note a model's answer."""
        self.ended[run_id] = response

    def on_llm_error(self, error: BaseException, *, run_id: Any, **kwargs: Any) -> None:
        """Note a model's error."""
        self.ended[run_id] = error

    def on_custom_event(self, name: str, data: Any, *, run_id: Any, **kwargs: Any) -> None:
        """Note an event."""
        self.events.append((name, data, run_id))

    def drawn(self) -> list[str]:
        """Return the runs as paths, sorted."""
        return sorted("/".join(reversed([*self._path(run_id)])) for run_id in self.names)

    def _path(self, run_id: Any) -> Iterator[str]:
        while run_id is not None:
            yield self.names[run_id]
            run_id = self.parents[run_id]

    def only(self, name: str) -> Any:
        """Return the id of the one run of that name."""
        (found,) = [run_id for run_id, each in self.names.items() if each == name]
        return found


def team(call: Call) -> Reply:
    """Plan two steps when asked to conduct; else answer."""
    conducts = "You are the conductor" in json.dumps(call.body["messages"])
    steps = [
        '{"worker": 0, "subtask": "Look it up.", "access": []}',
        '{"worker": 1, "subtask": "Write it.", "access": [0]}',
    ]
    return says(call, "\n".join(steps) + "\n" if conducts else "Forty-two.")


async def test_every_step_is_a_child_run_in_which_what_the_worker_calls_stands(openai: Make) -> None:
    """The planner's call too; metadata say which step it is, down to the model's own run."""
    async with ChatServer(team) as server:

        async def look(step_input: StepInput) -> str:
            """A worker of Podium's own that calls something of LangChain's."""
            return str((await openai(server.url, "inner").ainvoke(step_input.subtask)).text)

        workers: list[Worker] = [FunctionWorker(look, price=FREE), as_worker(openai(server.url, "writer"))]
        runnable = ConductorRunnable(Conductor(as_planner(openai(server.url, "boss")), workers))
        tree, usage = Tree(), UsageMetadataCallbackHandler()
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
    tree = Tree()
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
    async with ChatServer(team) as server:
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


async def test_a_nested_conductor_s_steps_stand_under_its_step() -> None:
    """As its worker's run is the parent of all it calls."""
    inner = Conductor(
        FixedPlanner(Plan((Step(0, "dig"),))), [ScriptedWorker("digger", "dug")], card=Card(name="inner")
    )
    outer = Conductor(FixedPlanner(Plan((Step(0, "find"),))), [as_worker(ConductorRunnable(inner))])
    tree = Tree()
    assert await ConductorRunnable(outer).ainvoke("What?", {"callbacks": [tree]}) == "dug"
    assert tree.drawn() == ["conductor", "conductor/inner", "conductor/inner/digger"]


async def test_a_failing_step_s_run_ends_with_its_error_and_each_attempt_has_a_run() -> None:
    """Retries can be seen."""
    broken = iter([True, False])

    def reply(request: Any) -> Any:
        return TimeoutError("slow") if next(broken) else "done"

    tree = Tree()
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


async def test_configuration_reaches_the_workers_without_any_callback() -> None:
    """What is configurable, and tags, as in any chain."""
    seen: list[RunnableConfig] = []

    def note(text: str) -> str:
        seen.append(ensure_config())
        return text

    runnable = ConductorRunnable(
        Conductor(FixedPlanner(Plan((Step(0, "do"),))), [as_worker(RunnableLambda(note))])
    )
    await runnable.ainvoke("What?", {"configurable": {"tenant": "x"}, "tags": ["t"], "max_concurrency": 3})
    assert seen[0]["configurable"]["tenant"] == "x"
    assert ("t" in seen[0]["tags"], seen[0]["max_concurrency"]) == (True, 3)


async def test_async_handlers_are_told_too() -> None:
    """Whoever overrides nothing of custom events costs nothing."""
    told: list[str] = []

    class Listener(AsyncCallbackHandler):
        async def on_custom_event(self, name: str, data: Any, **kwargs: Any) -> None:
            told.append(name)

    runnable = ConductorRunnable(Conductor(FixedPlanner(Plan((Step(0, "do"),))), [ScriptedWorker("a", "x")]))
    await runnable.ainvoke("What?", {"callbacks": [Listener()]})
    assert told[-1] == "podium_run_ended"


KEY = "sk-ponmlkjihgfedcba4321"


class Spilling(Worker):
    """Returns a key: in its answer, in a tool call, in an error, or in text that never comes to an end."""

    def __init__(self, how: str) -> None:
        self.card = Card(name=how, price=FREE)

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Spill."""
        match self.card.name:
            case "answer":
                yield Completion(f"the key is {KEY}")
            case "tool call":
                arguments = json.dumps({"key": KEY})
                function = {"name": "look", "arguments": arguments}
                yield Completion("", tool_calls=({"id": "1", "type": "function", "function": function},))
            case "error":
                raise WorkerFailed(f"the key {KEY} is wrong", maybe_paid=False)
            case "too long":
                yield f"the key is {KEY}"
                yield "x" * 1000
            case "no end":
                yield f"the key is {KEY}"


@pytest.mark.parametrize("how", ["answer", "tool call", "error", "too long", "no end"])
async def test_no_tracer_is_shown_a_secret(how: str) -> None:
    """Neither in what steps and planners are asked nor in what they return, however they end."""

    class Tracer(BaseCallbackHandler):
        def __init__(self) -> None:
            self.shown: list[str] = []

        def on_chain_start(self, serialized: Any, inputs: Any, *, tags: Any = None, **kwargs: Any) -> None:
            if any(tag.startswith("podium:") for tag in tags or ()):
                self.shown.append(json.dumps(inputs))

        def on_chain_end(self, outputs: Any, *, parent_run_id: Any = None, **kwargs: Any) -> None:
            if parent_run_id is not None:
                self.shown.append(json.dumps(outputs))

        def on_chain_error(self, error: BaseException, *, parent_run_id: Any = None, **kwargs: Any) -> None:
            if parent_run_id is not None:
                self.shown.append(f"{error!r}")

    tracer = Tracer()
    steps = write_plan(Plan((Step(0, f"Look it up with {KEY}."), Step(1, "Answer.", (0,)))), "rows")
    planner = ChatPlanner(ScriptedWorker("boss", steps))
    pool = [ScriptedWorker("finder", f"found {KEY}"), Spilling(how)]
    runnable = ConductorRunnable(Conductor(planner, pool, limits=Limits(output_chars=500)))
    with suppress(PodiumError):
        await runnable.ainvoke(f"What does {KEY} open?", {"callbacks": [tracer]})
    assert any("Look it up with" in shown for shown in tracer.shown)
    assert any("found" in shown for shown in tracer.shown)
    assert len(tracer.shown) >= 2 * 3
    assert [shown for shown in tracer.shown if KEY in shown] == []


class Seen(BaseCallbackHandler):
    """Keeps all that a handler is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def _take(self, kind: str, /, *args: Any, **kwargs: Any) -> None:
        self.told.append(f"{kind} {args!r} {kwargs!r}")


for _name in ("chain_start", "chain_end", "chain_error", "llm_end", "llm_error", "llm_new_token"):
    setattr(Seen, f"on_{_name}", partialmethod(Seen._take, _name))
Seen.on_custom_event = partialmethod(Seen._take, "custom_event")  # type: ignore[assignment]


def _telling() -> Conductor:
    """Return a conductor whose answer holds a key."""
    return Conductor(FixedPlanner(Plan((Step(0, "do"),))), [ScriptedWorker("a", f"the key is {KEY}")])


@pytest.mark.parametrize("output", ["answer", "result"])
@pytest.mark.parametrize("streams", [False, True])
async def test_no_callback_is_shown_a_secret_of_a_conductor(output: Any, *, streams: bool) -> None:
    """Neither in what it is asked nor in its answer; the caller gets the answer as it is."""
    seen, runnable = Seen(), ConductorRunnable(_telling(), output=output)
    question: list[Any] = [HumanMessage(f"What does {KEY} open?"), {"role": "user", "content": f"{KEY}?"}]
    config: Any = {"callbacks": [seen]}
    if streams:
        given: list[Any] = [piece async for piece in runnable.astream(question, config)]
    else:
        given = [await runnable.ainvoke(question, config)]
    answer = given[0].answer if output == "result" else "".join(given)
    assert answer == f"the key is {KEY}"
    assert {told.split()[0] for told in seen.told} == {"chain_start", "chain_end", "custom_event"}
    assert any("the key is sk-[secret]" in told for told in seen.told if told.startswith("chain_end"))
    assert [told for told in seen.told if KEY in told] == []


@pytest.mark.parametrize("how", ["ainvoke", "invoke", "astream", "stream"])
async def test_no_callback_is_shown_a_secret_of_a_chat_model(how: str) -> None:
    """The message that tracers get has none; the caller's has."""
    seen, model = Seen(), ChatPodium(conductor=_telling())
    config: Any = {"callbacks": [seen]}
    match how:
        case "ainvoke":
            text = (await model.ainvoke("What?", config)).text
        case "invoke":
            text = (await anyio.to_thread.run_sync(lambda: model.invoke("What?", config))).text
        case "astream":
            text = "".join([chunk.text async for chunk in model.astream("What?", config)])
        case _:
            text = await anyio.to_thread.run_sync(
                lambda: "".join(chunk.text for chunk in model.stream("What?", config))
            )
    assert text == f"the key is {KEY}"
    assert any("the key is sk-[secret]" in told for told in seen.told if told.startswith("llm_end"))
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
    for runnable in (ConductorRunnable(conductor), ChatPodium(conductor=conductor)):
        seen = Seen()
        config: Any = {"callbacks": [seen]}
        pieces = [piece async for piece in runnable.astream("What?", config)]
        texts = [piece if isinstance(piece, str) else piece.text for piece in pieces]
        assert "".join(texts) == f"the key is {KEY}"
        assert len([text for text in texts if text]) == 2
        assert {type(piece) for piece in pieces} in ({str}, {AIMessageChunk})
        assert [told for told in seen.told if KEY in told] == []
        ends = [told for told in seen.told if told.startswith(("chain_end", "llm_end"))]
        assert "the key is sk-[secret]" in ends[-1]


async def test_no_callback_is_shown_a_secret_of_an_error() -> None:
    """An error that the runnable raises is told without it."""
    broken = Conductor(
        FixedPlanner(Plan((Step(0, "do"),))),
        [ScriptedWorker("a", WorkerFailed(f"{KEY} is wrong", maybe_paid=False))],
    )
    seen = Seen()
    with pytest.raises(PodiumError):
        await ConductorRunnable(broken).ainvoke("What?", {"callbacks": [seen]})
    assert any(told.startswith("chain_error") for told in seen.told)
    assert [told for told in seen.told if KEY in told] == []


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
    await (RunnableLambda(lambda text: text) | runnable).ainvoke("Why?", {"callbacks": [Tree()]})


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


@pytest.mark.parametrize("cancel", [_cancel_task, _cancel_scope])
@pytest.mark.parametrize("way", [_invoke, _stream, _chain])
@pytest.mark.parametrize("kind", ["chat", "chain"])
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


def test_leaving_a_sync_stream_closes_the_sockets(openai: Make) -> None:
    """So it is for code that is not async."""
    with ChatServer(lambda _: events(chunk({"content": "half"}), STALL)).in_thread() as server:
        worker = as_worker(openai(server.url))
        runnable = ConductorRunnable(Conductor(FixedPlanner(Plan((Step(0, "do"),))), [worker]))
        stream = iter(runnable.stream("Why?"))
        assert next(stream) == "half"
        stream.close()  # type: ignore[attr-defined]  # a generator
        hung_up = server.calls[0].hung_up

        async def wait() -> None:
            await _until(hung_up.is_set)

        anyio.run(wait)
