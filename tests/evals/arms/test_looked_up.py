"""What is looked up is what a conductor returns."""

from collections.abc import AsyncIterator, Callable, Iterator
from random import Random

import pytest

from podium import Plan, Step
from podium.usage import Usage
from podium_evals.arms import ASK, Arm, Asked, Fold, KindRule, PlannerArm, folds
from podium_evals.arms.baselines import AgainIfEmpty, Alone, MajorityVote, OwnMajority, RandomWorkers
from podium_evals.arms.planners import ChoosingArm
from podium_evals.recorded import Question, Recording, Recordings, Sample

pytestmark = pytest.mark.anyio

POOL = ("google_gemma-3-27b-it", "anthropic_claude-sonnet-4", "unpriced", "openai_o3-mini")
TEXTS = ("4", "4.", "Four", "", "  ", "{{0}}", "a longer answer", "[1]")


def _recorded() -> Recordings:
    """Return answers that are empty, agree, have braces, and lack grades, prices or times."""
    random = Random(5)  # noqa: S311 - the same answers each time are wanted

    def samples(worker: str) -> Iterator[Sample]:
        for _ in range(random.randint(1, 3)):
            usage = Usage(random.randint(1, 99), 10) if random.random() < 0.5 else None
            text, score = random.choice(TEXTS), None if random.random() < 0.05 else random.random()
            seconds = None if worker == "unpriced" else random.random()
            yield Sample(text=text, score=score, usage=usage, latency_s=seconds)

    questions = [Question(id=f"q{n}", kind="ab"[n % 2], text=f"What is {{{{{n}}}}}?") for n in range(60)]
    asked = ((question, worker) for question in questions for worker in POOL)
    return Recordings(Recording(question, worker, tuple(samples(worker))) for question, worker in asked)


class AnyPlan(ChoosingArm):
    """Writes plans of any shape."""

    def __init__(self) -> None:
        super().__init__("any plan")

    def chooser(self, fold: Fold, seed: int) -> Callable[[Question], Plan]:
        def choose(question: Question) -> Plan:
            random = Random(f"{seed}/{question.key}")  # noqa: S311 - the same plans each time are wanted
            asked = [Step(random.randrange(len(POOL)), ASK) for _ in range(random.randint(1, 4))]
            if len(asked) == 1:
                return Plan(tuple(asked))
            seen = random.sample(range(len(asked)), random.randint(1, len(asked)))
            return Plan((*asked, Step(len(POOL), "Choose.", tuple(sorted(seen)))))

        return choose


async def _answers(answers: AsyncIterator[Asked]) -> list[Asked]:
    return [asked async for asked in answers]


@pytest.mark.long
@pytest.mark.parametrize(
    "arm",
    [
        *map(Alone, POOL),
        RandomWorkers(),
        RandomWorkers(5),
        MajorityVote(3),
        OwnMajority(2),
        AgainIfEmpty(RandomWorkers()),
        AgainIfEmpty(KindRule()),
        AnyPlan(),
    ],
    ids=lambda arm: arm.name,
)
async def test_a_look_up_finds_what_a_run_returns(arm: Arm) -> None:
    """Score, calls, tokens, cost, seconds and the reason why nothing is recorded, with each seed."""
    graded = (each for each in _recorded() if all(sample.score is not None for sample in each.samples))
    assert isinstance(arm, ChoosingArm)
    (fold,) = folds(Recordings(graded).only(POOL), "questions")
    seeds = (0, 1, 4)
    found = await _answers(arm.answer(fold, seeds))
    run = await _answers(PlannerArm.answer(arm, fold, seeds))
    assert [_told(each) for each in found] == [_told(each) for each in run]


def _told(asked: Asked) -> tuple[object, ...]:
    found = asked.answered
    cost = None if found.cost is None else round(found.cost, 15)
    seconds = None if found.latency_s is None else round(found.latency_s, 12)
    if found.calls > 1 and found.empty is not None:
        seconds = None  # a run does not know the time of the calls before the last
    facts = found.score, found.calls, found.tokens, cost, seconds, found.empty
    return asked.question, asked.seed, *facts, found.unrecorded
