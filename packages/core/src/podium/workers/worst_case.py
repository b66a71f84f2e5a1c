"""What holds calls to a run's limits before they are made: bounded answers, known prices."""

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
    """Answers of a run that were longer than their bound, which some servers ignore."""

    _most: dict[str, int] = field(default_factory=dict)

    def note(self, card: Card | None, reserved: Spend, usage: Usage) -> None:
        """Remember an answer if it was longer than was reserved for it.

        Args:
            card: the card of the worker, or of the planner's model; `None` for a planner without one.
            reserved: the worst case of its call; one without output tokens has no bound.
            usage: what it used.
        """
        written = usage.total_output_tokens
        if card is not None and 0 < reserved.output_tokens < written:
            self._most[card.name] = max(self._most.get(card.name, 0), written)

    def worst_case(self, card: Card | None, worst: Spend) -> Spend:
        """Return the worst case of another call: its answer may be as long again."""
        more = 0 if card is None else self._most.get(card.name, 0) - worst.output_tokens
        if card is None or more <= 0 or not worst.output_tokens:
            return worst
        written, cost = worst.output_tokens + more, worst.cost
        if cost is not None and card.price is not None:
            cost = max(cost, card.price.most(worst.input_tokens, written))
        return replace(worst, output_tokens=written, cost=cost)


def answer_bound(card: Card, ledger: Ledger) -> int | None:
    """Return how many tokens an answer is held to that nobody else bounds.

    `None` means that the ledger, and those it is nested in, limit nothing that it could exceed.
    """
    if ledger.limits_any("output_tokens"):
        return ledger.limits.answer_tokens
    paid = card.price is not None and card.price.output > 0
    return ledger.limits.answer_tokens if paid and ledger.limits_any("cost") else None


def bounded(worker: Worker, request: Request, ledger: Ledger) -> Request:
    """Return the request with its answer bounded, so that its worst case is true.

    It stays as it is where the request or the worker bounds the answer, or nothing is limited.
    """
    if request.sampling.max_tokens is not None or worker.max_tokens is not None or not worker.uses_tokens:
        return request
    bound = answer_bound(worker.card, ledger)
    return (
        request if bound is None else replace(request, sampling=replace(request.sampling, max_tokens=bound))
    )


def check_prices(limits: Limits, cards: Iterable[Card | None]) -> None:
    """Refuse to hold workers of unknown price to a cost.

    Args:
        limits: those of the run.
        cards: of all who may be called: workers, planners, a judge. `None` is a planner
            that asks nobody, and is passed over.

    Raises:
        ConfigError: `Limits.cost` is set, `Limits.unpriced` is not, and some price is unknown.
    """
    if limits.cost is None or limits.unpriced is not None:
        return
    unknown = sorted({card.name for card in cards if card is not None and card.price is None})
    if unknown:
        raise ConfigError(
            f"Limits.cost is ${limits.cost:g}, and no card prices {', '.join(map(repr, unknown))}: "
            "put a price on the card (FREE for what costs nothing), "
            "or say with Limits.unpriced what one call of unknown price counts as, in USD"
        )
