"""The seam between a run and whoever does the work: one method.

A worker is given messages and answers with a stream of text that ends in a
`Completion`. It knows no plan, no pool and no other worker.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Literal

from podium.aio.resources import ResourceGroup
from podium.budget.spend import MAX_COST, Spend, is_cost
from podium.errors import ConfigError, WorkerBroken
from podium.types.messages import Completion, Message, Sampling, Tools
from podium.usage import Usage
from podium.workers.token_estimate import most_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What tokens cost, in USD per million."""

    input: float
    """Tokens of the prompt."""
    output: float
    """Tokens of the answer, reasoning included."""
    cached_input: float | None = None
    """Input served from the provider's prompt cache; `None` means it costs as other input."""
    tiers: "tuple[PriceTier, ...]" = ()
    """Prices of calls that read more, in ascending order."""

    def __post_init__(self) -> None:
        for name in ("input", "output", "cached_input"):
            price = getattr(self, name)
            if not is_cost(price) and not (price is None and name == "cached_input"):
                raise ConfigError(
                    f"price {name} is {price!r:.80}: it must be a number, 0 or more and below {MAX_COST:g}, "
                    "in USD per million"
                )

    def cost(self, usage: Usage) -> float:
        """Return what `usage` costs, in USD; a hosted conductor's own calls cost as the rest.

        Of many calls together, the tier is chosen by all that they read, so the cost may be too high.
        """
        price = self.at(usage.total_input_tokens)
        cached, written = usage.total_cached_tokens, usage.total_output_tokens
        cached_price = price.input if price.cached_input is None else price.cached_input
        read = usage.total_input_tokens - cached
        return (read * price.input + cached * cached_price + written * price.output) / 1e6

    def most(self, input_tokens: int, output_tokens: int) -> float:
        """Return what up to so many tokens cost at most, in USD: none of them comes from a cache."""
        reached = [self, *(tier.price for tier in self.tiers if input_tokens > tier.above)]
        read = max(max(price.input, price.cached_input or 0.0) for price in reached)
        return (input_tokens * read + output_tokens * max(price.output for price in reached)) / 1e6

    def at(self, input_tokens: int) -> "Price":
        """Return the price of a call that reads so many tokens."""
        reached = [tier.price for tier in self.tiers if input_tokens > tier.above]
        return reached[-1] if reached else self


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceTier:
    """The price of all tokens of a call that reads more than a number of tokens."""

    above: int
    """The number of input tokens."""
    price: Price


FREE = Price(input=0.0, output=0.0)
"""The price of work done on one's own machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """What a planner and its reader are told of a worker."""

    name: str
    """What people call it; one word per pool."""
    description: str = ""
    """What it is good at, in a sentence or two."""
    price: Price | None = None
    """`None` means unknown, which is never taken for free."""
    price_source: str = ""
    """The database that the price was looked up in, with its version; empty for a price given here."""
    context_window: int | None = None
    """Tokens its prompt and answer may have together; `None` means unknown."""
    context_window_source: str = ""
    """The database that the context window was looked up in, with its version; empty for one given here."""
    parts: frozenset[str] = frozenset()
    """Types of content parts it takes besides text: `image_url`, `input_audio`, `file`."""
    labels: frozenset[str] = frozenset()
    """Properties that rules refer to: `eu`, `confidential`, `write-tools`."""
    version: str = ""
    """Says that its answers may be others now: one changes it to have no earlier answer used again."""
    concurrency: int | None = None
    """Calls it takes at the same time; `None` means as many as come."""

    def __post_init__(self) -> None:
        if not self.name or self.name != self.name.strip() or not self.name.isprintable():
            raise ConfigError(f"worker name {self.name!r}: give it a printable name without outer spaces")
        if self.concurrency is not None and self.concurrency < 1:
            raise ConfigError(f"worker {self.name!r}: concurrency {self.concurrency} must be 1 or more")


@dataclass(frozen=True, slots=True)
class VisibleStep:
    """An earlier step, as a worker is shown it."""

    step: int
    subtask: str
    output: str
    gap: str = ""
    """Why there is no output, in words of the run's own; empty where there is one."""
    previous: bool = False
    """Whether it is a step of the round before."""
    label: int | None = None
    """The number under which the worker is shown it; `None`: `step`, its index in the plan."""


