"""Build the approval request of an interrupt, and read the decision.

The module defines the data that the approver is shown, and the answers that are accepted.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from langchain_podium.graph.graph_node import Data
from podium.errors import PlanInvalid, PlanSyntaxError
from podium.plan_text import edit_plan, parse_plan, read_edits
from podium.plan_text.edits import read_saved_plan
from podium.secrets import scrub
from podium.types import ApprovalAsked, Forecast, Plan
from podium.types.steps import step_at, worker_of

_TAKES: Final = (
    "answer True or False; a text with the reason of a refusal; a plan, as text or as JSON; "
    "or {'approved': ..., 'why': ..., 'plan': ..., 'edits': [...]}"
)
_TAKES_OF_ACTION: Final = (
    "answer True or False; a text with the reason of a refusal; or {'approved': ..., 'why': ...}"
)
_YES: Final = frozenset({"yes", "y", "ok", "true", "approve", "approved"})
_NO: Final = frozenset({"no", "n", "false", "refuse", "refused", "reject", "rejected", ""})
_KEYS: Final = frozenset({"approved", "why", "plan", "edits"})


_OF_RUN: Final = ("run_id", "round", "plan", "workers", "hash", "mermaid")


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision about a plan or an action."""

    approved: bool
    plan: Plan | None = None
    """The changed plan; `None` if the plan is unchanged or refused."""
    why: str = ""


def shown(view: Data, forecast: Forecast, problem: str) -> Data:
    """Return the data that an interrupt shows to the approver.

    Args:
        view: the view of the run in the state.
        forecast: the forecast of the plan's cost.
        problem: why the last answer was invalid; empty if there was none.
    """
    told: Data = {"approve": "plan", **{key: view[key] for key in _OF_RUN}, "forecast": asdict(forecast)}
    return {**told, "problem": problem, "takes": _TAKES} if problem else told


def shown_action(view: Data, asked: ApprovalAsked, problem: str) -> Data:
    """Return the data of an interrupt for an action; its arguments are as JSON, or the subtask of an agent.

    `shown` describes the other arguments.

    Args:
        view: the view of the run in the state.
        asked: the approval that the run waits for.
        problem: why the last answer was invalid; empty if there was none.
    """
    assert asked.step is not None
    text = scrub(asked.asked)
    try:
        arguments: object = json.loads(text)
    except ValueError:
        arguments = text
    what, of_run = "fan-out" if asked.is_fan_out else "action", {key: view[key] for key in _OF_RUN}
    worker = worker_of(step_at(asked.plan.steps, asked.name), view["workers"])
    own = {"step": asked.step, "worker": worker, "arguments": arguments}
    own |= {"path": asked.path} if asked.path else {}
    told: Data = {"approve": what, **own, **of_run}
    return {**told, "problem": problem, "takes": _TAKES_OF_ACTION} if problem else told


def shown_question(view: Data, asked: ApprovalAsked, problem: str) -> Data:
    """Return the data of an interrupt for the question of a step, as `shown_action`."""
    assert asked.question is not None
    worker = worker_of(step_at(asked.plan.steps, asked.name), view["workers"])
    own: Data = {"approve": "question", "step": asked.step, "path": asked.path, "worker": worker}
    own |= {"question": scrub(asked.asked), **asdict(asked.question)}
    own |= {key: view[key] for key in _OF_RUN}
    return {**own, "problem": problem} if problem else own


def read_verdict(said: object) -> Decision:
    """Return the decision about an action in an answer.

    Raises:
        PlanInvalid: the answer is not a decision.
    """
    match said:
        case bool():
            return Decision(said)
        case str():
            word = _word(said)
            return Decision(word in _YES, why="" if word in _YES | _NO else scrub(said.strip()))
        case {"approved": bool(approved), **others} if others.keys() <= {"why"}:
            return Decision(approved, why=scrub(str(others.get("why", ""))))
    raise PlanInvalid("bad_shape", f"{said!r:.80} is not a decision about an action: {_TAKES_OF_ACTION}")


def read_decision(said: object, plan: Plan, workers: Sequence[str], most_steps: int) -> Decision:
    """Return the decision in an answer.

    Args:
        said: the answer, as JSON data; or a plan.
        plan: the plan that is decided about.
        workers: names of the pool's workers, which an answer may use.
        most_steps: maximum number of steps of a plan.

    Raises:
        PlanError: the answer is invalid, or has an invalid plan or change.
    """
    match said:
        case bool():
            return Decision(said)
        case Plan():
            return _changed(plan, said)
        case str():
            return _read_text(said, plan, workers, most_steps)
        case list() if said:
            return _changed(plan, edit_plan(plan, *read_edits(said, workers)))
        case {"steps": _}:
            return _changed(plan, _read_plan(said, workers, most_steps))
        case Mapping() if said and set(said) <= _KEYS:
            return _read_facts(said, plan, workers, most_steps)
    raise PlanInvalid("bad_shape", f"{said!r:.80} is not a decision about the plan: {_TAKES}")


def _read_text(said: str, plan: Plan, workers: Sequence[str], most_steps: int) -> Decision:
    word = _word(said)
    if word in _YES or word in _NO:
        return Decision(word in _YES)
    try:
        return _changed(plan, parse_plan(said, workers=workers, max_steps=most_steps))
    except PlanSyntaxError as error:
        if error.code != "no_plan":
            raise
    return Decision(approved=False, why=scrub(said.strip()))


def _word(said: str) -> str:
    return said.strip().strip(".!").lower()


def _read_facts(said: Mapping[str, Any], plan: Plan, workers: Sequence[str], most_steps: int) -> Decision:
    approved, why = said.get("approved", "plan" in said or "edits" in said), said.get("why", "")
    if not isinstance(approved, bool) or not isinstance(why, str):
        raise PlanInvalid(
            "bad_shape", f"approved is {approved!r:.40}, why {why!r:.40}: write true or false, text"
        )
    if not approved:
        return Decision(approved=False, why=scrub(why))
    now = _read_plan(said["plan"], workers, most_steps) if "plan" in said else plan
    if "edits" in said:
        now = edit_plan(now, *read_edits(said["edits"], workers))
    return replace(_changed(plan, now), why=scrub(why))


def _read_plan(data: object, workers: Sequence[str], most_steps: int) -> Plan:
    if isinstance(data, Plan):
        return data
    try:
        text = data if isinstance(data, str) else json.dumps(data)
    except (TypeError, ValueError) as error:
        raise PlanInvalid("bad_shape", f"the plan is {data!r:.80}: write it as text or as JSON") from error
    return read_saved_plan(text, workers, most_steps)


def _changed(plan: Plan, now: Plan) -> Decision:
    return Decision(approved=True, plan=None if now.steps == plan.steps else now)
