"""Convert a plan to a graph for saving and editing, which calls no planner."""

from collections.abc import Sequence
from dataclasses import replace
from operator import or_
from typing import Annotated, Any, Final

from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph

from langchain_podium.graph.control_flow import GraphExit, pass_graph_exits, unwrap_graph_exit
from langchain_podium.graph.graph_node import Data, Node, State, Work
from langchain_podium.graph.plan_graph import channel, node_name, raised_above
from langchain_podium.graph.runtime_context import context_labels, context_policy
from langchain_podium.graph.state import schema
from langchain_podium.messages import to_query
from langchain_podium.tracing import child_runs
from podium.conductor import Conductor
from podium.errors import ConfigError
from podium.execution import ExternalScheduler
from podium.hosts import run_failed, text_answer
from podium.planners import FixedPlanner
from podium.secrets import scrub
from podium.types import Outcome, Plan, Problem
from podium.workers import Pool, Worker

QUESTION: Final = "question"
ANSWER: Final = "answer"
PROBLEMS: Final = "problems"


def to_langgraph(plan: Plan, pool: Conductor | Pool | Sequence[Worker]) -> "StateGraph[Any, Any, Any, Any]":
    """Return a plan as a graph that is not compiled: one node for each step, which you can edit.

    The state has `question` (text or messages; default: the plan's own question), `step_0`, `step_1` and so
    on with the outputs of the steps, and `answer`. A node sees only the steps on its step's access list.
    `problems` has, by key, the `code` and `message` of each incomplete output, for example one that was cut
    at the token limit. The problem under `answer` includes the problems of the steps behind the answer.

    Args:
        plan: a plan from `Conductor.plan` or `Result.plans`.
        pool: the workers; or a conductor, whose limits, policy and retries then apply to each step
            separately.

    Raises:
        PlanInvalid: the plan does not fit the pool.
    """
    conductor = pool if isinstance(pool, Conductor) else Conductor(FixedPlanner(plan), pool)
    plan.fit(len(conductor.pool), conductor.limits.plan_steps)
    names = [node_name(index, conductor.pool.names[step.worker]) for index, step in enumerate(plan.steps)]
    problems: Any = Annotated[dict[str, Any], or_]
    fields: dict[str, Any] = {QUESTION: Any, ANSWER: str, PROBLEMS: problems}
    fields |= {channel(i): str for i in range(len(names))}
    graph = StateGraph(schema(fields), input_schema=schema({QUESTION: Any}))
    for index, step in enumerate(plan.steps):
        handed = schema({name: fields[name] for name in (QUESTION, PROBLEMS, *map(channel, step.access))})
        acts = index in conductor.actions_of(plan)
        node = Node(names[index], _carrying_out(conductor, plan, index), acts=acts)
        graph.add_node(names[index], node, input_schema=handed)
        sources = [names[seen] for seen in step.access]
        graph.add_edge(sources or START, names[index])
    graph.add_edge(names[-1], END)
    return graph


def _carrying_out(conductor: Conductor, plan: Plan, index: int) -> Work:
    """Return a function that executes one step as a separate run, with the outputs of earlier steps."""
    part, name = replace(plan, steps=plan.steps[: index + 1]), channel(index)

    async def run(state: State, config: RunnableConfig, *, is_sync: bool = False) -> Data:
        del is_sync

        async def step_starter(steps: ExternalScheduler) -> None:
            for before in range(index):
                steps.take(
                    before, _written(steps, before, state, is_shown=before in part.steps[index].access)
                )
            await steps.run(index)

        asked = state.get(QUESTION)
        query = to_query(asked) if asked else plan.query
        given = replace(part, query=query.query if isinstance(query, Plan) else query)
        try:
            result = await unwrap_graph_exit(
                conductor.run(
                    given,
                    labels=context_labels(),
                    policy=context_policy(),
                    middleware=pass_graph_exits(child_runs(), waits=True),
                    step_starter=step_starter,
                )
            )
        except GraphExit as graph_exit:
            raise raised_above(graph_exit, config["configurable"]["checkpoint_ns"]) from None
        outcome = result.rounds[0].outcomes[index]
        if outcome.status != "ok":
            why = "" if outcome.problem is None else f" ({outcome.problem.code}: {outcome.problem.message})"
            raise run_failed(f"step {index} ({outcome.worker}) {outcome.status}{why}", result)
        data: Data = {name: outcome.text, PROBLEMS: _problem(name, outcome.problem)}
        if part == plan:
            data[ANSWER] = text_answer(result)
            data[PROBLEMS] |= _problem(ANSWER, result.problem)
        return data

    return run


def _problem(name: str, problem: Problem | None) -> Data:
    return {} if problem is None else {name: {"code": problem.code, "message": scrub(problem.message)}}


def _written(steps: ExternalScheduler, index: int, state: State, *, is_shown: bool) -> Outcome:
    """Return an outcome without cost for a step's output in the state."""
    worker = steps.workers[steps.plan.steps[index].worker]
    text: object = state[channel(index)] if is_shown else ""
    told = (state.get(PROBLEMS) or {}).get(channel(index))
    problem = None if told is None else Problem(told["code"], told["message"])
    if not isinstance(text, str):
        raise ConfigError(
            f"{channel(index)} is {text!r:.60} in the state: it must be the text that step {index} wrote"
        )
    return Outcome(round=steps.round, step=index, worker=worker, status="ok", text=text, problem=problem)
