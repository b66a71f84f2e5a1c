"""LangChain's things as workers: their cards, what they are given, what counts as an answer, and errors."""

import json
from collections.abc import Callable
from typing import Any, TypedDict

import pytest
from contracts.odd_answers import CALLS, ODD_ANSWERS, REFUSED, OddAnswer, check, check_wrong_url
from langchain.agents import create_agent
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.messages import HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import create_react_agent
from langgraph.pregel.remote import RemoteGraph
from servers.chat_server import CUT, RESET, Call, ChatServer, Reply, chunk, events, says, whole

from langchain_podium import ConductorRunnable, as_planner, as_worker
from podium import Card, Conductor, Plan, Price, ScriptedWorker, Step
from podium.errors import (
    ConfigError,
    WorkerBroken,
    WorkerError,
    WorkerFailed,
    WorkerRefused,
    WorkerTimeout,
    WorkerUnavailable,
)
from podium.planners import FixedPlanner
from podium.types import Completion, Message, Sampling
from podium.usage import Usage
from podium.workers import Request, StepInput, VisibleStep, Worker, complete

pytestmark = pytest.mark.anyio
Make = Callable[..., Any]


def _ask(text: str = "Why?", **facts: Any) -> Request:
    return Request(messages=(Message("user", text),), **facts)


def test_cards_are_derived_from_what_a_thing_is(openai: Make) -> None:
    """Its own name and words; a model's name; what is given stands in place of it."""

    @tool
    def weather(city: str) -> str:
        """Tells the weather of a city."""
        return city

    def shout(text: str) -> str:
        """Shouts.

        Loudly.
        """
        return text

    model = openai("http://127.0.0.1:9/v1", "gpt-9", max_tokens=100)
    cards = [as_worker(thing).card for thing in (model, weather, RunnableLambda(shout), Books())]
    assert [(card.name, card.description) for card in cards] == [
        ("gpt-9", "A chat model of openai."),
        ("weather", "Tells the weather of a city."),
        ("shout", "Shouts."),
        ("Books", "Has books."),
    ]
    assert as_worker(model).max_tokens == 100
    assert as_worker(model.bind(max_tokens=50).with_config(run_name="writer")).card.name == "writer"
    assert as_worker(model.bind(max_tokens=50)).max_tokens == 50
    price = Price(input=1.0, output=2.0)
    given = as_worker(model, name="w", description="Writes.", price=price, labels=["eu"]).card
    assert given == Card(name="w", description="Writes.", price=price, labels=frozenset({"eu"}))
    profiled = openai("http://127.0.0.1:9/v1", "m", profile={"max_input_tokens": 5000, "image_inputs": True})
    assert as_worker(profiled).card.context_window == 5000
    assert as_worker(profiled).card.parts == {"image_url"}


def test_what_cannot_be_a_worker_says_so() -> None:
    worker = ScriptedWorker("a", "x")
    conductor = Conductor(FixedPlanner(Plan((Step(0, "do"),))), [worker])
    assert as_worker(worker) is worker
    assert as_worker(ConductorRunnable(conductor)) is conductor
    for make in (
        lambda: as_worker(lambda text: text),
        lambda: as_worker(worker, name="b"),
        lambda: as_worker(ConductorRunnable(conductor), price=Price(input=1.0, output=1.0)),
        lambda: as_worker(RunnableLambda(str), card=Card(name="a"), labels=["x"]),
        lambda: as_worker(_graph_of(lambda state: state, state=dict)),
        lambda: as_planner(RunnableLambda(str)),
    ):
        with pytest.raises(ConfigError):
            make()


