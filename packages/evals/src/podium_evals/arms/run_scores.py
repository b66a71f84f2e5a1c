"""Computes score, calls, tokens, cost and seconds of an arm's answer from the result of a run."""

import re
from collections.abc import Sequence

from podium import Step
from podium.types import Outcome, Result
from podium.types.references import literal
from podium.types.steps import AnyStep, step_at
from podium_evals.arms.arm import Answered
from podium_evals.errors import Unrecorded
from podium_evals.recorded import NO_ANSWER, Bundle, Part, Question, Recordings, Sample
from podium_evals.recorded.recordings import NO_TEXT


def unrecorded(error: BaseException | None) -> Unrecorded | None:
    """Return the `Unrecorded` error among the causes of an error; `None` if there is none."""
    while error is not None and not isinstance(error, Unrecorded):
        error = error.__cause__
    return error


def answered(result: Result, query: Question | Bundle, recordings: Recordings) -> Answered:
    """Return score, calls, tokens, cost and seconds of a run."""
    score, missing = _scored(result, query, recordings)
    is_known = not result.usage.estimated
    asked = [outcome for outcome in result.outcomes if outcome.worker in recordings.workers]
    return Answered(
        score=score,
        calls=sum(outcome.attempts for outcome in asked)
        + sum(proposal.usage.total_tokens > 0 for proposal in result.proposals),
        tokens=result.usage.total_tokens if is_known else None,
        cost=result.cost if is_known else None,
        empty=None if result.answer.startswith(NO_TEXT) else result.answer in ("", NO_ANSWER),
        latency_s=_longest_path(result, query, recordings),
        unrecorded=missing,
    )


def _scored(result: Result, query: Question | Bundle, recordings: Recordings) -> tuple[float | None, str]:
    """Return the score, or the reason why there is none."""
    if isinstance(query, Bundle):
        parts = query.score(result.answer, recordings.score)
        score, allowed = parts.whole, follows_an_error(query, parts.parts)
    else:
        score, allowed = recordings.score(query, result.answer), None
    for outcome in result.outcomes:
        if outcome.problem is None or outcome.problem.code != Unrecorded.code:
            continue
        step = _step(result, outcome)
        asked = part_asked(step, query) if isinstance(query, Bundle) and isinstance(step, Step) else None
        if asked is None or asked is not allowed:
            return None, outcome.problem.message
    if score is None:
        return None, f"the answer {result.answer[:80]!r} has no score"
    return score, ""


def follows_an_error(bundle: Bundle, scores: Sequence[float | None]) -> Part | None:
    """Return the part that depends on a number which a worker got wrong. Such a part scores 0.

    Args:
        bundle: the bundle.
        scores: the score of each part of an answer to it.
    """
    for part in bundle.parts:
        if part.needs is not None and scores[part.needs] != 1:
            return part
    return None


def _longest_path(result: Result, query: Question | Bundle, recordings: Recordings) -> float | None:
    """Return the recorded seconds of the slowest path through the last plan.

    `None` if the time of a call was not recorded, if a model wrote the plan, whose time is never recorded, or
    if the plan has maps, branches or blocks.
    """
    if not result.plans or any(proposal.usage.total_tokens for proposal in result.proposals):
        return None
    plan = result.plans[-1]
    if plan.is_workflow:
        return None
    ends: dict[int, float] = {}
    outcomes = {outcome.step: outcome for outcome in result.rounds[-1].outcomes}
    for number, step in enumerate(plan.calls):
        outcome = outcomes.get(number)
        seconds = 0.0 if outcome is None else _seconds(outcome, step, query, recordings)
        if seconds is None:
            return None
        ends[number] = seconds + max((ends[before] for before in step.access), default=0.0)
    return max(ends.values())


def _seconds(outcome: Outcome, step: Step, query: Question | Bundle, recordings: Recordings) -> float | None:
    if outcome.worker not in recordings.workers:
        return 0.0
    if outcome.attempts > 1:
        return None  # the time of the first call is not in the outcome
    question = query
    if isinstance(query, Bundle):
        part = part_asked(step, query)
        if part is None:
            return None
        question = part.question
    assert isinstance(question, Question)
    return latency(recordings.samples(question, outcome.worker), outcome.text)


def latency(samples: Sequence[Sample], text: str) -> float | None:
    """Return the recorded seconds of an answer; `None` if they were not recorded."""
    return next((sample.latency_s for sample in samples if sample.text == text), None)


def _step(result: Result, outcome: Outcome) -> AnyStep:
    plan = result.rounds[outcome.round - 1].plan
    assert plan is not None  # it had an outcome
    return step_at(plan.steps, outcome.name)


def part_asked(step: Step, bundle: Bundle) -> Part | None:
    """Return the part of a bundle that a step asks; `None` if its subtask is not a part."""
    for number, part in enumerate(bundle.parts, 1):
        if part.needs is None:
            if step.subtask in (literal(part.question.text), f"{{{{part_{number}}}}}"):
                return part
        else:
            before, after = map(re.escape, map(literal, part.around))
            if re.fullmatch(rf"{before}\{{\{{\d+\}}\}}{after}", step.subtask):
                return part
    return None
