"""`shadow`: the primary is as it was, whatever the candidate does; and both are recorded."""

import asyncio
import json
import re
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partialmethod
from itertools import count
from operator import itemgetter
from pathlib import Path
from typing import Any, TypedDict
from uuid import UUID

import anyio
import pytest
from langchain_core.callbacks import BaseCallbackHandler, UsageMetadataCallbackHandler
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import Runnable, RunnableConfig, RunnableGenerator, RunnableLambda
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, interrupt
from servers.chat_server import Call, ChatServer, Reply, says

from langchain_podium import ConductorRunnable, as_worker
from langchain_podium.shadow import shadow
from podium import Card, ChatPlanner, Conductor, FunctionWorker, Plan, Price, ScriptedWorker, Step
from podium.aio import run_sync
from podium.errors import ConfigError
from podium.journal import MemoryJournal, SqlJournal
from podium.plan_text import write_plan
from podium.planners import FixedPlanner
from podium.usage import Usage
from podium_shadow import Pair, SqlPairs

pytestmark = pytest.mark.anyio

PLAN = write_plan(Plan((Step(0, "Think of a number."), Step(1, "Say it.", (0,)))), "rows")
PRICE = Price(input=100_000.0, output=200_000.0)


@pytest.fixture(autouse=True)
def _no_threads_left() -> Iterator[None]:
    yield
    end = time.monotonic() + 10.0
    while (left := _shadows()) and time.monotonic() < end:
        time.sleep(0.01)
    assert not left


def _shadows() -> list[threading.Thread]:
    """Return the threads of shadows; those that all calls of the process share stay."""
    names = {each: each.name for each in threading.enumerate()}
    return [each for each in names if re.match(r"podium-(?!sync|watchdog)", names[each])]


@pytest.fixture
def pairs(tmp_path: Path) -> SqlPairs:
    return SqlPairs(tmp_path / "pairs.db")


def _recorded(pairs: SqlPairs) -> Sequence[Pair]:
    return run_sync(pairs.pairs)


def _model(text: str = "It is forty two.") -> GenericFakeChatModel:
    """Return a chat model that streams word by word, and answers without end."""
    return GenericFakeChatModel(messages=(AIMessage(text) for _ in count()))


def _chain() -> Runnable[Any, Any]:
    return ChatPromptTemplate.from_template("What of {topic}?") | _model() | StrOutputParser()


class State(TypedDict):
    topic: str
    answer: str


def _graph() -> Runnable[Any, Any]:
    builder = StateGraph(State)
    builder.add_node("ask", lambda state: {"topic": state["topic"].strip()})
    builder.add_node("say", lambda state: {"answer": _model().invoke(state["topic"]).text})
    return builder.add_edge(START, "ask").add_edge("ask", "say").compile()


PRIMARIES = {"lambda": lambda: RunnableLambda(itemgetter("topic")), "chain": _chain, "graph": _graph}
ASKED = {"topic": "tea"}
CANDIDATES: dict[str, Callable[[], Runnable[Any, Any]]] = {
    "good": lambda: RunnableLambda(lambda asked: "another answer"),
    "failing": lambda: RunnableLambda(_fail),
    "model": lambda: RunnableLambda(str) | _model("from the candidate") | StrOutputParser(),
}


def _fail(asked: Any) -> Any:
    raise ValueError("the candidate fails")