async def test_a_chat_model_is_sent_messages_and_sampling(openai: Make) -> None:
    async with ChatServer(lambda call: says(call, "ok")) as server:
        worker = as_worker(openai(server.url))
        part = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
        messages = (
            Message("system", "Be brief."),
            Message("user", "Hi"),
            Message("assistant", "Hello"),
            Message("user", ({"type": "text", "text": "See"}, part)),
        )
        sampling = Sampling(temperature=0.5, max_tokens=7, stop=("END",), seed=3)
        answer = await complete(worker, Request(messages=messages, sampling=sampling))
        body = server.calls[0].body
    assert [m["role"] for m in body["messages"]] == ["system", "user", "assistant", "user"]
    assert body["messages"][-1]["content"] == [{"type": "text", "text": "See"}, part]
    assert (body["temperature"], body["max_completion_tokens"], body["stop"], body["seed"]) == (
        0.5,
        7,
        ["END"],
        3,
    )
    assert answer == Completion("ok", usage=Usage(211, 7), model="scripted-1")


@pytest.mark.parametrize(
    ("reply", "stream", "kind", "paid", "says_so"),
    [
        (lambda c: whole({"error": {"message": "slow"}}, status=429), True, WorkerUnavailable, False, "429"),
        (lambda c: whole({"error": {"message": "no key"}}, status=401), False, WorkerRefused, False, "key"),
        (lambda c: Reply((RESET,)), False, WorkerUnavailable, True, "connection"),
        (lambda c: says(c, "half an ans", finish_reason=None), True, WorkerBroken, True, "finish_reason"),
        (lambda c: events(chunk({"content": "half"}), CUT), True, WorkerBroken, True, "cut off"),
        (lambda c: says(c, "late", delay=5), False, WorkerTimeout, True, "timed out|did not"),
    ],
)
async def test_what_goes_wrong_is_told_in_podium_s_errors(
    openai: Make, reply: Any, kind: type[WorkerError], says_so: str, *, paid: bool, stream: bool
) -> None:
    """Statuses, cut connections and answers that are none, each as Podium's own client tells them."""
    async with ChatServer(reply) as server:
        with pytest.raises(kind, match=says_so) as raised:
            await complete(as_worker(openai(server.url, timeout=0.3)), _ask(stream=stream))
    assert (raised.type, raised.value.maybe_paid) == (kind, paid)
    assert "sk-key" not in str(raised.value)


@pytest.mark.filterwarnings("ignore:create_react_agent has been moved")
@pytest.mark.parametrize(("kind", "stream"), [("text", True), ("agent", False)])
async def test_a_cut_answer_of_a_chain_is_partial(openai: Make, kind: str, *, stream: bool) -> None:
    """So the run says whether a chain or an agent is the worker; a filtered answer fails the step."""

    def worker(url: str) -> Worker:
        if kind == "agent":
            return as_worker(create_react_agent(openai(url), []), name="chain")
        chain = ChatPromptTemplate([("human", "{input}")]) | openai(url) | StrOutputParser()
        return as_worker(chain, name="chain", input=lambda step: {"input": step.subtask})

    async def problem_of(finish: str) -> tuple[str, str | None]:
        async with ChatServer(lambda call: says(call, "half an ans", finish_reason=finish)) as server:
            conductor = Conductor(FixedPlanner(Plan((Step(0, "do"),))), [worker(server.url)])
            result = await conductor.run("What?", on_event=(lambda _: None) if stream else None)
        problem = result.outcomes[0].problem
        return result.status, None if problem is None else problem.code

    assert await problem_of("stop") == ("ok", None)
    assert await problem_of("length") == ("partial", "cut")
    assert await problem_of("content_filter") == ("failed", "answer_refused")


def test_a_cache_knows_models_apart(openai: Make) -> None:
    """By what identifies them, and what is bound around them; a chain's answers are used once."""
    url = "http://127.0.0.1:9/v1"
    model = openai(url, "m", temperature=0.1)
    same = {as_worker(openai(url, "m", temperature=0.1)).identity, as_worker(model).identity}
    others = {as_worker(each).identity for each in (openai(url, "m", temperature=0.2), model.bind(top_p=0.5))}
    assert (len(same), len(same | others)) == (1, 3)
    assert as_worker(RunnableLambda(str)).identity is None
    assert as_worker(RunnableLambda(str), card=Card(name="s", version="1")).identity is not None


