"""Forecasts of cost and duration, from recipes, logs and prices."""

import json
from pathlib import Path

from typer.testing import CliRunner

from podium_train.commands import app
from podium_train.environments import PlanOutcome
from podium_train.forecasts import forecast_compare, forecast_eval, forecast_grpo, forecast_sft
from podium_train.recipes import Recipe, load_recipe
from podium_train.rewards import RewardStore

RECIPE = """
[environment]
type = "specialists"
[model]
base = "base"
[sft]
examples = "plans.jsonl"
epochs = 2
batch = 8
micro_batch = 2
[grpo]
steps = 100
[held_out]
splits = ["validation", "mixes"]
episodes = 10
"""
LIVE = RECIPE.replace(
    '"specialists"', '"live"\nconfig = "podium.toml"\nquestions = "q.jsonl"\ngrader = "number"'
)
BUDGET = "[reward.limits]\nbudget = 500.0\nplan_cost = 0.1\n"
PODIUM = """
[endpoints.lab]
base_url = "http://127.0.0.1:9/v1"
provider = "vllm"
[workers.small]
endpoint = "lab"
model = "small"
price = { input = 0.1, output = 0.4 }
[workers.large]
endpoint = "lab"
model = "large"
price = { input = 3.0, output = 15.0 }
[planner]
worker = "large"
"""
UNKNOWN = "Expected duration: unknown; it is measured in the first 5 updates."


def recipe_in(folder: Path, text: str) -> Recipe:
    """Write and read a recipe."""
    (folder / "recipe.toml").write_text(text)
    return load_recipe(folder / "recipe.toml")


def log(folder: Path, name: str, *lines: dict[str, object], checkpoint: int) -> None:
    """Write a log with a cut line at its end, and a whole and a cut checkpoint."""
    path = folder / name
    whole = path.parent / f"checkpoint-{checkpoint}"
    whole.mkdir(parents=True)
    (whole / "guards.json").write_text("{}")
    (path.parent / f"checkpoint-{checkpoint + 20}").mkdir()
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"step": 999, "co')


def test_before_the_first_update(tmp_path: Path) -> None:
    """Plans and updates are counted, and unknown durations are named."""
    recipe = recipe_in(tmp_path, RECIPE)
    (tmp_path / "plans.jsonl").write_text("{}\n" * 29)
    assert forecast_sft(recipe, tmp_path) == ["29 examples, 2 times: 8 updates left of 8.", UNKNOWN]
    counts = "100 steps of 4 × 64 texts: 25,600 plans, and 5 measurements with 200 plans."
    assert forecast_grpo(recipe, tmp_path) == [
        f"{counts} Equal plans are executed once.",
        "The plans cost nothing, because no live worker is called.",
        UNKNOWN,
    ]
    assert forecast_eval(recipe, tmp_path)[0] == "2 splits of 10 episodes, sampled and greedy: 40 plans."


def test_the_duration_is_measured(tmp_path: Path) -> None:
    """Without the first update, and with the measurements apart; from the last whole checkpoint."""
    recipe = recipe_in(tmp_path, RECIPE)
    (tmp_path / "plans.jsonl").write_text("{}\n" * 400)
    updates = ({"step": 1, "seconds": 90.0}, {"step": 2, "seconds": 3.0})
    log(tmp_path, "run/sft/updates.jsonl", *updates, checkpoint=40)
    assert forecast_sft(recipe, tmp_path) == [
        "400 examples, 2 times: 60 updates left of 100.",
        "Expected duration: about 3 min 0 s, from 1 update; it holds while texts are as long.",
    ]
    held = {"validation": {"sampled": 0.5, "greedy": 0.5}}
    lines = [{"step": step, "cost": 0.0, "seconds": 60.0 + step % 2, "held_out": {}} for step in range(1, 24)]
    lines[19] |= {"seconds": 90.0, "held_out": held}
    log(tmp_path, "run/steps.jsonl", *lines, checkpoint=20)
    told = forecast_grpo(recipe, tmp_path)
    assert told[0].startswith("80 steps of 4 × 64 texts: 20,480 plans, and 4 measurements with 160 plans")
    assert told[-1].startswith("Expected duration: about 1 h 22 min, from 21 updates")
    assert "Expected duration without loading: about 29.5 s" in forecast_eval(recipe, tmp_path)[-1]


def test_the_cost_of_live_workers(tmp_path: Path) -> None:
    """From the prices, then from executed plans, then from the steps; with the paper's bill for scale."""
    (tmp_path / "podium.toml").write_text(PODIUM)
    rows = [{"question": f"What is {n} + 1?", "answer": n + 1, "kind": "sums"} for n in range(9)]
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    recipe = recipe_in(tmp_path, LIVE + BUDGET)
    first = forecast_grpo(recipe, tmp_path)
    assert "25,600 plans, with up to 128,000 calls of workers, and 5 measurements" in first[0]
    assert "between $4.70 and $704.34, depending on the workers" in first[1]
    assert first[2] == "The budget is $500.00; $0 is spent. Later plans are not executed."
    assert "51,200 plans with about 150,000 calls of workers, about $1,200; these" in first[3]
    with RewardStore(tmp_path / "run/rewards.db") as store:
        for number, cost in enumerate((0.01, 0.02, 0.03, None)):
            store.reserve(0.1, budget=1.0)
            store.settle(str(number), PlanOutcome(score=1.0, cost=cost), reserved=0.1)
    assert "Expected cost: $516.00 (" in (second := forecast_grpo(recipe, tmp_path))[1]
    assert "from 3 executed plans" in second[1]
    assert "$0.1600 is spent" in second[2]
    log(tmp_path, "run/steps.jsonl", *[{"step": 40, "cost": 2.0, "seconds": 60.0}] * 3, checkpoint=40)
    assert "Expected cost: $120.94 ($120.94 to $120.94), from 3 steps." in forecast_grpo(recipe, tmp_path)[1]
    compared = forecast_compare(recipe, tmp_path, episodes=100, arms=4)
    assert compared[0] == "100 episodes of 4 arms: 400 plans, with up to 2,000 calls of workers."
    (tmp_path / "podium.toml").write_text(PODIUM.replace("price = { input = 0.1, output = 0.4 }", ""))
    for name in ("steps.jsonl", "rewards.db"):
        (tmp_path / "run" / name).unlink()
    assert "unknown, because 'small' has no price" in forecast_grpo(recipe, tmp_path)[1]


def test_the_command(tmp_path: Path) -> None:
    """It forecasts all parts, starts nothing, and needs no trainer."""
    recipe_in(tmp_path, RECIPE)
    words = ["forecast", "--config", str(tmp_path / "recipe.toml")]
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    assert "plans.jsonl do not exist, so the number of updates is unknown" in done.stdout
    assert "100 steps of 4 × 64 texts" in done.stdout
    (tmp_path / "plans.jsonl").write_text("{}\n")
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    assert [line for line in done.stdout.splitlines() if not line.startswith(" ")] == [
        "sft:",
        "grpo:",
        "eval:",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plans.jsonl", "recipe.toml"]
