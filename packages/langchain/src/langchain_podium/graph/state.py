"""A conductor's run in a graph's state, as plain JSON.

The module defines the view for readers (`podium`), and the form of outcomes. It does not use LangGraph.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256
from typing import Any, Final

from pydantic import TypeAdapter
from typing_extensions import TypedDict  # Pydantic takes no other before Python 3.12

from langchain_podium.graph.around import Data
from langchain_podium.graph.message_stream import answer_id
from podium.conductor import Conductor
from podium.run_state.state import for_pool
from podium.secrets import scrub
from podium.types import Outcome, Plan, Result

VIEW: Final = "podium"
"""The state key of the view of the run: its id, status, plan and outcomes."""

_OUTCOME: Final = TypeAdapter(Outcome)


def schema(fields: Mapping[str, Any]) -> type[Any]:
    """Return the type of a state with these optional keys."""
    made: type[Any] = TypedDict("State", fields, total=False)  # type: ignore[misc]
    return made


def plan_hash(plan: Plan, workers: Sequence[str]) -> str:
    """Return a hash of a plan's steps, with the names of their workers."""
    return _hash(plan.to_json(workers)["steps"])


def of_plan(run_id: str, number: int, plan: Plan, conductor: Conductor, *, status: str) -> Data:
    """Return the view of a run whose plan is known, without a drawing.

    `number` is the number of the round, from 1; `status` is `planned`, `waiting`, or the one of the result.
    """
    return _of_json(run_id, number, _plain(plan), conductor, status)


def _of_json(run_id: str, number: int, plan: Data, conductor: Conductor, status: str) -> Data:
    data = _scrubbed(plan)
    facts = {"run_id": run_id, "status": status, "round": number, "plan": data}
    return {**facts, "workers": list(conductor.pool.names), "hash": _hash(data)}


def plan_of(view: Data, conductor: Conductor) -> Plan:
    """Return the plan in a view, with the current numbers of the workers; raise `PodiumError` for none."""
    plan = Plan.from_json(view["plan"])
    plan.fit(len(view["workers"]), conductor.limits.plan_steps, previous=view["round"] > 1)
    return for_pool(plan, view["workers"], conductor.pool.names)


def drawn(view: Data, conductor: Conductor) -> Data:
    """Return a view with a drawing of its plan."""
    return {**view, "mermaid": _drawing(plan_of(view, conductor), conductor)}


def is_edited(view: Data) -> bool:
    """Return whether the plan in a view was edited."""
    return bool(_hash(view["plan"]) != view["hash"])


def of_result(result: Result, conductor: Conductor) -> Data:
    """Return the view of a run that has ended or waits."""
    plan = result.plans[-1] if result.plans else Plan(())
    plain = _plain(plan)
    view = _of_json(result.run_id, len(result.rounds), plain, conductor, result.status)
    if plan.steps:  # the drawing cuts texts, so that secrets must be gone before
        shown = plan if view["plan"] == plain else plan_of(view, conductor)
        view["mermaid"] = _drawing(shown, conductor)
    problem, planner = result.problem, result.planner
    view["problem"] = None if problem is None else {"code": problem.code, "message": problem.message}
    told = {
        "planner": None if planner is None else asdict(planner),
        "actions": [asdict(action) for action in result.actions],
        "outcomes": [_plain_outcome(outcome) for outcome in result.outcomes],
    }
    view |= _scrubbed(told)
    usage = result.usage
    counts = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
    view["usage"] = {**counts, "estimated": usage.estimated}
    view["cost"] = result.cost
    view["maybe_paid"] = result.maybe_paid
    view["seconds"] = result.seconds
    view["labels"] = sorted(result.labels)
    view["message_id"] = answer_id(result)
    return view


def write_outcome(outcome: Outcome) -> Data:
    """Return a step's outcome as plain JSON data, without secrets and default values."""
    return _scrubbed(_plain_outcome(outcome))


def read_outcome(data: Data) -> Outcome:
    """Return the outcome that `write_outcome` wrote; raise `ValidationError` for invalid data."""
    return _OUTCOME.validate_python(data)


def _plain(plan: Plan) -> Data:
    """Return a plan as JSON data, without the question, which is in the state."""
    return {key: value for key, value in plan.to_json().items() if key not in ("query", "planner")}


def _plain_outcome(outcome: Outcome) -> Data:
    data: Data = _OUTCOME.dump_python(outcome, mode="json", exclude_defaults=True)
    return data


def _drawing(plan: Plan, conductor: Conductor) -> str:
    return plan.to_mermaid(conductor.pool.names, conductor.actions_of(plan))


def _hash(data: object) -> str:
    return sha256(json.dumps(data, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _scrubbed(data: Data) -> Data:
    """Return JSON data without secrets; searching one text is faster than searching each value."""
    clean: Data = json.loads(scrub(json.dumps(data, ensure_ascii=False)))
    return clean
