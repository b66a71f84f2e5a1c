"""The steps of a plan while its text is being written."""

from collections.abc import Sequence

from podium.errors import PlanError
from podium.plan_text import PlanReader
from podium.types.steps import AnyStep


class PlanDraft:
    """The steps of a plan text that are complete. Only rows are complete before the end of the text.

    The numbers of workers are those that the planner was shown, and not always those of the run.

    Args:
        workers: the names of the workers.
        most: maximum number of steps.
        previous: whether access lists may name the previous round.
    """

    def __init__(self, workers: Sequence[str], most: int, *, previous: bool) -> None:
        self._reader: PlanReader | None = PlanReader(workers=workers, max_steps=most, previous=previous)
        self.steps: list[AnyStep] = []

    def add(self, text: str) -> Sequence[AnyStep]:
        """Add a piece of the text, and return the steps that it completes."""
        if self._reader is None:
            return ()
        try:
            steps = self._reader.feed(text)
        except PlanError:  # the end of the planner's call tells it
            self._reader = None
            return ()
        self.steps += steps
        return steps
