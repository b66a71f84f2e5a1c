"""Folds: splits of a recording into answers to fit arms on and questions that are new to them."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

from podium_evals.arms.arm import Fold
from podium_evals.errors import ArmUnfit
from podium_evals.recorded import Recordings, make_bundles
from podium_evals.statistics import halves, leave_kinds_out
from podium_evals.statistics.splits import Places

SplitName = Literal["questions", "kinds", "workers"]
"""What is new to an arm: only the questions, the questions and their kinds, or the questions and one
worker."""


def folds(
    recordings: Recordings,
    split: SplitName,
    *,
    count: int = 5,
    seed: int = 0,
    questions: int | None = None,
    probes: int = 0,
) -> Iterator[Fold]:
    """Yield the folds of a split.

    - `questions`: one fold. Arms are fitted on half of each kind and asked the other half.
    - `kinds`: `count` folds. Each kind is asked in one fold, in which arms are fitted on other kinds.
    - `workers`: one fold for each worker. Arms are fitted on half of the questions, without this worker.

    Args:
        recordings: recorded answers of the pool. Each worker has answered each question.
        split: what is new to arms.
        count: the number of folds of kinds.
        seed: the seed of the split.
        questions: the maximum number of questions that arms are asked in a fold; `None` asks all. Each arm is
            asked the same questions.
        probes: the number of probes of each kind: questions that arms are not asked, and whose scores they
            may read. Only with the split `kinds`.

    Raises:
        ArmUnfit: a worker has not answered a question, there are too few kinds or workers to split, or
            `probes` is set for another split than `kinds`.
    """
    if probes and split != "kinds":
        raise ArmUnfit("probes need the split `kinds`")
    incomplete = [worker for worker in recordings.workers if not _has_all(recordings, worker)]
    if incomplete:
        raise ArmUnfit(f"{incomplete[0]!r} has not answered each question: use `recordings.only(pool)`")
    if split == "kinds":
        try:
            parts = list(leave_kinds_out(recordings.questions, folds=count, seed=seed))
        except ValueError as error:
            raise ArmUnfit(str(error)) from error
        for others, left_out in parts:
            new = _at(recordings, left_out)
            probed = _probes(new, probes, seed)
            test = new.where(lambda question, probed=probed: question.split_key not in probed)  # type: ignore[misc]
            yield Fold(
                train=_at(recordings, others),
                test=_some(test, questions, seed),
                probes=new.where(lambda question, probed=probed: question.split_key in probed)  # type: ignore[misc]
                if probes
                else None,
            )
        return
    first, second = halves(recordings.questions, seed=seed)
    train, test = _at(recordings, first), _some(_at(recordings, second), questions, seed)
    if split == "questions":
        yield Fold(train=train, test=test)
        return
    if len(recordings.workers) < 3:
        raise ArmUnfit("the pool has fewer than three workers, so none can be left out")
    for worker in recordings.workers:
        rest = [name for name in recordings.workers if name != worker]
        yield Fold(train=train.only(rest), test=test)


def bundled(fold: Fold, count: int, *, seed: int = 0) -> Fold:
    """Return the fold with bundles of its questions, which are asked in place of the single questions.

    A bundle has two to five parts of different kinds.

    Raises:
        RecordingInvalid: there are too few questions or kinds for so many bundles.
    """
    sizes = (2, max(2, min(5, len(fold.test.kinds))))
    return replace(fold, bundles=make_bundles(fold.test, count, seed=seed, sizes=sizes))


def _has_all(recordings: Recordings, worker: str) -> bool:
    return all(recordings.samples(question, worker) for question in recordings.questions)


def _at(recordings: Recordings, places: Places) -> Recordings:
    questions = recordings.questions
    return _only(recordings, {questions[place].key for place in places.tolist()})


def _only(recordings: Recordings, keys: set[str]) -> Recordings:
    return recordings.where(lambda question: question.key in keys)


def _probes(recordings: Recordings, count: int, seed: int) -> set[str]:
    """Return the split keys of some questions of each kind; the seed chooses the questions."""
    drawn: set[str] = set()
    for kind in recordings.kinds if count else ():
        found = {each.split_key: each.position(seed) for each in recordings.questions if each.kind == kind}
        drawn.update(sorted(found, key=lambda key: (found[key], key))[:count])
    return drawn


def _some(recordings: Recordings, most: int | None, seed: int) -> Recordings:
    if most is None:
        return recordings
    drawn = sorted(recordings.questions, key=lambda question: (question.position(seed), question.key))[:most]
    return _only(recordings, {question.key for question in drawn})
