"""A conductor as a Runnable: asked in every way LangChain has, and what callbacks and events see."""

import json
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import suppress
from functools import partialmethod
from typing import Any
from uuid import uuid4

import pytest
from langchain_core.callbacks import BaseCallbackHandler, UsageMetadataCallbackHandler
from langchain_core.messages import AIMessageChunk, HumanMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda
from servers.capable import capable
from servers.chat_server import ChatServer

from langchain_podium import ChatPodium, ConductorRunnable, as_planner, as_worker, create_conductor_agent
from langchain_podium.messages import from_langchain
from podium import Card, ChatPlanner, Conductor, FunctionWorker, Message, Plan, Retry, ScriptedWorker, Step
from podium.errors import ConfigError, PlanForbidden, PodiumError, QueryError, RunFailed, WorkerFailed
from podium.hosts import tool_call
from podium.journal import MemoryJournal
from podium.plan_text import write_plan
from podium.planners import FixedPlanner
from podium.policy import Policy, Rule
from podium.types import Completion
from podium.workers import FREE, Request, StepInput, Worker

pytestmark = pytest.mark.anyio
Make = Callable[..., Any]
ANSWER = "Hello to you, too."
PLAN = Plan((Step(0, "Look it up."), Step(1, "Write it.", (0,))))


@pytest.fixture
def server() -> Iterator[ChatServer]:
    """Serve from a thread, so that code which blocks this loop can be answered."""
    with ChatServer(capable).in_thread() as served:
        yield served


@pytest.fixture
def conductor(server: ChatServer, openai: Make) -> Conductor:
    workers = [as_worker(openai(server.url, name)) for name in ("reader", "writer")]
    return Conductor(as_planner(openai(server.url, "boss")), workers)


def _scripted(*workers: Worker, plan: Plan = PLAN, **options: Any) -> Conductor:
    default = (ScriptedWorker("reader", "read"), ScriptedWorker("writer", ANSWER, piece=4))
    return Conductor(FixedPlanner(plan), workers or default, **options)


@pytest.mark.parametrize(
    "asked",
    [
        "What is it?",
        HumanMessage("What is it?"),
        [("system", "Be brief."), ("human", "What is it?")],
        {"input": "What is it?", "chat_history": [("human", "Hi"), ("ai", "Hello")]},
        ChatPromptTemplate([("human", "What is {x}?")]).invoke({"x": "it"}),
    ],
)
async def test_whatever_is_asked_arrives(asked: Any) -> None:
    """Text, messages in all of LangChain's spellings, dicts and prompts are one question."""
    writer = ScriptedWorker("writer", ANSWER)
    runnable = ConductorRunnable(_scripted(ScriptedWorker("reader", "read"), writer))
    assert await runnable.ainvoke(asked) == ANSWER
    assert "What is it?" in writer.requests[0].messages[-1].text


async def test_a_plan_is_carried_out() -> None:
    plan = Plan((Step(1, "Write."),), (Message("user", "What?"),))
    result = await ConductorRunnable(_scripted(), output="result").ainvoke(plan)
    assert [outcome.worker for outcome in result.outcomes] == ["writer"]


async def test_what_is_no_question_is_an_error() -> None:
    writer = ScriptedWorker("writer", ANSWER)
    runnable = ConductorRunnable(_scripted(writer, ScriptedWorker("other", "x")))
    for asked in ({"topic": "it"}, 5, [], [("nobody", "x")], {"question": PLAN}):
        with pytest.raises(QueryError):
            await runnable.ainvoke(asked)
    assert writer.requests == []


async def test_every_way_to_ask_gives_the_answer(conductor: Conductor) -> None:
    """Async and sync, whole, streamed and batched; the sync ways inside this running loop."""
    runnable = ConductorRunnable(conductor)
    assert [await runnable.ainvoke("What?"), runnable.invoke("What?")] == [ANSWER] * 2
    streamed = [piece async for piece in runnable.astream("What?")]
    for pieces in (streamed, list(runnable.stream("What?"))):
        assert ("".join(map(str, pieces)), len(pieces) > 1) == (ANSWER, True)
    assert await runnable.abatch(["a", "b"]) == [ANSWER] * 2
    assert runnable.batch(["a", "b", "c"], {"max_concurrency": 2}) == [ANSWER] * 3
    assert {text for _, text in runnable.batch_as_completed(["a", "b"])} == {ANSWER}


