"""Live pools with files beside them: tests of code in a sandbox, and a cassette of calls."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from servers.chat_server import Call, ChatServer, Reply, says

from podium.config import load_config
from podium.errors import ConfigError
from podium.types import Message, Plan, Step
from podium_evals.recording import Cassette
from podium_train import EarlierRound, LivePool, PlanOutcome, reward_of
from podium_train.recipe import environment_of, load_recipe

CONFIG = """
[endpoints.local]
base_url = "{url}"
[workers.large]
endpoint = "local"
model = "large"
price = {{ input = 10.0, output = 20.0 }}
[planner]
worker = "large"
[retry]
attempts = 1
"""
DOUBLE = {
    "question": "Write a program that doubles a number.",
    "grader": "code",
    "tests": {"type": "stdin", "cases": [{"input": "4", "output": "8"}]},
}
SUM = {"question": "What is 20 + 22?", "answer": "42", "grader": "number"}
RECIPE = """
[environment]
type = "live"
config = "podium.toml"
questions = "questions.jsonl"
{more}
[model]
base = "base"
[grpo]
"""


def write(folder: Path, url: str, row: dict[str, Any], more: str = "") -> None:
    """Write the config, a question in two forms, and a recipe with more keys of the environment."""
    (folder / "podium.toml").write_text(CONFIG.format(url=url))
    rows = [row, {**row, "question": f"{row['question']} Please."}]
    (folder / "questions.jsonl").write_text("".join(json.dumps(each) + "\n" for each in rows))
    (folder / "recipe.toml").write_text(RECIPE.format(more=more))


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap: make sandbox")
@pytest.mark.parametrize(
    ("program", "score"),
    [
        ("print(2 * int(input()))", 1.0),
        ("print(8)\nopen('/etc/passwd')", 0.0),  # the sandbox has no such file
    ],
)
def test_code_is_graded_in_a_sandbox(program: str, score: float, tmp_path: Path) -> None:
    """A live pool runs the programs of its workers only if the recipe names an interpreter."""

    async def carry_out() -> PlanOutcome | None:
        async with ChatServer(lambda call: says(call, f"```python\n{program}\n```")) as server:
            write(tmp_path, server.url, DOUBLE, f'python = "{sys.executable}"')
            environment = environment_of(load_recipe(tmp_path / "recipe.toml").environment, tmp_path)
            (episode,) = environment.episodes("train", 1, seed=1)
            return await environment.carry_out(episode, Plan((Step(0, "Write it."),)))

    outcome = anyio.run(carry_out)
    assert outcome is not None
    assert outcome.score == score
    write(tmp_path, "http://127.0.0.1:9/v1", DOUBLE)
    with pytest.raises(ConfigError, match=r"`python` in \[environment\]"):
        environment_of(load_recipe(tmp_path / "recipe.toml").environment, tmp_path)


def test_a_recorded_subtask_has_a_reward(tmp_path: Path) -> None:
    """A plan with subtasks of its own words, whose second step reads the first; no worker is called again."""
    text = 'model_id = [0, 0]\nsubtasks = ["Think of 20.", "Check it, and add."]\naccess_list = [[], [0]]'
    plan = Plan((Step(0, "Think of 20."), Step(0, "Check it, and add.", (0,))))
    second = Plan((Step(0, "Once more.", previous=True),))

    def reply(call: Call) -> Reply:
        return says(call, "42" if "add" in call.body["messages"][-1]["content"] else "20")

    async def record() -> None:
        async with ChatServer(reply) as server:
            write(tmp_path, server.url, SUM, 'cassette = "calls.jsonl"')
            live = LivePool(tmp_path / "podium.toml", tmp_path / "questions.jsonl")
            (episode,) = live.episodes("train", 1, seed=1)
            with Cassette(tmp_path / "calls.jsonl", mode="record") as cassette:
                conductor = load_config(tmp_path / "podium.toml").conductor(journaled=False)
                await conductor.run(
                    Plan(plan.steps, query=(Message("user", episode.question),)), middleware=cassette
                )
                assert cassette.recorded == 2

    anyio.run(record)
    environment = environment_of(load_recipe(tmp_path / "recipe.toml").environment, tmp_path)
    assert environment.version != LivePool(tmp_path / "podium.toml", tmp_path / "questions.jsonl").version
    (episode,) = environment.episodes("train", 1, seed=1)
    for _ in range(2):
        reward = anyio.run(reward_of, text, episode, environment)
        assert (reward.value, reward.outcome and reward.outcome.outputs) == (1.0, ("20", "42"))
        assert reward.outcome is not None
        assert reward.outcome.cost
    unknown = anyio.run(reward_of, text.replace("Check", "Doubt"), episode, environment)
    assert unknown.value is None
    earlier = EarlierRound(plan=plan, outputs=("20", "42"))
    assert anyio.run(environment.carry_out, episode, second, earlier) is None
