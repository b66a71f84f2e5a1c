"""An arm for a planner of your own: a prompted chat model, a trained conductor, or code."""

from collections.abc import Callable
from dataclasses import replace

from podium.planners import Planner, PlanRequest
from podium.types import Message
from podium_evals.arms.arm import Fold
from podium_evals.arms.choosing import ASK
from podium_evals.arms.planner_arm import PlannerArm
from podium_evals.arms.wrapped_planner import WrappedPlanner

_OF_QUESTION = f"""

The workers' answers are recorded. A worker has an answer to the whole question and to nothing else. So \
give each model the subtask "{ASK}" and an empty access list. To choose among the answers of several \
steps, end with a step of vote, first-agreeing or longest that has those steps on its access list."""
_OF_BUNDLE = """

The workers' answers are recorded. A worker has an answer to one whole part and to nothing else. So ask \
each part in a step of its own, with nothing but the text of the part as the subtask: {{part_1}} stands \
for the text of part 1, and so on. Write out a part that needs the answer to another one, with {{n}} in \
place of the missing number, n being the step of that answer. End with a step of join-parts that has the \
steps of all parts on its access list, in the order of the parts."""


class GivenPlanner(PlannerArm):
    """An arm for any `podium` planner, such as a chat model on an OpenAI-compatible server.

    A recording has answers only to the exact texts of its questions, but planners often rephrase questions. A
    planner that was not trained on recordings should know this rule; otherwise most of its steps are
    unrecorded.

    Args:
        name: the name in tables.
        planner: the planner, or a function that returns one for a fold.
        is_told: whether the planner's prompt says which subtasks recorded workers can answer. Use `False` for
            a conductor that was trained without this text.
        at_once: number of runs at the same time.
    """

    waits = True

    def __init__(
        self,
        name: str,
        planner: Planner | Callable[[Fold], Planner],
        *,
        is_told: bool = True,
        at_once: int = 8,
    ) -> None:
        super().__init__(name)
        self._planner = planner
        self._is_told = is_told
        self.at_once = at_once

    def planner(self, fold: Fold, seed: int) -> Planner:  # noqa: ARG002 - the interface has both parameters
        """Return the planner."""
        planner = self._planner if isinstance(self._planner, Planner) else self._planner(fold)
        if not self._is_told:
            return planner
        return told_planner(planner, of_bundles=bool(fold.bundles))


def told_planner(planner: Planner, *, of_bundles: bool) -> Planner:
    """Return a planner whose prompt says which subtasks recorded workers can answer.

    A planner without a model is returned as it is: it would read the text as a part of the question.

    Args:
        planner: the planner.
        of_bundles: whether it plans bundles; otherwise it plans single questions.
    """
    return planner if planner.card is None else _Told(planner, _OF_BUNDLE if of_bundles else _OF_QUESTION)


class _Told(WrappedPlanner):
    """A planner that appends a text to the question for another planner."""

    def __init__(self, planner: Planner, text: str) -> None:
        super().__init__(planner)
        self._text = text

    def shown(self, request: PlanRequest) -> PlanRequest:
        *before, question = request.query
        return replace(request, query=(*before, Message("user", question.text + self._text)))
