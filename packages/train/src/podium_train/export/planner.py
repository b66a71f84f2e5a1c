"""The planner of a trained conductor."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace

from podium.errors import ConfigError
from podium.planners import ChatPlanner, PlanRequest, PlanText
from podium.workers import Worker
from podium_train.export.facts import ConductorFacts
from podium_train.export.pool import check_pool
from podium_train.prompts import fingerprint


class ConductorPlanner(ChatPlanner):
    """Asks a trained conductor with exactly the prompt of its training.

    Args:
        worker: calls the conductor's model.
        facts: how the conductor was trained.

    Raises:
        ConfigError: the installed Podium writes another prompt than the one of the training.
    """

    def __init__(self, worker: Worker, facts: ConductorFacts) -> None:
        style = facts.style
        found = fingerprint(style)
        if found != facts.fingerprint:
            prompts = f"the prompt {facts.fingerprint}, and this Podium writes {found}"
            raise ConfigError(
                f"the conductor was trained with {prompts}: install the Podium of the training, or train the "
                "conductor again"
            )
        super().__init__(
            worker,
            spelling=style.spelling,
            show=style.show,
            examples=style.examples,
            reasons=style.reasons,
            constrain=False,
        )
        self._max_steps, self._rounds = style.max_steps, style.rounds
        self._prefill = style.prefill
        self._facts = facts

    def warnings(self, workers: Sequence[Worker]) -> Sequence[str]:
        """Return how the workers' cards differ from the cards of the training.

        Raises:
            ConfigError: the pool lacks a worker without which the plans of the training cannot run.
        """
        return tuple(check_pool(self._facts, workers))

    def plan(self, request: PlanRequest) -> AsyncGenerator[str | PlanText, None]:
        """Call the model and yield its text, after the prefill that the model's chat template has.

        Raises:
            ConfigError: the run allows another number of steps than the training, shows workers another part
                of the question, or asks for a second round that was not trained; a conductor reports it as a
                `PlannerError`.
        """
        if request.may_keep and self._rounds == 1:
            raise ConfigError(
                "the conductor was trained for one round: write rounds = 1 in [limits], or train it with "
                "[recursion]"
            )
        if request.max_steps != self._max_steps:
            trained = f"the conductor was trained with plans of up to {self._max_steps} steps"
            raise ConfigError(
                f"{trained}, and the run allows {request.max_steps}: write "
                f"plan_steps = {self._max_steps} in [limits]"
            )
        if request.shows_question is not self._facts.pool.shows_question:
            shown, key = ("saw", "true") if self._facts.pool.shows_question else ("did not see", "false")
            raise ConfigError(
                f"in the training of the conductor, workers {shown} the question: write "
                f"show_question = {key} in [conductor]"
            )
        return self._after_prefill(super().plan(request))

    async def _after_prefill(
        self, call: AsyncGenerator[str | PlanText, None]
    ) -> AsyncGenerator[str | PlanText, None]:
        before = self._prefill
        async with aclosing(call) as pieces:
            async for piece in pieces:
                if isinstance(piece, PlanText):
                    yield replace(piece, text=self._prefill + piece.text)
                else:
                    yield before + piece
                    before = ""
