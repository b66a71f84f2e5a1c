"""Looks up the results of the simplest plans in the recording. They equal the results of a run.

A run takes about a millisecond, and a look-up a fiftieth of this time. Most arms write only such plans. A
test compares look-ups with runs on random plans.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from podium import Plan
from podium.execution import Retry
from podium.workers import Pool
from podium_evals.arms.arm import Answered
from podium_evals.arms.run_scores import latency
from podium_evals.arms.tally import total
from podium_evals.errors import Unrecorded
from podium_evals.recorded import NO_ANSWER, Question, RecordedWorker, Recordings, Reducer, Sample
from podium_evals.recorded.recordings import NO_TEXT

ASK = "Answer the question."
_Asked = tuple[RecordedWorker, Sample]


def looked_up(
    plan: Plan, question: Question, pool: Pool, recordings: Recordings, retry: Retry | None = None
) -> Answered | None:
    """Return the result that a run of this plan would have, without the run.

    Args:
        plan: the plan. One worker is asked the question by the subtask `ASK`; or several workers are, and a
            reducer chooses among all of their answers.
        question: the question.
        pool: recorded workers and reducers.
        recordings: the scores.
        retry: which worker is asked after an empty answer; `None` for none.

    Returns:
        `None` if the plan is of another form, or a worker has no answer to the question. Such a plan needs a
        run.

    Raises:
        Unrecorded: a worker would be asked more often than it was recorded.
    """
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
    return replace(
        found,
        calls=len(calls),
        tokens=total([call.tokens for call in calls]),
        cost=total([call.cost for call in calls]),
        latency_s=total([call.latency_s for call in calls]),
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
        recorded = len(worker.recordings.samples(question, worker.worker))
        if called.count(following) >= recorded:
            needed = called.count(following) + 1
            told = f"{worker.worker!r} has {recorded} recorded answers to {question.id!r}"
            raise Unrecorded(f"{told}: {needed} are needed")
        found = worker.sample_at(question, len(called))
        assert found is not None
        sample = found
        called.append(following)
        yield worker, sample


def _answered(
    asked: Sequence[_Asked], reducer: Reducer | None, question: Question, recordings: Recordings
) -> Answered:
    texts = [sample.text if sample.text.strip() else NO_ANSWER for _, sample in asked]
    answer = texts[0] if reducer is None else reducer.reduced(question.text, texts)
    score = recordings.score(question, answer)
    usages = [worker.usage_of(question, sample) for worker, sample in asked]
    is_known = not any(usage.estimated for usage in usages)
    prices = [worker.card.price for worker, _ in asked]
    costs = [price.cost(usage) for price, usage in zip(prices, usages, strict=True) if price is not None]
    seconds = [
        latency(recordings.samples(question, worker.worker), text)
        for (worker, _), text in zip(asked, texts, strict=True)
    ]
    known = [each for each in seconds if each is not None]
    return Answered(
        score=score,
        calls=len(asked),
        tokens=sum(usage.total_tokens for usage in usages) if is_known else None,
        cost=sum(costs) if is_known and len(costs) == len(asked) else None,
        empty=None if answer.startswith(NO_TEXT) else answer == NO_ANSWER,
        latency_s=max(known) if len(known) == len(seconds) else None,
        unrecorded="" if score is not None else f"the answer {answer[:80]!r} has no score",
    )
