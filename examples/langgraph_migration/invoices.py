"""A map over the documents in the state: read each, add the totals, write a note.

By hand, a `Send` for each document, a reducer, and a node that adds; with Podium, a map over what a tool
reads from the state. An invoice that cannot be read is named, and the run is not `ok`.
"""

import operator
from typing import Annotated, Any, TypedDict

from job import Team
from langchain_core.tools import tool
from langgraph.graph import END, START, StateGraph
from langgraph.prebuilt import InjectedState
from langgraph.types import Send
from pydantic import BaseModel

from langchain_podium import as_worker, conductor_node
from podium import parse_plan
from podium.planners import FixedPlanner

READER = "What is the total of this invoice, in whole cents?\n\n{invoice}"
WRITER = "Write a note to accounting in a sentence: there are {count} invoices of {total} cents together."


class State(TypedDict, total=False):
    """The state of both graphs."""

    question: str
    invoices: list[str]
    totals: Annotated[list[int], operator.add]
    answer: str
    podium: dict[str, Any]


class Read(BaseModel):
    """What is read from an invoice."""

    total: int


def hand_wired(team: Team) -> Any:
    """Return the graph as people wire it by hand."""

    async def read(state: dict[str, str]) -> State:
        model = team.coder.with_structured_output(Read, method="json_schema")
        found: Any = await model.ainvoke(READER.format(invoice=state["invoice"]))
        return {"totals": [found.total]}

    async def write(state: State) -> State:
        asked = WRITER.format(count=len(state["invoices"]), total=sum(state["totals"]))
        return {"answer": str((await team.writer.ainvoke(asked)).content)}

    def each(state: State) -> list[Send]:
        return [Send("read", {"invoice": invoice}) for invoice in state["invoices"]]

    graph = StateGraph(State)
    graph.add_node("read", read)
    graph.add_node("write", write)
    graph.add_conditional_edges(START, each, ["read"])
    graph.add_edge("read", "write")
    graph.add_edge("write", END)
    return graph.compile()


@tool
def invoices(state: Annotated[dict[str, Any], InjectedState]) -> list[str]:
    """Return the invoices in the state."""
    found: list[str] = state["invoices"]
    return found


@tool
def add(totals: list[int]) -> dict[str, int]:
    """Add totals."""
    return {"count": len(totals), "sum": sum(totals)}


PLAN = """{"steps": [
  {"worker": "invoices", "subtask": "Read them.", "access": [], "returns": ["string"]},
  {"worker": "reader", "subtask": "What is the total of this invoice, in whole cents?\\n\\n{{item}}",
   "access": [], "each": "{{0}}", "returns": {"total": "integer"}},
  {"worker": "add", "subtask": "{\\"totals\\": \\"{{1.total}}\\"}", "access": [1],
   "returns": {"count": "integer", "sum": "integer"}},
  {"worker": "writer", "subtask": "Write a note to accounting in a sentence: there are {{2.count}} invoices of {{2.sum}} cents together.",
   "access": [2]}]}"""  # noqa: E501 - a line for each step


def conducted(team: Team) -> Any:
    """Return the same graph with one node."""
    parts = {"invoices": invoices, "reader": team.coder, "add": add, "writer": team.writer}
    planner = FixedPlanner(parse_plan(PLAN, workers=list(parts)))
    workers = [as_worker(part, name=name, acts=False) for name, part in parts.items()]
    node = conductor_node(planner=planner, workers=workers, input="question")
    return StateGraph(State).add_node("conductor", node).add_edge(START, "conductor").compile()
