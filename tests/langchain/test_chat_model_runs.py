"""A chat model's run, those below it, and tokens: each counted once, whoever worked."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import anyio
import pytest
from langchain_core.callbacks import BaseCallbackHandler, UsageMetadataCallbackHandler
from langchain_core.callbacks.manager import atrace_as_chain_group
from langchain_core.messages import AIMessageChunk
from langchain_core.runnables import RunnableLambda
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import create_react_agent
from servers.capable import PLAN, capable, is_planning
from servers.chat_server import Call, ChatServer, Reply, says, whole
from servers.openai_models import openai

from langchain_podium.chat_models import ChatPodium
from langchain_podium.workers import as_planner
from podium import ChatPlanner, Conductor, ScriptedWorker
from podium.execution import Retry
from podium.types import Completion
from podium.usage import Usage

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore:create_react_agent has been moved"),
]


def counted(handler: UsageMetadataCallbackHandler) -> tuple[int, int, int]:
    """Return all that a handler has seen."""
    seen = handler.usage_metadata.values()
    return tuple(
        sum(int(one[key]) for one in seen) for key in ("input_tokens", "output_tokens", "total_tokens")
    )  # type: ignore[return-value,literal-required]


def total(podium: dict[str, Any]) -> tuple[int, int, int]:
    """Return what the run really took."""
    usage = podium["usage"]
    return usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]


def plain(name: str) -> ScriptedWorker:
    """Return a worker of Podium's, no run of which tells LangChain of tokens."""
    return ScriptedWorker(name, Completion("Known.", usage=Usage(100, 10, cached_tokens=40)))


def plain_planner() -> ChatPlanner:
    """Return a planner of Podium's."""
    return ChatPlanner(ScriptedWorker("planner", Completion(PLAN, usage=Usage(1000, 1))))


Pools = Callable[[str], dict[str, Any]]
MIXES: dict[str, tuple[Pools, tuple[int, int, int]]] = {
    "all of Podium's": (
        lambda url: {"planner": plain_planner(), "workers": [plain("a"), plain("b")]},
        (1200, 21, 1221),
    ),
    "all of LangChain's": (
        lambda url: {"planner": openai(url, "p"), "workers": [openai(url, "a"), openai(url, "b")]},
        (633, 21, 654),
    ),
    "a planner of LangChain's": (
        lambda url: {"planner": as_planner(openai(url, "p")), "workers": [plain("a"), plain("b")]},
        (411, 27, 438),
    ),
    "one worker of each": (
        lambda url: {"planner": plain_planner(), "workers": [plain("a"), openai(url, "b")]},
        (1311, 18, 1329),
    ),
    "a chain and an agent": (
        lambda url: {
            "planner": openai(url, "p"),
            "workers": [
                RunnableLambda(lambda text: text, name="a") | openai(url, "b"),
                create_react_agent(openai(url, "c"), [], name="agent"),
            ],
        },
        (633, 21, 654),
    ),
}


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("way", ["ainvoke", "invoke", "astream", "stream", "astream_events"])
async def test_tokens_are_counted_once(mix: str, way: str) -> None:
    """What LangChain's handler sees, of this run and of all below it, is what the run took."""
    make, expected = MIXES[mix]
    handler, message = UsageMetadataCallbackHandler(), None
    with ChatServer(capable).in_thread() as server:
        model = ChatPodium(**make(server.url))
        config: Any = {"callbacks": [handler]}
        match way:
            case "ainvoke":
                message = await model.ainvoke("What?", config=config)
            case "invoke":
                message = model.invoke("What?", config=config)
            case "astream":
                async for chunk in model.astream("What?", config=config):
                    message = chunk
            case "stream":
                for chunk in model.stream("What?", config=config):
                    message = chunk
            case "astream_events":
                chain = model | RunnableLambda(lambda answer: answer)
                async for event in chain.astream_events("What?", config=config, version="v2"):
                    if event["event"] == "on_chat_model_end" and event["name"] == "ChatPodium":
                        message = event["data"]["output"]
    assert message is not None
    assert counted(handler) == total(message.response_metadata["podium"]) == expected
    assert message.usage_metadata is not None


async def test_without_callbacks_the_message_reports_the_same() -> None:
    """What a message says does not hang on who listens."""
    with ChatServer(capable).in_thread() as server:
        model = ChatPodium(planner=plain_planner(), workers=[plain("a"), openai(server.url, "b")])
        message = await model.ainvoke("What?")
    assert message.usage_metadata is not None
    assert message.usage_metadata["total_tokens"] == 1111
    assert message.usage_metadata["input_token_details"] == {"cache_read": 40}
    assert message.response_metadata["podium"]["usage"]["total_tokens"] == 1329


