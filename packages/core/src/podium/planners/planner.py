"""The seam between a run and whoever plans it: one method.

A planner is given a query and the workers' cards and answers with plan text, in any of
the three spellings. Reading that text, judging it and paying for it are not its business.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

from podium.aio.resources import ResourceGroup
from podium.budget.spend import Remaining, Spend
from podium.plan_text.writer import Spelling
from podium.types.messages import FinishReason, Message
from podium.usage import Usage
from podium.workers.worker import CallMiddleware, Card, Worker

_ASKED_STEPS = 5
"""How many steps are asked for with few workers; as many as in the paper."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A text the planner wrote before, and what is to be said to it."""

    text: str
    feedback: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """One call of a planner."""

    query: tuple[Message, ...]
    """The conversation, its question last."""
    context: tuple[tuple[str, int], ...] = ()
    """The run's named texts: the name and the length in characters of each."""
    cards: tuple[Card, ...]
    """The workers, in the order in which the plan is to number them."""
    max_steps: int
    """Most steps the plan may have; a longer one is refused."""
    turns: tuple[Turn, ...] = ()
    """What was written before, oldest first: a plan to repair, or the plans of earlier rounds."""
    may_keep: bool = False
    """Whether a plan of no steps, which keeps the previous answer, has a place."""
    shows_question: bool = True
    """Whether workers will be shown the question besides their subtask."""
    fills: tuple[int, ...] = ()
    """Places in `cards` of the workers that read no prose: in their subtasks outputs replace `{{n}}`."""
    left: Remaining | None = None
    """What the run may still spend, in round figures, so that requests which differ by little
    are the same; `None` where nothing is limited that could run out."""
    max_tokens: int | None = None
    """Most tokens of the text, for a planner that bounds it by nothing of its own; `None` sets no bound."""
    deadline: float | None = None
    """When the text must be whole, on the event loop's clock, in seconds; `None` means any time."""
    stream: bool = True
    """Whether the text is read while it is written."""
    middleware: CallMiddleware | None = None
    """How a worker is called that plans; `None` calls it."""

    @property
    def asked_steps(self) -> int:
        """Most steps to ask a model for: two more than there are workers, at least 5, at most `max_steps`."""
        return min(self.max_steps, max(_ASKED_STEPS, len(self.cards) + 2))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanText:
    """A whole plan text."""

    text: str
    why: str = ""
    """What the planner has to say of its choice, in a sentence without a full stop."""
    finish_reason: FinishReason = "stop"
    usage: Usage = Usage()
    cost: float | None = None
    """In USD; `None` when it is unknown."""


class Planner(ResourceGroup, ABC):
    """Something that plans. Used as a worker is: enter it to keep open what it holds open."""

    name: str
    """What events and results call it."""
    spelling: Spelling = "rows"
    """How it writes its plans."""
    worker: Worker | None = None
    """Whom it asks; `None` when it asks nobody."""
    reads_cards: bool = True
    """Whether it numbers the workers it is shown; one that writes a plan made beforehand is shown all."""

    @property
    def card(self) -> Card | None:
        """The card of whom it asks; `None` when it asks nobody, and a plan costs nothing."""
        return None if self.worker is None else self.worker.card

    @abstractmethod
    def plan(self, request: PlanRequest) -> AsyncGenerator[str | PlanText, None]:
        """Plan: yield pieces of text as they come, then one `PlanText` with all of it.

        Implementations are async generators. A caller who stops early must `aclose` it.

        Raises:
            PodiumError: there is no plan text, and why.
        """

    def order(self, workers: int, run_id: str) -> Sequence[int]:
        """Return the order in which this run's workers are shown, as numbers of the pool."""
        del run_id
        return range(workers)

    def worst_case(self, request: PlanRequest, answer_tokens: int) -> Spend:
        """Return the most that planning may spend; nothing, for a planner that asks nobody.

        Args:
            request: the call.
            answer_tokens: what a text counts as whose length nobody bounds.
        """
        del request, answer_tokens
        return Spend()

    def messages(self, request: PlanRequest) -> Sequence[Message]:
        """Return the messages that its model is sent, by default the question.

        Tokens that nobody reported are estimated from them.
        """
        return request.query
