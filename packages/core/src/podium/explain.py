"""Says in words what a run decided, who decided it and why, and what it cost."""

from podium.messages import Usage
from podium.result import Outcome, Proposal, Result, Round


def explain(result: Result) -> str:
    """Return the account of a run, one line per decision."""
    lines = [f"Run {result.run_id}: {_status(result)} after {result.seconds:.2f} s."]
    if not result.rounds:
        lines.append("A hosted conductor answered; it shows neither its plan nor its steps.")
    for current in result.rounds:
        lines += _round(current)
    lines.append(f"In all: {_spent(result.usage, result.cost)}.")
    return "\n".join(lines) + "\n"


def _status(result: Result) -> str:
    told = {"ok": "answered", "partial": "answered in part", "failed": "no answer"}[result.status]
    return told if result.problem is None else f"{told} ({result.problem.code}: {result.problem.message})"


def _round(current: Round) -> list[str]:
    lines = [f"Round {current.number}" + (f", because {current.why}." if current.why else ".")]
    lines += [f"  {_proposal(proposal)}" for proposal in current.proposals]
    if current.plan is None:
        lines.append("  No plan could be had.")
    elif not current.plan.steps:
        lines.append("  The previous answer was kept.")
    elif not current.proposals:
        lines.append(f"  The plan of {len(current.plan.steps)} step(s) was given by the user.")
    lines += [f"  {_outcome(outcome, current)}" for outcome in current.outcomes]
    if current.check is not None:
        verdict = " ".join(current.check.text.split())[:200]
        lines.append(f"  {current.check.worker} judged the answer: {verdict or _problem(current.check)}")
    return lines


def _proposal(proposal: Proposal) -> str:
    who = f"Planner {proposal.planner}"
    spent = _spent(proposal.usage, proposal.cost)
    if proposal.problem is not None:
        return f"{who} was not used ({proposal.problem.code}: {proposal.problem.message}); {spent}."
    why = f": {proposal.why}" if proposal.why else ""
    return f"{who} wrote the plan{why}; {proposal.seconds:.2f} s, {spent}."


def _outcome(outcome: Outcome, current: Round) -> str:
    steps = current.plan.steps if current.plan is not None else ()
    seen = steps[outcome.step].access if outcome.step < len(steps) else ()
    sees = "seeing " + ", ".join(map(str, seen)) if seen else "seeing no step"
    head = f"Step {outcome.step}, {outcome.worker}, {sees}: {outcome.status}"
    if outcome.problem is not None:
        head += f" ({_problem(outcome)})"
    if outcome.started is None:
        return head + "."
    spent = _spent(outcome.usage, outcome.cost)
    return f"{head}; {outcome.started:.2f} to {outcome.ended or 0:.2f} s, {spent}."


def _problem(outcome: Outcome) -> str:
    return "" if outcome.problem is None else f"{outcome.problem.code}: {outcome.problem.message}"


def _spent(usage: Usage, cost: float | None) -> str:
    tokens = f"{usage.total_tokens:,} tokens" + (" (estimated)" if usage.estimated else "")
    return tokens + (", cost unknown" if cost is None else f", ${cost:.4f}")
