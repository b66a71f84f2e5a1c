"""Limits the length of answers and checks prices, so that the maximum cost of a call is known in advance."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from podium.budget.ledger import Ledger
from podium.budget.limits import Limits
from podium.budget.spend import Spend
from podium.errors import ConfigError
from podium.usage import Usage
from podium.workers.worker import Card, Request, Worker


@dataclass(slots=True)
class Overlong:
    """The answers of a run that exceeded their token limit, which some servers ignore."""

    _most: dict[str, int] = field(default_factory=dict)

    def note(self, card: Card | None, reserved: Spend, usage: Usage) -> None:
        """Record an answer if it was longer than its reservation.

        Args:
            card: the card of the worker or of the planner's model; `None` for a planner without a model.
            reserved: the reservation of the call; without output tokens, the answer has no limit.
            usage: the usage of the call.
        """
        written = usage.total_output_tokens
        if card is not None and 0 < reserved.output_tokens < written:
            self._most[card.name] = max(self._most.get(card.name, 0), written)

    def longest(self, card: Card | None) -> int:
        """Return the tokens of the longest such answer of a worker or planner; 0 if there is none."""
        return 0 if card is None else self._most.get(card.name, 0)

    def worst_case(self, card: Card | None, worst: Spend) -> Spend:
        """Return the reservation for another call, whose answer may be as long as the longest so far."""
        more = self.longest(card) - worst.output_tokens
        if card is None or more <= 0 or not worst.output_tokens:
            return worst
        written, cost = worst.output_tokens + more, worst.cost
        if cost is not None and card.price is not None:
            cost = max(cost, card.price.most(worst.input_tokens, written))
        return replace(worst, output_tokens=written, cost=cost)


def answer_bound(card: Card, ledger: Ledger) -> int | None:
    """Return the token limit for an answer without its own limit.

    `None` means that the answer cannot exceed a limit of the ledger or of an outer ledger.
    """
    if ledger.limits_any("output_tokens"):
        return ledger.limits.answer_tokens
    paid = card.price is not None and card.price.output > 0
    return ledger.limits.answer_tokens if paid and ledger.limits_any("cost") else None


def bounded(worker: Worker, request: Request, ledger: Ledger) -> Request:
    """Return the request with a token limit for its answer, so that the reservation is always large enough.

    The request is unchanged if the request or the worker already has a limit, or if the ledger has no limit.
    """
    if request.sampling.max_tokens is not None or worker.max_tokens is not None or not worker.uses_tokens:
        return request
    bound = answer_bound(worker.card, ledger)
    return (
        request if bound is None else replace(request, sampling=replace(request.sampling, max_tokens=bound))
    )


def unpriced(cards: Iterable[Card | None]) -> tuple[str, ...]:
    """Return the names of the cards without a price, in alphabetical order; `None` is ignored."""
    return tuple(sorted({card.name for card in cards if card is not None and card.price is None}))


def check_prices(limits: Limits, cards: Iterable[Card | None]) -> None:
    """Check that all prices are known if the run has a cost limit.

    Args:
        limits: the limits of the run.
        cards: the cards of all workers, planners and judges that the run may call. `None` stands for a
            planner without a model, and is ignored.

    Raises:
        ConfigError: `Limits.cost` is set, `Limits.unpriced` is not, and some price is unknown.
    """
    if limits.cost is None or limits.unpriced is not None:
        return
    if unknown := unpriced(cards):
        raise ConfigError(
            f"the cost is limited to ${limits.cost:g} (Limits.cost), and the price of "
            f"{', '.join(map(repr, unknown))} is unknown: set its `price` (0 if it costs nothing), "
            "or set Limits.unpriced, the assumed cost of such a call in USD"
        )