class _Told(BaseCallbackHandler):
    """Records what runs there are, under which parent, and how they end."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []
        self._names: dict[UUID, str] = {}

    def _start(self, kind: str, /, *_: Any, run_id: UUID, parent_run_id: Any = None, **told: Any) -> None:
        self._names[run_id] = told.get("name") or kind
        above = self._names.get(parent_run_id, parent_run_id and "?")
        facts = {key: value for key, value in (told.get("metadata") or {}).items() if key == "mine"}
        tags = tuple(sorted(told.get("tags") or ()))
        self.told.append((kind, self._names[run_id], above, tags, str(facts)))

    on_chain_start = partialmethod(_start, "chain")
    on_chat_model_start = partialmethod(_start, "model")

    def on_llm_new_token(self, token: str, **_: Any) -> None:
        self.told.append(("token", token))

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **_: Any) -> None:
        self.told.append(("end", self._names[run_id], str(outputs)))

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        self.told.append(("error", self._names[run_id], repr(error)))


async def _list(stream: AsyncIterator[Any]) -> list[Any]:
    return [piece async for piece in stream]


async def _events(runnable: Runnable[Any, Any], config: RunnableConfig) -> list[Any]:
    events = runnable.astream_events(ASKED, config, version="v2")
    return [(event["event"], event["name"], len(event["parent_ids"])) async for event in events]


async def _asked() -> AsyncIterator[Any]:
    yield ASKED


WAYS: dict[str, Callable[[Runnable[Any, Any], RunnableConfig], Any]] = {
    "invoke": lambda runnable, config: runnable.invoke(ASKED, config),
    "ainvoke": lambda runnable, config: asyncio.run(runnable.ainvoke(ASKED, config)),
    "stream": lambda runnable, config: list(runnable.stream(ASKED, config)),
    "astream": lambda runnable, config: asyncio.run(_list(runnable.astream(ASKED, config))),
    "events": lambda runnable, config: asyncio.run(_events(runnable, config)),
    "batch": lambda runnable, config: runnable.batch([ASKED], config),
    "transform": lambda runnable, config: list(runnable.transform(iter([ASKED]), config)),
    "atransform": lambda runnable, config: asyncio.run(_list(runnable.atransform(_asked(), config))),
    "as completed": lambda runnable, config: [
        *runnable.batch_as_completed([ASKED], config),
        *asyncio.run(_list(runnable.abatch_as_completed([ASKED], config))),
    ],
}


@pytest.mark.parametrize(
    ("way", "kind", "candidate"),
    [
        ("invoke", "lambda", "good"),
        ("ainvoke", "chain", "failing"),
        ("stream", "graph", "model"),
        ("astream", "chain", "model"),
        ("events", "chain", "model"),
        ("batch", "chain", "good"),
        ("atransform", "chain", "model"),
        ("as completed", "graph", "failing"),
    ],
)
def test_it_is_the_primary(kind: str, way: str, candidate: str, pairs: SqlPairs) -> None:
    """Answers, pieces, and all that callbacks are told are the same; and the candidate was asked too."""

    def run(runnable: Runnable[Any, Any]) -> tuple[Any, list[tuple[Any, ...]]]:
        told = _Told()
        config = RunnableConfig(callbacks=[told], tags=["t"], metadata={"mine": 1}, run_name="named")
        return WAYS[way](runnable, config), told.told

    primary = PRIMARIES[kind]()
    bare = run(primary)
    with shadow(primary, CANDIDATES[candidate](), 1.0, journal=pairs) as shadowed:
        assert run(shadowed) == bare
    assert run(shadowed) == bare  # and after it was closed
    times = 2 if way == "as completed" else 1
    assert len(_recorded(pairs)) == times
    for pair in _recorded(pairs):
        assert (pair.primary.status, "tea" in pair.question) == ("ok", True)
        assert pair.candidate.status == ("failed" if candidate == "failing" else "ok")


@pytest.mark.parametrize("way", ["invoke", "astream", "transform"])
def test_its_errors_are_the_primarys(way: str, pairs: SqlPairs) -> None:
    error = LookupError("the primary fails")

    def fail(asked: Any) -> Any:
        raise error

    told, shadowed = _Told(), shadow(RunnableLambda(fail), CANDIDATES["good"](), 1.0, journal=pairs)
    with shadowed, pytest.raises(LookupError) as caught:
        WAYS[way](shadowed, {"callbacks": [told]})
    assert caught.value is error
    assert ("error", "fail", repr(error)) in told.told
    (pair,) = _recorded(pairs)
    assert (pair.primary.status, pair.primary.problem) == ("failed", "LookupError: the primary fails")
    assert pair.candidate.answer == "another answer"


async def test_nothing_of_the_callers_reaches_the_candidate(pairs: SqlPairs) -> None:
    """Neither callbacks nor tags, metadata or thread id, even inside a run; only its own config."""
    seen: list[RunnableConfig] = []

    def look(asked: Any, config: RunnableConfig) -> str:
        seen.append(config)
        return "seen"

    outer, own = _Told(), _Told()
    primary, candidate = RunnableLambda(str, name="primary"), RunnableLambda(look, name="candidate")
    config: Any = {"callbacks": [own], "tags": ["cheap"]}
    shadowed = shadow(primary, candidate, 1.0, journal=pairs, name="mine", config=config)

    async def around(asked: Any) -> Any:
        return await shadowed.ainvoke(asked)

    given: Any = {"callbacks": [outer], "tags": ["caller"], "metadata": {"user": "u"}}
    async with shadowed:
        await RunnableLambda(around).ainvoke("Why?", {**given, "configurable": {"thread_id": "t"}})
    told = [[name for kind, name, *_ in each.told if kind == "chain"] for each in (outer, own)]
    assert told == [["around", "primary"], ["candidate"]]
    (config,) = seen
    assert sorted(config["tags"]) == ["cheap", "podium:shadow"]
    assert config["metadata"]["podium_shadow"] == "mine"
    assert ("user" in config["metadata"], "thread_id" in config["configurable"]) == (False, False)


async def test_a_caller_who_leaves_is_counted(pairs: SqlPairs) -> None:
    """A stream left early, or a cancelled call, has no answer to compare with; the primary's is closed."""
    closed: list[str] = []

    async def words(pieces: AsyncIterator[Any]) -> AsyncIterator[str]:
        async for _ in pieces:
            try:
                for word in ("one", "two", "three"):
                    yield word
                    await asyncio.sleep(0)
            finally:
                closed.append("closed")

    async def wait(asked: Any) -> None:
        await asyncio.sleep(60.0)

    async with shadow(RunnableGenerator(words), RunnableLambda(str), 1.0, journal=pairs) as shadowed:
        stream = shadowed.astream("x")
        assert await anext(stream) == "one"
        await stream.aclose()
        assert closed == ["closed"]
    assert shadowed.tally.abandoned == 1
    async with shadow(RunnableLambda(wait), RunnableLambda(str), 1.0, journal=pairs) as shadowed:
        with anyio.move_on_after(0.01):
            await shadowed.ainvoke("x")
    assert (shadowed.tally.abandoned, _recorded(pairs)) == (1, ())


