"""What people are asked at an interrupt, and what they answer: in the format of LangChain's agents.

The interrupt is a request of `HumanInTheLoopMiddleware` with one action, so that chat interfaces for such
agents show buttons: the plan, an action, a fan-out, or a question of a step. What is Podium's own is under
`podium`. The answer is `{"decisions": [decision]}`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from langchain_podium.graph.graph_node import Data
from podium.errors import PlanInvalid
from podium.hosts.results import plan_lines
from podium.plan_text import write_plan
from podium.plan_text.edits import read_saved_plan
from podium.secrets import scrub
from podium.types import ApprovalAsked, Forecast, Plan
from podium.types.forecast import explain_forecast
from podium.types.steps import step_at, worker_of

_OF_RUN: Final = ("run_id", "round", "plan", "workers", "hash", "mermaid")
_OF_PLAN: Final = ("approve", "edit", "reject", "respond")
_OF_ACTION: Final = ("approve", "edit", "reject", "respond")
_OF_FAN_OUT: Final = ("approve", "reject", "respond")
_OF_QUESTION: Final = ("respond", "reject")


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision of a person, or an answer to a question."""

    approved: bool
    plan: Plan | None = None
    """The changed plan; `None` if the plan is unchanged or refused."""
    arguments: str | None = None
    """What an approved action is asked to do instead; `None` if it is unchanged or refused."""
    why: str = ""
    again: bool = False
    """Whether the planner writes another plan, with the words in `why`."""
    answer: str | None = None
    """The answer to a question; `None` for a decision."""


def shown(view: Data, forecast: Forecast, problem: str) -> Data:
    """Return the interrupt for the approval of a plan."""
    plan, workers = Plan.from_json(view["plan"]), view["workers"]
    arguments = json.loads(write_plan(plan, "json", workers=workers))
    told = "\n".join([*plan_lines(plan, workers), explain_forecast(forecast)])
    own = {"kind": "plan", "forecast": asdict(forecast)}
    return _request(view, ("plan", arguments, told), _OF_PLAN, problem, own)


def shown_action(view: Data, asked: ApprovalAsked, problem: str) -> Data:
    """Return the interrupt for an action or a fan-out; an agent has its subtask as the only argument."""
    text, worker = scrub(asked.asked), _worker(view, asked)
    kind, allowed = ("fan-out", _OF_FAN_OUT) if asked.is_fan_out else ("action", _OF_ACTION)
    told = f"Step {asked.name} waits: {worker} {text}"
    own = {"kind": kind, "step": asked.name}
    return _request(view, (worker, _arguments(text), told), allowed, problem, own)


def _arguments(text: str) -> Mapping[str, Any]:
    """Return the arguments of an action; those of an agent are its subtask."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"subtask": text}


def shown_question(view: Data, asked: ApprovalAsked, problem: str) -> Data:
    """Return the interrupt for the question of a step, which `respond` answers."""
    assert asked.question is not None
    arguments = {"question": scrub(asked.asked), **asdict(asked.question)}
    told, worker = f"Step {asked.name} asks: {scrub(asked.asked)}", _worker(view, asked)
    own = {"kind": "question", "step": asked.name}
    return _request(view, (worker, arguments, told), _OF_QUESTION, problem, own)


def _worker(view: Data, asked: ApprovalAsked) -> str:
    return worker_of(step_at(asked.plan.steps, asked.name), view["workers"])


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


def read_decision(said: object, plan: Plan, workers: Sequence[str], most_steps: int) -> Decision:
    """Return the decision about a plan in the answer to an interrupt."""
    match _decision(said, _OF_PLAN):
        case {"type": "edit", "edited_action": {"args": Mapping() as arguments}}:
            now = read_saved_plan(json.dumps(dict(arguments), default=str), workers, most_steps)
            return Decision(approved=True, plan=None if now.steps == plan.steps else now)
        case {"type": "edit"}:
            told = 'write the whole plan, as in {"type": "edit", "edited_action": {"args": {"steps": [...]}}}'
            raise PlanInvalid("bad_shape", f"the edit has no plan: {told}")
        case decision:
            return _verdict(decision)


def read_verdict(said: object, asked: ApprovalAsked) -> Decision:
    """Return the decision about an action or a fan-out; raise `PlanError` as above."""
    match _decision(said, _OF_FAN_OUT if asked.is_fan_out else _OF_ACTION):
        case {"type": "edit", "edited_action": {"args": Mapping() as given}}:
            now, then, text = dict(given), scrub(asked.asked), json.dumps(dict(given), ensure_ascii=False)
            if _arguments(then) == {"subtask": then} and now.keys() == {"subtask"}:
                text = str(now["subtask"])
            return Decision(approved=True, arguments=None if now == _arguments(then) else text)
        case {"type": "edit"}:
            told = 'write all arguments, as in {"type": "edit", "edited_action": {"args": {"amount": 40}}}'
            raise PlanInvalid("bad_shape", f"the edit has no arguments: {told}")
        case decision:
            return _verdict(decision)


def read_response(said: object) -> Decision:
    """Return the answer to a question in the answer to an interrupt; raise `PlanError` as above."""
    decision = _decision(said, _OF_QUESTION)
    if decision["type"] == "reject":
        return _verdict(decision)
    return Decision(approved=True, answer=_words(decision))


def _verdict(decision: Mapping[str, Any]) -> Decision:
    if decision["type"] == "approve":
        return Decision(approved=True)
    return Decision(approved=False, why=_words(decision), again=decision["type"] == "respond")


def _words(decision: Mapping[str, Any]) -> str:
    """Return the message of a decision; a response needs one."""
    said = decision.get("message") or ""
    if not isinstance(said, str) or (decision["type"] == "respond" and not said.strip()):
        raise PlanInvalid("bad_shape", f"message is {said!r:.80}: write a text")
    return scrub(said.strip())


def _decision(said: object, allowed: Sequence[str]) -> Mapping[str, Any]:
    """Return the only decision in an answer."""
    match said:
        case {"decisions": [{"type": str(kind)} as decision]} if kind in allowed:
            found: Mapping[str, Any] = decision
            return found
    kinds = ", ".join(allowed)
    raise PlanInvalid(
        "bad_shape",
        f'{said!r:.80} is not a decision: answer {{"decisions": [{{"type": ...}}]}} with one of {kinds}',
    )
