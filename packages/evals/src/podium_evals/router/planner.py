"""A planner that chooses workers by a router's predictions. It calls no model."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Literal

import numpy as np

from podium.errors import ConfigError, PlannerError
from podium.plan_text import write_plan
from podium.planners import Planner, PlanRequest, PlanText
from podium.types import Plan, Step
from podium.workers import Card
from podium_evals.arms import ASK
from podium_evals.arms.baselines import vote_plan
from podium_evals.calibration.shift import with_measured
from podium_evals.router.choice import choose
from podium_evals.router.router import Router

Strategy = Literal["best", "value", "vote"]
"""How a question is planned: one step of the worker with the best prediction; one step of the worker that is
worth its price; or steps of the best workers and a vote."""


class RouterPlanner(Planner):
    """A planner that chooses workers by their predicted scores.

    The workers of the pool are found by name. A worker that the router does not know is chosen only if its
    card has a measured rate for the question's kind. Measured rates on cards also correct the predictions for
    questions of their kind.

    - `best`: one step, of the worker with the best prediction; of equal workers, the cheapest.
    - `value`: one step, of the worker with the highest `prediction - cost / worth`. A cheap worker answers
      unless a more expensive worker is sufficiently better.
    - `vote`: the `voters` workers with the best predictions answer; then the worker named `vote` chooses an
      answer.

    Args:
        router: the router.
        strategy: how a question is planned; `None` means `value` if the router has a tier, else `best`.
        voters: the number of workers in a vote.
        worth: the worth of a right answer, in USD; `None` is the worth in the router's tier.
        vote: the name of the worker that chooses the answer in a vote.

    Raises:
        ConfigError: fewer than two voters; or a `value` strategy without a `worth` above 0, or without the
            costs of all workers.
    """

    name = "router"

    def __init__(
        self,
        router: Router,
        *,
        strategy: Strategy | None = None,
        voters: int = 3,
        worth: float | None = None,
        vote: str = "vote",
    ) -> None:
        if voters < 2:
            raise ConfigError(f"voters is {voters}: a vote needs at least 2")
        worth = router.facts.worth if worth is None else worth
        if worth is not None and not worth > 0:
            raise ConfigError(f"worth is {worth}: it must be above 0")
        if strategy is None:
            strategy = "best" if worth is None else "value"
        if strategy == "value":
            _check_value(router, worth)
        self._router = router
        self._strategy = strategy
        self._voters, self._vote = voters, vote
        self._worth = worth if strategy == "value" else None

    async def plan(self, request: PlanRequest) -> AsyncGenerator[str | PlanText, None]:
        """Plan the question by the predicted scores.

        Raises:
            PlannerError: the pool lacks the workers that the strategy needs.
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
            PlannerError: the pool lacks the workers that the strategy needs.
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
        if self._strategy == "vote":
            plan = self._vote_plan(ranked[: self._voters], numbers)
        else:
            plan = Plan((Step(numbers[ranked[0]], ASK),))
        why = "predicted scores: " + ", ".join(f"{name} {predicted[name]:.2f}" for name in ranked[:3])
        if self._worth is not None:
            why += f"; a right answer is worth ${self._worth:.4g}"
        return plan, why

    def _vote_plan(self, voters: Sequence[str], numbers: dict[str, int]) -> Plan:
        if self._vote not in numbers:
            raise PlannerError(
                f"a vote needs a worker called {self._vote!r}: the pool has {', '.join(numbers)}",
                code="planner_refused",
            )
        return vote_plan([numbers[name] for name in voters], numbers[self._vote])


def _check_value(router: Router, worth: float | None) -> None:
    if worth is None:
        raise ConfigError("strategy 'value' needs worth, or a router that was trained for a tier")
    facts = router.facts
    unknown = [name for name, cost in zip(facts.workers, facts.costs, strict=True) if cost is None]
    if unknown:
        raise ConfigError(f"strategy 'value' needs all costs, and the cost of {unknown[0]} is not known")
