"""Score, calls, tokens, cost and seconds of an arm's answer: from the result of a run, or looked up.

A run takes about a millisecond, and a look-up a fiftieth of this time. Most arms write only plans that can be
looked up. A test compares look-ups with runs on random plans.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from podium import Plan
from podium.execution import Retry
from podium.types import Outcome, Result
from podium.workers import Pool
from podium_evals.arms.arm import Answered, total
from podium_evals.errors import Unrecorded
from podium_evals.recorded import (
    NO_ANSWER,
    Question,
    RecordedWorker,
    Recordings,
    Reducer,
    Sample,
)
from podium_evals.recorded.recordings import NO_TEXT


def unrecorded(error: BaseException | None) -> Unrecorded | None:
    """Return the `Unrecorded` error among the causes of an error; `None` if there is none."""
    while error is not None and not isinstance(error, Unrecorded):
        error = error.__cause__
    return error


def answered(result: Result, question: Question, recordings: Recordings) -> Answered:
    """Return score, calls, tokens, cost and seconds of a run."""
    score, missing = _scored(result, question, recordings)
    is_known = not result.usage.estimated
    asked = [outcome for outcome in result.outcomes if outcome.worker in recordings.workers]
    return Answered(
        score=score,
        calls=sum(outcome.attempts for outcome in asked)
        + sum(proposal.usage.total_tokens > 0 for proposal in result.proposals),
        tokens=result.usage.total_tokens if is_known else None,
        cost=result.cost if is_known else None,
        empty=None if result.answer.startswith(NO_TEXT) else result.answer in ("", NO_ANSWER),
        latency_s=_longest_path(result, question, recordings),
        unrecorded=missing,
    )


def _scored(result: Result, question: Question, recordings: Recordings) -> tuple[float | None, str]:
    """Return the score, or the reason why there is none."""
    for outcome in result.outcomes:
        if outcome.problem is not None and outcome.problem.code == Unrecorded.code:
            return None, outcome.problem.message
    score = recordings.score(question, result.answer)
    return score, "" if score is not None else f"the answer {result.answer[:80]!r} has no score"


def _longest_path(result: Result, question: Question, recordings: Recordings) -> float | None:
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
        seconds = 0.0 if outcome is None else _seconds(outcome, question, recordings)
        if seconds is None:
            return None
        ends[number] = seconds + max((ends[before] for before in step.access), default=0.0)
    return max(ends.values())


def _seconds(outcome: Outcome, question: Question, recordings: Recordings) -> float | None:
    if outcome.worker not in recordings.workers:
        return 0.0
    if outcome.attempts > 1:
        return None  # the time of the first call is not in the outcome
    return latency(recordings.samples(question, outcome.worker), outcome.text)


def latency(samples: Sequence[Sample], text: str) -> float | None:
    """Return the recorded seconds of an answer; `None` if they were not recorded."""
    return next((sample.latency_s for sample in samples if sample.text == text), None)


ASK = "Answer the question."
_Asked = tuple[RecordedWorker, Sample]


def looked_up(
    plan: Plan, question: Question, pool: Pool, recordings: Recordings, retry: Retry | None = None
) -> Answered | None:
    """Return the result that a run of this plan would have, without the run."""
    *steps, last = plan.calls
    chosen_by = pool[last.worker]
    reducer = chosen_by if isinstance(chosen_by, Reducer) else None
    if reducer is None:
        steps.append(last)
    is_plain = len(steps) == 1 if reducer is None else sorted(last.access) == list(range(len(steps)))
    if not (steps and is_plain and (retry is None or reducer is None)):
        return None
    asked: list[_Asked] = []
    for number, step in enumerate(steps):
        worker = pool[step.worker]
        if not isinstance(worker, RecordedWorker) or step.access or step.subtask != ASK:
            return None
        sample = worker.sample_at(question, number)
        if sample is None:
            return None
        asked.append((worker, sample))
    if retry is None:
        return _answered(asked, reducer, question, recordings)
    asked += _repaired(asked[0], steps[0].worker, question, pool, retry)
    found = _answered([asked[-1]], None, question, recordings)
    calls = [_answered([each], None, question, recordings) for each in asked]
    return summed(calls, score=found.score, empty=found.empty, unrecorded=found.unrecorded)


def summed(calls: Sequence[Answered], **facts: Any) -> Answered:
    """Return an answer with the calls, tokens and cost of several, and their seconds one after the other."""
    return Answered(
        calls=sum(call.calls for call in calls),
        tokens=total([call.tokens for call in calls]),
        cost=total([call.cost for call in calls]),
        **{"latency_s": total([call.latency_s for call in calls])} | facts,
    )


def _repaired(first: _Asked, number: int, question: Question, pool: Pool, retry: Retry) -> Iterator[_Asked]:
    """Yield the calls after an empty answer, as a run makes them."""
    called = [number]
    sample = first[1]
    if sample.is_empty is None:
        raise Unrecorded("it was not recorded which answers are empty")
    while sample.is_empty and len(called) < retry.attempts:
        following = [*retry.next_after(number, called, pool), called[-1]][0]
        worker = pool[following]
        assert isinstance(worker, RecordedWorker)
        recorded, needed = worker.recordings.samples(question, worker.worker), called.count(following) + 1
        check_recorded(worker.worker, question, len(recorded), needed)
        found = worker.sample_at(question, len(called))
        assert found is not None
        sample = found
        called.append(following)
        yield worker, sample


def check_recorded(worker: str, question: Question, recorded: int, needed: int) -> None:
    """Check that a worker has so many recorded answers to a question."""
    if recorded < needed:
        raise Unrecorded(
            f"{worker!r} has {recorded} recorded answers to {question.id!r}: {needed} are needed"
        )


def _answered(
    asked: Sequence[_Asked], reducer: Reducer | None, question: Question, recordings: Recordings
) -> Answered:
    texts = [sample.text if sample.text.strip() else NO_ANSWER for _, sample in asked]
    answer = texts[0] if reducer is None else reducer.reduced(question.text, texts)
    score = recordings.score(question, answer)
    seconds = [
        latency(recordings.samples(question, worker.worker), text)
        for (worker, _), text in zip(asked, texts, strict=True)
    ]
    known = [each for each in seconds if each is not None]
    return summed(
        [sampled(worker, question, sample) for worker, sample in asked],
        score=score,
        empty=None if answer.startswith(NO_TEXT) else answer == NO_ANSWER,
        latency_s=max(known) if len(known) == len(seconds) else None,
        unrecorded="" if score is not None else f"the answer {answer[:80]!r} has no score",
    )


def sampled(worker: RecordedWorker, question: Question, sample: Sample) -> Answered:
    """Return what a recorded answer of a worker scored and spent."""
    usage, price = worker.usage_of(question, sample), worker.card.price
    return Answered(
        score=sample.score,
        calls=1,
        tokens=None if usage.estimated else usage.total_tokens,
        cost=None if price is None or usage.estimated else price.cost(usage),
        empty=sample.is_empty,
        latency_s=sample.latency_s,
    )
