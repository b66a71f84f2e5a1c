"""The base class of planners, a call of a planner, and planners with a fixed or a cached plan."""

import json
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from hashlib import sha256
from typing import Any, Literal, get_args

from podium.aio.loops import ResourceGroup
from podium.budget.ledger import Charged, Reservation, charge, charged_by
from podium.budget.limits import MAX_COST, Remaining, Spend, is_cost
from podium.errors import ConfigError, PlanError, PodiumError, WorkerError
from podium.plan_text.parser import MAX_CHARS, PlanReader, parse_plan
from podium.plan_text.saved import SavedPlan
from podium.plan_text.writer import Spelling, write_plan
from podium.types.messages import FinishReason, Message, Sampling, storable, usage_or_estimate
from podium.types.outcome import Problem, Proposal
from podium.types.plan import Plan
from podium.usage import Usage, is_well_formed
from podium.workers.pool import CircuitBreaker
from podium.workers.worker import CallMiddleware, Card, Worker, is_free, unreported_usage

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
    map_items: int = 256
    """Maximum items of a map, of which planners of workflows are told."""
    plans: tuple[SavedPlan, ...] = ()
    """The saved plans that the plan may name, of which planners of workflows are told."""
    loop_turns: int = 20
    """Maximum turns of a loop, of which planners of workflows are told."""
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
    asks: tuple[int, ...] = ()
    """Indices in `cards` of the persons."""
    tools: tuple[str, ...] = ()
    """Names of the tools of the run's caller."""
    callers: tuple[int, ...] = ()
    """Indices in `cards` of the workers that may call them."""
    done: tuple[str, ...] = ()
    """The actions of earlier plans, each in words, with its end."""
    left: Remaining | None = None
    """The rest of the run's budget, rounded so that similar requests are equal; `None` if the budget has no
    limit.
    """
    is_last: bool = False
    """Whether a planner that speaks turn by turn may write no further message."""
    sampling: Sampling = Sampling()
    """The caller's sampling settings for the answer, if the planner writes it."""
    max_tokens: int | None = None
    """Maximum tokens of the text, if the planner has no lower limit; `None` means no limit."""
    deadline: float | None = None
    """Time limit for the complete text, on the event loop's clock, in seconds; `None` means no limit."""
    stream: bool = True
    """Whether the run reads the text while the planner writes it."""
    middleware: CallMiddleware | None = None
    """Wraps the calls of the planner's worker; `None` calls the worker directly."""

    @property
    def asked_steps(self) -> int:
        """Number of steps to ask a model for: the number of workers + 2, at least 5, at most `max_steps`.

        It is at most the steps and calls that are left, but at least 1.
        """
        left = self.left or Remaining()
        most = [amount for amount in (left.steps, left.calls) if amount is not None]
        return max(1, min([asked_steps(self.max_steps, len(self.cards)), *most]))


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
    saved: SavedPlan | None = None
    """The saved plan that answers each question, without a call of the planner; `None` for none."""
    writes_workflows: bool = False
    """Whether its plans may have maps, conditions and blocks; it is then told how many calls are left."""
    rounds: int | None = None
    """Maximum number of rounds of a planner that speaks turn by turn, in place of `Limits.rounds`; `None` for
    a planner that writes a whole plan."""
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

    def read(self, request: PlanRequest, rest: str, reader: PlanReader) -> Plan:
        """Return the plan of a complete text; raise `PlanError` if there is no valid plan.

        Args:
            request: the call that gave the text.
            rest: the whole text, or nothing if it was streamed: then the reader has read it.
            reader: reads plans in the spellings of Podium.
        """
        del request
        return reader.close(rest)

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

        Raises:
            ConfigError: no plan of the planner fits these workers.
        """
        del workers
        return ()

    def messages(self, request: PlanRequest) -> Sequence[Message]:
        """Return the messages that are sent to the planner's model, by default the conversation.

        If the model reports no usage, it is estimated from these messages.
        """
        return request.query


_REASONS: tuple[FinishReason, ...] = get_args(FinishReason)


@dataclass(slots=True)
class PlannerCall:
    """A call of a planner that may still be running."""

    planner: Planner
    role: Literal["plan", "repair", "fallback"]
    pieces: list[str] = field(default_factory=list)
    whole: PlanText | None = None
    reserved: Reservation | None = None
    """The amount that is reserved for the call; `None` if the call was not made."""
    breaker: CircuitBreaker | None = None
    """The circuit breaker of the planner's model, if the model is also a worker of the pool; else `None`."""
    tries: bool = False
    """Whether this is a test call, which finds out if an unavailable model works again."""
    messages: Sequence[Message] = ()
    """The messages that are sent to the planner's model."""
    most: int = 0
    """Maximum tokens of the text that the request allows; 0 without a maximum."""
    cap: int | None = None
    """The cap of the text, if the limits of the run set it."""
    is_sent: bool = False
    """Whether the planner was called, which happens after the journal has recorded the call's start."""
    changed: str = ""
    """The policy's changes of the plan, in words."""

    @property
    def text(self) -> str:
        """The text so far, cut at the maximum length of a plan's text."""
        text = self.whole.text if self.whole is not None else "".join(self.pieces)
        return storable(text[:MAX_CHARS])

    def proposal(self, problem: Problem | None, error: PodiumError | None, seconds: float) -> Proposal:
        """Return the call as it appears in the result, with its tokens and cost."""
        usage, cost, charged, maybe_paid = self._bill(error)
        why = (self.whole.why if self.whole is not None else "", self.changed)
        return Proposal(
            planner=self.planner.name,
            text=self.text,
            role=self.role,
            asked=self.is_sent,
            why="; ".join(filter(None, why)),
            problem=problem,
            usage=usage,
            cost=cost,
            maybe_paid=maybe_paid,
            charged=charged,
            seconds=seconds,
        )

    def spent(self, proposal: Proposal) -> Spend:
        """Return the amount that the ledger counts for the call."""
        worst = Spend() if self.reserved is None or not self.is_sent else self.reserved.amount
        return charge(worst, proposal.usage, proposal.cost, proposal.charged)

    def _bill(self, error: PodiumError | None) -> tuple[Usage, float | None, Charged, bool]:
        """Return the tokens, the cost in USD, its source, and whether it is unknown if the call is billed."""
        free: tuple[Usage, float, Charged, bool] = (Usage(), 0.0, "usage", False)
        if not self.is_sent:
            return free
        assert self.reserved is not None
        whole, maybe_paid = self.whole, False
        charged: Charged | None = None
        if whole is not None:
            usage, told = self._measured(whole.usage), whole.cost
        elif isinstance(error, WorkerError) and error.usage is not None:
            usage = self._measured(error.usage)
            told = error.cost if is_cost(error.cost) else None
        elif not self.pieces and is_free(error, self.planner.card):
            return free
        elif self.planner.card is None and self.reserved.amount == Spend():
            return free  # the planner calls no worker
        else:
            usage, charged = unreported_usage(
                self.messages, self.text, error, self.reserved.amount, self.most
            )
            told, maybe_paid = None, True
        charged, cost = charged or charged_by(usage), self._cost(usage, told)
        if charged == "reservation":
            cost = charge(self.reserved.amount, usage, cost, charged).cost
        return usage, cost, charged, maybe_paid

    def _measured(self, usage: Usage) -> Usage:
        """Return the reported usage, or an estimate if it is impossible for a call of a model."""
        assert self.reserved is not None
        if not self.reserved.amount.output_tokens and is_well_formed(usage):
            return usage
        return usage_or_estimate(usage, self.messages, self.text, most=self.most)

    def _cost(self, usage: Usage, told: float | None) -> float | None:
        price = None if self.planner.card is None else self.planner.card.price
        return told if told is not None or price is None else price.cost(usage)


