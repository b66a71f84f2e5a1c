"""The same job with one node: the lead plans it for each question, and the pool carries the plan out.

A new source is one more worker. Who is shown what is written in each plan, and nobody is
shown more. A plan has no loop: it says beforehand how often a function is reviewed, here
once, or as often as the lead thinks best.
"""

from typing import TypedDict

from job import Team
from langgraph.graph import START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from langchain_podium import as_planner, as_worker, conductor_node
from podium import Conductor


class State(TypedDict, total=False):
    """What the user's graph keeps."""

    question: str
    answer: str
    podium: dict[str, object]


def build(team: Team) -> "CompiledStateGraph[State, None, State, State]":
    """Return the graph."""
    workers = [
        as_worker(team.handbook, name="handbook", description="Looks up rules in the company's handbook."),
        as_worker(team.tickets, name="tickets", description="Looks up what customers have reported."),
        as_worker(team.coder, name="coder", description="Writes Python functions, and rewrites them."),
        as_worker(team.reviewer, name="reviewer", description="Reviews functions: APPROVED, or REVISE."),
        as_worker(team.writer, name="writer", description="Writes answers for colleagues, with sources."),
    ]
    conductor = Conductor(as_planner(team.lead), workers)
    graph = StateGraph(State)
    graph.add_node("conductor", conductor_node(conductor, input="question"))
    graph.add_edge(START, "conductor")
    return graph.compile()
