"""LangGraph: each file is sent to a graph of its own, which sends its findings to the sceptics."""

import asyncio
import operator
from contextlib import AsyncExitStack
from typing import Annotated, Any, TypedDict

from langchain_openai import ChatOpenAI
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send

from benchmarks.workflows.arms.answers import Files, Findings, Note, Report, Vote
from benchmarks.workflows.job import DOUBT, LIST, QUESTION, READ, REVIEW, SCEPTICS, TURNS, WRITE


class _Job(TypedDict, total=False):
    files: list[str]
    votes: Annotated[list[dict[str, Any]], operator.add]
    report: dict[str, Any]


class _One(TypedDict, total=False):
    path: str
    note: str
    findings: list[dict[str, Any]]
    votes: Annotated[list[dict[str, Any]], operator.add]


class _Doubt(TypedDict):
    path: str
    claim: str
    index: int


def _graph(url: str, slots: int) -> Any:
    slot = asyncio.Semaphore(slots)  # `max_concurrency` counts for each graph, not for the graphs inside
    models: dict[str, Any] = {
        name: ChatOpenAI(model=name, base_url=url, api_key=lambda: "none").with_structured_output(
            kind, method="json_schema"
        )
        for name, kind in (
            ("lister", Files),
            ("reader", Note),
            ("reviewer", Findings),
            ("sceptic", Vote),
            ("writer", Report),
        )
    }

    async def call(model: str, task: str) -> Any:
        async with slot:
            return (await models[model].ainvoke([("system", QUESTION), ("user", task)])).model_dump()

    async def list_files(_: _Job) -> _Job:
        return {"files": [each["path"] for each in (await call("lister", LIST))["files"]]}

    async def read(state: _One) -> _One:
        return {"note": (await call("reader", READ.format(path=state["path"])))["note"]}

    async def review(state: _One) -> _One:
        return {
            "findings": (await call("reviewer", REVIEW.format(path=state["path"], note=state["note"])))[
                "findings"
            ]
        }

    async def doubt(state: _Doubt) -> _One:
        return {"votes": [await call("sceptic", DOUBT.format(**state))]}

    def doubts(state: _One) -> list[Send]:
        return [
            Send("doubt", {**each, "index": index}) for each in state["findings"] for index in range(SCEPTICS)
        ]

    async def write(state: _Job) -> _Job:
        before = state.get("report", {})
        task = WRITE.format(version=before.get("version", ""))
        shown = f"Votes: {state['votes']}\nVersion before: {before.get('report', '')}\n\n{task}"
        return {"report": await call("writer", shown)}

    def is_complete(state: _Job) -> str:
        report = state["report"]
        return END if report["complete"] or report["version"] >= TURNS else "write"

    one: Any = StateGraph(_One)
    one.add_node("read", read).add_node("review", review).add_node("doubt", doubt)
    one.add_edge(START, "read").add_edge("read", "review").add_conditional_edges("review", doubts, ["doubt"])
    inner = one.compile()

    async def file(state: _One) -> _Job:
        return {"votes": (await inner.ainvoke({**state, "votes": []})).get("votes", [])}

    whole: Any = StateGraph(_Job)
    whole.add_node("list", list_files).add_node("file", file).add_node("write", write)
    whole.add_edge(START, "list").add_edge("file", "write").add_conditional_edges("write", is_complete)
    whole.add_conditional_edges(
        "list", lambda state: [Send("file", {"path": each}) for each in state["files"]], ["file"]
    )
    return whole


async def run(asked: dict[str, Any]) -> dict[str, Any]:
    """Do the job once, or the rest of it, with checkpoints in SQLite if a file is named."""
    graph = _graph(asked["url"], asked["slots"])
    async with AsyncExitStack() as stack:
        saver = None
        if place := asked.get("journal"):
            saver = await stack.enter_async_context(AsyncSqliteSaver.from_conn_string(place))
        config: Any = {"configurable": {"thread_id": "1"}, "recursion_limit": 100}
        started: dict[str, Any] | None = None if asked.get("resume") else {"votes": []}
        state = await graph.compile(checkpointer=saver).ainvoke(started, config)
    return {"status": "ok" if state["report"]["complete"] else "partial", "answer": str(state["report"])}
