"""Comparing arms on episodes."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path

import anyio
import pytest
from servers.chat_server import Call, ChatServer, Reply, says, whole
from small_recipes import PLANNER
from small_recording import small_recording

from podium import ChatPlanner, Plan, ScriptedWorker, Step
from podium.config import load_config
from podium.errors import WorkerUnavailable
from podium_train import Episode, PromptStyle, RecordedAnswers, RecordedSettings, messages
from podium_train.evaluation import (
    Evaluation,
    PlanArm,
    Trial,
    as_table,
    compare_arms,
    evaluate,
    plan_arm,
    planner_arm,
    recorded_arms,
)

RECORDING = small_recording(questions=20)
SINGLE = RecordedAnswers(RECORDING, RecordedSettings(sizes=(3, 4), held_workers=1))


@cache
def arms_of(environment: RecordedAnswers) -> Sequence[PlanArm]:
    return recorded_arms(environment)


def compared(episodes: Sequence[Episode], arms: Sequence[PlanArm]) -> Evaluation:
    trials = anyio.run(evaluate, SINGLE, episodes, arms)
    return compare_arms(arms, trials, base="best single", environment=SINGLE.name, split="questions")


def text(worker: int, subtask: str = "Answer the question.") -> str:
    return f'model_id = [{worker}]\nsubtasks = ["{subtask}"]\naccess_list = [[]]'


def test_arms_are_in_the_order_that_a_complementary_pool_gives() -> None:
    """Each of these workers is good at two kinds: who reads the kind is better than who does not."""
    found = compared(SINGLE.episodes("questions", 100, seed=1), arms_of(SINGLE))
    scores = {arm.name: arm.score.mean for arm in found.arms}
    assert len(scores) == 8
    assert scores["kind rule"] > scores["best single"] + 0.1
    assert scores["best card"] > scores["best single"] + 0.1
    assert scores["best worker"] > scores["best card"] > scores["random worker"]
    assert [arm.name for arm in found.arms if not arm.is_achievable] == ["best worker"]
    assert all(arm.unknown == 0 and arm.valid == 1 for arm in found.arms)
    calls = {arm.name: arm.calls for arm in found.arms}
    assert calls["vote of the best 3"] == pytest.approx(3 * (calls["best single"] or 0))
    assert found.unit == "question"
    gain = next(arm.difference for arm in found.arms if arm.name == "kind rule").alone
    assert gain.mean == pytest.approx(scores["kind rule"] - scores["best single"])
    assert gain.low > 0


def test_a_held_out_worker_is_found_by_its_card_alone() -> None:
    """Nothing of it is in the training part."""
    new = SINGLE.partition.new_workers
    assert not new & set(SINGLE.training.workers)
    episodes = SINGLE.episodes("workers", 100, seed=1)
    arms = arms_of(SINGLE)
    trials = anyio.run(evaluate, SINGLE, episodes, arms)

    def chosen(arm: str) -> set[str]:
        plans = [(each.episode.workers, each.reward.plan) for each in trials[arm] if each.reward.plan]
        return {workers[plan.steps[0].worker] for workers, plan in plans}

    assert not new & (chosen("best single") | chosen("kind rule"))
    assert new & chosen("best card")


def test_what_cannot_be_known_counts_0_and_is_told() -> None:
    """Invalid plans, unrecorded plans and failures of a server are told apart."""
    replies = iter([text(0), text(0, "Think."), "I cannot plan.", WorkerUnavailable("it is down")] * 5)

    planner = ChatPlanner(ScriptedWorker("model", lambda _request: next(replies)), spelling="lists")
    arms = [planner_arm("model", planner, max_steps=5), *arms_of(SINGLE)]
    found = compared(SINGLE.episodes("questions", 20, seed=1), arms)
    model = found.arms[0]
    assert (model.unknown, model.valid) == (0.5, 0.5)
    assert model.problems == {"no_plan": 5, "worker_unavailable": 5}
    assert model.score.mean == pytest.approx(model.known / 2)
    told = as_table(found)
    parts = ("model: 5 no_plan, 5 worker_unavailable", "best worker *", "50.0%")
    assert all(part in told for part in parts)
    assert json.loads(json.dumps(asdict(found)))["arms"][0]["unknown"] == 0.5


def test_samples_of_an_episode_count_as_one() -> None:
    """Their mean is the score of the episode, so that more samples do not make an interval narrower."""
    episodes = SINGLE.episodes("questions", 30, seed=1)
    one = plan_arm("one", lambda _episode: Plan((Step(0, "Answer the question."),)))
    many = replace(one, name="many", samples=4)
    trials = anyio.run(evaluate, SINGLE, episodes, [one, many])
    assert len(trials["many"]) == 120
    found = compare_arms([one, many], trials, base="one", environment="e", split="s", unit="question")
    assert (found.arms[0].score, found.episodes) == (found.arms[1].score, 30)


def test_a_conductor_on_a_server_is_an_arm(tmp_path: Path) -> None:
    """Its plans are read from the endpoint of a `podium.toml`; an outage is named, and counts 0."""
    asked: list[str] = []

    def reply(call: Call) -> Reply:
        asked.append(call.body["messages"][-1]["content"])
        return says(call, text(0)) if len(asked) % 2 else whole({"error": {"message": "no"}}, status=503)

    async def run() -> Mapping[str, Sequence[Trial]]:
        async with ChatServer(reply) as server:
            path = tmp_path / "podium.toml"
            path.write_text(PLANNER.format(url=server.url))
            async with load_config(path).planner() as planner:
                arm = planner_arm("served", planner, max_steps=5)
                return await evaluate(SINGLE, SINGLE.episodes("questions", 6, seed=1), [arm], at_once=1)

    trials = anyio.run(run)["served"]
    assert [bool(trial.failure) for trial in trials] == [False, True] * 3
    assert {trial.failure.partition(":")[0] for trial in trials[1::2]} == {"worker_unavailable"}
    episode = trials[0].episode
    assert asked[0] == messages(episode, PromptStyle())[-1].text