@dataclass(frozen=True, slots=True)
class StepInput:
    """All that a worker is shown of a run."""

    subtask: str
    """What to do. In place of `{{n}}` stands the output of step n for workers that read no prose, and
    "the output of step n" for others; in place of `{{name}}` the text of that name, or "the text name"."""
    visible: tuple[VisibleStep, ...] = ()
    """The steps on its access list that the worker is shown: first those of the round before that have an
    output, then in the plan's order those with an output, and those with a gap where `on_failure` says so."""
    query: tuple[Message, ...] = ()
    """The conversation, its question last; empty where workers are not shown the question."""
    template: str = ""
    """The subtask as the plan has it, with its references; empty outside of a run."""
    texts: tuple[tuple[str, str], ...] = ()
    """The run's named texts that the subtask refers to, each with its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The call of a step that a request belongs to."""

    run_id: str
    round: int
    """The round's number, from 1."""
    step: int
    """The step's index in its plan, from 0."""
    attempt: int
    """Number of the call among those for its step, from 1."""
    labels: frozenset[str] = frozenset()
    """The labels of all that the worker is shown."""
    outer: object = field(default=None, repr=False, compare=False)
    """The run, for a conductor that works as a worker and nests its own run; other workers ignore it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One call of a worker."""

    messages: tuple[Message, ...]
    """What a chat model is sent."""
    step_input: StepInput | None = None
    """The same in its parts, for workers that are no chat model; `None` outside of a run."""
    sampling: Sampling = Sampling()
    deadline: float | None = None
    """When the answer must be whole, on the event loop's clock, in seconds; `None` means any time."""
    stream: bool = False
    """Whether anyone reads the text before it is whole; a worker may answer in one piece all the same."""
    tools: Tools | None = None
    """What it may ask the run's caller to do; only of a worker that takes tools."""
    tool_messages: tuple[Message, ...] = ()
    """The last of the messages, where they are calls of such tools and their results."""
    caller: Caller | None = None
    """`None` outside of a run, as in a check of the worker."""


class Worker(ResourceGroup, ABC):
    """Something that can do a subtask.

    Use as an async context manager to keep open what the worker holds open; workers may
    be entered any number of times, and hold nothing before.
    """

    card: Card
    uses_tokens: bool = True
    """Whether it reads and writes tokens, as a model does; work of plain code does not."""
    reads_prose: bool = True
    """Whether it makes sense of a subtask as a model does. A search, a tool or a function does not: in its
    subtask `{{n}}` is replaced by the output of step n."""
    is_interruptible: bool = False
    """Whether a call may be interrupted to wait for a person, and goes on where it stood, as a graph does. A
    host that starts steps itself starts those of such workers, so that it can keep what they have done."""
    takes_texts: bool = False
    """Whether it reads the named texts of a step from `Request.step_input`, as a conductor does, which gives
    them to its own steps. The messages of such a worker do not hold the texts."""
    takes_tools: bool = False
    """Whether it can be offered tools, whose calls come back in its completion."""
    safe_to_repeat: bool = True
    """Whether a second call does no harm. Where it does (a tool that sends mail), a step is not tried again
    after a call that may have reached the worker, by this worker or another, and is never hedged."""

    @property
    def max_tokens(self) -> int | None:
        """Most tokens of an answer where the request does not say; `None` when nobody bounds it."""
        return None

    @property
    def identity(self) -> str | None:
        """Whose answers these are, for a cache: its kind, name and version.

        `None` where no answer may be used again. Code may read the time or a file, so that it
        is taken to answer as before only where its card states a version.
        """
        card = self.card
        return repr((type(self).__qualname__, card.name, card.version)) if card.version else None

    @property
    def constraint_kinds(self) -> frozenset[Literal["json", "grammar"]]:
        """Kinds of `Constraint` the worker can hold its text to; it leaves out any other."""
        return frozenset()

    @abstractmethod
    def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Do the work: yield pieces of text as they come, then one `Completion` with all of it.

        Implementations are async generators. A caller who stops early must `aclose` it.

        Raises:
            WorkerError: the work was not done, and why.
        """

    def worst_case(self, request: Request, answer_tokens: int) -> Spend | None:
        """Return the most a call may spend, by the prompt's bytes and the price on the card.

        `None` says that the worker books what it spends itself, in the ledger of the
        request's caller, as a conductor does: nothing is set aside for it.

        Args:
            request: the call.
            answer_tokens: what an answer counts as that neither request nor worker bounds.
        """
        price = self.card.price
        if not self.uses_tokens:
            return Spend(1, cost=None if price is None else 0.0)
        read = most_tokens(request.messages, request.sampling.constraint, request.tools)
        written = request.sampling.max_tokens or self.max_tokens or answer_tokens
        return Spend(1, read, written, None if price is None else price.most(read, written))


CallMiddleware = Callable[[Worker, Request], AsyncGenerator[str | Completion, None]]
"""Calls a worker in place of a run: yields what `worker.call(request)` does, and may do things around it."""


def pieces_of(made: object, method: str) -> AsyncGenerator[Any, None]:
    """Return what `call` or `plan` returned, which must be an async generator.

    Args:
        made: the returned object.
        method: the name of the method, for the error.

    Raises:
        TypeError: it is something else, such as the coroutine of a function without `yield`.
    """
    if isinstance(made, AsyncGenerator):
        return made
    if isinstance(made, Coroutine):
        made.close()  # else Python warns that nobody awaited it
    raise TypeError(f"{method} returned a {type(made).__name__}: make it an async generator, with `yield`")


def step_input_of(request: Request) -> StepInput:
    """Return the input of the request's step; outside of a run the last message is the subtask."""
    return request.step_input or StepInput(request.messages[-1].text)


async def complete(worker: Worker, request: Request) -> Completion:
    """Call `worker` and return its whole answer.

    Raises:
        WorkerError: the work was not done, and why.
    """
    async with aclosing(worker.call(request)) as pieces:
        async for piece in pieces:
            if isinstance(piece, Completion):
                return piece
    raise WorkerBroken(f"worker {worker.card.name!r} ended without a completion")
