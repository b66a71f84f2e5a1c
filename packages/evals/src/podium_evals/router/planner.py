"""The router as a planner without a model; arms that choose workers by measured scores."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence

import numpy as np

from podium.errors import ConfigError, PlannerError
from podium.plan_text import write_plan
from podium.planners import Planner, PlanRequest, PlanText
from podium.types import Plan, Step
from podium.workers import Card, Kind
from podium.workers.rates import kind_of
from podium_evals.arms import ASK, Fold
from podium_evals.arms.baselines import best_of
from podium_evals.arms.planners import ChoosingArm, arm_pool
from podium_evals.calibration import measured_file, with_measured
from podium_evals.errors import ArmUnfit, RouterInvalid, Unrecorded
from podium_evals.recorded import Question
from podium_evals.router.router import LEAST_QUESTIONS, Goal, Router, choose, fit_for, fit_router


class RouterPlanner(Planner):
    """A planner that chooses workers by their predicted scores.

    The workers of the pool are found by name. A worker that the router does not know is chosen only if its
    card has a measured rate for the question's kind. Measured rates on cards also correct the predictions for
    questions of their kind.

    Without a `worth`, the worker with the best prediction answers; of equal workers, the cheapest. With it,
    the worker with the highest `prediction - cost / worth` answers: a cheap worker, unless a more expensive
    worker is sufficiently better.

    Args:
        router: the router.
        worth: the worth of a right answer, in USD. Default: the worth that the router was fitted for, if any.

    Raises:
        ConfigError: `worth` is not above 0, or the cost of a worker is not known.
    """

    name = "router"

    def __init__(self, router: Router, *, worth: float | None = None) -> None:
        worth = router.facts.worth if worth is None else worth
        if worth is not None:
            if not worth > 0:
                raise ConfigError(f"worth is {worth}: it must be above 0")
            costs = zip(router.facts.workers, router.facts.costs, strict=True)
            if unknown := [name for name, cost in costs if cost is None]:
                raise ConfigError(f"worth needs all costs, and the cost of {unknown[0]} is not known")
        self._router, self._worth = router, worth

    async def plan(self, request: PlanRequest) -> AsyncGenerator[str | PlanText, None]:
        """Plan the question by the predicted scores.

        Raises:
            PlannerError: the pool has none of the router's workers.
        """
        question = request.query[-1].text
        plan, why = self.choose(question, request.cards, self._router.predict(question))
        text = write_plan(plan, "rows")
        if request.stream:
            yield text
        yield PlanText(text=text, why=why, cost=0.0)

    def choose(
        self, question: str, cards: Sequence[Card], predicted: Mapping[str, float]
    ) -> tuple[Plan, str]:
        """Return the plan for a question, and why it was chosen.

        Args:
            question: the question.
            cards: the cards of the workers; their order gives the numbers of the workers in the plan.
            predicted: the predictions of the router for the question.

        Raises:
            PlannerError: the pool has none of the router's workers.
        """
        numbers = {card.name: number for number, card in enumerate(cards)}
        predicted = with_measured(predicted, cards, question)
        facts = self._router.facts
        known = dict(zip(facts.workers, facts.costs, strict=True))
        costs = {name: known.get(name) for name in predicted if name in numbers}
        if not costs:
            raise PlannerError(
                f"the router knows {', '.join(predicted)}, but the pool has none of them: train a "
                f"router for the workers of this pool",
                code="planner_refused",
            )
        left = dict(costs)
        ranked: list[str] = []
        while left:
            scores = np.asarray([[predicted[name] for name in left]])
            ranked.append(list(left)[choose(scores, list(left.values()), self._worth)[0]])
            del left[ranked[-1]]
        plan = Plan((Step(numbers[ranked[0]], ASK),))
        why = "predicted scores: " + ", ".join(f"{name} {predicted[name]:.2f}" for name in ranked[:3])
        if self._worth is not None:
            why += f"; a right answer is worth ${self._worth:.4g}"
        return plan, why


class RouterArm(ChoosingArm):
    """A router that is fitted on the training questions."""

    def __init__(self, name: str = "learned router", goal: Goal | None = None) -> None:
        super().__init__(name)
        self._goal = goal

    def cards(self, fold: Fold, seed: int) -> Sequence[Card]:
        """Return the cards that the router sees."""
        return [worker.card for worker in arm_pool(fold, seed)]

    def chooser(self, fold: Fold, seed: int) -> Callable[[Question], Plan]:
        """Return the function that plans with the router."""
        key = RouterArm, self._goal
        if key not in fold.fits:
            fold.fits[key] = self._fit(fold)
        router, predicted = fold.fits[key]
        planner, cards = RouterPlanner(router), self.cards(fold, seed)

        def choose(question: Question) -> Plan:
            try:
                plan, _ = planner.choose(question.text, cards, predicted[question.key])
            except PlannerError as error:
                raise Unrecorded(str(error)) from error
            return plan

        return choose

    def _fit(self, fold: Fold) -> tuple[Router, Mapping[str, Mapping[str, float]]]:
        """Return the router, and its predictions for each question of `fold.test`, by the question's key."""
        if len(fold.train) < LEAST_QUESTIONS:
            there = f"there are {len(fold.train)}, and {len(fold.test)} are held out"
            raise ArmUnfit(f"a router is fitted on at least {LEAST_QUESTIONS} questions: {there}")
        try:
            router = fit_router(fold.train) if self._goal is None else fit_for(self._goal, fold.train)
        except RouterInvalid as error:
            raise ArmUnfit(str(error)) from error
        questions = fold.test.questions
        rows = router.predict_all([question.text for question in questions]).tolist()
        return router, {
            question.key: dict(zip(router.facts.workers, row, strict=True))
            for question, row in zip(questions, rows, strict=True)
        }


def tier_arm(goal: Goal) -> RouterArm:
    """Return a router that weighs prices, for a wanted mean cost or score, as an arm."""
    wanted = f"${goal.value:g}" if goal.of == "price" else f"a score of {goal.value:g}"
    return RouterArm(f"router for {wanted}", goal)


class FoundKind(ChoosingArm):
    """The worker with the best measured rate on the kind answers; the kind is found from the text.

    The arm and a run with the written rates choose the same worker. A question that is not similar to a
    measured kind goes to the best single worker.
    """

    def __init__(self) -> None:
        super().__init__("best of the kind")

    def chooser(self, fold: Fold, seed: int) -> Callable[[Question], Plan]:  # noqa: ARG002 - the interface has both parameters
        """Return plans with the best worker of each kind."""
        kinds = measured_file(fold.train).kinds
        best = {
            name: max(entry.rates, key=lambda worker, entry=entry: entry.rates[worker].rate)  # type: ignore[misc]
            for name, entry in kinds.items()
        }
        return by_kind(fold, best, [Kind(name, entry.questions) for name, entry in kinds.items()])


def by_kind(fold: Fold, best: Mapping[str, str], kinds: Sequence[Kind]) -> Callable[[Question], Plan]:
    """Return plans with the best worker of each kind, which is found from the text of a question."""
    plans = {name: Plan((Step(number, ASK),)) for number, name in enumerate(fold.test.workers)}
    otherwise, known = best_of(fold.train), tuple(kinds)
    of_question: dict[str, Kind | None] = fold.fits.setdefault(known, {})

    def choose(question: Question) -> Plan:
        if question.key not in of_question:
            of_question[question.key] = kind_of(question.text, known)
        kind = of_question[question.key]
        return plans[otherwise if kind is None else best[kind.name]]

    return choose
