"""Plans in which something waits for a person go on after each answer and each kill, and never hang."""

import json
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from copy import deepcopy
from functools import partial
from typing import Any, NamedTuple

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from graphs.conducted import ASKED, CONFIG, EXECUTORS, Calls, Executor, around, decided
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt

from langchain_podium import as_worker
from podium import Conductor, Retry, parse_plan
from podium.errors import RunFailed
from podium.planners import FixedPlanner
from podium.policy import Policy
from podium.workers import FREE, PersonWorker, Worker

pytestmark = pytest.mark.anyio
NAMES = ("list", "judge", "sum", "person", "wait", "act", "ask")
SECONDS = 20.0
"""Seconds after which a call hangs."""


class Kind(NamedTuple):
    worker: str
    decision: str = "approve"
    words: str = ""


KINDS = {
    "approved": Kind("act"),
    "edited": Kind("act", "edit"),
    "refused": Kind("act", "reject", "no"),
    "approved, then interrupts": Kind("ask"),
    "answered": Kind("person", "respond", "yes"),
    "unanswered": Kind("person", "reject"),
    "interrupts": Kind("wait"),
}
KILLS = [("map", "approved, then interrupts"), ("block", "refused")]
"""In what the short tests kill, with one executor and the other in turn."""
MODES = ["at once", "one by one", "sync"]


def _step(worker: str, subtask: str, access: Sequence[int] = (), **more: Any) -> dict[str, Any]:
    subtask = json.dumps({"what": subtask}) if worker in ("act", "ask") else subtask
    return {"worker": worker, "subtask": subtask, "access": list(access), **more}


LIST = _step("list", "list", returns={"names": ["string"]})
JUDGE = _step("judge", "judge", returns={"kind": "x|y"})


def _on(kind: str, number: int = 0) -> dict[str, Any]:
    return {"ref": f"{{{{{number}.kind}}}}", "is": kind}


def _shapes(worker: str) -> dict[str, list[dict[str, Any]]]:
    block = [_step(worker, "a"), _step("sum", "sum", [0])]
    items = [_step(worker, "{{item}}"), _step("sum", "sum", [0])]
    turn = [_step(worker, "a"), {**JUDGE, "access": [0]}]
    return {
        "parallel": [_step(worker, "a"), _step(worker, "b"), _step("sum", "sum", [0, 1])],
        "sequence": [_step(worker, "a"), _step(worker, "b", [0]), _step("sum", "sum", [0, 1])],
        "map": [LIST, _step(worker, "{{item}}", each="{{0.names}}"), _step("sum", "sum", [1])],
        "map over a map": [
            LIST,
            _step("sum", "{{item}}", each="{{0.names}}"),
            _step(worker, "i{{index}}", each="{{1}}"),
            _step("sum", "sum", [2]),
        ],
        "joins after a map": [
            LIST,
            _step("sum", "{{item}}", each="{{0.names}}"),
            _step("sum", "b", [0, 1]),
            _step("sum", "c", [0, 2]),
            _step(worker, "a", [2, 3]),
        ],
        "block": [{"steps": block, "access": []}, _step("sum", "sum", [0])],
        "block for each": [LIST, {"steps": items, "each": "{{0.names}}", "access": []}],
        "loop": [{"steps": turn, "until": _on("x", 1), "most": 2, "access": []}, _step("sum", "sum", [0])],
        "condition": [JUDGE, _step(worker, "a", when=_on("x")), _step(worker, "b", when=_on("y"))],
    }


class _Copies(InMemorySaver):
    """A saver that keeps what another process would find after a kill, at each third write."""

    def __init__(self) -> None:
        super().__init__()
        self.copies = list[_Process]()
        self._count = 0
        self.process: _Process | None = None
        """The process that writes."""

    def _copy(self) -> None:
        self._count += self.process is not None
        if self.process is not None and self._count % 3 == 1:
            copy = InMemorySaver()
            copy.storage, copy.writes, copy.blobs = deepcopy((self.storage, self.writes, self.blobs))
            self.copies.append(self.process.next(copy))

    async def aput(self, *given: Any, **more: Any) -> Any:
        put = await super().aput(*given, **more)
        self._copy()
        return put

    async def aput_writes(self, *given: Any, **more: Any) -> None:
        await super().aput_writes(*given, **more)
        self._copy()


