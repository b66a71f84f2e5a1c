"""The description of a round in words."""

from podium.types.executions import Executions, executions_of
from podium.types.outcome import ACTION_ENDS, Outcome, Proposal, Round, total_cost
from podium.types.steps import AnyStep, Block
from podium.usage import Usage

_MOST_NAMED = 3
"""The number of failed items that are named."""


def explain_round(current: Round) -> list[str]:
    """Return the description of a round, one line per decision."""
    lines = [f"Round {current.number}" + (f", because {current.why}." if current.why else ".")]
    lines += [f"  {explain_proposal(proposal)}" for proposal in current.proposals]
    if current.plan is None:
        lines.append("  There is no plan.")
    elif current.plan.answer is not None:
        lines.append("  This is the answer.")
    elif not current.plan.steps:
        lines.append("  The previous answer was kept.")
    elif not current.proposals:
        lines.append(f"  The plan of {len(current.plan.steps)} step(s) was given by the user.")
    lines += [] if current.plan is None else [f"  In the plan's text, {note}." for note in current.plan.notes]
    inside = executions_of(current.outcomes)
    count = 0 if current.plan is None else len(current.plan.steps)
    own = [*current.outcomes[:count], *(each for each in current.outcomes[count:] if not each.path)]
    told = [_outcome(outcome, current, inside.pop(outcome.step, None)) for outcome in own]
    lines += [f"  {line}" for line in told[:count]]
    lines += [f"  {'' if current.plan is None else 'Earlier: '}{line}" for line in told[count:]]
    if current.check is not None:
        verdict = " ".join(current.check.text.split())[:200]
        lines.append(f"  {current.check.worker} judged the answer: {verdict or _problem(current.check)}")
    return lines


def explain_proposal(proposal: Proposal) -> str:
    """Return the description of one planner call."""
    who = f"Planner {proposal.planner}"
    bill = spent(proposal.usage, proposal.cost)
    if proposal.problem is not None:
        did = "wrote no usable plan" if proposal.text else "returned no text"
        did = did if proposal.asked else "was not called"
        return f"{who} {did} ({proposal.problem.code}: {proposal.problem.message}); {bill}."
    stood_in = " as the fallback" if proposal.role == "fallback" else ""
    why = f": {proposal.why}" if proposal.why else ""
    return f"{who} wrote the plan{stood_in}{why}; {proposal.seconds:.2f} s, {bill}."


def _outcome(outcome: Outcome, current: Round, inside: Executions | None) -> str:
    steps = current.plan.steps if current.plan is not None else ()
    step = steps[outcome.step] if outcome.step < len(steps) else None
    access = () if step is None else step.access
    number = str(outcome.step) if current.plan is None else current.plan.numbered(outcome.step)
    head = f"Step {number}, {outcome.worker}, {_sees(access, outcome.shown)}: {outcome.end}"
    if outcome.problem is not None:
        head += f" ({_problem(outcome)})"
    if inside is not None and step is not None:
        head += _executions(inside, step, is_told=outcome.problem is not None)
    if outcome.action is not None:
        head += f", an action: {ACTION_ENDS[outcome.action]}"
    if outcome.reused:
        head += ", reused"
    if len(outcome.calls) > 1:
        head += f", in {len(outcome.calls)} calls"
    if outcome.started is None:
        return head + "."
    usage, cost = outcome.usage, outcome.cost
    if inside is not None:
        usage = usage + Usage.total(each.usage for each in inside.ends.values())
        cost = total_cost([cost, inside.cost])
    bill = spent(usage, cost)
    return f"{head}; {outcome.started:.2f} to {outcome.ended or 0:.2f} s, {bill}."


def _executions(inside: Executions, step: AnyStep, *, is_told: bool) -> str:
    """Return the number of items, by status, or of turns; `is_told` if the failed items are told before."""
    if isinstance(step, Block) and step.each is None:
        return "" if step.until is None else f", {inside.turn} turn{'' if inside.turn == 1 else 's'}"
    counts = ", ".join(f"{count} {status}" for status, count in inside.counts.items() if count)
    failed = [] if is_told else [each.name for each in inside.failed()]
    more = f" and {len(failed) - _MOST_NAMED} more" if len(failed) > _MOST_NAMED else ""
    named = f" ({', '.join(failed[:_MOST_NAMED])}{more})" if failed else ""
    return f", {inside.ended} item{'' if inside.ended == 1 else 's'}: {counts}{named}"


def _sees(access: tuple[int, ...], shown: tuple[int, ...] | None) -> str:
    listed = ", ".join(map(str, access)) or "no step"
    if shown is None:
        return f"seeing {listed}"
    return f"seeing {', '.join(map(str, shown)) or 'no step'} of {listed}"


def _problem(outcome: Outcome) -> str:
    return "" if outcome.problem is None else f"{outcome.problem.code}: {outcome.problem.message}"


def spent(usage: Usage, cost: float | None, estimated: Usage | None = None) -> str:
    """Return the number of tokens and their cost in USD, as text."""
    tokens = f"{usage.total_tokens:,} tokens"
    if estimated is not None and 0 < estimated.total_tokens < usage.total_tokens:
        tokens += f" ({estimated.total_tokens:,} of them estimated)"
    elif usage.estimated:
        tokens += " (estimated)"
    if cost is None:
        return f"{tokens}, cost unknown"
    most = "at most " if usage.estimated else ""  # such calls are charged at their reservations
    return f"{tokens}, {most}${cost:.4f}" if cost else f"{tokens}, $0"
