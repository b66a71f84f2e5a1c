"""What people are asked at an interrupt, and what they answer: in the format of LangChain's agents.

The interrupt is a request of `HumanInTheLoopMiddleware` with one action, so that chat interfaces for such
agents show buttons: the plan, an action, a fan-out, or a question of a step. What is Podium's own is under
`podium`. The answer is `{"decisions": [decision]}`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

from langchain_podium.graph.around import Data
from langchain_podium.graph.state import is_edited
from podium.conductor import Conductor
from podium.errors import PlanInvalid
from podium.hosts.results import plan_lines
from podium.plan_text import write_plan
from podium.plan_text.edits import read_saved_plan
from podium.run_state.actions import hash_of
from podium.run_state.state import for_pool
from podium.secrets import scrub
from podium.types import ApprovalAsked, ApprovalGiven, Forecast, Plan
from podium.types.forecast import explain_forecast
from podium.types.steps import step_at, worker_of

_OF_RUN: Final = ("run_id", "round", "plan", "workers", "hash", "mermaid")
_OF_PLAN: Final = ("approve", "edit", "reject", "respond")
_OF_ACTION: Final = ("approve", "edit", "reject", "respond")
_OF_FAN_OUT: Final = ("approve", "reject", "respond")
_OF_QUESTION: Final = ("respond", "reject")


def plan_request(view: Data, forecast: Forecast, problem: str) -> Data:
    """Return the interrupt for the approval of a plan."""
    plan, workers = Plan.from_json(view["plan"]), view["workers"]
    arguments = json.loads(write_plan(plan, "json", workers=workers))
    told = "\n".join([*plan_lines(plan, workers), explain_forecast(forecast)])
    own = {"kind": "plan", "forecast": asdict(forecast)}
    return _request(view, ("plan", arguments, told), _OF_PLAN, problem, own)


def step_request(view: Data, asked: ApprovalAsked, problem: str) -> Data:
    """Return the interrupt for an action, a fan-out, or the question of a step, which `respond` answers.

    An action of an agent has its subtask as the only argument.
    """
    text, worker = scrub(asked.asked), worker_of(step_at(asked.plan.steps, asked.name), view["workers"])
    if asked.question is not None:
        kind, arguments, told = "question", {"question": text, **asdict(asked.question)}, f"asks: {text}"
    else:
        kind = "fan-out" if asked.is_fan_out else "action"
        arguments, told = _arguments(text), f"waits: {worker} {text}"
    shown = (worker, arguments, f"Step {asked.name} {told}")
    return _request(view, shown, _allowed(asked), problem, {"kind": kind, "step": asked.name})


def _allowed(asked: ApprovalAsked) -> Sequence[str]:
    """Return the kinds of decisions about a plan, a step, or a question."""
    if asked.step is None:
        return _OF_PLAN
    if asked.question is not None:
        return _OF_QUESTION
    return _OF_FAN_OUT if asked.is_fan_out else _OF_ACTION


def _arguments(text: str) -> dict[str, Any]:
    """Return the arguments of an action; those of an agent are its subtask."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"subtask": text}


def _request(
    view: Data, asked: tuple[str, object, str], allowed: Sequence[str], problem: str, own: Data
) -> Data:
    name, arguments, told = asked
    description = f"The last answer was not accepted: {problem}\n\n{told}" if problem else told
    return {
        "action_requests": [{"name": name, "args": arguments, "description": description}],
        "review_configs": [{"action_name": name, "allowed_decisions": [*allowed]}],
        "podium": {**own, **{key: view[key] for key in _OF_RUN}, "problem": problem},
    }


def is_request(shown: object) -> bool:
    """Return whether an interrupt is a request of Podium, and not of a worker's own code."""
    return isinstance(shown, dict) and "podium" in shown