def test_a_graph_that_is_interrupted_is_not_failed(pairs: SqlPairs) -> None:
    """A shadow inside a node: the interrupt passes, and the answer after it is the one compared."""

    def ask(asked: str) -> str:
        return f"{asked} {interrupt('really?')}"

    with shadow(RunnableLambda(ask), RunnableLambda(str), 1.0, journal=pairs) as shadowed:
        node = lambda state: {"answer": shadowed.invoke(state["topic"])}  # noqa: E731
        builder = StateGraph(State).add_node("node", node).add_edge(START, "node")
        compiled = builder.compile(checkpointer=InMemorySaver())
        config = RunnableConfig(configurable={"thread_id": "1"})
        assert "__interrupt__" in compiled.invoke({"topic": "tea"}, config)
        assert compiled.invoke(Command(resume="yes"), config)["answer"] == "tea yes"
    assert (shadowed.tally.abandoned, [pair.primary.answer for pair in _recorded(pairs)]) == (1, ["tea yes"])


@pytest.mark.parametrize(
    "options",
    [{"stream_mode": "messages"}, {"stream_mode": "updates", "version": "v2", "interrupt_after": []}],
)
def test_however_a_graph_is_streamed_its_answer_is_compared(options: Any, pairs: SqlPairs) -> None:
    """The candidate does not know such arguments; the pieces are no answer by themselves."""
    writer = ScriptedWorker("writer", "It is forty two.")
    conductor = Conductor(FixedPlanner(Plan((Step(0, "Say it."),))), [writer])
    other = RunnableLambda(itemgetter("topic")) | ConductorRunnable(conductor)
    with shadow(_graph(), other, 1.0, journal=pairs) as shadowed:
        assert list(shadowed.stream(ASKED, **options))
    (pair,) = _recorded(pairs)
    assert (pair.primary.answer, pair.candidate.answer) == ("It is forty two.", "It is forty two.")


def _plans(call: Call) -> Reply:
    """Plan when asked to conduct, and else answer."""
    return says(call, PLAN if "You are the conductor" in json.dumps(call.body) else "forty-two")


