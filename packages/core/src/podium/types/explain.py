"""Describes a round in words: its decisions, their reasons and their costs."""

from podium.types.outcome import Outcome, Proposal, Round
from podium.usage import Usage

ACTION_ENDS = {
    "done": "carried out",
    "failed": "its worker failed",
    "unknown": "not known whether it was carried out",
    "not_done": "not carried out",
}
"""The end of an action in words."""


def explain_round(current: Round) -> list[str]:
    """Return the description of a round, one line per decision."""
    lines = [f"Round {current.number}" + (f", because {current.why}." if current.why else ".")]
    lines += [f"  {explain_proposal(proposal)}" for proposal in current.proposals]
    if current.plan is None:
        lines.append("  There is no plan.")
    elif not current.plan.steps:
        lines.append("  The previous answer was kept.")
    elif not current.proposals:
        lines.append(f"  The plan of {len(current.plan.steps)} step(s) was given by the user.")
    lines += [f"  {_outcome(outcome, current)}" for outcome in current.outcomes]
    if current.check is not None:
        verdict = " ".join(current.check.text.split())[:200]
        lines.append(f"  {current.check.worker} judged the answer: {verdict or _problem(current.check)}")
    return lines


def explain_proposal(proposal: Proposal) -> str:
    """Return the description of one planner call."""
    who = f"Planner {proposal.planner}"
    bill = spent(proposal.usage, proposal.cost)
    if proposal.problem is not None:
        return f"{who} {_did(proposal)} ({proposal.problem.code}: {proposal.problem.message}); {bill}."
    stood_in = " as the fallback" if proposal.role == "fallback" else ""
    why = f": {proposal.why}" if proposal.why else ""
    return f"{who} wrote the plan{stood_in}{why}; {proposal.seconds:.2f} s, {bill}."


def _did(proposal: Proposal) -> str:
    """Return what a planner did that wrote no valid plan."""
    if not proposal.asked:
        return "was not called"
    return "wrote no usable plan" if proposal.text else "returned no text"


def _outcome(outcome: Outcome, current: Round) -> str:
    steps = current.plan.steps if current.plan is not None else ()
    access = steps[outcome.step].access if outcome.step < len(steps) else ()
    number = str(outcome.step) if current.plan is None else current.plan.numbered(outcome.step)
    head = f"Step {number}, {outcome.worker}, {_sees(access, outcome.shown)}: {outcome.status}"
    if outcome.problem is not None:
        head += f" ({_problem(outcome)})"
    if outcome.action is not None:
        head += f", an action: {ACTION_ENDS[outcome.action]}"
    if outcome.reused:
        head += ", reused"
    if len(outcome.calls) > 1:
        head += f", in {len(outcome.calls)} calls"
    if outcome.started is None:
        return head + "."
    bill = spent(outcome.usage, outcome.cost)
    return f"{head}; {outcome.started:.2f} to {outcome.ended or 0:.2f} s, {bill}."


def _sees(access: tuple[int, ...], shown: tuple[int, ...] | None) -> str:
    listed = ", ".join(map(str, access)) or "no step"
    if shown is None:
        return f"seeing {listed}"
    return f"seeing {', '.join(map(str, shown)) or 'no step'} of {listed}"


def _problem(outcome: Outcome) -> str:
    return "" if outcome.problem is None else f"{outcome.problem.code}: {outcome.problem.message}"


def spent(usage: Usage, cost: float | None, estimated: Usage | None = None) -> str:
    """Return the number of tokens and their cost in USD, as text.

    Args:
        usage: the tokens.
        cost: their cost; `None` when unknown.
        estimated: the estimated part of the tokens; `None` means all of them if `usage.estimated`.
    """
    tokens = f"{usage.total_tokens:,} tokens"
    if estimated is not None and 0 < estimated.total_tokens < usage.total_tokens:
        tokens += f" ({estimated.total_tokens:,} of them estimated)"
    elif usage.estimated:
        tokens += " (estimated)"
    if cost is None:
        return f"{tokens}, cost unknown"
    return f"{tokens}, ${cost:.4f}" if cost else f"{tokens}, $0"
