"""Converts results for hosts: to an answer or an error, and to metadata."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final, Literal, cast, get_args

from podium.errors import ConfigError, RunFailed, RunWaiting
from podium.run.approval import how_to_decide
from podium.secrets import scrub, scrub_data
from podium.types import Completion, Outcome, Plan, Problem, Result
from podium.types.conclusion import LACK, answer_of, steps_of
from podium.types.outcome import tell_actions
from podium.usage import Usage

Partial = Literal["return", "raise"]
"""Whether an incomplete answer is returned, or raises `RunFailed`."""
_TEXT_CALL: Final = "Action Input:"
"""In the text of a model, agents of several hosts read what follows as the arguments of a tool."""


def check_partial(partial: object) -> Partial:
    """Return `partial` if it is valid.

    Raises:
        ConfigError: it is not `return` or `raise`.
    """
    if partial not in get_args(Partial):
        raise ConfigError(f"partial is {partial!r:.40}: it must be {' or '.join(get_args(Partial))}")
    return cast("Partial", partial)


def answered(result: Result, *, partial: Partial = "return") -> Result:
    """Return the result if it has an answer.

    Args:
        result: the result of a run.
        partial: whether an incomplete answer is returned, or raises `RunFailed`.

    Raises:
        RunFailed: there is no answer, or the answer is incomplete and `partial` is `raise`.
        RunWaiting: the run waits for approval.
    """
    problem = result.problem
    reason = "" if problem is None else f" ({problem.code}: {problem.message})"
    if result.status == "failed":
        raise run_failed(f"there is no answer{reason}", result)
    if result.status == "waiting":
        how = f"{how_to_decide(result.run_id)}; or give Policy(approve=...) a function"
        waiting = RunWaiting(f"run {result.run_id} waits for approval{reason}: {how}")
        waiting.result, waiting.actions = result, result.actions
        raise waiting
    if result.status == "partial" and partial == "raise":
        raise run_failed(f"the answer is partial{reason}", result)
    return result


def lack_of(problem: Problem) -> str:
    """Return the sentence that says why an answer is incomplete: `(Not complete: …)`, on one line."""
    return f"{LACK}{' '.join(scrub(problem.message).split())})"


def lack_after(result: Result) -> str:
    """Return the end of the text of an incomplete answer: a blank line and the sentence of `lack_of`.

    It is empty for a complete answer, for an answer that the host parses (tool calls, also in text), and for
    a text that ends with such a sentence already, from a conductor behind the last step.
    """
    is_parsed = bool(result.tool_calls) or _TEXT_CALL in result.answer
    is_told = is_parsed or _told_lack(result.answer) is not None
    if result.status != "partial" or result.problem is None or is_told:
        return ""
    return f"\n\n{lack_of(result.problem)}"


def text_answer(result: Result) -> str:
    """Return the answer for users who see only its text: an incomplete answer ends with `lack_after`."""
    return result.answer + lack_after(result)


def with_lack(completion: Completion) -> Completion:
    """Return a completion; if its text ends with the sentence of `lack_of`, that is what is missing."""
    lack = _told_lack(completion.text)
    return completion if lack is None or completion.missing else replace(completion, missing=lack)


def _told_lack(text: str) -> str | None:
    last = text.rstrip().rpartition("\n")[2]
    return last[len(LACK) : -1] if last.startswith(LACK) and last.endswith(")") else None


def run_failed(message: str, result: Result) -> RunFailed:
    """Return the error for a result without a usable answer; its message has the run's id."""
    error = RunFailed(f"run {result.run_id}: {message}")
    error.result = result
    tell_actions(error, result.actions)
    return error


