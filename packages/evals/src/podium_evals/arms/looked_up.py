"""Looks up the results of the simplest plans in the recording. They equal the results of a run.

A run takes about a millisecond, and a look-up a fiftieth of this time. Most arms write only such plans. A
test compares look-ups with runs on random plans.
"""

from collections.abc import Sequence

from podium import Plan
from podium.workers import Worker
from podium_evals.arms.arm import Answered
from podium_evals.arms.run_scores import latency
from podium_evals.recorded import NO_ANSWER, Question, RecordedWorker, Recordings, Reducer, Sample

ASK = "Answer the question."


def looked_up(
    plan: Plan, question: Question, pool: Sequence[Worker], recordings: Recordings
) -> Answered | None:
    """Return the result that a run of this plan would have, without the run.

    Args:
        plan: the plan. One worker is asked the question by the subtask `ASK`; or several workers are, and a
            reducer chooses among all of their answers.
        question: the question.
        pool: recorded workers and reducers.
        recordings: the scores.

    Returns:
        `None` if the plan is of another form, or a worker has no answer to the question. Such a plan needs a
        run.
    """
    *steps, last = plan.calls
    chosen_by = pool[last.worker]
    reducer = chosen_by if isinstance(chosen_by, Reducer) else None
    if reducer is None:
        steps.append(last)
    is_plain = len(steps) == 1 if reducer is None else sorted(last.access) == list(range(len(steps)))
    if not (steps and is_plain):
        return None
    asked: list[tuple[RecordedWorker, Sample]] = []
    for number, step in enumerate(steps):
        worker = pool[step.worker]
        if not isinstance(worker, RecordedWorker) or step.access or step.subtask != ASK:
            return None
        sample = worker.sample_at(question, number)
        if sample is None:
            return None
        asked.append((worker, sample))
    return _answered(asked, reducer, question, recordings)


def _answered(
    asked: Sequence[tuple[RecordedWorker, Sample]],
    reducer: Reducer | None,
    question: Question,
    recordings: Recordings,
) -> Answered:
    texts = [sample.text if sample.text.strip() else NO_ANSWER for _, sample in asked]
    answer = texts[0] if reducer is None else reducer.reduced(question.text, texts)
    score = recordings.score(question, answer)
    usages = [worker.usage_of(question, sample) for worker, sample in asked]
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
        tokens=sum(usage.total_tokens for usage in usages),
        cost=sum(costs) if len(costs) == len(asked) else None,
        latency_s=max(known) if len(known) == len(seconds) else None,
        unrecorded="" if score is not None else f"the answer {answer[:80]!r} has no score",
    )
