"""The contract of reward services, in process and over HTTP, and rewards of second rounds."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, settings, strategies as st
from scored_world import ScoredWorld, episode, plan
from small_recipes import RECIPE

from podium import ChatPlanner, Conductor, Limits, ScriptedWorker
from podium.errors import ConfigError
from podium_train import PromptStyle, load_recipe, second_messages
from podium_train.guards import Sample, measure, second_rounds
from podium_train.rewards import (
    CostWeight,
    RewardLimits,
    RewardService,
    Score,
    ScoreRequest,
    with_costs,
    with_second_rounds,
)
from podium_train.store import RewardStore

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def asked(text: str, question: str = "What is 2 + 2?") -> ScoreRequest:
    return ScoreRequest(episode=episode(question), text=text)


async def test_scores_are_in_order_with_their_facts() -> None:
    """Right, wrong, invalid and unknown texts of one batch."""
    world = ScoredWorld()
    texts = [plan(1, 0), plan(0, 1), "no plan", plan(7), plan(0, subtask="lost")]
    scorer = RewardService(world, RewardStore())
    scores = await scorer.score([asked(text) for text in texts])
    assert [score.value for score in scores] == [1.0, 0.5, 0.0, 0.0, None]
    assert [score.problem for score in scores] == ["", "", "no_plan", "unknown_worker", ""]
    assert scores[0] == Score(value=1.0, answer="good 1", workers=(1, 0), cost=2.0, calls=2, tokens=20)
    assert (scores[4].why_unknown, scores[4].cost) == ("outcome", None)


async def test_an_unknown_outcome_is_tried_again() -> None:
    """It is shared by the equal plans of a batch, and not stored."""
    world = ScoredWorld()
    scorer = RewardService(world, RewardStore())
    for _ in range(2):
        scores = await scorer.score([asked(plan(0, subtask="lost"))] * 3)
        assert {score.why_unknown for score in scores} == {"outcome"}
    assert len(world.executed) == 2


async def test_a_cancelled_execution_is_taken_over() -> None:
    """The other request for the same plan executes it, and the money of the first stays reserved."""
    world, store = ScoredWorld(), RewardStore()
    service = RewardService(world, store, limits=RewardLimits(budget=10, plan_cost=3))
    async with anyio.create_task_group() as first, anyio.create_task_group() as second:
        first.start_soon(service.score, [asked(plan(0, subtask="slow"))])
        await anyio.wait_all_tasks_blocked()
        second.start_soon(service.score, [asked(plan(0, subtask="slow"))])
        await anyio.wait_all_tasks_blocked()
        assert len(world.executed) == 1
        first.cancel_scope.cancel()
        await anyio.wait_all_tasks_blocked()
        assert (len(world.executed), store.spent) == (2, 6)
        second.cancel_scope.cancel()


async def test_processes_share_outcomes_and_the_budget(tmp_path: Path) -> None:
    """Two services on one database, each with its part of the limits."""
    limits = RewardLimits(budget=5, plan_cost=2, concurrency=5).shared_by(2)
    assert limits.concurrency == 2
    worlds, path = (ScoredWorld(), ScoredWorld()), tmp_path / "rewards.db"
    services = [RewardService(world, RewardStore(path), limits=limits) for world in worlds]
    first = await services[0].score([asked(plan(1, 0))])
    second = await services[1].score([asked(plan(1, 0)), *(asked(plan(1, 0), str(n)) for n in range(3))])
    assert (first[0].cached, second[0].cached) == (False, True)
    assert [score.why_unknown for score in second] == ["", "", "budget", "budget"]
    assert ([len(world.executed) for world in worlds], services[0].store.spent) == ([1, 1], 4)


KILLED = """
import sys, anyio
from pathlib import Path
from scored_world import ScoredWorld, episode, plan
from podium_train.rewards import *
async def main():
    store = RewardStore(Path(sys.argv[1]))
    service = RewardService(ScoredWorld(), store, limits=RewardLimits(budget=100, plan_cost=5))
    await service.score([ScoreRequest(episode=episode(str(n)), text=plan(0)) for n in range(20)])
    print("scored", flush=True)
    await service.score([ScoreRequest(episode=episode(), text=plan(0, subtask="slow"))])