async def test_what_both_took_is_recorded(tmp_path: Path, openai: Callable[..., ChatOpenAI]) -> None:
    """A model against a conductor over such models: calls, tokens, cost, none counted twice; and the run."""
    with ChatServer(_plans).in_thread() as server:
        model = openai(server.url, "scripted-1")
        team = [as_worker(model, card=Card(name=name, price=PRICE)) for name in ("thinker", "speaker")]
        journal = SqlJournal(tmp_path / "journal.db")
        conductor = Conductor(ChatPlanner(ScriptedWorker("planner", PLAN)), team, journal=journal)
        usage = UsageMetadataCallbackHandler()
        primary, options = model | StrOutputParser(), {"journal": journal, "prices": {"scripted-1": PRICE}}
        async with shadow(primary, ConductorRunnable(conductor), 1.0, **options) as shadowed:
            config = RunnableConfig(callbacks=[usage])
            assert await shadowed.ainvoke([HumanMessage("Which number?")], config) == "forty-two"
        calls = len(server.calls)
    (pair,) = await SqlPairs.beside(journal).pairs()
    assert (pair.question, pair.primary.answer) == ("Which number?", "forty-two")
    assert pair.candidate.answer == "forty-two"
    assert (pair.primary.spent.calls, pair.primary.spent.usage) == (1, Usage(211, 7))
    assert pair.primary.spent.cost == pytest.approx(211 * 0.1 + 7 * 0.2)
    (row,) = await journal.runs()
    spent = pair.candidate.spent
    assert (calls, spent.calls, spent.run_id) == (3, 3, row.run_id)
    assert spent.usage.input_tokens >= 422
    assert spent.cost == pytest.approx(row.cost)
    assert sum(each["total_tokens"] for each in usage.usage_metadata.values()) == 218


def test_what_cannot_be_a_shadow_is_refused(pairs: SqlPairs) -> None:
    """A journal without a database; a candidate that acts, since the primary has acted already."""
    with pytest.raises(ConfigError, match="give a SqlJournal"):
        shadow(RunnableLambda(str), RunnableLambda(str), journal=MemoryJournal())
    worker = FunctionWorker(lambda step: "refunded", acts=True)
    candidate = ConductorRunnable(Conductor(FixedPlanner("x"), [worker]))
    with pytest.raises(ConfigError, match="would act a second time"):
        shadow(RunnableLambda(str), candidate, journal=pairs)


def test_an_answer_is_read_as_is_said(pairs: SqlPairs) -> None:
    """By a function, of both; one that fails is told, and fails nobody."""

    def year(output: dict[str, Any]) -> str:
        return str(output["year"])

    same = RunnableLambda(lambda asked: {"year": 1900 + asked})
    with shadow(same, same, 1.0, journal=pairs, answer=year) as shadowed:
        assert shadowed.invoke(5) == {"year": 1905}
    assert _recorded(pairs)[0].candidate.answer == "1905"
    with shadow(RunnableLambda(lambda asked: {}), same, 1.0, journal=pairs, answer=year) as shadowed:
        assert shadowed.invoke(5) == {}
    assert shadowed.tally.unread == 1
    with shadow(same, RunnableLambda(lambda asked: {}), 1.0, journal=pairs, answer=year) as shadowed:
        assert shadowed.invoke(5) == {"year": 1905}
    assert _recorded(pairs)[-1].candidate.problem == "KeyError: 'year'"


def test_a_graph_with_a_candidate_is_a_graph(pairs: SqlPairs) -> None:
    """`langgraph dev` serves it: it is copied for each request, with a store of threads."""

    def told(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(f"turn {len(state['messages'])}")]}

    seen: list[Any] = []
    compiled = StateGraph(MessagesState).add_node("say", told).add_edge(START, "say").compile(name="desk")
    thread = RunnableConfig(configurable={"thread_id": "1"})
    with shadow(compiled, RunnableLambda(seen.append), 1.0, journal=pairs) as shadowed:
        assert isinstance(shadowed, CompiledStateGraph)
        assert shadowed.name == "desk"
        assert shadowed.get_graph().nodes.keys() == compiled.get_graph().nodes.keys()
        served = shadowed.copy(update={"checkpointer": InMemorySaver()})
        for question in ("One?", "Two?"):
            answer = served.invoke({"messages": [("user", question)]}, thread)
        assert [each.text for each in answer["messages"]] == ["One?", "turn 1", "Two?", "turn 3"]
        assert served.get_state(thread).values["messages"] == answer["messages"]
    assert [pair.primary.answer for pair in _recorded(pairs)] == ["turn 1", "turn 3"]
    texts = [[each.text for each in asked["messages"]] for asked in seen]
    assert texts == [["One?"], ["One?", "turn 1", "Two?"]]
