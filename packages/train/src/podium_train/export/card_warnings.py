"""How the cards of a pool differ from the cards of a training, by which the conductor learned to choose."""

from collections.abc import Iterator, Sequence

from podium.workers import Card, Worker
from podium_train.export.facts import ConductorFacts


def card_warnings(facts: ConductorFacts, workers: Sequence[Worker]) -> Iterator[str]:
    """Yield a text for each difference, with its remedy.

    Args:
        facts: how the conductor was trained.
        workers: the workers of the pool. Cards of workers that read no prose, such as a vote, are not
            compared: they have no measured rates.
    """
    if facts.style.show == "ordinals":
        yield from _of_numbers(facts.pool.workers, tuple(worker.card.name for worker in workers))
        return
    cards = [worker.card for worker in workers if worker.reads_prose]
    if wrong := _names(card for card in cards if bool(card.measured) is not facts.pool.rates):
        yield _of_rates(wrong, trained=facts.pool.rates)
    if wrong := _names(card for card in cards if (card.price is not None) is not facts.pool.prices):
        yield _of_prices(wrong, trained=facts.pool.prices)


def _names(cards: Iterator[Card]) -> str:
    return ", ".join(card.name for card in cards)


def _of_numbers(trained: Sequence[str], names: Sequence[str]) -> Iterator[str]:
    if trained and trained != names:
        yield (
            "the conductor was trained with numbers in place of cards, for the workers "
            f"{', '.join(trained)}, and the pool has {', '.join(names)}: it knows no other workers. Write "
            "the tables of the same workers in the same order"
        )


def _of_rates(names: str, *, trained: bool) -> str:
    if trained:
        return (
            f"the conductor learned to choose workers by measured rates, and these have none: {names}. So "
            "its plans may be worse. Measure the rates with `podium evals tune`, and name their file as "
            "`measured` in [pool]"
        )
    return (
        f"the conductor was trained without measured rates, and these workers have some: {names}. So its "
        "plans may be worse. Leave out `measured` in [pool]"
    )


def _of_prices(names: str, *, trained: bool) -> str:
    if trained:
        return (
            f"the conductor was trained with prices of workers, and these have none: {names}. So its plans "
            "may be worse. Set the `price` of these workers"
        )
    return (
        f"the conductor was trained without prices of workers, and these have one: {names}. So its plans "
        "may be worse. Train it with prices, which `podium evals record ask` writes into the recording"
    )