class Books(BaseRetriever):
    """Has books."""

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        if query == "nothing":
            return []
        return [
            Document("Red.", metadata={"source": "red.md"}),
            Document("Blue.", metadata={"title": "Blue"}),
        ]


async def test_a_retriever_gives_passages_with_their_sources() -> None:
    assert (await complete(as_worker(Books()), _ask("colours"))).text == "[red.md]\nRed.\n\n[Blue]\nBlue."
    nothing = await complete(as_worker(Books()), _ask("nothing"))
    assert (nothing.text, nothing.missing) == ("Nothing was found for: nothing", "nothing was found")


async def test_a_runnable_is_given_what_a_model_would_be_sent_or_what_input_makes_of_it() -> None:
    """The question, the visible steps and the subtask; nothing else."""
    seen: list[Any] = []
    prompt = ChatPromptTemplate([("human", "{task} with {facts}")])
    noting = RunnableLambda(lambda value: seen.append(value) or "done")

    def facts(step_input: StepInput) -> dict[str, Any]:
        return {"task": step_input.subtask, "facts": [shown.output for shown in step_input.visible]}

    plan = Plan((Step(0, "look"), Step(1, "write", (0,)), Step(2, "check", (0,)), Step(3, "end", (1, 2))))
    conductor = Conductor(
        FixedPlanner(plan),
        [
            ScriptedWorker("a", "red"),
            as_worker(noting, name="b"),
            as_worker(prompt | noting, name="c", input=facts),
            ScriptedWorker("d", "end"),
        ],
    )
    assert (await conductor.run("Colour?")).status == "ok"
    text = next(value for value in seen if isinstance(value, str))
    assert all(word in text for word in ("Colour?", "look", "red", "write"))
    (prompted,) = [value for value in seen if not isinstance(value, str)]
    assert prompted.to_messages() == [HumanMessage("check with ['red']")]


