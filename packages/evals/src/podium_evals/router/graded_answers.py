"""Selects the recorded answers that train a router: graded answers to questions that all workers answered."""

from collections.abc import Sequence

from podium_evals.errors import RouterInvalid
from podium_evals.recorded import PriceTable, Recording, Recordings

UNGRADED = "it has no score"
"""The reason why an answer is left out."""


def joined(parts: Sequence[Recordings]) -> Recordings:
    """Join several recordings. If a worker answered a question in two of them, the first answers are used."""
    if len(parts) == 1:
        return parts[0]
    left_out = sum((part.left_out for part in parts[1:]), parts[0].left_out)
    prices = PriceTable(price for part in parts for price in part.prices)
    return Recordings((each for part in parts for each in part), parts[0].provenance, left_out, prices)


def graded_answers(recordings: Recordings, workers: Sequence[str]) -> Recordings:
    """Return the graded answers of workers to the questions to which all of these workers have one.

    Raises:
        RouterInvalid: there are no such answers.
        RecordingInvalid: the recording lacks a worker.
    """
    left_out = recordings.left_out.copy()

    def graded() -> Sequence[Recording]:
        found = []
        for each in recordings:
            samples = tuple(sample for sample in each.samples if sample.score is not None)
            if samples:
                found.append(Recording(each.question, each.worker, samples))
            if len(samples) < len(each.samples):
                left_out[UNGRADED] += len(each.samples) - len(samples)
        return found

    having_scores = recordings.with_answers(graded(), left_out)
    if not len(having_scores):
        raise RouterInvalid(
            "no answer in the recording has a score: record with --grader, as in "
            "`podium evals record ask QUESTIONS --out FILE --grader number`"
        )
    unscored = (set(workers) & set(recordings.workers)) - set(having_scores.workers)
    if unscored:
        raise RouterInvalid(f"no answer of {min(unscored)!r} has a score: record its answers with --grader")
    common = having_scores.only(workers)
    if not len(common):
        raise RouterInvalid(
            f"no question has a graded answer of each of {', '.join(workers)}: "
            "`podium evals record ask QUESTIONS --out FILE` asks for the missing answers"
        )
    return common