class _ActionUnknown(Exception):
    """The process died in an action that the answer needs."""


class _Process:
    """A process with a user's graph, and what has happened so far in this process and those before."""

    def __init__(self, shape: str, kind: Kind, executor: Executor, saver: InMemorySaver, **more: Any) -> None:
        self.effects = list[str]()
        self.allowed = dict[str, str]()
        """The effects that a person has approved, by the ids of the interrupts."""
        self.is_first = True
        """Whether no process has died, so that what is approved is carried out at once."""
        self.is_sync = False
        self._made = shape, kind, executor
        self.kind = kind
        plan = parse_plan(json.dumps({"steps": _shapes(kind.worker)[shape]}), workers=NAMES)
        conductor = Conductor(FixedPlanner(plan), self._workers(), retry=Retry(attempts=1))
        policy = Policy(ask="actions", approve="later")
        self.graph = around(conductor, executor=executor, policy=policy, checkpointer=saver, **more)

    def next(self, saver: InMemorySaver) -> "_Process":
        following = _Process(*self._made, saver)
        following.is_first = False
        following.effects, following.allowed = [*self.effects], {**self.allowed}
        return following

    def _workers(self) -> list[Worker]:
        calls = Calls()

        async def act(what: str) -> str:
            """Act."""
            self.effects.append(what)
            await anyio.lowlevel.checkpoint()
            return f"done {what}"

        async def ask(what: str) -> str:
            """Act after a question."""
            assert interrupt(f"{what}?") == "yes"
            return await act(what)

        tools = [StructuredTool.from_function(coroutine=act), StructuredTool.from_function(coroutine=ask)]
        return [
            calls.worker("list", lambda _: '{"names": ["a", "b"]}'),
            calls.worker("judge", lambda _: '{"kind": "y"}'),
            calls.worker("sum"),
            PersonWorker("person"),
            calls.asking("wait", lambda step_input: str(interrupt(f"{step_input.subtask}?"))),
            *(as_worker(tool, price=FREE) for tool in tools),
        ]

    async def call(self, given: Any) -> Any:
        try:
            with anyio.fail_after(SECONDS):
                if not self.is_sync:
                    return await self.graph.ainvoke(given, CONFIG)
                work = partial(self.graph.invoke, given, CONFIG)
                return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
        except RunFailed as error:
            raise (_ActionUnknown() if "it is not known whether" in str(error) else error) from None

    async def answer(self, asked: Sequence[Any]) -> Any:
        said = {each.id: self._said(each.id, each.value) for each in asked}
        return await self.call(Command(resume=said))

    @property
    def left(self) -> Counter[str]:
        """What was approved and is not done; raise if something was done that was not approved."""
        done, allowed = Counter(self.effects), Counter(self.allowed.values())
        assert done <= allowed
        return allowed - done

    def _said(self, key: str, shown: Any) -> Any:
        """Return the answer to what an interrupt shows; an edited action does something else."""
        if isinstance(shown, str):
            return "yes"
        facts, what = dict[str, Any](message=self.kind.words), shown["action_requests"][0]["args"].get("what")
        if self.kind.decision == "edit":
            what = f"{what}!"
            facts = {"edited_action": {"name": "act", "args": {"what": what}}}
        if what is not None and self.kind.decision != "reject":
            self.allowed[key] = what
        return decided(self.kind.decision, **facts).resume

    async def go_on(self, state: Any, *, is_single: bool = False) -> Any:
        """Answer all interrupts, or one after the other, until there are none."""
        for _ in range(12):
            if not (asked := state.get("__interrupt__")):
                return state
            state = await self.answer(asked[:1] if is_single else asked)
            assert not (self.kind.worker == "act" and self.is_first and self.left)
        raise AssertionError("it asks again and again")


