"""The synthetic world of specialists."""

import hashlib

import anyio
import pytest

from podium.errors import ConfigError
from podium.types import Plan, Step
from podium_train import Episode
from podium_train.environments.specialists import BASELINES, KINDS, Specialists, skills_of
from podium_train.environments.specialists.workers import UNSEEN_PAIRS

WORLD = Specialists()


def score(episode: Episode, plan: Plan) -> float:
    """Return the grade of a plan."""
    return anyio.run(WORLD.carry_out, episode, plan).score


def mixes(split: str, count: int = 400, **options: object) -> set[tuple[str, ...]]:
    """Return the combinations of workers of some episodes."""
    episodes = Specialists(**options).episodes(split, count, seed=1)
    return {tuple(sorted(episode.workers)) for episode in episodes}


def pairs(split: str) -> set[frozenset[str]]:
    """Return the unseen pairs of skills that workers of a split have."""
    held = {skills_of(name) for episode in WORLD.episodes(split, 300, seed=2) for name in episode.workers}
    return {pair for pair in UNSEEN_PAIRS for skills in held if pair <= skills}


def test_the_world_is_frozen() -> None:
    """Its constants, wordings, episodes and outcomes are those of the published measurements."""
    assert WORLD.version == "b8f3d74f8522"
    text = ""
    for split in WORLD.splits:
        for episode in WORLD.episodes(split, 50, seed=41):
            plans = [plan for name, plan in BASELINES.items() if name != "fair keyword rule"]
            scores = [int(score(episode, plan(episode))) for plan in plans]
            text += f"{episode.key} {scores}\n"
    assert hashlib.sha256(text.encode()).hexdigest()[:12] == "f083c30f3d4a"


@pytest.mark.parametrize("split", ["mixes", "workers", "questions"])
def test_order_of_the_baselines(split: str) -> None:
    """The oracle is better than one step, one step than one worker, and one worker than random plans."""
    episodes = WORLD.episodes(split, 300, seed=7)
    means = {
        name: sum(score(episode, plan(episode)) for episode in episodes) / len(episodes)
        for name, plan in BASELINES.items()
    }
    rule, fair = means.pop("keyword rule"), means.pop("fair keyword rule")
    assert list(means.values()) == sorted(means.values())
    assert means["oracle"] >= fair >= rule
    assert split == "questions" or rule > means["best step"]


def test_combinations_of_workers_are_in_one_split() -> None:
    """Whatever their order and number."""
    training = mixes("train") | mixes("questions")
    sizes = (3, 4, 5, 6, 7)
    validation, held_out = mixes("validation", sizes=sizes), mixes("mixes", sizes=sizes)
    assert not training & validation
    assert not training & held_out
    assert not validation & held_out


def test_unseen_pairs_of_skills() -> None:
    """Only the split `workers` has them, each pool at least two."""
    assert not pairs("train") | pairs("validation") | pairs("mixes") | pairs("questions")
    assert pairs("workers") == set(UNSEEN_PAIRS)


def test_sizes_that_are_held_out() -> None:
    """Training pools have neither 3 nor 6 workers."""
    assert {len(episode.workers) for episode in WORLD.episodes("train", 200, seed=3)} == {4, 5, 7}
    assert {len(episode.workers) for episode in WORLD.episodes("mixes", 50, seed=3)} == {5}
    assert {len(e.workers) for e in Specialists(sizes=(3, 6)).episodes("mixes", 50, seed=3)} == {3, 6}


def test_wordings_are_in_one_set() -> None:
    """So held-out questions are worded as no question of the training."""
    from podium_train.environments.specialists import templates  # noqa: PLC0415 - not public

    for kind in KINDS:
        wordings = getattr(templates, kind.upper())
        known = [text for texts in wordings.values() for _, text in texts]
        assert len(known) == len(set(known)) == 20


def test_the_same_each_time() -> None:
    """Episodes and outcomes depend on the arguments only, and fewer episodes are the first ones of more."""
    episodes = WORLD.episodes("train", 5, seed=4)
    assert [e.key for e in episodes] == [e.key for e in Specialists().episodes("train", 9, seed=4)[:5]]
    assert [e.key for e in episodes] != [e.key for e in WORLD.episodes("train", 5, seed=5)]
    plan = Plan((Step(0, "Solve"),))
    assert [score(e, plan) for e in episodes] == [score(e, plan) for e in episodes]


@pytest.mark.parametrize(
    ("kind", "better", "worse"),
    [
        ("code", ("Write it", "Check it", True), ("Write it", "Check it", False)),
        ("code", ("Write it", "Check it", True), ("Write it", None, False)),
        ("multi", ("Look up both prices", "Compute it", True), ("Look up both prices", "Compute it", False)),
        ("multi", ("Retrieve the prices", "Calculate", True), ("Solve it", "Verify it", True)),
    ],
)
def test_kinds_with_two_stages(
    kind: str, better: tuple[str, str | None, bool], worse: tuple[str, str | None, bool]
) -> None:
    """They need two operations, and an access list by which the second worker sees the first answer."""
    skills = {"code": ("code", "verify"), "multi": ("lookup", "arith")}[kind]

    def mean(steps: tuple[str, str | None, bool]) -> float:
        scores = []
        for episode in WORLD.episodes("mixes", 600, seed=6):
            numbers = [
                next((n for n, name in enumerate(episode.workers) if skill in skills_of(name)), None)
                for skill in skills
            ]
            if episode.kind == kind and None not in numbers:
                first, second, sees = steps
                plan = [Step(numbers[0], first)]
                plan += [Step(numbers[1], second, (0,) if sees else ())] if second else []
                scores.append(score(episode, Plan(tuple(plan))))
        return sum(scores) / len(scores)

    assert mean(better) > 0.8
    assert mean(worse) < 0.5


def test_arguments_that_are_wrong() -> None:
    """A pool of two cannot have five skills, and a split must exist."""
    with pytest.raises(ConfigError, match="from 3 to 9"):
        Specialists(sizes=(2,))
    with pytest.raises(ConfigError, match="no split 'kinds'"):
        WORLD.episodes("kinds", 1, seed=0)