def _fails_first(times: int) -> ScriptedWorker:
    replies = iter(range(100))

    def reply(request: Request) -> Any:
        return RuntimeError("broken") if next(replies) < times else ANSWER

    return ScriptedWorker("writer", reply)


async def test_a_run_without_an_answer_raises_so_that_chains_can_act() -> None:
    """`with_retry` asks again, `with_fallbacks` somebody else, and the error tells what happened."""
    one = Plan((Step(0, "Write."),))
    runnable = ConductorRunnable(_scripted(_fails_first(100), plan=one))
    with pytest.raises(RunFailed, match=r"worker_failed.*broken") as failed:
        await runnable.ainvoke("What?")
    assert failed.value.result.status == "failed"
    with pytest.raises(RunFailed, match="broken"):
        [piece async for piece in runnable.astream("What?")]
    assert await runnable.with_fallbacks([RunnableLambda(lambda _: "plain")]).ainvoke("What?") == "plain"
    again = ConductorRunnable(_scripted(_fails_first(2), plan=one))
    retried = again.with_retry(retry_if_exception_type=(RunFailed,), wait_exponential_jitter=False)
    assert await retried.ainvoke("What?") == ANSWER
    outputs = await runnable.abatch(["a"], return_exceptions=True)
    assert isinstance(outputs[0], RunFailed)


async def test_labels_and_policy_are_each_run_s_own() -> None:
    """They are arguments of the call, and `bind` sets them beforehand."""
    rule = Policy(labels={"secret", "public"}, rules=(Rule("secret", never="writer"),))
    runnable = ConductorRunnable(_scripted())
    assert await runnable.ainvoke(PLAN, labels={"public"}, policy=rule) == ANSWER
    with pytest.raises(PlanForbidden):
        await runnable.bind(labels={"secret"}, policy=rule).ainvoke(PLAN)
    with pytest.raises(PlanForbidden):
        [piece async for piece in runnable.astream(PLAN, labels={"secret"}, policy=rule)]


async def test_a_recorded_run_that_failed_goes_on() -> None:
    """The same id again runs the failed step again, and pays for no other."""
    reader, writer, run_id = ScriptedWorker("reader", "read"), _fails_first(1), uuid4()
    conductor = _scripted(reader, writer, journal=MemoryJournal(), retry=Retry(attempts=1))
    runnable = ConductorRunnable(conductor)
    with pytest.raises(RunFailed, match="broken"):
        await runnable.ainvoke("What?", {"run_id": run_id})
    pieces = [str(piece) async for piece in runnable.astream("What?", {"run_id": run_id})]
    assert ("".join(pieces), await runnable.ainvoke("What?", {"run_id": run_id})) == (ANSWER, ANSWER)
    assert (len(reader.requests), len(writer.requests)) == (1, 2)


async def test_as_a_tool_it_takes_one_text() -> None:
    writer = ScriptedWorker("writer", ANSWER)
    runnable = ConductorRunnable(_scripted(ScriptedWorker("reader", "read"), writer))
    tool = runnable.as_tool(name="team", description="Answers.")
    assert (tool.name, tool.description, await tool.ainvoke("What is it?")) == ("team", "Answers.", ANSWER)
    assert "What is it?" in writer.requests[0].messages[-1].text
    assert runnable.as_tool().description == "Plans a task and has a team carry it out."
    described = runnable.as_tool(arg_types={"question": str})
    assert list(described.args) == ["question"]
    assert await described.ainvoke({"question": "What?"}) == ANSWER


async def test_wrong_arguments_are_told_with_those_that_there_are() -> None:
    """A misspelled option is not ignored; letters of a text would be labels that no rule knows."""
    with pytest.raises(TypeError, match="does not accept patial: it accepts output, partial, name"):
        ConductorRunnable(_scripted(), patial="raise")
    with pytest.raises(TypeError, match="does not accept bogus: it accepts labels, policy"):
        await ConductorRunnable(_scripted()).ainvoke("q", bogus=1)
    with pytest.raises(ConfigError, match="labels are 'confidential': give a set of texts"):
        await ConductorRunnable(_scripted()).bind(labels="confidential").ainvoke("q")


IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


def test_pictures_of_every_spelling_become_one() -> None:
    own = {"type": "image", "base64": "AAAA", "mime_type": "image/png"}
    theirs = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    for block in (own, theirs):
        assert from_langchain([HumanMessage([block])]) == (Message("user", (IMAGE,)),)


