"""What a planner is told when steps of its plan failed, to plan again."""

from collections.abc import Sequence

from podium.plan_text.writer import Spelling, keep_text
from podium.prompts.render import fill, mark_of, tagged
from podium.types.outcome import Outcome
from podium.types.plan import Plan

MAX_EXCERPT = 1_000
"""Most of an output that a planner is shown, in characters from its beginning."""
_MAX_REASON = 300
"""Most of what is said of a failure, in characters."""


def failure_feedback(plan: Plan, outcomes: Sequence[Outcome], *, spelling: Spelling) -> str:
    """Show a planner which steps failed and why, and what is paid for; ask for another plan.

    Args:
        plan: the plan that was carried out.
        outcomes: what its steps came to, in its order.
        spelling: how the planner writes.
    """
    subtasks = [step.subtask for step in plan.steps]
    reasons = [_reason(outcome) for outcome in outcomes]
    excerpts = [_excerpt(outcome.text) for outcome in outcomes]
    mark = mark_of(*subtasks, *reasons, *excerpts)
    failed, paid = "", ""
    for outcome, reason, excerpt in zip(outcomes, reasons, excerpts, strict=True):
        subtask = tagged("subtask", mark, subtasks[outcome.step])
        if outcome.status == "ok":
            paid += f"\nStep {outcome.step}:\n{subtask}" + tagged("output", mark, excerpt)
        else:
            failed += f"\nStep {outcome.step} ({outcome.status}):\n{subtask}" + tagged("reason", mark, reason)
    nothing = "\nNone.\n"
    keep = keep_text(spelling)
    return fill("failed", failed=failed or nothing, paid=paid or nothing, keep=keep)


def _reason(outcome: Outcome) -> str:
    problem = outcome.problem
    return "" if problem is None else f"{problem.code}: {problem.message}"[:_MAX_REASON]


def _excerpt(text: str) -> str:
    return text if len(text) <= MAX_EXCERPT else text[:MAX_EXCERPT] + "…"