def result_metadata(
    result: Result, *, usage: Callable[[Usage], Mapping[str, Any]] = asdict, outputs: bool = False
) -> dict[str, Any]:
    """Return a result as plain JSON data for a host's metadata, without secrets.

    The keys are `run_id`, `status`, `problem`, `planner` (`name`, `why`, `is_fallback`), `plan`,
    `workers`, `labels` (of the answer), `steps`, `actions` (see `Result.actions`), `usage`,
    `estimated_usage` (the part of `usage` that was estimated from text), `cost` (USD, or `None` when
    unknown), `maybe_paid` (whether part of `cost` may not be billed), `usage_note` (how many calls are
    charged without a reported usage; empty if none are) and `seconds`.
    Each step also has `estimated`, `maybe_paid` and `charged`.

    Args:
        result: the result of a run.
        usage: converts a `Usage` to the form of the host.
        outputs: whether to include the `output` of each step.
    """
    plans = {current.number: current.plan for current in result.rounds}
    metadata: dict[str, Any] = scrub_data(
        {
            "run_id": result.run_id,
            "status": result.status,
            "problem": None if result.problem is None else asdict(result.problem),
            "planner": None if result.planner is None else asdict(result.planner),
            "plan": plan_metadata(result.plans[-1]) if result.plans else None,
            "workers": list(result.workers),
            "labels": sorted(result.labels),
            "steps": [
                _step(outcome, plans[outcome.round], usage) | ({"output": outcome.text} if outputs else {})
                for outcome in result.outcomes
            ],
            "actions": [asdict(action) for action in result.actions],
            "usage": dict(usage(result.usage)),
            "estimated_usage": dict(usage(result.estimated_usage)),
            "cost": result.cost,
            "maybe_paid": result.maybe_paid,
            "usage_note": result.usage_note,
            "seconds": result.seconds,
        }
    )
    return metadata


def plan_metadata(plan: Plan) -> dict[str, Any]:
    """Return a plan as plain JSON data, without its query."""
    return replace(plan, query=()).to_json()


def plan_lines(plan: Plan, workers: Sequence[str]) -> list[str]:
    """Return a plan as text, one line per step.

    Args:
        plan: the plan.
        workers: the names of the pool's workers.
    """
    return [
        f"{index}. {workers[step.worker]}: {step.subtask}"
        + (f" (shown step {', '.join(map(str, step.access_list))})" if step.access_list else "")
        for index, step in enumerate(plan.steps)
    ]


def answer_sources(result: Result) -> tuple[Outcome, ...]:
    """Return the outcomes that the answer depends on, in the plan's order.

    These are the outcomes of the step that wrote the answer, and of all steps that it used, directly or
    through other steps.
    """
    for current in reversed(result.rounds):
        if current.plan is not None and answer_of(current) is not None:
            ended = {outcome.step: outcome for outcome in steps_of(current) if outcome.status == "ok"}
            last = len(current.plan.steps) - 1
            return tuple(ended[step] for step in steps_behind(current.plan, ended, last))
    return ()


def steps_behind(plan: Plan, ended: Mapping[int, Outcome], step: int) -> list[int]:
    """Return a step and all steps whose outputs it used, directly or through others, in the plan's order.

    Args:
        plan: the plan.
        ended: the outcomes of steps that are `ok`, by step; other steps are left out.
        step: the index of the step.
    """
    found, left = set[int](), [step]
    while left:
        index = left.pop()
        if index not in found:
            found.add(index)
            shown = ended[index].shown if index in ended else None
            left += plan.steps[index].access if shown is None else shown
    return sorted(found & set(ended))


def _step(outcome: Outcome, plan: Plan | None, usage: Callable[[Usage], Mapping[str, Any]]) -> dict[str, Any]:
    step = plan.steps[outcome.step] if plan is not None and outcome.step < len(plan.steps) else None
    return {
        "round": outcome.round,
        "step": outcome.step,
        "worker": outcome.worker,
        "subtask": "" if step is None else step.subtask,
        "access": [] if step is None else step.access_list,
        "status": outcome.status,
        "problem": None if outcome.problem is None else asdict(outcome.problem),
        "usage": dict(usage(outcome.usage)),
        "estimated": outcome.usage.estimated,
        "cost": outcome.cost,
        "maybe_paid": outcome.maybe_paid,
        "charged": outcome.charged,
        "seconds": outcome.seconds,
        "attempts": outcome.attempts,
        "reused": outcome.reused,
    }
