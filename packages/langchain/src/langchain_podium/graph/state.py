"""What a conductor's run leaves in a graph's state, all of it plain JSON.

It owns the view that people read (`podium`) and the record that a run goes on from. It
knows no graph and starts nothing.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256
from typing import Any, Final

from pydantic import TypeAdapter
from typing_extensions import TypedDict  # Pydantic takes no other before Python 3.12

from langchain_podium.graph.graph_node import Data
from langchain_podium.graph.message_stream import answer_id
from podium.secrets import scrub
from podium.types import Outcome, Plan, Result

VIEW: Final = "podium"
"""Key of the state that shows the run: its id, status, plan and outcomes."""
RECORD: Final = "podium_record"
"""Key of the state that the run is recorded under where its conductor has no journal."""

_OUTCOME: Final = TypeAdapter(Outcome)


def schema(fields: Mapping[str, Any]) -> type[Any]:
    """Return the type of a state with these keys, none of which must be there."""
    made: type[Any] = TypedDict("State", fields, total=False)  # type: ignore[misc]
    return made


def plan_hash(plan: Plan, workers: Sequence[str]) -> str:
    """Return what stands for a plan by content: who is to do what, and is shown what."""
    steps = [[workers[s.worker], s.subtask, s.access_list, s.enough] for s in plan.steps]
    return sha256(json.dumps(steps).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def of_plan(run_id: str, number: int, plan: Plan, workers: Sequence[str], *, status: str) -> Data:
    """Return the view of a run whose plan is known.

    Args:
        run_id: the run's id.
        number: the round's, from 1.
        plan: what is to be carried out in it.
        workers: names of the pool's workers, which the plan numbers.
        status: `planned`, `waiting`, or what the run came to.
    """
    data = _scrubbed(Plan(plan.steps).to_json())  # the question stands in the state
    steps = Plan.from_json(data)
    return {
        "run_id": run_id,
        "status": status,
        "round": number,
        "plan": data,
        "workers": list(workers),
        "hash": plan_hash(steps, workers),
        "mermaid": steps.to_mermaid(workers),
    }


def of_result(result: Result) -> Data:
    """Return the view of a run that has come to its end, or waits."""
    plan = result.plans[-1] if result.plans else Plan(())
    view = of_plan(result.run_id, len(result.rounds), plan, result.workers, status=result.status)
    problem = result.problem
    view["problem"] = None if problem is None else {"code": problem.code, "message": problem.message}
    view["planner"] = None if result.planner is None else _scrubbed(asdict(result.planner))
    view["outcomes"] = [write_outcome(outcome) for outcome in result.outcomes]
    usage = result.usage
    counts = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
    view["usage"] = {**counts, "estimated": usage.estimated}
    view["cost"] = result.cost
    view["maybe_paid"] = result.maybe_paid
    view["seconds"] = result.seconds
    view["message_id"] = answer_id(result)
    return view


def write_outcome(outcome: Outcome) -> Data:
    """Write what a step came to as plain JSON data, without secrets and what is as in any outcome."""
    return _scrubbed(_OUTCOME.dump_python(outcome, mode="json", exclude_defaults=True))


def read_outcome(data: Data) -> Outcome:
    """Read what `write_outcome` wrote.

    Raises:
        ValidationError: it is something else.
    """
    return _OUTCOME.validate_python(data)


def _scrubbed(data: Data) -> Data:
    """Return JSON data without secrets; in one text they are found faster than one by one."""
    clean: Data = json.loads(scrub(json.dumps(data, ensure_ascii=False)))
    return clean
