"""The score of a plan whose answers were looked up, as `podium_evals.arms` scores a run."""

from collections.abc import Mapping

from podium.types import Plan
from podium_evals.arms import follows_an_error, part_asked
from podium_evals.recorded import NO_ANSWER, Bundle, Part, Question, Recordings, normalised
from podium_train.environments.recorded.executor import StepEnd


class RecordedScores:
    """Scores answers that some worker gave.

    Args:
        recordings: recorded answers, all with a score.
    """

    def __init__(self, recordings: Recordings) -> None:
        self._recordings = recordings
        self._of_question: dict[str, dict[str, float]] = {}

    def of_plan(self, query: Question | Bundle, plan: Plan, ends: Mapping[int, StepEnd]) -> float | None:
        """Return the score of a plan; `None` if it asked something that was not recorded.

        In a bundle, a part that needs the answer to another part was not recorded with a wrong answer to it.
        Such a part scores 0.

        Args:
            query: the question or the bundle.
            plan: the plan.
            ends: how its needed steps ended.
        """
        answer = ends[len(plan.calls) - 1].text or ""
        allowed: Part | None = None
        if isinstance(query, Bundle):
            scores = query.score(answer, self._of_answer)
            score, allowed = scores.whole, follows_an_error(query, scores.parts)
        else:
            score = self._of_answer(query.text, answer)
        for number, end in ends.items():
            if end.is_unrecorded:
                asked = part_asked(plan.calls[number], query) if isinstance(query, Bundle) else None
                if asked is None or asked is not allowed:
                    return None
        return score

    def _of_answer(self, text: str, answer: str) -> float | None:
        """Return what `Recordings.score` returns; it reads all answers to a question once."""
        wanted = normalised(answer)
        if wanted in ("", NO_ANSWER):
            return 0.0
        question = self._recordings.find(text)
        if question is None:
            return None
        if question.key not in self._of_question:
            self._of_question[question.key] = self._read(question)
        return self._of_question[question.key].get(wanted)

    def _read(self, question: Question) -> dict[str, float]:
        found: dict[str, float] = {}
        for worker in self._recordings.workers:
            for sample in self._recordings.samples(question, worker):
                found.setdefault(normalised(sample.text), sample.score or 0.0)
        return found
