"""What LangChain's callbacks, events and configuration see of a run, and what a cancel of it closes."""

import json
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import suppress
from functools import partialmethod
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler, UsageMetadataCallbackHandler
from langchain_core.messages import AIMessageChunk
from langchain_core.runnables import RunnableConfig, RunnableLambda
from servers.chat_server import Call, ChatServer, Reply, says

from langchain_podium import ChatPodium, ConductorRunnable, as_planner, as_worker
from podium import Card, ChatPlanner, Conductor, FunctionWorker, Plan, ScriptedWorker, Step
from podium.errors import PodiumError, WorkerFailed
from podium.hosts import tool_call
from podium.plan_text import write_plan
from podium.planners import FixedPlanner
from podium.types import Completion
from podium.workers import FREE, Request, StepInput, Worker

pytestmark = pytest.mark.anyio
Make = Callable[..., Any]


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
