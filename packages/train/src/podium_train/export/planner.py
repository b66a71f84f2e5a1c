"""The planner of a trained conductor: how it was trained and must be asked, and what its pool needs."""

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from podium.errors import ConfigError
from podium.planners import ChatPlanner, PlanRequest, PlanText
from podium.workers import Card, Worker
from podium_evals.grading.answers import final_answer
from podium_evals.recorded import JoinParts, Vote
from podium_train.prompts import PromptStyle, fingerprint
from podium_train.runs import PoolFacts

FACTS_FILE = "podium_conductor.json"
_MOST_BYTES = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class ConductorFacts:
    """What is known of an exported conductor."""

    schema: int = 1
    """Version of the file."""
    fingerprint: str
    """`podium_train.fingerprint` of the prompt of the training."""
    style: PromptStyle
    """The prompt of the training."""
    base: str
    """The model from which the training started."""
    environment: str
    """Name of the environment."""
    data: str
    """Version of the environment: a fingerprint of its data."""
    pool: PoolFacts
    """The pools of the training."""
    step: int | None = None
    """The step of the exported checkpoint; `None` if unknown."""
    accuracy: float | None = None
    """Its sampled accuracy on the validation split; `None` if unknown."""
    last_measures: dict[str, object] = field(default_factory=dict)
    """The line of the log at this step."""


FACTS = TypeAdapter(ConductorFacts)


def read_facts(folder: Path) -> ConductorFacts:
    """Read the file of an exported folder.

    Raises:
        ConfigError: the folder has no such file, or it is invalid.
    """
    path = folder / FACTS_FILE
    try:
        with path.open("rb") as file:
            facts = FACTS.validate_json(file.read(_MOST_BYTES))
    except OSError as error:
        told = f"{folder} is not an exported conductor, because {FACTS_FILE} cannot be read"
        raise ConfigError(f"{told}: run `podium-train export`") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        told = f"{path} is not valid: {where}: {first['msg']}"
        raise ConfigError(f"{told}: export the conductor again, with `podium-train export`") from error
    if facts.schema != 1:
        raise ConfigError(
            f"{path} has the schema {facts.schema}: this version reads 1; install a newer podium-train"
        )
    return facts


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


class ConductorPlanner(ChatPlanner):
    """Asks a trained conductor with exactly the prompt of its training.

    Args:
        worker: calls the conductor's model.
        facts: how the conductor was trained.

    Raises:
        ConfigError: the installed Podium writes another prompt than the one of the training.
    """

    def __init__(self, worker: Worker, facts: ConductorFacts) -> None:
        style = facts.style
        found = fingerprint(style)
        if found != facts.fingerprint:
            prompts = f"the prompt {facts.fingerprint}, and this Podium writes {found}"
            raise ConfigError(
                f"the conductor was trained with {prompts}: install the Podium of the training, or train the "
                "conductor again"
            )
        super().__init__(
            worker,
            spelling=style.spelling,
            show=style.show,
            examples=style.examples,
            reasons=style.reasons,
            constrain=False,
        )
        self._max_steps, self._rounds = style.max_steps, style.rounds
        self._prefill = style.prefill
        self._facts = facts

    def warnings(self, workers: Sequence[Worker]) -> Sequence[str]:
        """Return how the workers' cards differ from the cards of the training.

        Raises:
            ConfigError: the pool lacks a worker without which the plans of the training cannot run.
        """
        return tuple(check_pool(self._facts, workers))

    def plan(self, request: PlanRequest) -> AsyncGenerator[str | PlanText, None]:
        """Call the model and yield its text, after the prefill that the model's chat template has.

        Raises:
            ConfigError: the run allows another number of steps than the training, shows workers another part
                of the question, or asks for a second round that was not trained; a conductor reports it as a
                `PlannerError`.
        """
        if request.may_keep and self._rounds == 1:
            raise ConfigError(
                "the conductor was trained for one round: write rounds = 1 in [limits], or train it with "
                "[recursion]"
            )
        if request.max_steps != self._max_steps:
            trained = f"the conductor was trained with plans of up to {self._max_steps} steps"
            raise ConfigError(
                f"{trained}, and the run allows {request.max_steps}: write "
                f"plan_steps = {self._max_steps} in [limits]"
            )
        if request.shows_question is not self._facts.pool.shows_question:
            shown, key = ("saw", "true") if self._facts.pool.shows_question else ("did not see", "false")
            raise ConfigError(
                f"in the training of the conductor, workers {shown} the question: write "
                f"show_question = {key} in [conductor]"
            )
        return self._after_prefill(super().plan(request))

    async def _after_prefill(
        self, call: AsyncGenerator[str | PlanText, None]
    ) -> AsyncGenerator[str | PlanText, None]:
        before = self._prefill
        async with aclosing(call) as pieces:
            async for piece in pieces:
                if isinstance(piece, PlanText):
                    yield replace(piece, text=self._prefill + piece.text)
                else:
                    yield before + piece
                    before = ""