async def test_calls_that_came_to_nothing_are_counted_too() -> None:
    """A handler never sees a call that failed; the run was billed for it all the same."""
    failing = True

    def reply(call: Call) -> Reply:
        nonlocal failing
        if not is_planning(call) and failing:
            failing = False
            return says(call, "cut of", finish_reason=None)
        return capable(call)

    handler = UsageMetadataCallbackHandler()
    with ChatServer(reply).in_thread() as server:
        planner, pool = as_planner(openai(server.url, "p")), [plain("a"), openai(server.url, "b")]
        conductor = ChatPodium(planner=planner, workers=pool)
        message = await conductor.ainvoke("What?", config={"callbacks": [handler]})
    podium = message.response_metadata["podium"]
    assert counted(handler) == total(podium)
    assert podium["steps"][1]["attempts"] == 2


class Tree(BaseCallbackHandler):
    """Remembers which runs were begun, and under which."""

    def __init__(self) -> None:
        self.names: dict[UUID, str] = {}
        self.parents: dict[str, str | None] = {}
        self.tags: dict[str, list[str]] = {}
        self.metadata: dict[str, dict[str, Any]] = {}
        self.ended: list[str] = []

    def _begin(self, what: Any, run_id: UUID, parent: UUID | None, facts: dict[str, Any]) -> None:
        name = facts.get("name") or what["id"][-1]
        self.names[run_id] = name
        self.parents[name] = None if parent is None else self.names[parent]
        self.tags[name], self.metadata[name] = facts.get("tags") or [], facts.get("metadata") or {}

    def on_chat_model_start(
        self, what: Any, *_: Any, run_id: UUID, parent_run_id: UUID | None = None, **facts: Any
    ) -> None:
        """See a chat model begin."""
        self._begin(what, run_id, parent_run_id, facts)

    def on_chain_start(
        self, what: Any, *_: Any, run_id: UUID, parent_run_id: UUID | None = None, **facts: Any
    ) -> None:
        """See a chain begin."""
        self._begin(what, run_id, parent_run_id, facts)

    def on_chain_end(self, *_: Any, run_id: UUID, **facts: Any) -> None:
        """See a chain end."""
        self.ended.append(self.names[run_id])

    on_llm_end = on_chain_end


async def by_astream(model: ChatPodium, config: Any) -> None:
    """Read the stream to its end."""
    assert [chunk async for chunk in model.astream("What?", config=config)]


async def by_events(model: ChatPodium, config: Any) -> None:
    """Read the events to their end."""
    stream = await model.astream_events("What?", config=config, version="v3")
    assert [event async for event in stream]


async def by_streaming(model: ChatPodium, config: Any) -> None:
    """Have `ainvoke` stream."""
    assert await model.model_copy(update={"streaming": True}).ainvoke("What?", config=config)


async def by_ainvoke(model: ChatPodium, config: Any) -> None:
    """Wait for the whole message."""
    assert await model.ainvoke("What?", config=config)


async def by_sync(model: ChatPodium, config: Any) -> None:
    """Wait for the whole message in code that is not async."""
    assert model.invoke("What?", config=config)


async def by_sync_stream(model: ChatPodium, config: Any) -> None:
    """Read the stream in code that is not async."""
    assert list(model.stream("What?", config=config))


async def by_sync_streaming(model: ChatPodium, config: Any) -> None:
    """Have `invoke` stream."""
    assert model.model_copy(update={"streaming": True}).invoke("What?", config=config)


async def by_sync_events(model: ChatPodium, config: Any) -> None:
    """Read the events in code that is not async."""
    assert list(model.stream_events("What?", config=config, version="v3"))


ASYNC = [by_ainvoke, by_astream, by_streaming, by_events]
SYNC = [by_sync, by_sync_stream, by_sync_streaming, by_sync_events]


