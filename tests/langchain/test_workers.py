"""LangChain's things as workers: cards, inputs, what counts as an answer, content, and errors."""

import asyncio
import json
from collections.abc import Callable
from typing import Any, TypedDict

import pytest
from contracts.odd_answers import CALLS, ODD_ANSWERS, REFUSED, WRONG_URL, Case, check_case
from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import StructuredTool, ToolException, tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import create_react_agent
from langgraph.pregel.remote import RemoteGraph
from pydantic import BaseModel
from servers.chat_server import CUT, RESET, Call, ChatServer, Reply, chunk, events, says, whole

from langchain_podium import ConductorRunnable, as_planner, as_worker
from podium import Card, Conductor, Limits, Message, Plan, Price, Retry, ScriptedWorker, Step
from podium.errors import (
    ConfigError,
    ToolFailed,
    WorkerBroken,
    WorkerError,
    WorkerFailed,
    WorkerRefused,
    WorkerTimeout,
    WorkerUnavailable,
)
from podium.hosts import tool_call
from podium.planners import FixedPlanner
from podium.types import Completion, Sampling
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
    found = [body[name] for name in ("temperature", "max_completion_tokens", "stop", "seed")]
    assert found == [0.5, 7, ["END"], 3]
    assert answer == Completion("ok", usage=Usage(211, 7), model="scripted-1")


ENDED = (chunk({"content": "Hi"}), chunk({}, finish_reason="stop"))
TOO_MANY = {"message": "too many requests", "code": "rate_limit_exceeded"}
"""What a server may still report after the finish reason."""


