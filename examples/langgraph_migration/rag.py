"""A retrieval loop: search, grade what was found, search with a better query, and then answer.

By hand, a state with a counter, three nodes and a conditional edge; with Podium, a plan with a loop, which
one node of the same graph carries out. If no query finds enough, the answer of the second says so.
"""

from typing import Any, TypedDict

from job import Team
from langchain_core.documents import Document
from langgraph.graph import END, START, StateGraph
from pydantic import BaseModel

from langchain_podium import as_worker, conductor_node
from podium import parse_plan
from podium.planners import FixedPlanner

MOST_SEARCHES = 3
GRADER = """Do these passages answer the question? If not, write a better query for the same store.

Question: {question}

Passages:
{passages}"""
WRITER = """Answer the question from these passages alone, and name the source of each fact.

Question: {question}

Passages:
{passages}"""


class State(TypedDict, total=False):
    """The state of both graphs."""

    question: str
    query: str
    searches: int
    found: list[Document]
    answer: str
    podium: dict[str, Any]


class Grade(BaseModel):
    """Whether the passages answer the question."""

    enough: bool
    query: str


def hand_wired(team: Team) -> Any:
    """Return the graph as people wire it by hand."""

    async def search(state: State) -> State:
        query = state.get("query") or state["question"]
        return {"found": await team.handbook.ainvoke(query), "searches": state.get("searches", 0) + 1}

    async def grade(state: State) -> State:
        model = team.reviewer.with_structured_output(Grade, method="json_schema")
        asked = GRADER.format(question=state["question"], passages=_text(state["found"]))
        graded: Any = await model.ainvoke(asked)
        return {"query": "" if graded.enough else graded.query}

    async def answer(state: State) -> State:
        asked = WRITER.format(question=state["question"], passages=_text(state["found"]))
        return {"answer": str((await team.writer.ainvoke(asked)).content)}

    def following(state: State) -> str:
        return "search" if state["query"] and state["searches"] < MOST_SEARCHES else "answer"

    graph = StateGraph(State)
    for node in (search, grade, answer):
        graph.add_node(node.__name__, node)
    graph.add_edge(START, "search")
    graph.add_edge("search", "grade")
    graph.add_conditional_edges("grade", following, ["search", "answer"])
    graph.add_edge("answer", END)
    return graph.compile()


PLAN = """{"steps": [
  {"access": [], "until": {"ref": "{{1.enough}}", "is": true}, "most": 3, "steps": [
    {"worker": "search", "subtask": "{{question}} {{previous.query}}", "access": []},
    {"worker": "grader", "subtask": "Do these passages answer the question? Write the query that does.",
     "access": [0], "returns": {"enough": "boolean", "query": "string"}}]},
  {"worker": "search", "subtask": "{{question}} {{0.query}}", "access": [0]},
  {"worker": "writer", "subtask": "Answer from these passages alone, with sources.", "access": [1]}]}"""


def conducted(team: Team) -> Any:
    """Return the same graph with one node."""
    parts = {"search": team.handbook, "grader": team.reviewer, "writer": team.writer}
    planner = FixedPlanner(parse_plan(PLAN, workers=list(parts)))
    workers = [as_worker(part, name=name) for name, part in parts.items()]
    options: Any = {"planner": planner, "workers": workers, "input": "question"}
    node = conductor_node(**options, context={"question": "question"})
    return StateGraph(State).add_node("conductor", node).add_edge(START, "conductor").compile()


def _text(documents: list[Document]) -> str:
    return "\n\n".join(f"[{each.metadata['source']}]\n{each.page_content}" for each in documents)