async def test_usage_of_every_call_inside_a_chain_is_counted(openai: Make) -> None:
    """Two models one after the other, the last one's text all that is returned."""
    async with ChatServer(lambda call: says(call, "ok")) as server:
        model = openai(server.url, stream_usage=True)
        chain = model | RunnableLambda(lambda message: message.text) | model
        worker = as_worker(chain, name="chain")
        assert (await complete(worker, _ask())).usage == Usage(422, 14)
        assert (await complete(worker, _ask(stream=True))).usage == Usage(422, 14)
        broken = model | RunnableLambda(lambda message: 1 // 0)
        with pytest.raises(WorkerFailed, match="ZeroDivisionError") as raised:
            await complete(as_worker(broken, name="broken"), _ask())
        assert raised.value.usage == Usage(211, 7)


def _graph_of(node: Callable[..., Any], *, state: Any = MessagesState, **options: Any) -> Any:
    graph = StateGraph(state)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    return graph.compile(**options)


async def test_a_planner_is_any_chat_model(openai: Make) -> None:
    asked: list[str] = []

    def conduct(call: Call) -> Reply:
        asked.append(call.body["messages"][-1]["content"])
        return says(call, 'model_id = [0]\nsubtasks = ["do it"]\naccess_list = [[]]')

    async with ChatServer(conduct) as server:
        price = Price(input=1.0, output=1.0)
        planner = as_planner(openai(server.url, "boss"), spelling="lists", price=price, examples=3)
        pool = [ScriptedWorker(name, "done") for name in ("a", "b", "c")]
        result = await Conductor(planner, pool).run("What?")
    assert (result.answer, result.proposals[0].usage, result.cost) == ("done", Usage(211, 7), 218e-6)
    assert (planner.name, [text.count("\nQuestion: ") for text in asked]) == ("boss", [3])


@pytest.mark.parametrize("odd", ODD_ANSWERS, ids=lambda odd: odd.name)
async def test_an_answer_that_is_none_has_its_own_code(openai: Make, odd: OddAnswer) -> None:
    """As with Podium's own client; langchain-openai leaves refusals out of its streams."""
    await check(lambda url: as_worker(openai(url)), odd, stream=odd is not REFUSED)


async def test_a_url_of_another_server_is_told(openai: Make) -> None:
    await check_wrong_url(lambda url: as_worker(openai(url)), stream=False)


async def test_calls_that_a_chain_leaves_open_are_told_as_that(openai: Make) -> None:
    """A model with tools of its own in a chain leaves its calls to nobody."""
    await check(lambda url: as_worker(RunnableLambda(str) | openai(url), name="chain"), CALLS, stream=True)


async def test_a_remote_graph_answers_with_its_last_message() -> None:
    """Its tokens are unknown, which the step says; no state of the host's thread is sent or kept."""
    told = {
        "type": "ai",
        "content": "It is 330 m.",
        "response_metadata": {"finish_reason": "stop"},
        "id": "2",
    }
    state = {"messages": [{"type": "human", "content": "How high?", "id": "1"}, told]}
    values = f"event: values\ndata: {json.dumps(state)}\n\n".encode()
    async with ChatServer(lambda call: events(values, done=False)) as server:
        url = server.url.removesuffix("/v1")
        remote = as_worker(RemoteGraph("agent", url=url), name="remote", price=Price(input=1, output=1))
        conductor = Conductor(FixedPlanner(Plan((Step(0, "Look."),))), [remote])
        runnable = ConductorRunnable(conductor, output="result")
        config: Any = {"configurable": {"thread_id": "of the host"}}
        result: Any = await runnable.ainvoke("How high?", config)
        assert [call.path for call in server.calls] == ["/runs/stream"]
    assert (result.answer, result.status) == ("It is 330 m.", "ok")
    assert result.usage.estimated
    assert result.usage.total_tokens > 0


SAID = " ".join(f"word{number}" for number in range(12))


@tool
def look(word: str) -> str:
    """Look a word up."""
    return f"about {word}"


def _talks(before: str) -> Callable[[Call], Reply]:
    """Return a script of a model that may write a text, calls a tool, and then writes an answer."""

    def reply(call: Call) -> Reply:
        if call.body["messages"][-1]["role"] != "tool":
            made = {"id": "1", "type": "function", "function": {"name": "look", "arguments": '{"word": "x"}'}}
            return says(call, before, tool_calls=[made])
        return says(call, SAID, pieces=12)

    return reply


@pytest.mark.parametrize("before", ["", "Let me look."])
async def test_an_agent_streams_what_it_writes(openai: Make, before: str) -> None:
    """Also what it wrote before it called a tool, which has been shown; the rest of its state is not told."""
    async with ChatServer(_talks(before)) as server:
        agent = as_worker(create_agent(openai(server.url), [look], name="clerk"))
        conductor = Conductor(FixedPlanner(Plan((Step(0, "Look."),))), [agent])
        pieces = [piece async for piece in ConductorRunnable(conductor).astream("What?")]
        whole = await ConductorRunnable(conductor).ainvoke("What?")
    assert "".join(pieces) == (f"{before}\n\n{SAID}" if before else SAID)
    assert len(pieces) > 10
    assert whole == SAID


class Numbers(TypedDict):
    """A state that is no conversation."""

    n: int


async def test_a_graph_whose_state_has_no_messages_needs_input() -> None:
    graph = _graph_of(lambda state: {"n": state["n"] + 1}, state=Numbers)
    worker = as_worker(graph, name="adder", input=lambda step_input: {"n": len(step_input.visible)})
    step_input = StepInput("count", (VisibleStep(0, "a", "b"),))
    assert (await complete(worker, _ask("count", step_input=step_input))).text == '{"n": 2}'
