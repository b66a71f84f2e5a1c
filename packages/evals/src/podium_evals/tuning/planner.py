"""The planner that `podium evals tune` writes, and its table in `podium.toml`.

Imports are few, because any command may read the table.
"""

from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from podium.config import AddedPlanner
from podium.errors import ConfigError, PlannerError
from podium.plan_text import write_plan
from podium.planners import Planner, PlanRequest, PlanText
from podium.types import Plan, Step
from podium.types.references import literal
from podium.workers import Worker
from podium.workers.rates import kind_of, measured_kinds, rate_on

VOTE = "vote"


class TunedPlanner(Planner):
    """Sends each question to the same workers, or to the best worker of its kind.

    Args:
        workers: the names of the workers that answer; a name may repeat. If there are several, the worker
            `vote` chooses the most frequent answer.
        by_kind: whether a question whose kind has measured rates on the cards goes to the worker with the
            highest rate, in place of `workers`.
    """

    name = "tuned"

    def __init__(self, workers: Sequence[str], *, by_kind: bool = False) -> None:
        if not workers:
            raise ConfigError("workers is empty: name the workers that answer")
        self._workers = tuple(workers)
        self._by_kind = by_kind

    async def plan(self, request: PlanRequest) -> AsyncGenerator[str | PlanText, None]:
        """Write the plan.

        Raises:
            PlannerError: the pool lacks a worker.
        """
        question = request.query[-1].text
        names = [card.name for card in request.cards]
        chosen, why = self._workers, f"{', '.join(self._workers)}: measured by podium evals tune"
        kind = kind_of(question, measured_kinds(request.cards)) if self._by_kind else None
        if kind is not None:
            rates = {card.name: rate.rate for card in request.cards if (rate := rate_on(card, kind))}
            chosen = (max(rates, key=lambda name: rates[name]),)
            why = f"{chosen[0]}: the best rate on {kind.name!r}, {rates[chosen[0]]:.2f}"
        needed = (*chosen, VOTE) if len(chosen) > 1 else chosen
        if missing := [name for name in needed if name not in names]:
            raise PlannerError(
                f"the plan needs {missing[0]!r}, but the pool has {', '.join(names)}", code="planner_refused"
            )
        asked = "Answer the question." if request.shows_question else literal(question)
        steps = [Step(names.index(name), asked) for name in chosen]
        if len(chosen) > 1:
            steps.append(Step(names.index(VOTE), "Choose.", tuple(range(len(chosen)))))
        text = write_plan(Plan(tuple(steps)), "rows")
        if request.stream:
            yield text
        yield PlanText(text=text, why=why, cost=0.0)


class TunedSection(AddedPlanner):
    """`[planner]` of type `tuned`, which `podium evals tune` writes: the same workers for each question."""

    type: Literal["tuned"]
    """Kind of the planner."""
    ask: Annotated[tuple[str, ...], Field(min_length=1)]
    """Names of the workers that answer; of several answers, the most frequent one wins."""
    by_kind: bool = False
    """Whether a question of a measured kind goes to the worker with the best rate."""

    def build(self, folder: Path, workers: Sequence[str]) -> Planner:  # noqa: ARG002 - there are no paths
        """Build the planner.

        Raises:
            ConfigError: `podium.toml` lacks one of the workers.
        """
        if missing := [name for name in self.ask if name not in workers]:
            raise ConfigError(f"'ask' in [planner]: there is no [workers.{missing[0]}]")
        return TunedPlanner(self.ask, by_kind=self.by_kind)

    def workers(self, folder: Path) -> Sequence[Worker]:  # noqa: ARG002 - no file is read
        """Return the worker that counts votes, if several workers are asked."""
        if len(self.ask) == 1:
            return ()
        from podium_evals.grading.answers import final_answer  # noqa: PLC0415 - used by votes only
        from podium_evals.recorded import Vote  # noqa: PLC0415 - as above

        return (Vote(read=final_answer),)