def misfit(whole: PlanText, pieces: Sequence[str]) -> str:
    """Return what is wrong with the plan text of a user's planner; empty if it is valid."""
    text: object = whole.text
    why: object = whole.why
    if not isinstance(text, str):
        return f"a PlanText whose text is {type(text).__name__}: it must be text"
    if not isinstance(why, str):
        return f"a PlanText whose why is {why!r:.80}: it must be text"
    if whole.finish_reason not in _REASONS:
        reasons = ", ".join(_REASONS)
        return f"a PlanText whose finish_reason is {whole.finish_reason!r:.80}: it must be one of {reasons}"
    if whole.cost is not None and not is_cost(whole.cost):
        return (
            f"a PlanText whose cost is {whole.cost!r:.80}: "
            f"it must be a number of USD, 0 or more and below {MAX_COST:g}, or None"
        )
    if pieces and "".join(pieces).split() != storable(text).split():
        return "pieces that differ from the text of its PlanText"
    return ""


class FixedPlanner(Planner):
    """Returns the same plan for every request.

    Args:
        plan: the plan, with the pool's numbers of workers; a text, which is returned unchanged, even if it is
            not a valid plan; or a saved plan, whose arguments are the question: a JSON object, or the text of
            its one parameter without a default.
        spelling: the spelling in which the plan is written; a text keeps its own.

    Raises:
        ConfigError: the plan is something else, such as a list.
    """

    name = "fixed"
    reads_cards = False

    def __init__(self, plan: Plan | SavedPlan | str, *, spelling: Spelling = "rows") -> None:
        if not isinstance(plan, Plan | SavedPlan | str):
            raise ConfigError(f"plan is {plan!r:.80}: give a Plan, a SavedPlan or the text of a plan")
        self.saved = plan if isinstance(plan, SavedPlan) else None
        self._text = write_plan(plan, spelling) if isinstance(plan, Plan) else str(plan)

    async def plan(self, request: PlanRequest) -> AsyncGenerator[str | PlanText, None]:
        """Yield the plan, line by line."""
        text = self._text
        if self.saved is not None:
            args = self.saved.arguments_of(request.query[-1].text)
            text = json.dumps({"plan": self.saved.name, "args": args}).replace("{{", r"\\{{")  # no references
        if request.stream:
            for line in text.splitlines(keepends=True):
                yield line
        yield PlanText(text=text, why="the plan is fixed", cost=0.0)


