"""Compares the ways to answer that a user could switch on, and chooses one by lower bounds.

Both halves of the questions are held out in turn: each way is fitted on one half and asked the other. So each
question is scored once, by a way that has not seen it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from podium.workers.rates import MeasuredFile
from podium_evals.arms import (
    AgainIfEmpty,
    Arm,
    ArmResult,
    BestSingle,
    ChoosingArm,
    Fold,
    MajorityVote,
    OwnMajority,
    ask_all,
    check_comparable,
    compare_answers,
    folds,
    ranked,
)
from podium_evals.errors import ArmUnfit
from podium_evals.recorded import Recordings
from podium_evals.results import BASE, rounding
from podium_evals.results.report import OnShare, every_sample
from podium_evals.router import Goal, Router, RouterArm, fit_for, fit_router
from podium_evals.tuning.kinds import FoundKind, measured_file
from podium_evals.tuning.written import Settings

CLOSE = 0.01
"""Ways whose lower bounds differ by less are chosen by their calls or cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a way may spend for a question, and what it must reach; `None` for anything."""

    calls: float | None = None
    """Maximum mean number of calls."""
    price: float | None = None
    """Maximum mean cost, in USD. It needs recorded tokens and prices."""
    quality: float | None = None
    """Mean score that the lower bound must reach, as cheaply as possible."""

    def allows(self, result: ArmResult) -> bool:
        """Return whether a way stays within the calls and the price."""
        too_many = self.calls is not None and (result.calls is None or result.calls > self.calls)
        too_dear = self.price is not None and (result.cost is None or result.cost > self.price)
        return not (too_many or too_dear)


@dataclass(frozen=True, slots=True)
class Way:
    """A way to answer, and what `podium.toml` says for it."""

    arm: Arm
    settings: Callable[[Recordings], Settings] | None
    """Returns the settings, fitted on all questions; `None` for a planner that the user has already."""


class TierArm(RouterArm):
    """A router that weighs prices, for a wanted mean cost or score; the threshold is chosen in training.

    Args:
        goal: the wanted cost or score.
    """

    def __init__(self, goal: Goal) -> None:
        wanted = f"${goal.value:g}" if goal.of == "price" else f"a score of {goal.value:g}"
        super().__init__(f"router for {wanted}")
        self._goal = goal

    def fit(self, recordings: Recordings) -> Router:
        """Return a router with the threshold.

        Raises:
            RouterInvalid: no threshold reaches the goal, or a cost is not known.
        """
        return fit_for(self._goal, recordings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """What pays for a pool."""

    results: tuple[ArmResult, ...]
    """All ways, compared with the best single worker; joint intervals hold for all of them together."""
    questions: int
    chosen: str
    """The name of the chosen way."""
    why: str
    settings: Settings | None
    """What `podium.toml` says for the chosen way; `None` if the user has its planner already."""
    wish: Wish
    measured: MeasuredFile
    """The rates of all workers by kind."""
    best: tuple[str, ...] = field(default=())
    """The workers, the best first."""

    @property
    def lines(self) -> Iterator[str]:
        """The five lines that say what pays and what does not."""
        found = {result.name: result for result in self.results}
        base = found[BASE]
        told = f"the best single worker of the other half ({self.best[0]} on all questions)"
        yield f"Base: {told}, {_figures(base)}, on {self.questions:,} held-out questions."
        compared = [each for each in self.results if each.difference is not None]
        pays = [each for each in compared if each.difference and each.difference.together.low > 0]
        yield f"Pays: {_listed(pays)}."
        yield f"Is not shown to pay: {_listed([each for each in compared if each not in pays])}."
        missing = [f"{each.name} ({why})" for each in self.results if (why := _missing(each))]
        yield f"Not measured: {'; '.join(missing) or 'nothing'}."
        yield f"Chosen: {self.chosen}, {_figures(found[self.chosen])}: {self.why}."


def _missing(result: ArmResult) -> str:
    return result.unfit or (result.unrecorded if result.recorded < result.questions else "")


def _listed(results: Sequence[ArmResult]) -> str:
    told = []
    for each in sorted(results, key=lambda each: -(each.difference.together.low if each.difference else 0)):
        assert each.difference is not None  # otherwise it is not compared
        low, high = rounding.interval(each.difference.together).split()
        told.append(f"{each.name} {low} to {high} ({_calls(each)})")
    return "; ".join(told) or "nothing"


def _figures(result: ArmResult) -> str:
    assert result.score is not None  # it was chosen or is the base
    low, high = rounding.interval(result.score).replace("+", "").split()
    empty = "" if not result.empty else f", {100 * result.empty:.1f} % empty"
    return f"score {rounding.score(result.score.mean)} ({low} to {high}), {_calls(result)}{empty}"


def _calls(result: ArmResult) -> str:
    cost = "" if result.cost is None else f", ${rounding.per_thousand(result.cost)} for 1,000"
    return f"{rounding.count(result.calls)} calls{cost}"


def ways_of(recordings: Recordings, wish: Wish, planners: Sequence[Arm] = ()) -> list[Way]:
    """Return the ways to try, the simplest first.

    Args:
        recordings: graded answers of a pool.
        wish: a price or a quality adds a router that weighs prices.
        planners: the user's own planners, as arms.
    """
    single = BestSingle()
    repairs = all(sample.is_empty is not None for each in recordings for sample in each.samples)
    ways = [Way(single, lambda of: Settings(ask=_best(of, 1)))]
    if repairs:
        ways.append(Way(AgainIfEmpty(single, "same"), lambda of: Settings(ask=_best(of, 1))))
        ways.append(Way(AgainIfEmpty(single), lambda of: Settings(ask=_best(of, 1), next_best=_best(of))))
    if len(recordings.workers) >= 3:
        ways.append(Way(MajorityVote(3), lambda of: Settings(ask=_best(of, 3))))
    if len(every_sample(recordings)) >= 3:
        ways.append(Way(OwnMajority(3), lambda of: Settings(ask=_best(of, 1) * 3)))
    routes: list[Way] = [Way(FoundKind(), _by_kind)] if len(recordings.kinds) > 1 else []
    routes.append(Way(RouterArm(), lambda of: Settings(router=fit_router(of))))
    ways += [_repaired(each) if repairs else each for each in routes]
    goals = [Goal("price", wish.price)] if wish.price is not None else []
    goals += [Goal("quality", wish.quality)] if wish.quality is not None else []
    for goal in goals:
        ways.append(Way(TierArm(goal), lambda of, goal=goal: Settings(router=fit_for(goal, of))))  # type: ignore[misc]
    return ways + [Way(arm, None) for arm in planners]


def _best(recordings: Recordings, most: int | None = None) -> tuple[str, ...]:
    return tuple(ranked(recordings)[:most])


def _by_kind(recordings: Recordings) -> Settings:
    return Settings(ask=_best(recordings, 1), by_kind=True, measured=measured_file(recordings))


def _repaired(way: Way) -> Way:
    """Return a way whose empty answers go to the next best worker."""
    settings = way.settings
    assert isinstance(way.arm, ChoosingArm)
    assert settings is not None  # only planners of the user have none
    return Way(AgainIfEmpty(way.arm), lambda of: replace(settings(of), next_best=_best(of)))


def both_halves(recordings: Recordings) -> list[Fold]:
    """Return two folds: each half of each kind is asked once, after a fit on the other half."""
    (fold,) = folds(recordings, "questions")
    return [fold, Fold(train=fold.test, test=fold.train)]


async def tune(
    recordings: Recordings,
    wish: Wish = Wish(),
    *,
    planners: Sequence[Arm] = (),
    processes: int = 1,
    on_share: OnShare = lambda _arm, _number, _of: None,
) -> Tuning:
    """Find out which way pays, and choose one.

    A way pays if the lower bound of its gain over the best single worker is above zero, where the bounds hold
    for all ways together. Of the ways within the wish, the one with the highest bound is chosen; of bounds
    that are closer than .01, the one with the fewest calls, or with the lowest cost if costs are recorded.

    Args:
        recordings: graded answers of a pool, each worker to each question.
        wish: what a question may cost, and what must be reached.
        planners: the user's own planners, as arms.
        processes: the number of processes that compute at the same time.
        on_share: called after each answer, to show progress.

    Raises:
        ArmUnfit: there are too few questions to hold half of them out, or no way is within the wish.
    """
    ways = ways_of(recordings, wish, planners)
    arms, parts = [way.arm for way in ways], both_halves(recordings)
    check_comparable(arms, parts, base=BASE, unit="question")
    seeds = every_sample(recordings)
    of = sum(len(part.asked) for part in parts) * len(seeds)
    asked = await ask_all(arms, parts, seeds, processes, lambda arm, number: on_share(arm, number, of))
    results = compare_answers(arms, parts, asked, base=BASE, unit="question")
    chosen, why = choose(results, wish)
    settings = next(way.settings for way in ways if way.arm.name == chosen.name)
    return Tuning(
        results=tuple(results),
        questions=len(recordings),
        chosen=chosen.name,
        why=why,
        settings=None if settings is None else settings(recordings),
        wish=wish,
        measured=measured_file(recordings),
        best=_best(recordings),
    )


def choose(results: Sequence[ArmResult], wish: Wish) -> tuple[ArmResult, str]:
    """Return the way to use, and why.

    Raises:
        ArmUnfit: no way is within the wish.
    """
    whole = [each for each in results if each.score is not None and each.recorded == each.questions]
    if wish.price is not None and all(each.cost is None for each in whole):
        raise ArmUnfit("a price needs recorded tokens and the price of each worker: leave --price out")
    within = [each for each in whole if wish.allows(each)]
    if not within:
        raise ArmUnfit("no way stays within the calls and the price that you state: allow more")
    if wish.quality is not None:
        good = [each for each in within if each.score and each.score.low >= wish.quality]
        if good:
            told = f"the cheapest whose lower bound reaches {wish.quality:g}"
            return min(good, key=_spent), told
    unreached = "" if wish.quality is None else f"no lower bound reaches {wish.quality:g}; "
    pays = [each for each in within if _bound(each) > 0]
    if not pays:
        base = next((each for each in within if each.name == BASE), None)
        if base is not None:
            return base, f"{unreached}no other way is shown to be better"
        best = max(within, key=lambda each: each.score.low if each.score else 0.0)
        return best, f"{unreached}the highest lower bound of a score within what you state"
    highest = max(map(_bound, pays))
    close = [each for each in pays if _bound(each) > highest - CLOSE]
    return min(close, key=_spent), f"{unreached}the highest lower bound of the gain, and the fewest calls"


def _bound(result: ArmResult) -> float:
    return 0.0 if result.difference is None else result.difference.together.low


def _spent(result: ArmResult) -> tuple[float, float]:
    spent = result.calls if result.cost is None else result.cost
    return (0.0 if spent is None else spent), -_bound(result)
