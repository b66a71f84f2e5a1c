"""LangGraph: a conductor node, a graph wired by hand, langgraph-supervisor, langgraph-swarm."""

import operator
import warnings
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypedDict

from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import create_react_agent
from langgraph_supervisor import create_supervisor
from langgraph_swarm import create_handoff_tool, create_swarm

from benchmarks.comparison.arms.arm import Arm, hand_over, plan
from benchmarks.comparison.job import QUESTION, Job, Step
from benchmarks.comparison.model_server import MANAGER, Asked, Said
from langchain_podium import as_planner, as_worker, conductor_node
from podium import Conductor

warnings.filterwarnings("ignore", message="create_react_agent has been moved")
_ASKED: Any = {"messages": [("user", QUESTION)]}
_RECURSION: Any = {"recursion_limit": 100}
_SUPERVISOR = (
    "You manage a team of analysts. Have each region examined by the analyst who knows it, then write the "
    "recommendation yourself, and name the finding that each point rests on."
)


def _model(name: str, url: str) -> ChatOpenAI:
    return ChatOpenAI(model=name, base_url=url, api_key=lambda: "none", max_retries=0)


async def _podium(job: Job, url: str) -> str:
    workers = [
        as_worker(_model(step.name, url), name=step.name, description=step.description) for step in job.steps
    ]
    conductor = Conductor(as_planner(_model(MANAGER, url)), workers)
    graph = StateGraph(MessagesState).add_node("team", conductor_node(conductor)).add_edge(START, "team")
    return await _answer(graph)


class _State(TypedDict, total=False):
    findings: Annotated[list[str], operator.add]
    answer: str


async def _hand_wired(job: Job, url: str) -> str:
    graph: Any = StateGraph(_State)

    def node(step: Step) -> Callable[[_State], Awaitable[_State]]:
        async def run(_: _State) -> _State:
            message = await _model(step.name, url).ainvoke([("system", step.system), ("user", QUESTION)])
            return {"findings": [message.text]}

        return run

    async def write(state: _State) -> _State:
        shown = f"{QUESTION}\n\nFindings:\n\n" + "\n\n".join(state["findings"])
        message = await _model(job.writer.name, url).ainvoke([("system", job.writer.system), ("user", shown)])
        return {"answer": message.text}

    for unit in job.units:
        graph.add_node(unit.name, node(unit))
        graph.add_edge(START, unit.name)
    graph.add_node("write", write)
    graph.add_edge([unit.name for unit in job.units], "write")
    graph.add_edge("write", END)
    state = await graph.compile().ainvoke({"findings": []})
    return str(state["answer"])


async def _supervisor(job: Job, url: str) -> str:
    agents: Any = [
        create_react_agent(_model(unit.name, url), [], name=unit.name, prompt=unit.system)
        for unit in job.units
    ]
    return await _answer(create_supervisor(agents, model=_model(MANAGER, url), prompt=_SUPERVISOR))


def _supervise(job: Job, asked: Asked) -> Said | None:
    """Transfer to each analyst in turn, then write the recommendation."""
    if asked.model != MANAGER:
        return None
    if asked.turn < len(job.units):
        return Said(calls=[(f"transfer_to_{job.units[asked.turn].name}", {})])
    return Said(job.joined(asked.text))


def _swarm(*, mesh: bool) -> Arm:
    async def run(job: Job, url: str) -> str:
        names = [step.name for step in job.steps]
        agents: list[Any] = []
        for at, step in enumerate(job.steps):
            to = [n for n in names if n != step.name] if mesh else names[at + 1 : at + 2]
            descriptions = {other.name: other.description for other in job.steps}
            tools = [create_handoff_tool(agent_name=n, description=descriptions[n]) for n in to]
            prompt = f"{step.system} When your part is done, hand over."
            agents.append(create_react_agent(_model(step.name, url), tools, name=step.name, prompt=prompt))
        return await _answer(create_swarm(agents, default_active_agent=names[0]))

    return Arm(
        f"langgraph-swarm, {'every agent to every other' if mesh else 'one successor'}", run, hand_over
    )


async def _answer(graph: Any) -> str:
    state = await graph.compile().ainvoke(_ASKED, _RECURSION)
    return str(state["messages"][-1].text)


ARMS = (
    Arm("Podium, conductor_node", _podium, plan),
    Arm("hand-wired graph", _hand_wired),
    Arm("langgraph-supervisor", _supervisor, _supervise),
    _swarm(mesh=True),
    _swarm(mesh=False),
)