@pytest.mark.parametrize("face", ["runnable", "chat model", "graph"])
def test_images_go_to_workers_that_can_see_them(face: str) -> None:
    eyes = ScriptedWorker(Card(name="eyes", parts=frozenset({"image_url"})), "A cat.")
    blind = ScriptedWorker("blind", "A question.")
    conductor = Conductor(FixedPlanner(Plan((Step(0, "look"), Step(1, "read", (0,))))), [eyes, blind])
    asked = [HumanMessage([{"type": "text", "text": "What is it?"}, IMAGE])]
    if face == "graph":
        create_conductor_agent(conductor).invoke({"messages": asked})
    else:
        made = ConductorRunnable(conductor) if face == "runnable" else ChatPodium(conductor=conductor)
        made.invoke(asked)
    seen = ["AAAA" in str(worker.requests[0].messages[-1].content) for worker in (eyes, blind)]
    assert seen == [True, False]


class _Tree(BaseCallbackHandler):
    def __init__(self) -> None:
        self.names: dict[Any, str] = {}
        self.parents: dict[Any, Any] = {}
        self.facts: dict[Any, dict[str, Any]] = {}
        self.tags: dict[Any, list[str]] = {}
        self.ended: dict[Any, Any] = {}

    def _begin(self, *_: Any, run_id: Any, parent_run_id: Any = None, **told: Any) -> None:
        self.names[run_id] = told.get("name") or "model"
        self.parents[run_id] = parent_run_id
        self.facts[run_id] = dict(told.get("metadata") or {})
        self.tags[run_id] = list(told.get("tags") or [])

    def _end(self, outputs: Any, *, run_id: Any, **_: Any) -> None:
        assert run_id not in self.ended
        self.ended[run_id] = outputs

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


async def test_every_step_is_a_child_run_in_which_what_the_worker_calls_stands(openai: Make) -> None:
    """The planner's call too; metadata say which step it is, down to the model's own run."""
    async with ChatServer(capable) as server:

        async def look(step_input: StepInput) -> str:
            """A worker of Podium's own that calls something of LangChain's."""
            return str((await openai(server.url, "inner").ainvoke(step_input.subtask)).text)

        workers: list[Worker] = [FunctionWorker(look, price=FREE), as_worker(openai(server.url, "writer"))]
        runnable = ConductorRunnable(Conductor(as_planner(openai(server.url, "boss")), workers))
        tree, usage = _Tree(), UsageMetadataCallbackHandler()
        config: Any = {"callbacks": [tree, usage], "tags": ["mine"], "metadata": {"user": "7"}}
        chain = RunnableLambda(lambda text: text) | runnable.with_config(run_name="team")
        assert await chain.ainvoke("What?", {**config, "run_name": "asking"}) == "Hello to you, too."
    below = ["", "/boss", "/boss/model", "/look", "/look/model", "/writer", "/writer/model"]
    assert tree.drawn() == ["asking", "asking/RunnableLambda", *(f"asking/team{name}" for name in below)]
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
    assert tree.ended[tree.only("writer")] == {"output": "Hello to you, too."}


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
    conductor, asked = Conductor(planner, pool), f"What does {KEY} open?"
    with suppress(PodiumError):
        await ConductorRunnable(conductor).ainvoke(asked, {"callbacks": [seen]})
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


async def test_a_secret_in_two_pieces_is_not_shown_whole() -> None:
    """What callbacks are told of a stream's end is without it, for it is looked for in the whole."""
    said = f"the key is {KEY}"
    conductor = _scripted(ScriptedWorker("slow", said, piece=len(said) - 15), plan=Plan((Step(0, "do"),)))
    chat = ChatPodium(conductor=conductor)
    assert (await chat.ainvoke("What?", {"callbacks": [seen := _Seen()]})).text == said
    assert [told for told in seen.told if KEY in told] == []
    for runnable in (ConductorRunnable(conductor), chat):
        seen = _Seen()
        config: Any = {"callbacks": [seen]}
        pieces = [piece async for piece in runnable.astream("What?", config)]
        texts = [piece if isinstance(piece, str) else piece.text for piece in pieces]
        assert ("".join(texts), len([text for text in texts if text])) == (said, 2)
        assert {type(piece) for piece in pieces} in ({str}, {AIMessageChunk})
        assert [told for told in seen.told if KEY in told] == []
        ends = [told for told in seen.told if told.startswith(("chain_end", "llm_end"))]
        assert "the key is sk-[secret]" in ends[-1]