anyio.run(main)
"""


def test_outcomes_and_spending_survive_a_kill(tmp_path: Path) -> None:
    """What was executed is not executed again, and the plan in execution counts as spent."""
    path = tmp_path / "new" / "rewards.db"
    words, here = [sys.executable, "-c", KILLED, str(path)], Path(__file__).parent
    process = subprocess.Popen(words, stdout=subprocess.PIPE, cwd=here, text=True)
    with process, process.stdout:
        assert process.stdout.readline() == "scored\n"
        ends = time.monotonic() + 20
        while RewardStore(path).spent < 25 and time.monotonic() < ends:
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
    with RewardStore(path) as store:
        world = ScoredWorld()
        assert (len(store), store.spent) == (20, 25)
        scores = anyio.run(RewardService(world, store).score, [asked(plan(0), str(n)) for n in range(20)])
    assert {score.value for score in scores} == {1.0}
    assert not world.executed


TEAMS = st.lists(st.integers(0, 1), min_size=1, max_size=4)
PLANS = st.lists(st.tuples(TEAMS, st.integers(0, 3)), max_size=30)


@settings(deadline=None)
@given(plans=PLANS, budget=st.integers(1, 40), halves=st.integers(0, 30))
def test_the_cache_changes_no_value_and_the_budget_holds(plans: Any, budget: int, halves: int) -> None:
    """For any texts, in one batch or two: known values are those of the environment."""
    requests = [asked(plan(*workers), f"Question {question}") for workers, question in plans]
    world, store = ScoredWorld(), RewardStore()
    service = RewardService(world, store, limits=RewardLimits(budget=budget, plan_cost=4))

    async def scored() -> list[Score]:
        return [*await service.score(requests[:halves]), *await service.score(requests[halves:])]

    scores = anyio.run(scored)
    for score, (workers, _) in zip(scores, plans, strict=True):
        expected = 1.0 if workers[-1] == 0 else 0.5
        assert score.value == expected or score.why_unknown == "budget"
    assert store.spent <= budget
    assert store.spent == sum(len(plan.steps) for plan in world.executed)
    distinct = {json.dumps(each) for each in plans}
    assert len(world.executed) <= len(distinct)


@given(
    values=st.lists(st.tuples(st.sampled_from([0.0, 0.5, 0.7, 1.0, None]), st.floats(0, 9)), min_size=1),
    step=st.integers(0, 300),
)
def test_cost_decides_only_among_right_plans(values: list[tuple[float | None, float]], step: int) -> None:
    """Other rewards stay; a right plan stays above all others, and a cheaper one is never below a dearer."""
    weight = CostWeight(weight=0.2, start=100, end=200).at(step)
    group = [Score(value=value, cost=cost) for value, cost in values]
    rewards = with_costs(group, weight)
    right = sorted((s.cost or 0, r or 0) for s, r in zip(group, rewards, strict=True) if s.value == 1.0)
    others = [(s.value, r) for s, r in zip(group, rewards, strict=True) if s.value != 1.0]
    assert all(reward == value for value, reward in others)
    assert all(0.8 - 1e-9 <= reward <= 1.0 for _, reward in right)
    assert [reward for _, reward in right] == sorted((reward for _, reward in right), reverse=True)
    if step <= 100:
        assert all(reward == 1.0 for _, reward in right)


KEEP = "model_id = []\nsubtasks = []\naccess_list = []"


def score(requests: Sequence[ScoreRequest], path: Path | None = None) -> tuple[list[Score], ScoredWorld]:
    """Return the scores of texts, and the world that executed their plans."""
    world = ScoredWorld()

    async def scored() -> list[Score]:
        with RewardStore(path) as store:
            return await RewardService(world, store).score(requests)

    return anyio.run(scored), world


def second(text: str, earlier: str) -> ScoreRequest:
    return ScoreRequest(episode=episode(), text=text, earlier=earlier)


def test_the_messages_are_those_of_a_run() -> None:
    """The second prompt of a run with two rounds, for each spelling."""
    for style in (PromptStyle(), PromptStyle(spelling="rows", show="ordinals")):
        model = ScriptedWorker("model", lambda request: plan(0) if len(request.messages) == 2 else KEEP)
        planner = ChatPlanner(model, spelling=style.spelling, show=style.show)
        workers = [ScriptedWorker(card, "It is 4.") for card in episode().cards]
        conductor = Conductor(planner, workers, limits=Limits(plan_steps=style.max_steps, rounds=2))

        async def run() -> None:
            await conductor.run(episode().question)  # noqa: B023 - called here

        anyio.run(run)
        found = second_messages(episode(), style, text=plan(0), answer="It is 4.")
        assert model.requests[1].messages == found
        assert "It is 4." in found[-1].text


def test_a_second_round_keeps_or_replaces_the_answer() -> None:
    """The reward is that of the answer after the round; keeping costs nothing."""
    texts = [KEEP, plan(0), plan(1), "no plan", plan(1, 1)]
    found, world = score([second(text, plan(1)) for text in texts])
    assert [each.value for each in found] == [0.5, 1.0, 0.5, 0.0, 0.5]
    assert [each.kept for each in found] == [True, False, True, False, False]
    assert [each.cost for each in found] == [0.0, 1.0, 0.0, 0.0, 2.0]
    assert all(each.second_round and each.before == 0.5 for each in found)
    assert len(world.executed) == 3


def test_the_outcome_depends_on_the_first_round(tmp_path: Path) -> None:
    """Equal second plans after different first plans are executed and stored apart."""
    looks = plan(0).replace("[[]]", '[["previous"]]')
    requests = [second(looks, plan(1)), second(looks, plan(1, 1)), second(looks, plan(1))]
    found, world = score(requests, tmp_path / "rewards.db")
    assert ([each.value for each in found], len(world.executed)) == ([1.0, 1.0, 1.0], 4)
    again, world = score(requests, tmp_path / "rewards.db")
    assert [each.cached for each in again] == [True] * 3
    assert not world.executed
    (bad,), _ = score([ScoreRequest(episode=episode(), text=looks)])
    assert bad.problem == "no_previous"


def test_a_second_round_needs_an_answer() -> None:
    """If the first round has none, or its outcome is unknown, the second has no reward."""
    found, _ = score([second(KEEP, "no plan"), second(KEEP, plan(0, subtask="lost"))])
    assert [each.value for each in found] == [None, None]


def test_rewards_of_a_group() -> None:
    """A first text gets its own reward and the mean reward of the texts that continue it."""
    texts = ["a", "b", "c", "x", "y", "z"]
    earlier = [None, None, None, "a", "a", "b"]
    found = with_second_rounds(texts, earlier, [0.5, 1.0, 0.0, 1.0, 0.5, None], discount=0.25)
    assert found == [0.75 * 0.5 + 0.25 * 0.75, 1.0, 0.0, 1.0, 0.5, None]


def test_measures_of_second_rounds() -> None:
    """An invalid text leaves the answer; other measures are of first rounds only."""
    scores = [
        Score(value=1.0, before=0.5, second_round=True),
        Score(value=0.5, before=1.0, second_round=True),
        Score(value=1.0, before=1.0, second_round=True, kept=True),
        Score(value=0.0, before=1.0, second_round=True, problem="no_plan"),
        Score(value=None, before=None, second_round=True),
    ]
    found = second_rounds(scores, [Score(value=0.0)])
    assert (found.texts, found.before, found.after) == (4, 0.6, 0.6)
    assert (found.kept, found.helped, found.harmed) == (0.25, 0.25, 0.25)
    first = Score(value=1.0, workers=(0,))
    samples = [Sample(episode=episode(), score=each, length=3) for each in (first, *scores)]
    measures = measure(1, samples)
    assert (measures.texts, measures.valid_plans, measures.accuracy) == (1, 1.0, 1.0)
    assert measures.second == replace(found, before=0.75, after=0.75)
    assert second_rounds([]) is None


TWO_ROUNDS = '[prompt]\nstyle = { spelling = "lists", rounds = 2 }\n[grpo]\ngroups = 4\ngroup_size = 4\n'
TWICE = RECIPE.replace("[grpo]\n", f"{TWO_ROUNDS}[recursion]\n")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("rounds = 2", "rounds = 1", "write rounds = 2"),
        ("group_size = 4", "group_size = 3\nmicro_batch = 4", "an even 'group_size'"),
        ("[grpo]\ngroups = 4\ngroup_size = 4", "[sft]\nexamples = 'x'", r"\[recursion\] needs \[grpo\]"),
        ("[recursion]", "[recursion]\ndiscount = 2.0", "discount"),
    ],
)
def test_recipes_that_cannot_run(old: str, new: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text(TWICE)
    assert load_recipe(tmp_path / "recipe.toml").recursion is not None
    (tmp_path / "recipe.toml").write_text(TWICE.replace(old, new))
    with pytest.raises(ConfigError, match=told):
        load_recipe(tmp_path / "recipe.toml")
