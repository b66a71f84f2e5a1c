"""The interface between a run and a worker: one method."""

import json
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import date
from http import HTTPStatus
from typing import Any, Literal

from podium.aio.loops import ResourceGroup
from podium.budget.ledger import Charged
from podium.budget.limits import MAX_COST, Spend, is_cost
from podium.errors import ConfigError, PlanInvalid, WorkerBroken, WorkerError
from podium.types.messages import (
    Completion,
    Constraint,
    Message,
    Sampling,
    Tools,
    estimate_usage,
    usage_or_estimate,
)
from podium.types.plan import accepts, check_name
from podium.types.schemas import Form, check_schema
from podium.usage import Usage


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of questions, such as riddles."""

    name: str
    questions: tuple[str, ...]
    """The questions with which the kind was measured. Another question belongs to the kind if it is similar
    to one of these questions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRate:
    """The share of a worker's answers to a kind of questions that were right."""

    kind: Kind
    rate: float
    """The estimated rate, 0 to 1. It is between the measured share and the worker's rate on other kinds. With
    more answers, it is nearer to the measured share."""
    low: float
    """The lower end of the 95 % interval of the rate."""
    high: float
    """The upper end of the 95 % interval of the rate."""
    right: float
    """The sum of the scores of the answers; a score is 0 to 1."""
    answers: int
    """The number of graded answers."""
    measured_on: date
    """The day of the latest answer."""


PER_MESSAGE = 16
"""Maximum tokens that a model's template adds to a message."""
PER_REQUEST = 32
"""Maximum tokens that the template adds to a request, such as its own system text."""
PER_ATTACHMENT = 5000
"""Maximum tokens of an image. Any other attachment counts as this number or its bytes, whichever is
larger."""


def most_tokens(
    messages: Sequence[Message], constraint: Constraint | None = None, tools: Tools | None = None
) -> int:
    """Return the maximum number of tokens of a prompt with these messages."""
    total = PER_REQUEST + PER_MESSAGE * len(messages)
    for message in messages:
        if isinstance(message.content, str):
            total += _of_text(message.content)
        else:
            total += sum(map(_of_part, message.content))
        if message.tool_calls:
            total += _of_text(json.dumps(message.tool_calls, default=dict))
    if constraint is not None:  # servers may put it into the prompt
        form = constraint.value
        total += _of_text(form if isinstance(form, str) else json.dumps(form, default=dict))
    if tools is not None:
        total += _of_text(json.dumps(tools.offered, default=dict))
    return total


def unreported_usage(
    messages: Sequence[Message], text: str, error: Exception | None, reserved: Spend, most: int
) -> tuple[Usage, Charged]:
    """Return the tokens of a call without a complete answer, and what the call is charged for."""
    received = error.received if isinstance(error, WorkerError) else None
    if received is None:
        return usage_or_estimate(None, messages, text, most=most), "reservation"
    told = estimate_usage(messages, received)
    read = max(told.input_tokens, reserved.input_tokens)
    written = max(told.output_tokens, min(_of_text(received), reserved.output_tokens))
    return Usage(read, written, estimated=True), "received"


def _of_part(part: object) -> int:
    match part:
        case {"type": "text", "text": str(text)}:
            return _of_text(text)
        case {"type": "image_url"}:
            return PER_ATTACHMENT
    return max(PER_ATTACHMENT, _of_text(json.dumps(part, default=dict)))


