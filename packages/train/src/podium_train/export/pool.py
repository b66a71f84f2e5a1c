"""The pool of a trained conductor: what its training had, and what the pool of a config lacks or has else."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from podium.errors import ConfigError
from podium.workers import Card, Worker
from podium_evals.grading.answers import final_answer
from podium_evals.recorded import JoinParts, Vote
from podium_train.export.facts import ConductorFacts

_BROUGHT: Mapping[str, Callable[[], Worker]] = {
    Vote().card.name: lambda: Vote(read=final_answer),
    JoinParts().card.name: JoinParts,
}
"""The workers that `RecordedAnswers` adds. The vote reads the final answer in the text of a worker."""


def brought_workers(facts: ConductorFacts) -> tuple[Worker, ...]:
    """Return the workers that each pool of the training had at its end and that need no setting.

    Raises:
        ConfigError: this release has no such worker.
    """
    if unknown := [name for name in facts.pool.brings if name not in _BROUGHT]:
        raise ConfigError(
            f"the conductor was trained with the worker {unknown[0]!r} of its environment, and podium-train "
            f"has {', '.join(_BROUGHT)}: plan with it in Python, with a pool that has this worker at its end"
        )
    return tuple(_BROUGHT[name]() for name in facts.pool.brings)


def check_pool(facts: ConductorFacts, workers: Sequence[Worker]) -> Iterator[str]:
    """Yield a text for each difference of the cards from those of the training, with its remedy.

    Args:
        facts: how the conductor was trained.
        workers: the workers of the pool. Cards of workers that read no prose, such as a vote, are not
            compared: they have no measured rates.

    Raises:
        ConfigError: the pool lacks a worker without which the plans of the training cannot run.
    """
    names = tuple(worker.card.name for worker in workers)
    _refuse(facts, names)
    if facts.style.show == "ordinals":
        yield from _of_numbers(facts.pool.workers, names)
        return
    cards = [worker.card for worker in workers if worker.reads_prose]
    if wrong := _names(card for card in cards if bool(card.measured) is not facts.pool.rates):
        yield _of_rates(wrong, trained=facts.pool.rates)
    if wrong := _names(card for card in cards if (card.price is not None) is not facts.pool.prices):
        yield _of_prices(wrong, trained=facts.pool.prices)
    if not min(facts.pool.sizes) <= len(names) <= max(facts.pool.sizes):
        sizes = ", ".join(map(str, facts.pool.sizes))
        yield (
            f"the conductor was trained with pools of {sizes} workers, and the pool has {len(names)}: its "
            "plans may be worse. Train it with such pools (`sizes` in [environment])"
        )


def _refuse(facts: ConductorFacts, names: Sequence[str]) -> None:
    """Refuse a pool in which plans of the training would name a worker that does not exist."""
    trained = facts.pool
    told = "the conductor was trained to use workers that the pool lacks"
    if lacking := [name for name in trained.tools if name not in names]:
        raise ConfigError(f"{told}: add a worker {', '.join(lacking)} that does the same as in the training")
    if trained.brings and tuple(names[-len(trained.brings) :]) != trained.brings:
        raise ConfigError(f"{told}, {', '.join(trained.brings)}: put them at the end of the pool")
    if facts.style.show == "ordinals" and trained.workers and len(names) != len(trained.workers):
        raise ConfigError(
            "the conductor was trained with numbers in place of cards, for the workers "
            f"{', '.join(trained.workers)}, and the pool has {', '.join(names)}: write the tables of the "
            "same workers in the same order"
        )


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
            "its plans may be worse. Measure the rates with `podium evals calibrate`, and name their file as "
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
