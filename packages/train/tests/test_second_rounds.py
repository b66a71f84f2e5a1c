"""Second rounds: the conductor is shown the answer of its plan, and keeps it or writes another plan."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from scored_world import ScoredWorld, episode, plan

from podium import Conductor
from podium.budget import Limits
from podium.errors import ConfigError
from podium.planners import ChatPlanner
from podium.workers import ScriptedWorker
from podium_train import PromptStyle, second_messages
from podium_train.guards import Sample, measure, second_rounds
from podium_train.recipe import load_recipe
from podium_train.rewards import RewardService, Score, ScoreRequest, with_second_rounds
from podium_train.store import RewardStore

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
    assert [each.value for each in found] == [1.0, 1.0, 1.0]
    assert len(world.executed) == 4
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
    assert found is not None
    assert (found.texts, found.before, found.after) == (4, 0.6, 0.6)
    assert (found.kept, found.helped, found.harmed) == (0.25, 0.25, 0.25)
    first = Score(value=1.0, workers=(0,))
    samples = [Sample(episode=episode(), score=each, length=3) for each in (first, *scores)]
    measures = measure(1, samples)
    assert (measures.texts, measures.valid_plans, measures.accuracy) == (1, 1.0, 1.0)
    assert measures.second == replace(found, before=0.75, after=0.75)
    assert second_rounds([]) is None


RECIPE = """
[environment]
type = "python"
factory = "tiny_conductor.world:Workshop"
[prompt]
style = { spelling = "lists", rounds = 2 }
[model]
base = "base"
[grpo]
groups = 4
group_size = 4
[recursion]
"""


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
    (tmp_path / "recipe.toml").write_text(RECIPE)
    assert load_recipe(tmp_path / "recipe.toml").recursion is not None
    (tmp_path / "recipe.toml").write_text(RECIPE.replace(old, new))
    with pytest.raises(ConfigError, match=told):
        load_recipe(tmp_path / "recipe.toml")