class PlannerAround(Planner):
    """Base class of planners that know the plans of some requests, and ask another planner for the others."""

    def __init__(self, planner: Planner, kind: str) -> None:
        if planner.rounds is not None:
            raise ConfigError(
                f"planner {planner.name!r} speaks turn by turn, so no other planner can wrap it"
            )
        self.spelling = planner.spelling
        self.reads_cards = planner.reads_cards
        self.writes_workflows = planner.writes_workflows
        self.worker = planner.worker
        self.name = f"{kind} {planner.name}"
        self._planner = planner

    @abstractmethod
    def known(self, request: PlanRequest) -> PlanText | None:
        """Return the plan of a request; `None` if the other planner must plan it."""

    def note(self, request: PlanRequest, text: PlanText) -> None:
        """Take note of a text that the other planner wrote for a request."""

    async def plan(self, request: PlanRequest) -> AsyncGenerator[str | PlanText, None]:
        """Yield the known plan, or call the other planner."""
        known = self.known(request)
        if known is not None:
            if request.stream:
                yield known.text
            yield known
            return
        async with aclosing(self._planner.plan(request)) as pieces:
            async for piece in pieces:
                if isinstance(piece, PlanText):
                    self.note(request, piece)
                yield piece

    def worst_case(self, request: PlanRequest, answer_tokens: int) -> Spend:
        """Return the maximum that the other planner may spend; nothing for a known plan."""
        return Spend() if self.known(request) else self._planner.worst_case(request, answer_tokens)

    def warnings(self, workers: Sequence[Worker]) -> Sequence[str]:
        """Return the warnings of the other planner."""
        return self._planner.warnings(workers)

    def messages(self, request: PlanRequest) -> Sequence[Message]:
        """Return the messages that the other planner sends to its model."""
        return self._planner.messages(request)

    def _parts(self) -> Sequence[AbstractAsyncContextManager[Any]]:
        return (self._planner,)


class CachedPlanner(PlannerAround):
    """Caches the plans of another planner.

    Two requests are the same if they differ only in `max_tokens`, `deadline`, `stream`
    and `middleware`. A cache hit costs nothing. Only complete texts with a valid plan are cached. If equal
    requests run at the same time, each request calls the planner.

    Args:
        planner: writes the plans.
        size: maximum number of plans in the cache; the least recently used plan is removed first.

    Raises:
        ConfigError: `size` is below 1.
    """

    def __init__(self, planner: Planner, *, size: int = 1024) -> None:
        if size < 1:
            raise ConfigError(f"size {size} must be 1 or more")
        super().__init__(planner, "cached")
        self._size = size
        self._texts: OrderedDict[str, str] = OrderedDict()

    def known(self, request: PlanRequest) -> PlanText | None:
        """Return the cached plan of a request; `None` if there is none."""
        key = _key(request)
        if key not in self._texts:
            return None
        self._texts.move_to_end(key)
        why = "the plan was cached for the same question and pool"
        return PlanText(text=self._texts[key], why=why, cost=0.0)

    def note(self, request: PlanRequest, text: PlanText) -> None:
        """Cache a text of the other planner if it is complete and has a valid plan."""
        if _holds_plan(text, request):
            self._texts[_key(request)] = text.text
            if len(self._texts) > self._size:
                self._texts.popitem(last=False)


def _key(request: PlanRequest) -> str:
    content = asdict(replace(request, max_tokens=None, deadline=None, stream=True, middleware=None))
    return sha256(json.dumps(content, sort_keys=True, default=_plain).encode()).hexdigest()


def _plain(value: Any) -> object:
    return value.isoformat() if isinstance(value, date) else sorted(value)


def _holds_plan(written: PlanText, request: PlanRequest) -> bool:
    names = [card.name for card in request.cards]
    try:
        plan = parse_plan(written.text, workers=names, max_steps=request.max_steps)
    except PlanError:
        return False
    return written.finish_reason == "stop" and (bool(plan.steps) or request.may_keep)
