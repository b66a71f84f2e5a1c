"""A plan as a LangGraph graph, built when the plan is known: its nodes, edges and channels.

The nodes do not execute steps. They deliver the outcomes of the run that the graph shows; see `shown_plan`.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextvars import ContextVar
from functools import lru_cache, partial
from hashlib import sha256
from json import dumps
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

from langchain_core.runnables import RunnableConfig
from langgraph.channels import DeltaChannel
from langgraph.errors import GraphBubbleUp
from langgraph.graph import START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from pydantic import ValidationError

from langchain_podium.graph.around import Data, Node, State
from langchain_podium.graph.state import VIEW, read_outcome, schema, write_outcome
from podium.conductor import Conductor
from podium.errors import ConfigError
from podium.types import Outcome, Plan, StepEnded
from podium.types.steps import AnyStep, Block, branches, calls_in, depends_on, static_place, worker_of
from podium.workers import PersonWorker

if TYPE_CHECKING:
    from langchain_podium.graph.shown_plan import ShownPlan

APPROVE: Final = "approve"
"""The node that asks for the approval of the plan."""
STEPS: Final = "steps"
"""The state key of the ends of steps and executions, by name."""


class Part(NamedTuple):
    """A step of the plan in its graph."""

    name: str
    """The name of its node."""
    needs: tuple[int, ...]
    """The steps that must have ended before it can end."""
    inside: tuple[tuple[str, str], ...] = ()
    """Of a map or a block: the places of the steps inside that call workers, and the names of their nodes."""
    is_plain: bool = True
    """Whether its node runs once, so that fixed edges can lead from it: others can also run too early."""
    may_skip: bool = False
    """Whether a condition may skip it; then its node does not run."""


Shape = tuple[Part, ...]


SHOWN: Final["ContextVar[ShownPlan]"] = ContextVar("podium_shown")
"""The plan in the current run, whose outcomes the nodes deliver."""


def shape_of(plan: Plan, conductor: Conductor) -> Shape:
    """Return the shape of the graph of a plan."""
    pool, parts = conductor.pool, list[Part]()
    people = {number for number, worker in enumerate(pool) if isinstance(worker, PersonWorker)}
    acting = conductor.actions_of(plan)
    for index, step in enumerate(plan.steps):
        needs, inside = tuple(sorted(_needs(plan.steps, index))), tuple(_inside(step, str(index), pool.names))
        asks = index in acting or any(call.worker in people for call in calls_in([step]))
        may_skip = step.when is not None or any(need < index and parts[need].may_skip for need in needs)
        name, is_plain = _node_name(str(index), worker_of(step, pool.names)), not (inside or may_skip or asks)
        is_plain = is_plain and all(need < index and parts[need].is_plain for need in needs)
        parts.append(Part(name, needs, inside, is_plain, may_skip))
    return tuple(parts)


def _needs(steps: Sequence[AnyStep], index: int) -> set[int]:
    """Return the steps that a step waits for: what it depends on, and the conditions of later branches."""
    needs, row = depends_on(steps[index]), branches(steps)
    if index in row and not any(index in depends_on(step) for step in steps):
        conditions = [steps[later].when for later in row if later > index]
        roots = [when.reference.root for when in conditions if when is not None]
        needs |= {root for root in roots if isinstance(root, int) and root != index}
    return needs


def _inside(step: AnyStep, place: str, workers: Sequence[str]) -> Iterator[tuple[str, str]]:
    if isinstance(step, Block):
        for number, inner in enumerate(step.steps):
            at = f"{place}.{number}"
            if isinstance(inner, Block) or inner.each is not None:
                yield from _inside(inner, at, workers)
            else:
                yield at, _node_name(at, worker_of(inner, workers))
    elif step.each is not None:
        yield f"{place}[]", _node_name(f"{place}[]", worker_of(step, workers))


def _node_name(place: str, worker: str) -> str:
    return f"{place} {worker}".replace(":", "_").replace("|", "_")  # LangGraph reserves two characters


@lru_cache(maxsize=128)
def compiled(shape: Shape, *, approves: bool) -> "CompiledStateGraph[Any, Any, Any, Any]":
    """Return the graph for plans of this shape. It uses the checkpointer of the calling graph.

    Graphs are cached, because many plans have the same shape. A node finds its step in the current run. If
    the graph `approves`, it asks for the approval of the plan first.
    """
    graph = StateGraph(schema({VIEW: Data, STEPS: Annotated[dict[str, Data], DeltaChannel(_merged)]}))
    routes, first = dict[int, list[int]](), [part.name for part in shape if not part.needs]
    for index, part in enumerate(shape):
        _add(graph, part.name, partial(_deliver, index, part, part.name))
        for _, name in part.inside:
            _add(graph, name, partial(_deliver, index, part, name))
            graph.add_edge(name, part.name)
        sources = [shape[need] for need in part.needs]
        if part.may_skip or not all(each.is_plain for each in sources):
            for need in part.needs:
                routes.setdefault(need, []).append(index)
        elif sources:
            names = [each.name for each in sources]
            graph.add_edge(names if len(names) > 1 else names[0], part.name)
    for index, targets in routes.items():
        reached = tuple(_reached(shape, targets))
        names = [shape[each].name for each in reached]
        graph.add_conditional_edges(shape[index].name, partial(_follow, index, shape, reached), names)
    if approves:
        _add(graph, APPROVE, _approve)
        graph.add_conditional_edges(APPROVE, partial(_begin, first), first)
    for name in [APPROVE] if approves else first:
        graph.add_edge(START, name)
    return graph.compile()


def _merged(ends: dict[str, Data], more: Sequence[dict[str, Data]]) -> dict[str, Data]:
    return {name: end for each in (ends, *more) for name, end in each.items()}


def _add(graph: "StateGraph[Any, Any, Any, Any]", name: str, work: Callable[..., Awaitable[Data]]) -> None:
    async def run(sent: State, config: RunnableConfig) -> Data:
        return await work(sent, config["configurable"]["__pregel_read"])

    node = Node(name, run, _wait_for)
    graph.add_node(name, node, input_schema=schema({}))


def _wait_for(work: Callable[[], Awaitable[Data]]) -> Data:
    try:
        return SHOWN.get().thread.wait_for(work)
    except CancelledError:  # LangGraph would store it with threads that it may have ended
        raise GraphBubbleUp from None


async def _deliver(index: int, part: Part, node: str, sent: State, read: Callable[[str], Any]) -> Any:
    return await SHOWN.get().deliver(index, part, node, sent.get("name", str(index)), read)


async def _approve(sent: State, read: Callable[[str], Any]) -> Any:
    del sent
    return await SHOWN.get().approve(read(VIEW))


def _begin(first: list[str], state: State) -> list[str]:
    del state
    shown = SHOWN.get(None)
    return first if shown is None or shown.follows_approval() else []


def _follow(index: int, shape: Shape, reached: tuple[int, ...], state: State) -> list[str]:
    del state
    shown = SHOWN.get(None)
    # Without a run, the state is being edited: nodes whose inputs are missing then end at once.
    return [shape[each].name for each in reached] if shown is None else shown.following(index, shape, reached)


def _reached(shape: Shape, targets: Iterable[int]) -> list[int]:
    """Return the next steps, also those after steps that a condition may skip."""
    found, todo = list[int](), list(targets)
    while todo:
        index = todo.pop(0)
        if index not in found:
            found.append(index)
            if shape[index].may_skip:
                todo += [other for other, part in enumerate(shape) if index in part.needs]
    return found


def place_of(name: str) -> str:
    """Return the place of an execution, as in `Part.inside`: `2[]` for `2[17]`, `2.0` for `2[17].0`."""
    return static_place(name) + ("[]" if name.endswith(("]", ")")) else "")


def write_end(end: StepEnded, *, has_parts: bool) -> Data:
    """Return the end of a step as plain JSON for the state, with the hash of its input, and a seal.

    The output of a map or a block (`has_parts`) is made from those of its parts.
    """
    data = write_outcome(end.outcome)
    if has_parts:
        data.pop("text", None)
    data["key"] = end.key
    return {**data, "seal": _seal(data)}


def read_ends(state: Mapping[str, Any]) -> dict[str, tuple[str | None, Outcome]]:
    """Return the outcomes in the state of a plan's graph, by name, with the hashes of their inputs.

    The hash is `None` if the outcome was edited. Raises `ConfigError` for an invalid outcome.
    """
    number = state[VIEW]["round"]
    return {name: _read_end(name, end, number) for name, end in state.get(STEPS, {}).items()}


def _read_end(name: str, data: Data, number: int) -> tuple[str | None, Outcome]:
    if not isinstance(data, Mapping):
        raise ConfigError(
            f"the outcome of step {name} in the graph's state is {data!r:.40}: it must be an object"
        )
    given = {key: value for key, value in data.items() if key not in ("key", "seal")}
    is_edited = data.get("seal") != _seal({key: value for key, value in data.items() if key != "seal"})
    place = {"step": int(name)} if name.isdecimal() else {"step": 0, "path": name}
    try:
        outcome = read_outcome({"round": number, "worker": "", "status": "ok", **place, **given})
    except ValidationError as error:
        raise ConfigError(f"the outcome of step {name} in the graph's state is invalid: {error}") from error
    return (None if is_edited else data["key"]), outcome


def _seal(data: Data) -> str:
    return sha256(dumps(data, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()[:16]
