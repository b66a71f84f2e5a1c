"""The tokens of a turn, divided as Fugu divides them."""

from podium.types import Plan, Result
from podium.types.result import writer_of
from podium.usage import Usage


def answer_usage(result: Result) -> Usage:
    """Return the tokens of a run: those of the answer, and as orchestration all others.

    The tokens of the answer are those of the step that wrote it, and of all executions inside of a map or a
    block that is the answer; or those of the planner's message that is the answer. The planner, the other
    steps and the judge are orchestration. `Usage.total_tokens` is the sum of both.
    """
    total = result.usage
    current = next((r for r in reversed(result.rounds) if r.plan not in (None, Plan(()))), None)
    answer = None if current is None else writer_of(current)
    own = Usage()
    if current is not None and current.plan is not None and current.plan.answer is not None:
        own = current.proposals[-1].usage
    elif current is not None and answer is not None:
        own = Usage.total(o.usage for o in current.outcomes if o.plan_step == answer.step)
    rest = total.beyond(own)
    return Usage(
        input_tokens=own.input_tokens,
        output_tokens=own.output_tokens,
        cached_tokens=own.cached_tokens,
        reasoning_tokens=own.reasoning_tokens,
        orchestration_input_tokens=own.orchestration_input_tokens + rest.total_input_tokens,
        orchestration_output_tokens=own.orchestration_output_tokens + rest.total_output_tokens,
        orchestration_cached_tokens=own.orchestration_cached_tokens + rest.total_cached_tokens,
        estimated=total.estimated,
    )
