"""The base class of planners.

A planner gets a query and the workers' cards, and returns plan text in any of the three
spellings. The run parses and checks the text and counts its cost.
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
"""Number of steps that a prompt asks for with up to three workers, as in the paper."""


@dataclass(frozen=True, slots=True)
class Turn:
    """An earlier text of the planner, and the feedback on it."""

    text: str
    feedback: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """One call of a planner."""

    query: tuple[Message, ...]
    """The conversation; its last message is the question."""
    context: tuple[tuple[str, int], ...] = ()
    """The run's named texts: the name and the length in characters of each."""
    cards: tuple[Card, ...]
    """The workers' cards; their order gives the numbers of the workers in the plan."""
    max_steps: int
    """Maximum number of steps; a longer plan is invalid."""
    turns: tuple[Turn, ...] = ()
    """Earlier texts of the planner, oldest first: a plan to repair, or the plans of earlier rounds."""
    may_keep: bool = False
    """Whether a plan without steps, which keeps the previous answer, is valid."""
    shows_question: bool = True
    """Whether workers see the question in addition to their subtask."""
    fills: tuple[int, ...] = ()
    """Indices in `cards` of the workers that read no prose; in the subtasks of these workers, outputs replace
    `{{n}}`.
    """
    acts: tuple[int, ...] = ()
    """Indices in `cards` of the workers whose steps are actions."""
    done: tuple[str, ...] = ()
    """The actions of earlier plans, each in words, with its end."""
    left: Remaining | None = None
    """The rest of the run's budget, rounded so that similar requests are equal; `None` if the budget has no
    limit.
    """
    max_tokens: int | None = None
    """Maximum tokens of the text, for planners without their own limit; `None` means no limit."""
    deadline: float | None = None
    """Time limit for the complete text, on the event loop's clock, in seconds; `None` means no limit."""
    stream: bool = True
    """Whether the run reads the text while the planner writes it."""
    middleware: CallMiddleware | None = None
    """Wraps the calls of the planner's worker; `None` calls the worker directly."""

    @property
    def asked_steps(self) -> int:
        """Number of steps to ask a model for: the number of workers + 2, at least 5, at most `max_steps`."""
        return asked_steps(self.max_steps, len(self.cards))


def asked_steps(max_steps: int, workers: int) -> int:
    """Return `PlanRequest.asked_steps` for a pool of `workers` workers."""
    return min(max_steps, max(_ASKED_STEPS, workers + 2))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanText:
    """A complete plan text."""

    text: str
    why: str = ""
    """Why the planner chose this plan, in a sentence without a full stop."""
    finish_reason: FinishReason = "stop"
    usage: Usage = Usage()
    cost: float | None = None
    """In USD; `None` when unknown."""


class Planner(ResourceGroup, ABC):
    """Base class of planners. As an async context manager it keeps its connections open between calls."""

    name: str
    """Name of the planner in events and results."""
    spelling: Spelling = "rows"
    """The spelling of its plans."""
    worker: Worker | None = None
    """The worker that the planner calls; `None` if it calls none."""
    reads_cards: bool = True
    """Whether the worker numbers in the plan are positions in the request's `cards`.

    A planner whose plan was written in advance sets `False`; it then gets the cards of all workers.
    """

    @property
    def card(self) -> Card | None:
        """The card of the planner's worker; `None` if it calls no worker, and plans cost nothing."""
        return None if self.worker is None else self.worker.card

    @abstractmethod
    def plan(self, request: PlanRequest) -> AsyncGenerator[str | PlanText, None]:
        """Yield pieces of the plan's text as they arrive, then one `PlanText` with the whole text.

        Implementations are async generators. A caller that stops early must call `aclose` of the generator.

        Raises:
            PodiumError: the planner gave no plan text.
        """

    def order(self, workers: int, run_id: str) -> Sequence[int]:
        """Return the order in which the planner sees the workers of this run, as numbers of the pool."""
        del run_id
        return range(workers)

    def worst_case(self, request: PlanRequest, answer_tokens: int) -> Spend:
        """Return the maximum that a call may spend; nothing for a planner that calls no worker.

        Args:
            request: the call.
            answer_tokens: tokens of a text without a length limit.
        """
        del request, answer_tokens
        return Spend()

    def warnings(self, workers: Sequence[Worker]) -> Sequence[str]:
        """Return why plans for these workers may be worse than the planner can write; by default nothing.

        Each text names the reason and the remedy.
        """
        del workers
        return ()

    def messages(self, request: PlanRequest) -> Sequence[Message]:
        """Return the messages that are sent to the planner's model, by default the conversation.

        If the model reports no usage, it is estimated from these messages.
        """
        return request.query