def id_of(asked: ApprovalAsked, request: Data) -> str:
    """Return the id of an interrupt: a hash of what a person decides on.

    An answer is used only for the same request, also when it is asked again, in another process. The approval
    of a plan that was edited in the graph's state is the approval of the edited plan.
    """
    own = request["podium"]
    return hash_of([own["run_id"], own["round"], own["kind"], asked.name, asked.action or own["hash"]])[:32]


def read_reply(asked: ApprovalAsked, said: object, view: Data | None, conductor: Conductor) -> ApprovalGiven:
    """Return the decision, or the answer to a question, in the answer to an interrupt; raise `PlanError`.

    `view` is given for the approval of a plan: the view of the run in the state of the plan's graph.
    """
    names = conductor.pool.names
    name = "plan" if asked.step is None else worker_of(step_at(asked.plan.steps, asked.name), names)
    decision = _decision(said, _allowed(asked), name)
    kind, words = decision["type"], decision.get("message") or ""
    if not isinstance(words, str) or (kind == "respond" and not words.strip()):
        raise PlanInvalid("bad_shape", f"message is {words!r:.80}: write a text")
    words = scrub(words.strip())
    given = ApprovalGiven(
        run_id=asked.run_id, at=0.0, round=asked.round, by="interrupt", approved=kind in ("approve", "edit")
    )
    if asked.question is not None and kind == "respond":
        return replace(given, approved=True, answer=words)
    if not given.approved:
        return replace(given, why=words, again=kind == "respond")
    if view is None:
        return replace(given, arguments=_changed_arguments(decision, scrub(asked.asked)))
    return replace(given, plan=_changed_plan(decision, view, conductor))


def _changed_arguments(decision: Mapping[str, Any], asked: str) -> str | None:
    """Return what an approved action is asked to do instead; `None` if it is unchanged."""
    match decision:
        case {"type": "edit", "edited_action": {"args": Mapping() as given}}:
            now, then = dict(given), _arguments(asked)
            if now == then:
                return None
            is_subtask = then == {"subtask": asked} and now.keys() == {"subtask"}
            return str(now["subtask"]) if is_subtask else json.dumps(now, ensure_ascii=False)
        case {"type": "edit"}:
            told = 'write all arguments, as in {"type": "edit", "edited_action": {"args": {"amount": 40}}}'
            raise PlanInvalid("bad_shape", f"the edit has no arguments: {told}")
    return None


def _changed_plan(decision: Mapping[str, Any], view: Data, conductor: Conductor) -> Plan | None:
    """Return the plan that an approval changes; `None` if the plan is as it was planned."""
    plan, then = Plan.from_json(view["plan"]), view["workers"]  # the workers at the time of planning
    changed = plan if is_edited(view) else None
    match decision:
        case {"type": "edit", "edited_action": {"args": Mapping() as arguments}}:
            text = json.dumps(dict(arguments), default=str)
            now = read_saved_plan(text, then, conductor.limits.plan_steps)
            changed = changed if now.steps == plan.steps else now
        case {"type": "edit"}:
            told = 'write the whole plan, as in {"type": "edit", "edited_action": {"args": {"steps": [...]}}}'
            raise PlanInvalid("bad_shape", f"the edit has no plan: {told}")
    return None if changed is None else for_pool(changed, then, conductor.pool.names)


def _decision(said: object, allowed: Sequence[str], name: str) -> Mapping[str, Any]:
    """Return the only decision in an answer; an edit must have the `name` of the plan or of the action."""
    match said:
        case {"decisions": [{"type": "edit", "edited_action": {"name": other}}]} if other != name:
            told = f"the edit names {other!r:.80}: it can change only the arguments of {name!r}"
            raise PlanInvalid("bad_shape", told)
        case {"decisions": [{"type": str(kind)} as decision]} if kind in allowed:
            found: Mapping[str, Any] = decision
            return found
    kinds = ", ".join(allowed)
    raise PlanInvalid(
        "bad_shape",
        f'{said!r:.80} is not a decision: answer {{"decisions": [{{"type": ...}}]}} with one of {kinds}',
    )
