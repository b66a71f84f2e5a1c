"""Episodes of recorded answers."""

import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from small_recording import WORKERS, small_recording

from podium import Conductor, Plan, Step
from podium.errors import ConfigError
from podium.plan_text import write_plan
from podium.planners import FixedPlanner
from podium.types.references import literal
from podium_evals.arms import vote_plan
from podium_evals.errors import Unrecorded
from podium_evals.recorded import Recording, Recordings, Sample
from podium_evals.statistics import halves
from podium_train import Episode, PlanOutcome, RecordedAnswers, RecordedSettings, reward_of
from podium_train.environments import Split

SINGLE = RecordedSettings(sizes=(2, 3), held_workers=1)
RECORDING = small_recording()
ENVIRONMENT = RecordedAnswers(RECORDING, SINGLE)
HELD: tuple[Split, ...] = ("questions", "kinds", "workers", "mixes")


def run(episode: Episode, plan: Plan) -> PlanOutcome | None:
    """Return the outcome of a plan, by a run of a conductor."""
    question = ENVIRONMENT.question_of(episode)

    async def conduct() -> PlanOutcome | None:
        conductor = Conductor(FixedPlanner(write_plan(plan, "rows")), ENVIRONMENT.pool_of(episode))
        result = await conductor.run(question.text)
        problems = [outcome.problem for outcome in result.outcomes if outcome.problem is not None]
        score = RECORDING.score(question, result.answer)
        if score is None or any(problem.code == Unrecorded.code for problem in problems):
            return None
        asked = [outcome for outcome in result.outcomes if outcome.worker in RECORDING.workers]
        done = {outcome.step: outcome.text for outcome in result.outcomes if outcome.status == "ok"}
        return PlanOutcome(
            score=score,
            cost=result.cost,
            calls=sum(outcome.attempts for outcome in asked),
            tokens=result.usage.total_tokens,
            outputs=tuple(done.get(at) for at in range(len(plan.steps))),
        )

    return anyio.run(conduct)


@st.composite
def plans(draw: st.DrawFn, episode: Episode) -> Plan:
    """Draw a plan of one to three workers, with up to two steps changed in any way."""
    models = ENVIRONMENT.models_of(episode)
    steps = list(vote_plan(draw(st.lists(st.integers(0, models - 1), min_size=1, max_size=3)), models).calls)
    for _ in range(draw(st.integers(0, 2))):
        place = draw(st.integers(0, len(steps) - 1))
        before = st.integers(0, max(0, place - 1))
        access = tuple(draw(st.sets(before, max_size=3))) if place else ()
        old = steps[place]
        others = ["Answer the question.", literal(episode.question), "Check it.", "{{part_1}}"]
        subtask = draw(st.sampled_from([old.subtask, *others, "{{0}}", "Answer {{0}}"]))
        if place == 0 and "{{0}}" in subtask:
            subtask = "Guess."
        if "{{0}}" in subtask or old.references:
            access = tuple({*access, 0, *old.references})
        steps[place] = Step(draw(st.integers(0, models)), subtask, access)
    return Plan(tuple(steps))


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(data=st.data())
def test_an_outcome_is_that_of_a_run(data: st.DataObject) -> None:
    """The score, the cost, the calls and the tokens; and the same plans are unrecorded."""
    (episode,) = ENVIRONMENT.episodes("questions", 1, seed=data.draw(st.integers(0, 50)))
    plan = data.draw(plans(episode))
    expected, found = run(episode, plan), anyio.run(ENVIRONMENT.carry_out, episode, plan)
    assert (found is None) is (expected is None)
    if found is not None and expected is not None:
        assert replace(found, cost=None) == replace(expected, cost=None)
        assert found.cost == pytest.approx(expected.cost)


def test_splits_are_disjoint() -> None:
    """No question, kind, worker or combination that is held out is in an episode of `train`."""
    part, drawn = ENVIRONMENT.partition, {}
    for split in ENVIRONMENT.splits:
        drawn[split] = ENVIRONMENT.episodes(split, 60, seed=5)
    asked = {split: set(map(ENVIRONMENT.question_of, each)) for split, each in drawn.items()}
    pools = {split: {frozenset(each.workers[:-1]) for each in of} for split, of in drawn.items()}
    for split in ("validation", *HELD):
        assert not asked["train"] & asked[split]
    assert {question.kind for question in asked["kinds"]} <= part.new_kinds
    for split in ("train", "validation", "questions", "workers", "mixes"):
        assert not {question.kind for question in asked[split]} & part.new_kinds
    assert all(pool & part.new_workers for pool in pools["workers"])
    for split in ("train", "validation", "questions", "kinds", "mixes"):
        assert not any(pool & part.new_workers for pool in pools[split])
    assert not pools["train"] & pools["mixes"]
    assert all(part.is_held_mix(pool) for pool in pools["mixes"])


