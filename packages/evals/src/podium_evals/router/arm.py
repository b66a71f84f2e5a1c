"""The router as an arm: fitted on the training questions, and compared on the others."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from podium import Plan
from podium.errors import PlannerError
from podium.workers import Card
from podium_evals.arms import ChoosingArm, Fold
from podium_evals.arms.planner_arm import arm_pool
from podium_evals.errors import ArmUnfit, RouterInvalid, Unrecorded
from podium_evals.recorded import Question, Recordings
from podium_evals.router.fitting import LEAST_QUESTIONS, fit_router
from podium_evals.router.planner import RouterPlanner
from podium_evals.router.router import Router


class RouterArm(ChoosingArm):
    """A router that is fitted on the training questions.

    Args:
        name: the name in tables.
        options: options of `RouterPlanner`.
    """

    def __init__(self, name: str = "learned router", **options: Any) -> None:
        super().__init__(name)
        self._options = options
        self._fitted: tuple[Fold, Router, Mapping[str, Mapping[str, float]]] | None = None

    def fit(self, recordings: Recordings) -> Router:
        """Return the router that is fitted on recorded answers.

        Raises:
            RouterInvalid: there are too few questions or workers, or an answer has no score.
        """
        return fit_router(recordings)

    def cards(self, fold: Fold, seed: int) -> Sequence[Card]:
        """Return the cards that the router sees."""
        return [worker.card for worker in arm_pool(fold, seed)]

    def chooser(self, fold: Fold, seed: int) -> Callable[[Question], Plan]:
        """Return the function that plans with the router.

        Raises:
            ArmUnfit: there are too few questions or workers to fit a router on.
        """
        router, predicted = self._fit(fold)
        planner, cards = RouterPlanner(router, **self._options), self.cards(fold, seed)

        def choose(question: Question) -> Plan:
            try:
                plan, _ = planner.choose(question.text, cards, predicted[question.key])
            except PlannerError as error:
                raise Unrecorded(str(error)) from error
            return plan

        return choose

    def _fit(self, fold: Fold) -> tuple[Router, Mapping[str, Mapping[str, float]]]:
        """Return the router, and its predictions for each question of `fold.test`, by the question's key."""
        if self._fitted is None or self._fitted[0] is not fold:
            if len(fold.train) < LEAST_QUESTIONS:
                there = f"there are {len(fold.train)}, and {len(fold.test)} are held out"
                raise ArmUnfit(f"a router is fitted on at least {LEAST_QUESTIONS} questions: {there}")
            try:
                router = self.fit(fold.train)
            except RouterInvalid as error:
                raise ArmUnfit(str(error)) from error
            questions = fold.test.questions
            rows = router.predict_all([question.text for question in questions]).tolist()
            predicted = {
                question.key: dict(zip(router.facts.workers, row, strict=True))
                for question, row in zip(questions, rows, strict=True)
            }
            self._fitted = fold, router, predicted
        return self._fitted[1:]