def _table(*, of_modes: bool) -> Any:
    """Return shapes, kinds and executors, each with one way to answer; the others are for the long tests."""
    rows = [
        (shape, kind, executor, *([mode] if of_modes else []))
        for at, shape in enumerate(_shapes("act"))
        for of, kind in enumerate(KINDS)
        for executor, mode in (("podium", MODES[(at + of) % 3]), ("langgraph", MODES[(at + of + 1) % 3]))
    ]
    names = ("shape", "kind", "executor", "mode")[: 4 if of_modes else 3]
    short = zip(_shapes("act"), [*KINDS, "approved", "interrupts"], strict=True) if of_modes else KILLS
    turns = {(*pair, ("podium", "langgraph")[at % 2]) for at, pair in enumerate(short)}
    marks = [[] if row[:3] in turns else [pytest.mark.long] for row in rows]
    params = [pytest.param(*row, marks=mark) for row, mark in zip(rows, marks, strict=True)]
    return pytest.mark.parametrize(names, params)


@_table(of_modes=True)
async def test_answers(shape: str, kind: str, executor: Executor, mode: str) -> None:
    process = _Process(shape, KINDS[kind], executor, InMemorySaver())
    process.is_sync = mode == "sync"
    state = await process.call(ASKED)
    assert state["__interrupt__"]
    assert process.effects == []
    state = await process.go_on(state, is_single=mode == "one by one")
    assert not process.left
    is_refused = kind in ("refused", "unanswered")
    assert state["podium"]["status"] == ("failed" if is_refused else "partial" if shape == "loop" else "ok")


@_table(of_modes=False)
async def test_kills(shape: str, kind: str, executor: Executor) -> None:
    """Wherever the process dies, the next one goes on; no answer is taken for one to another question."""
    saver = _Copies()
    process = _Process(shape, KINDS[kind], executor, saver)
    state = await process.call(ASKED)
    saver.process = process
    await process.go_on(state)
    assert len(saver.copies) > 1
    for each in saver.copies:
        with suppress(_ActionUnknown):
            state = await each.go_on(await each.call(None))
            assert state["podium"]["status"] != "ok" or not each.left
        assert each.left <= Counter(each.allowed.values())


@pytest.mark.parametrize(("kind", "executor"), [("refused", "langgraph"), ("unanswered", "podium")])
async def test_a_refusal(executor: Executor, kind: str) -> None:
    """It ends the run without an error, unless the caller asks for one; the thread then waits for nobody."""
    process = _Process("block", KINDS[kind], executor, InMemorySaver(), partial="raise")
    state = await process.call(ASKED)
    with pytest.raises(RunFailed, match="there is no answer"):
        await process.go_on(state)
    kept = await process.graph.aget_state(CONFIG)
    assert (kept.interrupts, bool(kept.next)) == ((), True)
    process = _Process("block", KINDS[kind], executor, InMemorySaver())
    state = await process.go_on(await process.call(ASKED))
    told = "the action of step 0.0 was refused by interrupt: no"
    told = told if kind == "refused" else "the question of step 0.0 was not answered by interrupt"
    assert state["messages"][-1].content == told
    found = (state["podium"]["status"], state["podium"]["problem"])
    assert found == ("failed", {"code": kind, "message": told})
    kept = await process.graph.aget_state(CONFIG)
    assert (kept.interrupts, kept.next) == ((), ())


@EXECUTORS
async def test_an_answer_without_an_id_is_used_once(executor: Executor) -> None:
    """LangGraph gives it to the next question, too, when the graph is called without an answer."""
    process = _Process("sequence", KINDS["approved"], executor, InMemorySaver())
    await process.call(ASKED)
    await process.call(decided())
    for _ in range(2):
        state = await process.call(None)
        assert [each.value["podium"]["step"] for each in state["__interrupt__"]] == ["1"]
        assert process.effects == ["a"]
    assert ((await process.call(decided()))["podium"]["status"], process.effects) == ("ok", ["a", "b"])