def test_training_questions_are_in_the_training_half_of_evals() -> None:
    """So `podium evals run --split questions` asks a trained conductor nothing that it was trained on."""
    _, second = halves(ENVIRONMENT.recordings.questions, seed=0)
    asked = {ENVIRONMENT.recordings.questions[int(place)].key for place in second}
    assert not asked & {question.key for question in ENVIRONMENT.training.questions}
    assert set(ENVIRONMENT.training.workers) == set(ENVIRONMENT.partition.known_workers)


def test_rates_are_measured_on_other_questions_and_as_noisy_as_probes() -> None:
    """Three answers give four sums; over many episodes their mean is the worker's real share."""
    sums, part = Counter[float](), ENVIRONMENT.partition
    for episode in ENVIRONMENT.episodes("train", 600, seed=7):
        for card in episode.cards[:-1]:
            assert len(card.measured) == 3
            assert episode.kind in [rate.kind.name for rate in card.measured]
            for rate in card.measured:
                assert rate.answers == 3
                assert episode.question not in rate.kind.questions
                sums[rate.right] += 1
        assert episode.cards[-1].measured == ()
    assert set(sums) == {0.0, 1.0, 2.0, 3.0}
    scores = [
        sample.score
        for each in ENVIRONMENT.recordings.only(part.known_workers)
        if each.question in part.measuring
        for sample in each.samples
    ]
    share = sum(filter(None, scores)) / len(scores)
    found = sum(right * count for right, count in sums.items()) / sums.total() / 3
    assert found == pytest.approx(share, abs=0.06)


def test_episodes_are_the_same_in_each_process() -> None:
    """Keys, which are the keys of the cache of rewards, do not depend on the hash seed of Python."""
    code = (
        "from small_recording import small_recording\n"
        "from podium_train import RecordedAnswers, RecordedSettings\n"
        "environment = RecordedAnswers(small_recording(), RecordedSettings(sizes=(2, 3), held_workers=1))\n"
        "print(environment.version, *[e.key for e in environment.episodes('kinds', 5, seed=9)])\n"
    )
    given: Any = {"cwd": Path(__file__).parent, "env": os.environ | {"PYTHONHASHSEED": "5"}}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, **given)
    keys = [episode.key for episode in ENVIRONMENT.episodes("kinds", 5, seed=9)]
    assert run.stdout.split() == [ENVIRONMENT.version, *keys]
    assert ENVIRONMENT.version != RecordedAnswers(RECORDING, replace(SINGLE, probes=2)).version
    assert keys != [episode.key for episode in ENVIRONMENT.episodes("kinds", 5, seed=10)]


def test_a_reward_of_an_unrecorded_plan_is_unknown() -> None:
    """It is neither 0 nor 0.5, so that asking in other words is not punished."""
    (episode,) = ENVIRONMENT.episodes("train", 1, seed=1)
    plan = 'model_id = [0]\nsubtasks = ["Think about it."]\naccess_list = [[]]'
    assert anyio.run(reward_of, plan, episode, ENVIRONMENT).value is None


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"sizes": (5,)}, r"has 5 workers, and needs 6: 5 for the largest pool \(`sizes`\), and 1 that"),
        ({"shown_kinds": 4}, "shown_kinds"),
        ({"held_out": 1}, "held_out"),
    ],
)
def test_wrong_settings_are_refused(changed: dict[str, object], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        RecordedAnswers(RECORDING, replace(SINGLE, **changed))  # type: ignore[arg-type]


def test_recordings_that_cannot_be_used() -> None:
    """Ungraded answers, missing answers, one combination of workers, and a split that is not there."""
    nothing = (Sample(text="1", score=None),)
    ungraded = Recordings(Recording(each.question, each.worker, nothing) for each in RECORDING)
    for recording, changed, told in (
        (ungraded, {}, "no question has graded answers"),
        (Recordings([]), {}, "empty"),
        (RECORDING, {"workers": ("ada", "zoe")}, "no worker 'zoe'"),
    ):
        with pytest.raises(ConfigError, match=told):
            RecordedAnswers(recording, replace(SINGLE, **changed))
    three = RecordedAnswers(RECORDING, replace(SINGLE, workers=WORKERS[:3], sizes=(2,)))
    assert three.recordings.workers == WORKERS[:3]
    only = RecordedAnswers(RECORDING, replace(SINGLE, sizes=(5,), held_workers=0))
    assert only.splits == ("train", "validation", "questions", "kinds")
    with pytest.raises(ConfigError, match="count is -1"):
        only.episodes("train", -1, seed=1)
    with pytest.raises(ConfigError, match="no split 'mixes'"):
        only.episodes("mixes", 1, seed=1)
    stranger = replace(only.episodes("train", 1, seed=1)[0], reference="sums/1")
    with pytest.raises(ConfigError, match="not of the environment"):
        anyio.run(only.carry_out, stranger, Plan((Step(0, "?"),)))
