"""What rounds come to: the answer, how whole it is, and what is missing from it."""

from collections.abc import Sequence

from podium.errors import LimitExceeded
from podium.types.outcome import Outcome, Problem, Round
from podium.types.plan import Plan
from podium.types.result import RunStatus


def answer_of(current: Round) -> Outcome | None:
    """Return the outcome of the round's last step, if it is an answer."""
    outcomes = steps_of(current)
    return outcomes[-1] if outcomes and outcomes[-1].status == "ok" else None


def steps_of(current: Round) -> tuple[Outcome, ...]:
    """Return what the steps of the round's plan came to; empty where none of them was to run."""
    return () if current.plan is None else current.outcomes[: len(current.plan.steps)]


def missing(current: Round) -> list[Outcome]:
    """Return the steps that the round's answer was made without, though they were to be shown."""
    outcomes = steps_of(current)
    if all(one.shown is None for one in outcomes) or current.plan is None or answer_of(current) is None:
        return []
    found = set[int]()
    for index in _behind(current.plan, outcomes):
        step, shown = current.plan.steps[index], outcomes[index].shown
        if shown is not None and len(shown) < step.least:
            found.update(set(step.access) - set(shown))
    return [outcomes[index] for index in sorted(found)]


def _short(current: Round) -> list[Outcome]:
    """Return the steps behind the round's answer whose own text lacks something."""
    outcomes = steps_of(current)
    if current.plan is None or all(one.problem is None or one.status != "ok" for one in outcomes):
        return []
    behind = [outcomes[index] for index in sorted(_behind(current.plan, outcomes))]
    return [one for one in behind if one.status == "ok" and one.problem is not None]


def _behind(plan: Plan, outcomes: Sequence[Outcome]) -> set[int]:
    """Return the steps whose output reached the answer, the last among them."""
    met, todo = set[int](), [len(outcomes) - 1]
    while todo:
        index = todo.pop()
        if index not in met:
            met.add(index)
            shown = outcomes[index].shown
            todo += plan.steps[index].access if shown is None else shown
    return met


def conclusion(rounds: Sequence[Round], *, strictly: bool = False) -> tuple[str, RunStatus, Problem | None]:
    """Return the answer the rounds came to, how whole it is, and what is missing from it.

    The answer is the last step's output in the latest round that has one; else the latest
    output of any step.

    Args:
        rounds: all of them, in order.
        strictly: whether a failure in the latest round leaves no answer at all.
    """
    answers = [current for current in rounds if answer_of(current) is not None]
    if strictly and rounds and steps_of(rounds[-1]) and answer_of(rounds[-1]) is None:
        return "", "failed", _first_problem(rounds)
    if answers:
        answer = answer_of(answers[-1])
        assert answer is not None
        problem = answer.problem or _lack(answers[-1])
        return answer.text, "ok" if problem is None else "partial", problem
    problem = _first_problem(rounds)
    parts = [outcome for current in rounds for outcome in _outputs(current) if outcome.status == "ok"]
    return (parts[-1].text, "partial", problem) if parts else ("", "failed", problem)


def _outputs(current: Round) -> tuple[Outcome, ...]:
    return current.outcomes if current.plan is None else steps_of(current)


def _lack(current: Round) -> Problem | None:
    """Return what the round's answer was made without, or of what that lacks something; else `None`."""
    without = missing(current)
    if not without:
        short = _short(current)
        words = "the answer was made of what is not whole: " + "; ".join(map(told, short))
        return Problem(short[0].problem.code, words) if short and short[0].problem is not None else None
    failed = [outcome.problem for outcome in steps_of(current) if outcome.status == "failed"]
    codes = [problem.code for problem in failed if problem is not None]
    limited = LimitExceeded.code in codes
    code = LimitExceeded.code if limited else codes[0] if codes else "missing"
    return Problem(code, "the answer was made without " + "; ".join(map(told, without)))


def told(outcome: Outcome) -> str:
    """Say of a step who was to do it, and why it has no output."""
    why = outcome.status if outcome.problem is None else outcome.problem.message
    return f"step {outcome.step} ({outcome.worker}): {why}"


def _first_problem(rounds: Sequence[Round]) -> Problem | None:
    """Return what first went wrong in the latest round, with the step or planner it befell."""
    if not rounds:
        return None
    for outcome in rounds[-1].outcomes:
        if outcome.status == "failed" and outcome.problem is not None:
            return Problem(outcome.problem.code, told(outcome))
    for proposal in reversed(rounds[-1].proposals):
        if proposal.problem is not None:
            words = f"planner {proposal.planner}: {proposal.problem.message}"
            return Problem(proposal.problem.code, words)
    return None