def _of_text(text: str) -> int:
    if text.isascii():
        return -(-len(text) * 4 // 5)
    size, ascii_size = len(text.encode("utf-8", "surrogatepass")), len(text.encode("ascii", "ignore"))
    return size - ascii_size - (-ascii_size * 4 // 5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """The price of tokens, in USD per million."""

    input: float
    """Price of the tokens of a prompt."""
    output: float
    """Price of the tokens of an answer, including reasoning."""
    cached_input: float | None = None
    """Input from the provider's prompt cache; `None` for the price of other input."""
    tiers: "tuple[PriceTier, ...]" = ()
    """Prices of calls with more input, in ascending order."""

    def __post_init__(self) -> None:
        for name in ("input", "output", "cached_input"):
            price = getattr(self, name)
            if not is_cost(price) and not (price is None and name == "cached_input"):
                raise ConfigError(
                    f"price {name} is {price!r:.80}: it must be a number, 0 or more and below {MAX_COST:g}, "
                    "in USD per million"
                )

    def cost(self, usage: Usage) -> float:
        """Return the cost of `usage` in USD; a hosted conductor's own tokens have the same price.

        For the usage of several calls, the sum of their input selects the tier, so the returned cost may be
        too high.
        """
        price = [self, *(tier.price for tier in self.tiers if usage.total_input_tokens > tier.above)][-1]
        cached, written = usage.total_cached_tokens, usage.total_output_tokens
        cached_price = price.input if price.cached_input is None else price.cached_input
        read = usage.total_input_tokens - cached
        return (read * price.input + cached * cached_price + written * price.output) / 1e6

    def most(self, input_tokens: int, output_tokens: int) -> float:
        """Return the maximum cost in USD of a call with up to so many tokens, none of them cached."""
        reached = [self, *(tier.price for tier in self.tiers if input_tokens > tier.above)]
        read = max(max(price.input, price.cached_input or 0.0) for price in reached)
        return (input_tokens * read + output_tokens * max(price.output for price in reached)) / 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceTier:
    """The price of all tokens of a call with more than a number of input tokens."""

    above: int
    """The tier applies to calls with more input tokens than this number."""
    price: Price


FREE = Price(input=0.0, output=0.0)
"""The price of work that costs nothing, such as on your own machine."""


Memory = Literal["all", "question", "none"] | int | Callable[[tuple[Message, ...]], Sequence[Message]]
"""What of the conversation a worker is shown: all of it; only the question; nothing; the question and as many
messages before it; or what a function returns of the conversation, whose last message is the question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """The description of a worker for planners and people."""

    name: str
    """Its name, unique in a pool."""
    description: str = ""
    """What it is good at, in a sentence or two."""
    price: Price | None = None
    """`None` for an unknown price, which never counts as free."""
    price_source: str = ""
    """The database of the price, with its version; empty for a price that was given here."""
    most_cost: float | None = None
    """The most that one call may cost, in USD, for workers that call models any number of times, such as
    agents: it is reserved for each call. `None` means that it follows from the price."""
    context_window: int | None = None
    """Maximum tokens of a prompt and its answer together; `None` if unknown."""
    context_window_source: str = ""
    """The database of the context window, with its version; empty for a value that was given here."""
    parts: frozenset[str] = frozenset()
    """Types of content parts that it accepts besides text: `image_url`, `input_audio`, `file`."""
    labels: frozenset[str] = frozenset()
    """Labels for the rules of a policy, such as `eu`, `confidential` or `write-tools`."""
    version: str = ""
    """The version of the worker. Change it when its answers may change, so that cached answers are not
    reused."""
    concurrency: int | None = None
    """Maximum concurrent calls; `None` for no limit."""
    memory: Memory = "all"
    """What of the conversation it is shown: see `Memory`. A conductor may show its workers less."""
    free_errors: bool = False
    """Whether its server bills no call that it answers with an error of its own (5xx, without the statuses of
    gateways). Otherwise such a call is charged for its prompt."""
    accept: str | None = None
    """Regular expression that a readable answer matches somewhere; `None` for any text. White space around
    the answer is ignored. Its time is linear in the text: it has no look-around and no back-references."""
    measured: tuple[MeasuredRate, ...] = ()
    """The measured rates of right answers, by kind of questions; see `podium.workers.rates`."""
    returns: Mapping[str, Any] | None = field(default=None, hash=False)
    """A JSON schema, or its short form, of its outputs, which are JSON texts; `None` for any text.

    Plans can refer to parts of such outputs.
    """

    def __post_init__(self) -> None:
        check_name(self.name, "a worker's name")
        for label in self.labels:
            check_name(label, f"a label of worker {self.name!r}")
        if self.concurrency is not None and self.concurrency < 1:
            raise ConfigError(f"worker {self.name!r}: concurrency {self.concurrency} must be 1 or more")
        is_count = type(self.memory) is int and self.memory >= 0
        if not (is_count or callable(self.memory) or self.memory in ("all", "question", "none")):
            told = "it must be all, question, none, a number of messages, or a function"
            raise ConfigError(f"worker {self.name!r}: memory is {self.memory!r:.80}: {told}")
        if self.most_cost is not None and not is_cost(self.most_cost):
            told = f"worker {self.name!r}: most_cost is {self.most_cost!r:.80}"
            raise ConfigError(f"{told}: it must be a number, 0 or more and below {MAX_COST:g}, in USD")
        accepts(self.accept, "", self.name)  # refuses other texts than regular expressions
        if self.returns is not None:
            try:
                object.__setattr__(self, "returns", check_schema(self.returns))
            except PlanInvalid as error:
                raise ConfigError(f"worker {self.name!r}: {error}") from error

    def most(self, input_tokens: int, output_tokens: int) -> float | None:
        """Return the maximum cost in USD of a call with up to so many tokens; `None` if it is unknown."""
        if self.most_cost is not None or self.price is None:
            return self.most_cost
        return self.price.most(input_tokens, output_tokens)

    def remembers(self, query: tuple[Message, ...]) -> tuple[Message, ...]:
        """Return what of a conversation, whose last message is the question, the worker is shown."""
        if callable(self.memory):
            return tuple(self.memory(query)) if query else ()
        if isinstance(self.memory, int):
            return query[-1 - self.memory :]
        return query if self.memory == "all" else query[-1:] if self.memory == "question" else ()

    @property
    def form(self) -> Form | None:
        """The form of its outputs; `None` for any text."""
        return None if self.returns is None else Form.of(self.returns)


@dataclass(frozen=True, slots=True)
class VisibleStep:
    """An earlier step that a worker sees."""

    step: int
    subtask: str
    output: str
    gap: str = ""
    """Why there is no output; empty if there is one."""
    where: Literal["", "round", "turn", "outer"] = ""
    """Whose step it is, if not of the same plan: of the round before, of the turn before in a loop, or of the
    plan around a block."""
    label: int | None = None
    """The number of the step for the worker; `None` for `step`, its index in the plan."""

    @property
    def previous(self) -> bool:
        """Whether it is a step of the previous round."""
        return self.where == "round"


@dataclass(frozen=True, slots=True)
class StepInput:
    """The parts of a run that a worker sees."""

    subtask: str
    """The subtask. For a worker with `reads_prose`, the words "the output of step n" replace the reference
    `{{n}}`, and "the text name" replaces `{{name}}`.

    For other workers, the output and the text replace them.
    """
    visible: tuple[VisibleStep, ...] = ()
    """The visible steps: first the steps of the previous round that have an output, then the steps of this
    plan in its order. A step without an output is in this list only if `on_failure` lets the steps that
    depend on it run.
    """
    query: tuple[Message, ...] = ()
    """The conversation, with the question last; empty if workers do not see the question."""
    template: str = ""
    """The subtask in the plan, with its references; empty outside a run."""
    texts: tuple[tuple[str, str], ...] = ()
    """Name and text of each named text of the run to which the subtask refers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The run, round, step and attempt of a request."""

    run_id: str
    round: int
    """The round's number, from 1."""
    step: int
    """The step's index in its plan, from 0."""
    attempt: int
    """Number of the call for its step, from 1."""
    path: str = ""
    """The name of an execution inside of a map or a block; see `Outcome.path`."""
    worker: str = ""
    """The name of the called worker."""
    labels: frozenset[str] = frozenset()
    """The labels of all data that the worker sees."""
    outer: object = field(default=None, repr=False, compare=False)
    """The run. A conductor that is a worker nests its own run in it; other workers ignore it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One call of a worker."""

    messages: tuple[Message, ...]
    """The messages for a chat model."""
    step_input: StepInput | None = None
    """The parts of the messages, for workers that are not chat models; `None` outside a run."""
    sampling: Sampling = Sampling()
    deadline: float | None = None
    """When the answer must be complete, in seconds on the event loop's clock; `None` for no deadline."""
    stream: bool = False
    """Whether the caller reads the text before it is complete; a worker may still answer in one piece."""
    tools: Tools | None = None
    """The caller's tools, which the worker may call; only for a worker with `takes_tools`."""
    tool_messages: tuple[Message, ...] = ()
    """The last messages, if they are calls of such tools and their results."""
    caller: Caller | None = None
    """`None` outside a run, as in a check of the worker."""


class Worker(ResourceGroup, ABC):
    """The base class of workers, such as models, tools, functions and other conductors.

    In a block `async with worker:`, its connections stay open. A worker may be entered any number of times.
    Outside of such a block it holds no resources.
    """

    card: Card
    uses_tokens: bool = True
    """Whether it uses tokens, like a model; plain code does not."""
    reads_prose: bool = True
    """Whether the worker understands a subtask in prose, like a model.

    For a worker that does not, such as a search, a tool or a function, the output of step n replaces `{{n}}`
    in the subtask.
    """
    is_interruptible: bool = False
    """Whether a call may be interrupted to wait for a person and continue later, like a graph or a tool of
    LangChain.

    If a host starts the steps of a run, only the host starts steps of such workers: so it can store their
    state, and calls them once.
    """
    takes_texts: bool = False
    """Whether the worker reads named texts from `Request.step_input`, as a conductor does to pass them to its
    own steps.

    The messages for such a worker do not contain the texts.
    """
    takes_tools: bool = False
    """Whether it accepts tools, and returns their calls in its completion."""
    takes_extra: bool = False
    """Whether it sends `Sampling.extra` to a provider, and returns what the provider answered to it, such as
    `logprobs` and further `choices`, in the data of its completion."""
    acts: bool = False
    """Whether a call may change something outside of the run, such as a tool that sends mail.

    A step of such a worker is an action. It starts only after its plan is complete, allowed and approved, and
    only if its inputs are complete. Podium carries it out once, also after a repair, another plan or a
    resume. See `docs/journal.md`.
    """
    nests: bool = False
    """Whether a call only executes a nested run, as a conductor does: it acts by the actions of that run."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.card.name!r})"

    @property
    def max_tokens(self) -> int | None:
        """Maximum tokens of an answer if the request has no limit; `None` for no limit."""
        return None

    @property
    def identity(self) -> str | None:
        """The identity of the worker for a cache: its kind, name and version.

        `None` if its answers must not be reused. Code may read the time or a file, so the answers of plain
        code are reused only if its card has a version.
        """
        card = self.card
        return repr((type(self).__qualname__, card.name, card.version)) if card.version else None

    @property
    def constraint_kinds(self) -> frozenset[Literal["json", "grammar"]]:
        """The kinds of `Constraint` that the worker supports; it ignores other kinds."""
        return frozenset()

    def check_host(self) -> None:
        """Check that calls can succeed where the run is started; a run calls it before its planner is asked.

        Raises:
            ConfigError: they cannot, such as those of a tool that reads the state of a graph, outside of one.
        """

    @abstractmethod
    def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Execute the subtask: yield pieces of text as they arrive, then one `Completion` with all text.

        Implementations are async generators. A caller that stops early must call `aclose`.

        Raises:
            WorkerError: the call failed.
        """

    def asked(self, step_input: StepInput) -> str:
        """Return what a call with this input asks for; for an action, equal texts are equal actions.

        By default the subtask, without white space around it. A worker with arguments returns them in one
        canonical form.

        Raises:
            WorkerRefused: the input does not fit the worker, so a call would be refused, too.
        """
        return step_input.subtask.strip()

    def worst_case(self, request: Request, answer_tokens: int) -> Spend | None:
        """Return the maximum that a call may spend, from the size of its prompt and the facts on the card.

        `None` means that nothing is reserved, because the worker records its spending itself in the ledger of
        the run, like a conductor.

        Args:
            request: the call.
            answer_tokens: the assumed length of an answer, if the request and the worker set no limit.
        """
        card = self.card
        if not self.uses_tokens:
            return Spend(1, cost=card.most_cost if card.price is None else 0.0)
        read = most_tokens(request.messages, request.sampling.constraint, request.tools)
        written = request.sampling.max_tokens or self.max_tokens or answer_tokens
        written *= request.sampling.answers
        return Spend(1, read, written, card.most(read, written))


def is_free(error: object, card: Card | None) -> bool:
    """Return whether a failed call was certainly not billed."""
    if not isinstance(error, WorkerError):
        return False
    is_fault = error.status is not None and error.status >= HTTPStatus.INTERNAL_SERVER_ERROR
    may_bill = card is None or not card.free_errors or not is_fault or error.received != ""
    return not error.maybe_paid or not may_bill


CallMiddleware = Callable[[Worker, Request], AsyncGenerator[str | Completion, None]]
"""Calls a worker for a run: yields the pieces of `worker.call(request)`, and may add its own behaviour."""


def pieces_of(made: object, method: str) -> AsyncGenerator[Any, None]:
    """Check that `call` or `plan` returned an async generator, and return it."""
    if isinstance(made, AsyncGenerator):
        return made
    if isinstance(made, Coroutine):
        made.close()  # else Python warns that it was never awaited
    raise TypeError(f"{method} returned a {type(made).__name__}: make it an async generator, with `yield`")


def step_input_of(request: Request) -> StepInput:
    """Return the input of the request's step; outside a run, the last message is the subtask."""
    return request.step_input or StepInput(request.messages[-1].text)


async def complete(worker: Worker, request: Request) -> Completion:
    """Call `worker` and return its whole answer.

    Raises:
        WorkerError: the call failed.
    """
    async with aclosing(worker.call(request)) as pieces:
        async for piece in pieces:
            if isinstance(piece, Completion):
                return piece
    raise WorkerBroken(f"worker {worker.card.name!r} ended without a completion")
