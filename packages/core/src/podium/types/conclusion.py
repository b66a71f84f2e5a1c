"""Computes the answer and the status of a run from its rounds, and the missing parts of the answer."""

from collections.abc import Iterable, Sequence

from podium.errors import LimitExceeded
from podium.types.outcome import Outcome, Problem, Round, total_cost
from podium.types.plan import Plan
from podium.types.result import RunStatus

LACK = "(Not complete: "
"""How the sentence begins that ends the text of an incomplete answer, for users who see only the text."""
STALE = "stale"
"""The code of the problem of a recorded result that lacks an input which exists by now."""


def conclusion(rounds: Sequence[Round]) -> tuple[str, RunStatus, Problem | None]:
    """Return the answer of all rounds so far, the run's status, and why the status is not `ok`.

    The run is `ok` only if each action of the latest plan was carried out, and the end of every action is
    known.

    The answer is the output of the plan's last step, in the latest round whose last step is
    `ok`; without such a round there is no answer. If a later round fails, the answer of the earlier
    round is kept, and the run is `partial`.
    """
    answering = next((current for current in reversed(rounds) if answer_of(current) is not None), None)
    answer = None if answering is None else answer_of(answering)
    if answering is None or answer is None:
        failures = (_failure(current) for current in reversed(rounds))
        failure = next((failure for failure in failures if failure is not None), None)
        return "", "failed", _with_actions(failure, rounds)
    failed = [current for current in rounds if current.number > answering.number and _is_failed(current)]
    failure = _failure(failed[-1]) if failed else None
    own = None if answer.problem is None else Problem(answer.problem.code, told(answer))
    lacks = (own, _lack(answering), _lack_before(rounds, answering), failure, _undone(rounds))
    problems = [problem for problem in lacks if problem is not None]
    if not problems:
        return answer.text, "ok", None
    messages = dict.fromkeys(problem.message for problem in problems)
    words = [one for one in messages if not any(one in other for other in messages if other != one)]
    return answer.text, "partial", Problem(problems[0].code, "; ".join(words))


def _undone(rounds: Sequence[Round]) -> Problem | None:
    """Return the actions that were not carried out, whose end is unknown, or which an agent did twice."""
    plans = [current for current in rounds if current.plan is not None and current.plan.steps]
    found = [
        outcome
        for current in plans
        for outcome in steps_of(current)
        if (outcome.action == "unknown" or (outcome.action is not None and current is plans[-1]))
        and (outcome.status != "ok" or outcome.problem is not None)
    ]
    return Problem(_code(found), _list(found)) if found else None


def _with_actions(failure: Problem | None, rounds: Sequence[Round]) -> Problem | None:
    """Return the problem of a run without an answer, together with the problem of its actions."""
    undone = _undone(rounds)
    if failure is None or undone is None or undone.message in failure.message:
        return failure or undone
    return Problem(failure.code, f"{failure.message}; {undone.message}", failure.retry_after)


def answer_outcome(rounds: Sequence[Round]) -> Outcome | None:
    """Return the outcome whose text is the run's answer; `None` if the run has no answer."""
    return next((found for current in reversed(rounds) if (found := answer_of(current)) is not None), None)


def answer_of(current: Round) -> Outcome | None:
    """Return the outcome of the last step of the round's plan; `None` if that step is not `ok`."""
    outcomes = steps_of(current)
    if current.plan is None or not outcomes or outcomes[-1].step != len(current.plan.steps) - 1:
        return None  # the last step of an interrupted round has no outcome
    return outcomes[-1] if outcomes[-1].status == "ok" else None


def steps_of(current: Round) -> tuple[Outcome, ...]:
    """Return the outcomes of the steps of the round's plan, in the plan's order."""
    return () if current.plan is None else current.outcomes[: len(current.plan.steps)]


def missing(current: Round) -> list[Outcome]:
    """Return the outcomes of steps that the round's answer depends on and that have no output."""
    outcomes = steps_of(current)
    if all(outcome.shown is None for outcome in outcomes) or answer_of(current) is None:
        return []
    assert current.plan is not None
    found = set[int]()
    for index in _behind(current.plan, outcomes):
        step, shown = current.plan.steps[index], outcomes[index].shown
        if shown is not None and len(shown) < step.least:
            found.update(set(step.access) - set(shown))
    return [outcomes[index] for index in sorted(_with_causes(current.plan, outcomes, found))]


def told(outcome: Outcome) -> str:
    """Return a step's number, its worker and why it has no output, as one text."""
    return f"step {outcome.step} ({outcome.worker}): {_why(outcome)}"


def _why(outcome: Outcome) -> str:
    return outcome.status if outcome.problem is None else outcome.problem.message


def _is_failed(current: Round) -> bool:
    """Return whether a round has no answer; a plan without steps keeps the previous answer."""
    return current.plan is None or (bool(current.plan.steps) and answer_of(current) is None)


def _behind(plan: Plan, outcomes: Sequence[Outcome]) -> set[int]:
    """Return the last step and all steps whose outputs it used, directly or through other steps."""
    met, todo = set[int](), [len(outcomes) - 1]
    while todo:
        index = todo.pop()
        if index not in met:
            met.add(index)
            shown = outcomes[index].shown
            todo += plan.steps[index].access if shown is None else shown
    return met


