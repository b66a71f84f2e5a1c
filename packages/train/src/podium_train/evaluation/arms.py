"""Arms: ways to plan an episode, with which a conductor is compared."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from random import Random

from podium.plan_text import Spelling, write_plan
from podium.planners import Planner, PlanText
from podium.types import Plan, Step
from podium.workers import Card
from podium_evals.arms import ASK, best_of, kind_scores, mean_scores, vote_plan
from podium_evals.recorded import Question
from podium_train.environments import Episode, RecordedAnswers
from podium_train.prompts import plan_request


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanArm:
    """A way to plan an episode."""

    name: str
    """The name in tables."""
    text: Callable[[Episode, int], Awaitable[str]]
    """Returns the plan text for an episode; the number counts the samples of the episode from 0."""
    samples: int = 1
    """Number of texts for each episode; the score of an episode is their mean."""
    is_achievable: bool = True
    """Whether it knows nothing of the right answers to what it is asked."""
    spelling: Spelling = "rows"
    """The spelling of its plans."""


def planner_arm(name: str, planner: Planner, *, max_steps: int, samples: int = 1) -> PlanArm:
    """Return the arm of a planner of Podium, such as a chat model on an OpenAI-compatible server."""

    async def text(episode: Episode, _sample: int) -> str:
        async with aclosing(planner.plan(plan_request(episode, max_steps=max_steps))) as pieces:
            found = [piece.text async for piece in pieces if isinstance(piece, PlanText)]
        return found[-1]

    return PlanArm(name=name, text=text, samples=samples, spelling=planner.spelling)


def plan_arm(name: str, choose: Callable[[Episode], Plan], *, is_achievable: bool = True) -> PlanArm:
    """Return the arm of a function that chooses a plan."""

    async def text(episode: Episode, _sample: int) -> str:
        return write_plan(choose(episode), "rows")

    return PlanArm(name=name, text=text, is_achievable=is_achievable)


def card_arms() -> list[PlanArm]:
    """Return a random worker, the best card for the kind of the question, and the cheapest worker.

    Each asks one worker the whole question. The best card is the one with the highest measured rate on the
    kind, or on all kinds without a rate on it; without rates it is the first.
    """
    return [
        plan_arm("random worker", _any_worker),
        plan_arm("best card", lambda episode: _one(best_card(_model_cards(episode), episode.kind))),
        plan_arm("cheapest", lambda episode: _one(_cheapest(_model_cards(episode)))),
    ]


def best_card(cards: Sequence[Card], kind: str) -> int:
    """Return the place of the card with the highest rate on a kind; of equal ones the best on all kinds."""
    return best_cards(cards, kind)[0]


def best_cards(cards: Sequence[Card], kind: str) -> list[int]:
    """Return the places of the cards, the one with the highest rate on a kind first."""

    def rank(place: int) -> tuple[float, float]:
        rates = cards[place].measured
        mean = sum(rate.rate for rate in rates) / len(rates) if rates else 0.0
        on_kind = next((rate.rate for rate in rates if rate.kind.name == kind), mean)
        return on_kind, mean

    return sorted(range(len(cards)), key=rank, reverse=True)


def _model_cards(episode: Episode) -> Sequence[Card]:
    """Return the cards of the workers that read prose; they come first."""
    return episode.cards[: len(episode.cards) - len(episode.fills)]


def _any_worker(episode: Episode) -> Plan:
    return _one(Random(episode.key).randrange(len(_model_cards(episode))))


def _cheapest(cards: Sequence[Card]) -> int:
    prices = [float("inf") if card.price is None else card.price.output for card in cards]
    return prices.index(min(prices))


def _one(worker: int) -> Plan:
    return Plan((Step(worker, ASK),))


VOTERS = 3
Choose = Callable[[Episode, Question], Sequence[int]]
"""Returns the workers that answer a question, by their places in the pool."""


def recorded_arms(environment: RecordedAnswers) -> list[PlanArm]:
    """Return the arms that a conductor is compared with; `best single` is the usual base.

    What is fitted is fitted on `environment.training`; so a worker that is held out has no training score
    there, and is chosen only at random, or by its card.

    - `random plan`: one to three random workers, and a vote if there are several.
    - `random worker`.
    - `best single`: the worker with the best training score.
    - `best card`: the worker with the best measured rate on the kind, which the arm knows.
    - `kind rule`: the worker with the best training score on the kind, which the arm knows.
    - `vote of the best 3`, by the training scores, and `vote of the best 3 cards`, by the measured rates.
    - `best worker`: knows each worker's mean score on the very question. It estimates a bound: votes, and
      luck with the sample of an episode, can be above it.
    """
    fitted = _Fitted(environment)
    choosers: dict[str, Choose] = {
        "random plan": _random_plan,
        "random worker": lambda episode, question: [_random(episode, question).randrange(_models(episode))],
        "best single": fitted.best_single,
        "best card": lambda episode, question: [best_card(episode.cards[: _models(episode)], question.kind)],
        "kind rule": fitted.kind_rule,
        f"vote of the best {VOTERS}": fitted.vote,
        f"vote of the best {VOTERS} cards": lambda episode, question: best_cards(
            episode.cards[: _models(episode)], question.kind
        )[:VOTERS],
    }
    arms = [plan_arm(name, fitted.planned(choose)) for name, choose in choosers.items()]
    return [*arms, plan_arm("best worker", fitted.planned(fitted.best_worker), is_achievable=False)]


def best_card_arm(environment: RecordedAnswers) -> PlanArm:
    """Return the arm `best card` alone, without fitting the other arms."""

    async def text(episode: Episode, _sample: int) -> str:
        kind = environment.question_of(episode).kind
        return write_plan(_one(best_card(episode.cards[: _models(episode)], kind)), "lists")

    return PlanArm(name="best card", text=text, spelling="lists")


def reasoned_arm(environment: RecordedAnswers) -> PlanArm:
    """Return the arm `best card` with its reasons, for examples to learn from.

    A line names the kind and the rate of each worker, before the plan in lists:

        Part 1 is count_bits: 0 29%, 1 63%, 2 14%. So 1.

    A model learns to choose sooner if it writes the choice next to what it read.
    """

    async def text(episode: Episode, _sample: int) -> str:
        kind, cards = environment.question_of(episode).kind, episode.cards[: _models(episode)]
        best = best_card(cards, kind)
        return f"Part 1 is {kind}: {_rates(cards, kind)}. So {best}.\n{write_plan(_one(best), 'lists')}"

    return PlanArm(name="best card, with reasons", text=text, spelling="lists")


def _rates(cards: Sequence[Card], kind: str) -> str:
    told = [
        f"{place} {rate.rate:.0%}"
        for place, card in enumerate(cards)
        for rate in card.measured
        if rate.kind.name == kind
    ]
    return ", ".join(told) or "no rates"


class _Fitted:
    """What arms know of the training part."""

    def __init__(self, environment: RecordedAnswers) -> None:
        self._environment = environment
        training = environment.training
        self._scores = mean_scores(training)
        self._kinds = kind_scores(training)
        self._first = best_of(training)

    def planned(self, choose: Choose) -> Callable[[Episode], Plan]:
        def plan(episode: Episode) -> Plan:
            chosen = choose(episode, self._environment.question_of(episode))
            return vote_plan(list(chosen), self._environment.models_of(episode))

        return plan

    def ranked(self, episode: Episode) -> list[int]:
        names = episode.workers[: _models(episode)]
        return sorted(range(len(names)), key=lambda place: -self._scores.get(names[place], -1.0))

    def best_single(self, episode: Episode, _question: Question) -> Sequence[int]:
        return self.ranked(episode)[:1]

    def vote(self, episode: Episode, _question: Question) -> Sequence[int]:
        return self.ranked(episode)[:VOTERS]

    def kind_rule(self, episode: Episode, question: Question) -> Sequence[int]:
        scores = self._kinds.get(question.kind, {})
        names = episode.workers[: _models(episode)]
        known = [place for place in self.ranked(episode) if names[place] in scores]
        return [max(known, key=lambda place: scores[names[place]])] if known else self.ranked(episode)[:1]

    def best_worker(self, episode: Episode, question: Question) -> Sequence[int]:
        names = episode.workers[: _models(episode)]

        def score(place: int) -> float:
            samples = self._environment.recordings.samples(question, names[place])
            return sum(sample.score or 0.0 for sample in samples) / len(samples)

        return [max(self.ranked(episode), key=score)]


def _models(episode: Episode) -> int:
    """Return the number of workers that answer questions; they come first."""
    return len(episode.workers) - len(episode.fills)


def _random(episode: Episode, question: Question) -> Random:
    return Random(f"{episode.key}/{question.key}")


def _random_plan(episode: Episode, question: Question) -> Sequence[int]:
    random, models = _random(episode, question), _models(episode)
    return random.sample(range(models), random.randint(1, min(VOTERS, models)))