@pytest.mark.parametrize("call", [*ASYNC, *SYNC])
@pytest.mark.filterwarnings("ignore:.*beta")
async def test_steps_are_runs_below_the_models(call: Any) -> None:
    """Every way to call it, in a chain or not: the planner's call and each step's stand below its run."""
    tree = Tree()
    with ChatServer(capable).in_thread() as server:
        model = ChatPodium(planner=plain_planner(), workers=[plain("a"), openai(server.url, "b")])
        config = {"callbacks": [tree], "tags": ["mine"], "metadata": {"user": "7"}, "run_name": "ask"}
        await call(model, config)
        with anyio.fail_after(5):
            while "ask" not in tree.ended:  # noqa: ASYNC110 - LangChain ends the run after the last event
                await anyio.sleep(0.001)
    assert tree.parents == {"ask": None, "planner": "ask", "a": "ask", "b": "ask", "ChatOpenAI": "b"}
    assert sorted(tree.ended) == sorted(tree.parents)
    for name in tree.parents:
        assert "mine" in tree.tags[name]
        assert tree.metadata[name]["user"] == "7"
    assert tree.metadata["b"]["podium_step"] == 1
    assert "ls_model_name" not in tree.metadata["b"]
    assert tree.metadata["ChatOpenAI"]["ls_model_name"] == "b"


async def test_in_a_chain_group() -> None:
    """Below whatever it is called in."""
    tree = Tree()
    model = ChatPodium(planner=plain_planner(), workers=[plain("a"), plain("b")])
    async with atrace_as_chain_group("group", callback_manager=None) as group:
        group.add_handler(tree, inherit=True)
        tree.names[group.parent_run_id] = "group"
        [chunk async for chunk in model.astream("What?", config={"callbacks": group})]
    assert tree.parents == {
        "ChatPodium": "group",
        "planner": "ChatPodium",
        "a": "ChatPodium",
        "b": "ChatPodium",
    }


async def test_langgraph_streams_the_answer_alone() -> None:
    """Of a node that asks it, `stream_mode="messages"` shows no plan and no step."""

    async def ask(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    with ChatServer(capable).in_thread() as server:
        model = ChatPodium(
            planner=openai(server.url, "p"), workers=[openai(server.url, "a"), openai(server.url, "b")]
        )
        graph = (
            StateGraph(MessagesState)
            .add_node("ask", ask)
            .add_edge(START, "ask")
            .add_edge("ask", END)
            .compile()
        )
        pieces = [
            message
            async for message, _ in graph.astream({"messages": [("user", "What?")]}, stream_mode="messages")
        ]
    assert all(isinstance(piece, AIMessageChunk) for piece in pieces)
    assert "".join(str(piece.content) for piece in pieces) == "Hello to you, too."
    assert len(pieces) > 2


class Told(BaseCallbackHandler):
    """Takes custom events."""

    def __init__(self) -> None:
        self.told: list[tuple[str, UUID]] = []

    def on_custom_event(self, name: str, data: Any, *, run_id: UUID, **_: Any) -> None:
        """Remember its name and whose it is."""
        self.told.append((name, run_id))


@pytest.mark.parametrize("stream", [True, False])
async def test_what_happens_is_told_as_custom_events(*, stream: bool) -> None:
    """Podium's events, of the model's own run."""
    told, tree = Told(), Tree()
    model = ChatPodium(conductor=Conductor(plain_planner(), [plain("a"), plain("b")]))
    config: Any = {"callbacks": [told, tree]}
    if stream:
        [chunk async for chunk in model.astream("What?", config=config)]
    else:
        await model.ainvoke("What?", config=config)
    names = [name for name, _ in told.told]
    assert names[0] == "podium_run_started"
    assert names[-1] == "podium_run_ended"
    assert names.count("podium_step_ended") == 2
    assert {tree.names[run_id] for _, run_id in told.told} == {"ChatPodium"}


async def test_an_error_reaches_the_callbacks() -> None:
    """Of a run without an answer, the model's run ends in error, and so does that of the step."""

    class Errors(Tree):
        errors: list[str]

        def on_llm_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
            self.errors.append(self.names[run_id])

        on_chain_error = on_llm_error

    tree = Errors()
    tree.errors = []
    with ChatServer(
        lambda call: capable(call) if is_planning(call) else whole({}, status=401)
    ).in_thread() as server:
        pool = [openai(server.url, "a"), openai(server.url, "b")]
        made = ChatPodium(
            conductor=Conductor(as_planner(openai(server.url, "p")), _workers(pool), retry=Retry(attempts=1))
        )
        with pytest.raises(Exception, match="no answer"):
            await made.ainvoke("What?", config={"callbacks": [tree]})
    assert tree.errors[-1] == "ChatPodium"
    assert "a" in tree.errors


def _workers(models: list[Any]) -> list[Any]:
    from langchain_podium.workers import as_worker  # noqa: PLC0415

    return [as_worker(model) for model in models]