def _with_causes(plan: Plan, outcomes: Sequence[Outcome], steps: Iterable[int]) -> set[int]:
    """Return these steps, and the steps without an output that they depend on."""
    met, todo = set[int](), list(steps)
    while todo:
        index = todo.pop()
        if index not in met:
            met.add(index)
            if outcomes[index].status == "skipped":
                todo += [seen for seen in plan.steps[index].access if outcomes[seen].status != "ok"]
    return met


def _lack(current: Round) -> Problem | None:
    """Return the missing parts of a round's answer: steps without an output, or incomplete outputs."""
    outcomes = steps_of(current)
    without = missing(current)
    if gone := [outcome for outcome in without if outcome.status != "ok"]:
        code = _code(outcome for outcome in outcomes if outcome.status == "failed")
        return Problem(code, "the answer was made without " + _list_causes(gone))
    if without:
        return _stale(current, without)
    if current.plan is None or all(outcome.problem is None for outcome in outcomes):
        return None
    behind = [outcomes[index] for index in sorted(_behind(current.plan, outcomes))]
    short = [outcome for outcome in behind[:-1] if outcome.status == "ok" and outcome.problem is not None]
    if not short:
        return None
    return Problem(_code(short), "the answer uses incomplete outputs: " + _list(short))


def _stale(current: Round, late: Sequence[Outcome]) -> Problem:
    """Return the problem of an answer that was recorded before these steps had an output."""
    assert current.plan is not None
    outcomes, again = steps_of(current), set[int]()
    for step, outcome in zip(current.plan.steps, outcomes, strict=True):
        shown = outcome.shown
        lacks = shown is not None and len(shown) < step.least
        if outcome.status == "ok" and (lacks or again.intersection(step.access if shown is None else shown)):
            again.add(outcome.step)
    made = [outcomes[index] for index in sorted(again)]
    cost = total_cost(outcome.cost for outcome in made)
    price = f", which cost ${cost:.4f}" if cost else ""
    words = f"the answer was made before {_names(late)} had an output: to make {_names(made)} again{price}"
    return Problem(STALE, f"{words}, resume the run with refresh=True (--refresh)")


def _names(outcomes: Iterable[Outcome]) -> str:
    return ", ".join(f"step {outcome.step} ({outcome.worker})" for outcome in outcomes)


def _lack_before(rounds: Sequence[Round], current: Round) -> Problem | None:
    """Return what is missing in earlier rounds, if the answer used them through `"previous"`."""
    found = list[Problem]()
    for before in reversed([earlier for earlier in rounds if earlier.number < current.number]):
        steps = () if current.plan is None else current.plan.steps
        if not any(steps[index].previous for index in _behind_end(current)):
            break
        answer = answer_of(before)
        own = None if answer is None or answer.problem is None else Problem(answer.problem.code, told(answer))
        problems = (own, _lack(before))
        found += [Problem(p.code, f"round {before.number}: {p.message}") for p in problems if p is not None]
        current = before
    return Problem(found[0].code, "; ".join(problem.message for problem in found)) if found else None


def _behind_end(current: Round) -> set[int]:
    """Return the last step of the round's plan and all steps whose outputs it used."""
    outcomes = steps_of(current)
    return set() if current.plan is None or not outcomes else _behind(current.plan, outcomes)


def _failure(current: Round) -> Problem | None:
    """Return why a round has no answer: the failed steps behind its last step, or the planner's problem."""
    outcomes = steps_of(current)
    causes: list[Outcome] = []
    if current.plan is not None and outcomes:
        behind = _with_causes(current.plan, outcomes, [len(outcomes) - 1])
        causes = [outcomes[index] for index in sorted(behind) if outcomes[index].status == "failed"]
    causes = causes or [outcome for outcome in outcomes if outcome.status == "failed"] or list(outcomes[-1:])
    if causes:
        waits = [each.problem.retry_after or 0.0 for each in causes if each.problem is not None]
        return Problem(_code(causes), _list(causes), max(waits, default=0.0) or None)
    for proposal in reversed(current.proposals):
        if proposal.problem is not None:
            words = f"planner {proposal.planner}: {proposal.problem.message}"
            return Problem(proposal.problem.code, words)
    return None


def _list_causes(outcomes: Sequence[Outcome]) -> str:
    """Return the problems of steps without an output, and the numbers of steps skipped because of them."""
    causes = [outcome for outcome in outcomes if outcome.status != "skipped"] or outcomes
    skipped = _names(outcome for outcome in outcomes if outcome not in causes)
    return _list(causes) + (f"; therefore skipped: {skipped}" if skipped else "")


def _list(outcomes: Iterable[Outcome]) -> str:
    """Return the steps with their problems; steps with the same problem share its message."""
    steps: dict[str, list[str]] = {}
    for outcome in outcomes:
        steps.setdefault(_why(outcome), []).append(f"step {outcome.step} ({outcome.worker})")
    return "; ".join(f"{', '.join(names)}: {why}" for why, names in steps.items())


def _code(outcomes: Iterable[Outcome]) -> str:
    """Return `limit` if one of the steps has that problem, else the code of the first problem."""
    codes = [outcome.problem.code for outcome in outcomes if outcome.problem is not None]
    return LimitExceeded.code if LimitExceeded.code in codes else codes[0] if codes else "missing"
