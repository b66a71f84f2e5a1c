"""The job as people wire it by hand: a router, two retrievers, a coder, a reviewer with a loop, a writer.

Every way a question may take is drawn here. A new kind of question is a new edge, a new
source a new node, a new key of the state and a new branch of the router; and the prompts
of all that are shown its output have to be changed with it.
"""

from dataclasses import dataclass
from typing import Any, Literal, TypedDict

from job import Team
from langchain_core.documents import Document
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from pydantic import BaseModel, Field

MOST_DRAFTS = 3

ROUTER = """You route questions of a support team. Decide what it takes to answer the question below:
whether to look into the handbook (rules), into the tickets (what customers reported), and whether
a function has to be written.

<question>
{question}
</question>"""
CODER = """Write the Python function that the question asks for, and nothing else.

<question>
{question}
</question>
{found}{review}"""
REVIEWER = """Review the function that was written for the question below. Go by the rules, if any are shown.
Begin with APPROVED if it is right; else with REVISE and, in a sentence, what to change.

<question>
{question}
</question>
{found}
<function>
{code}
</function>"""
WRITER = """Write the answer to the question below for a colleague in support. Name the source of each fact.

<question>
{question}
</question>
{found}{code}"""


class Route(BaseModel):
    """What a question takes."""

    handbook: bool = Field(description="whether rules are needed")
    tickets: bool = Field(description="whether reports of customers are needed")
    code: bool = Field(description="whether a function is to be written")


class State(TypedDict, total=False):
    """What the nodes hand to each other."""

    question: str
    route: Route
    handbook: list[Document]
    tickets: list[Document]
    code: str
    review: str
    drafts: int
    answer: str


@dataclass(frozen=True)
class Nodes:
    """What each node does, and which is next."""

    team: Team

    async def router(self, state: State) -> State:
        """Decide what the question takes."""
        model = self.team.lead.with_structured_output(Route, method="json_schema")
        route: Any = await model.ainvoke(ROUTER.format(question=state["question"]))
        return {"route": route, "drafts": 0}

    async def handbook(self, state: State) -> State:
        """Look rules up."""
        return {"handbook": await self.team.handbook.ainvoke(state["question"])}

    async def tickets(self, state: State) -> State:
        """Look reports up."""
        return {"tickets": await self.team.tickets.ainvoke(state["question"])}

    def gathered(self, _: State) -> State:
        """Wait for what is looked up."""
        return {}

    async def coder(self, state: State) -> State:
        """Write the function, or write it anew."""
        review = ""
        if state.get("review"):
            told = f"<function>\n{state['code']}\n</function>\n<review>\n{state['review']}\n</review>"
            review = f"Write it anew, as its review says.\n{told}"
        prompt = CODER.format(question=state["question"], found=found(state), review=review)
        message = await self.team.coder.ainvoke(prompt)
        return {"code": str(message.content), "drafts": state["drafts"] + 1}

    async def reviewer(self, state: State) -> State:
        """Review the function."""
        prompt = REVIEWER.format(question=state["question"], found=found(state), code=state["code"])
        return {"review": str((await self.team.reviewer.ainvoke(prompt)).content)}

    async def writer(self, state: State) -> State:
        """Write the answer."""
        code = f"<function>\n{state['code']}\n</function>" if state.get("code") else ""
        prompt = WRITER.format(question=state["question"], found=found(state), code=code)
        return {"answer": str((await self.team.writer.ainvoke(prompt)).content)}

    def sources(self, state: State) -> list[str]:
        """Return which sources are asked."""
        return [name for name in ("handbook", "tickets") if getattr(state["route"], name)] or ["gathered"]

    def after_gathering(self, state: State) -> Literal["coder", "writer"]:
        """Return who is next once all is looked up."""
        return "coder" if state["route"].code else "writer"

    def after_review(self, state: State) -> Literal["coder", "writer"]:
        """Return who is next after a review."""
        approved = state["review"].lstrip().upper().startswith("APPROVED")
        return "writer" if approved or state["drafts"] >= MOST_DRAFTS else "coder"


def build(team: Team) -> "CompiledStateGraph[State, None, State, State]":
    """Return the graph."""
    nodes, graph = Nodes(team), StateGraph(State)
    for name in ("router", "handbook", "tickets", "gathered", "coder", "reviewer", "writer"):
        graph.add_node(name, getattr(nodes, name))
    graph.add_edge(START, "router")
    graph.add_conditional_edges("router", nodes.sources, ["handbook", "tickets", "gathered"])
    graph.add_edge("handbook", "gathered")
    graph.add_edge("tickets", "gathered")
    graph.add_conditional_edges("gathered", nodes.after_gathering, ["coder", "writer"])
    graph.add_edge("coder", "reviewer")
    graph.add_conditional_edges("reviewer", nodes.after_review, ["coder", "writer"])
    graph.add_edge("writer", END)
    return graph.compile()


def found(state: State) -> str:
    """Return what was found, as the prompts show it."""
    parts = []
    for name, documents in (("handbook", state.get("handbook")), ("tickets", state.get("tickets"))):
        if documents:
            text = "\n".join(f"[{d.metadata['source']}] {d.page_content}" for d in documents)
            parts.append(f"<{name}>\n{text}\n</{name}>\n")
    return "".join(parts)