@pytest.mark.parametrize(
    ("reply", "stream", "kind", "paid", "says_so"),
    [
        (lambda c: whole({"error": {"message": "slow"}}, status=429), True, WorkerUnavailable, False, "429"),
        (lambda c: whole({"error": {"message": "no key"}}, status=401), False, WorkerRefused, False, "key"),
        (lambda c: Reply((RESET,)), False, WorkerUnavailable, True, "connection"),
        (lambda c: events(chunk({"content": "half"}), CUT), True, WorkerBroken, True, "cut off"),
        (lambda c: events(*ENDED, {"error": TOO_MANY}), True, WorkerUnavailable, True, "too many"),
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


def _made(kind: str, model: Any) -> Worker:
    if kind == "agent":
        return as_worker(create_react_agent(model, []), name="agent")
    if kind == "calls":
        return as_worker(RunnableLambda(str) | model, name="chain")
    chain = ChatPromptTemplate([("human", "{input}")]) | model | StrOutputParser()
    return as_worker(chain, name="chain", input=lambda step: {"input": step.subtask})


@pytest.mark.filterwarnings("ignore:create_react_agent has been moved")
@pytest.mark.parametrize(
    ("kind", "case", "stream"),
    [
        *(("model", case, True) for case in (*ODD_ANSWERS[1:], None)),
        *(("model", case, False) for case in (REFUSED, WRONG_URL)),
        *(("chain", case, True) for case in ("stop", "length", "content_filter")),
        *(("agent", case, False) for case in ("stop", "length", "content_filter")),
        ("calls", CALLS, True),
    ],
)
async def test_how_an_answer_ends(openai: Make, kind: str, case: Case, *, stream: bool) -> None:
    """As with Podium's own client; langchain-openai leaves refusals out of its streams."""

    def make(url: str) -> Worker:
        return as_worker(openai(url)) if kind == "model" else _made(kind, openai(url))

    await check_case(make, case, stream=stream)


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

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        sources = {"Red.": {"source": "red.md"}, "Blue.": {"title": "Blue"}}
        found = [Document(text, metadata=source) for text, source in sources.items()]
        return [] if query == "nothing" else found


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
    workers = [
        ScriptedWorker("a", "red"),
        as_worker(noting, name="b"),
        as_worker(prompt | noting, name="c", input=facts),
        ScriptedWorker("d", "end"),
    ]
    conductor = Conductor(FixedPlanner(plan), workers)
    assert (await conductor.run("Colour?")).status == "ok"
    text = next(value for value in seen if isinstance(value, str))
    assert all(word in text for word in ("Colour?", "look", "red", "write"))
    (prompted,) = [value for value in seen if not isinstance(value, str)]
    assert prompted.to_messages() == [HumanMessage("check with ['red']")]


async def test_usage_of_every_call_inside_a_chain_is_counted(openai: Make) -> None:
    """Two models one after the other, the last one's text all that is returned."""
    async with ChatServer(lambda call: says(call, "ok")) as server:
        model = openai(server.url, stream_usage=True)
        chain = as_worker(model | RunnableLambda(lambda message: message.text) | model, name="chain")
        for stream in (False, True):
            assert (await complete(chain, _ask(stream=stream))).usage == Usage(422, 14)
        broken = model | RunnableLambda(lambda message: 1 // 0)
        with pytest.raises(WorkerFailed, match="ZeroDivisionError") as raised:
            await complete(as_worker(broken, name="broken"), _ask())
        assert raised.value.usage == Usage(211, 7)


def _graph_of(node: Callable[..., Any], *, state: Any = MessagesState, **options: Any) -> Any:
    graph = StateGraph(state)
    return graph.add_node("node", node).add_edge(START, "node").compile(**options)


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


async def test_a_remote_graph_answers_with_its_last_message() -> None:
    """Its tokens are unknown, which the step says; no state of the host's thread is sent or kept."""
    told = {"type": "ai", "content": "It is 330 m.", "id": "2"}
    told["response_metadata"] = {"finish_reason": "stop"}
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
    assert (result.usage.estimated, result.usage.total_tokens > 0) == (True, True)


SAID = " ".join(f"word{number}" for number in range(12))


@tool
def look(word: str) -> str:
    """Look a word up."""
    return f"about {word}"


def _talks(before: str) -> Callable[[Call], Reply]:
    """Return a script of a model that may write a text, calls a tool, and then writes an answer."""

    def reply(call: Call) -> Reply:
        if call.body["messages"][-1]["role"] != "tool":
            return says(call, before, tool_calls=[tool_call("1", "look", '{"word": "x"}')])
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
    assert (len(pieces) > 10, whole) == (True, SAID)


class Numbers(TypedDict):
    n: int


async def test_a_graph_whose_state_has_no_messages_needs_input() -> None:
    graph = _graph_of(lambda state: {"n": state["n"] + 1}, state=Numbers)
    worker = as_worker(graph, name="adder", input=lambda step_input: {"n": len(step_input.visible)})
    step_input = StepInput("count", (VisibleStep(0, "a", "b"),))
    assert (await complete(worker, _ask("count", step_input=step_input))).text == '{"n": 2}'


TEXT = {"type": "text", "text": "It is a chart."}
IMAGE = {"type": "image", "base64": "AAAA", "mime_type": "image/png"}
LINK = {"type": "file", "url": "https://example.org/a.pdf"}
STATED = "not passed on, since the output of a step is text: an image (image/png)"


def _tool(returned: Any, *, artifact: Any = None, **facts: Any) -> StructuredTool:
    """Return a tool as the adapters of MCP make them: content blocks, and an artifact."""

    async def look(name: str) -> Any:
        del name
        return returned, artifact

    return StructuredTool.from_function(
        coroutine=look, name="look", description="Looks.", response_format="content_and_artifact", **facts
    )


async def test_what_a_tool_returns_becomes_text() -> None:
    """Content blocks are read as such; a list of plain values, and an artifact alone, are JSON."""

    def names() -> list[Any]:
        """List names."""
        return ["a", {"b": 1}]

    told = {
        "It is a chart.\n\nfile: https://example.org/a.pdf": _tool([TEXT, LINK]),
        '{"structured_content": {"n": 1}}': _tool([], artifact={"structured_content": {"n": 1}}),
        "The tool succeeded and returned nothing.": _tool([]),
        "plain": _tool("plain", artifact={"n": 1}),
        '["a", {"b": 1}]': StructuredTool.from_function(names),
    }
    answers = [await complete(as_worker(each), _ask("chart")) for each in told.values()]
    assert [(answer.text, answer.missing) for answer in answers] == [(text, None) for text in told]


async def test_what_is_no_text_is_stated() -> None:
    """An image is a gap in the output, and the run is partial; alone it is an error."""
    worker = as_worker(_tool([TEXT, IMAGE]))
    answer = await complete(worker, _ask("chart"))
    assert (answer.text, answer.missing) == (f"It is a chart.\n\n[{STATED}]", STATED)
    result = await Conductor(FixedPlanner(Plan((Step(0, "chart"),))), [worker]).run("Q?")
    assert result.status == "partial"
    with pytest.raises(WorkerFailed, match="an image"):
        await complete(as_worker(_tool([IMAGE])), _ask("chart"))
    message = AIMessage([TEXT, IMAGE], response_metadata={"finish_reason": "stop"})
    model = GenericFakeChatModel(messages=iter([message]))
    answer = await complete(as_worker(model, name="artist"), _ask("chart"))
    assert (answer.text, answer.missing) == ("It is a chart.", STATED)


async def test_an_error_that_a_tool_handles_itself_is_no_answer() -> None:
    """What tools of MCP servers do with `handle_tool_error` is told as a failure."""

    async def fails(name: str) -> Any:
        raise ToolException(f"no {name}")

    failing = StructuredTool.from_function(coroutine=fails, description="F.", handle_tool_error=True)
    with pytest.raises(ToolFailed, match="no chart"):
        await complete(as_worker(failing), _ask("chart"))


class Form(BaseModel):
    value: int


def _agent(name: str | None, **state: Any) -> Any:
    """Return a graph that answers at once, as an agent does at its end."""

    class State(MessagesState):
        structured_response: Any

    graph = StateGraph(State)
    graph.add_node("model", lambda _: {"messages": [AIMessage("Returning a structured response")], **state})
    return graph.add_edge(START, "model").compile(name=name)


async def test_an_agents_structured_response_is_its_answer() -> None:
    """An agent needs a name: without one, the error says how to name it."""
    counter, plain = as_worker(_agent("counter", structured_response=Form(value=42))), as_worker(_agent("x"))
    assert (counter.card.name, (await complete(counter, _ask())).text) == ("counter", '{"value": 42}')
    assert (await complete(plain, _ask())).text == "Returning a structured response"
    with pytest.raises(ConfigError, match=r"name='\.\.\.'"):
        as_worker(_agent(None))


@pytest.mark.parametrize(("metadata", "calls"), [({}, 1), ({"idempotentHint": True}, 2)])
async def test_a_tool_that_times_out_may_have_done_its_work(metadata: dict[str, Any], calls: int) -> None:
    """It is not called again, unless its annotations say that this does no harm."""
    made = 0

    async def send(name: str) -> str:
        """Send mail."""
        nonlocal made
        made += 1
        await asyncio.sleep(30)
        return name

    mail = StructuredTool.from_function(coroutine=send, name="mail", description="Mails.", metadata=metadata)
    limits, retry = Limits(attempt_seconds=0.05), Retry(attempts=2, first_wait=0.001)
    conductor = Conductor(FixedPlanner(Plan((Step(0, "x"),))), [as_worker(mail)], limits=limits, retry=retry)
    result = await conductor.run("Q?")
    assert (result.status, made) == ("failed", calls)
    assert result.outcomes[0].maybe_paid
