"""Recipes and their errors."""

from datetime import date
from pathlib import Path

import anyio
import pytest
from small_recipes import RECORDED, WORLD
from small_recording import WORKERS, small_recording

from podium import Plan, Price, Step
from podium.errors import ConfigError
from podium_evals.recorded import DatedPrice, PriceTable, Recordings, write_recordings
from podium_train import PromptStyle, RecordedAnswers, RecordedSettings, fingerprint, messages
from podium_train.recipe import (
    check_environment,
    check_model,
    environment_of,
    fingerprint_of,
    load_recipe,
    messages_of,
    shipped_recipes,
)

SMALL = f"""
folder = "run"
[environment]
{WORLD}
[model]
base = "base"
[grpo]
group_size = 8
steps = 4
micro_batch = 8
save_every = 2
[held_out]
every = 2
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "recipe.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", sorted(shipped_recipes()))
def test_shipped_recipes_are_valid(name: str, tmp_path: Path) -> None:
    """Each of them, with what its comment promises."""
    recipe = load_recipe(written(tmp_path, shipped_recipes()[name]))
    assert recipe.grpo is not None


def test_the_settings_of_the_paper(tmp_path: Path) -> None:
    recipe = load_recipe(written(tmp_path, shipped_recipes()["paper-7b"]))
    grpo = recipe.grpo
    assert (grpo.groups, grpo.group_size, grpo.steps, grpo.learning_rate) == (4, 64, 200, 1e-6)
    assert (grpo.beta, grpo.epsilon, grpo.temperature, grpo.max_tokens) == (0, 0.2, 1, 1024)
    assert (grpo.loss, grpo.schedule, grpo.warm_up) == ("bnpo", "cosine", 0.03)
    assert (recipe.prompt.style.show, recipe.prompt.style.examples) == ("ordinals", 4)
    default = load_recipe(written(tmp_path, SMALL.partition("[grpo]")[0] + "[grpo]\n")).grpo
    same = ("groups", "group_size", "steps", "learning_rate", "beta", "epsilon", "loss", "warm_up")
    assert all(getattr(default, key) == getattr(grpo, key) for key in same)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (SMALL, "steps = ", "recipe.toml:1: invalid TOML"),
        ("steps", "stepz", "recipe.toml:10: unknown key 'stepz' in [grpo]: did you mean 'steps'"),
        ("steps = 4", 'steps = "4"', "recipe.toml:10: 'steps' in [grpo] is '4': write a whole"),
        ("steps = 4", "steps = 0", "it must be 1 or more"),
        ('"python"', '"recorded"', "[environment]: an environment of type 'recorded' needs"),
        (SMALL[SMALL.index("[grpo]") :], "", "neither [sft] nor [grpo]"),
        ("micro_batch = 8", "micro_batch = 5", "not a multiple of micro_batch"),
        ("\nevery = 2", "\nevery = 3", "'every' in"),
        ("\nevery = 2\n", "\nevery = 2\n[guards]\nentropy = 2.0\n", "'entropy' in [guards] is 2.0: it must"),
        ("\nevery = 2\n", "\nevery = 2\n[reward.limits]\nbudget = 3.0\n", "budget needs plan_cost"),
        ("\nevery = 2\n", "\nevery = 2\n[reward.cost]\nweight = 0.7\n", "below 0.5"),
        ("[grpo]", '[prompt]\nstyle = { spelling = "xml" }\n[grpo]', "'spelling' in [prompt.style]"),
    ],
)
def test_errors_name_the_key(old: str, new: str, told: str, tmp_path: Path) -> None:
    assert old in SMALL
    with pytest.raises(ConfigError) as error:
        load_recipe(written(tmp_path, SMALL.replace(old, new)))
    assert told in str(error.value)


def test_environments_of_recipes(tmp_path: Path) -> None:
    """An own one with options, and a recording beside the recipe."""
    write_recordings(small_recording(), tmp_path / "recording.jsonl")
    other = SMALL.replace(WORLD, RECORDED)
    sizes = SMALL.replace(WORLD, WORLD + "\noptions = { sizes = [3] }")
    world = environment_of(load_recipe(written(tmp_path, sizes)).environment, tmp_path)
    assert {len(each.workers) for each in world.episodes("train", 9, seed=1)} == {3}
    recorded = environment_of(load_recipe(written(tmp_path, other)).environment, tmp_path)
    assert (recorded.name, "train" in recorded.splits) == ("recorded", True)


COST = """
environment = {{ type = "recorded", recording = "{}", answers = {{ sizes = [2] }} }}
model.base = "base"
reward.cost.weight = 0.1
[grpo]
"""


def test_the_cost_of_plans_needs_prices(tmp_path: Path) -> None:
    """A recipe without them is refused before anything starts; with them, cards and prompts show them."""
    plain = small_recording()
    price = Price(input=3.0, output=15.0)
    prices = [DatedPrice(worker=name, as_of=date(2026, 1, 1), price=price, source="me") for name in WORKERS]
    priced = Recordings(plain, prices=PriceTable(prices))
    for name, recording in (("plain", plain), ("some", Recordings(plain, prices=PriceTable(prices[:4])))):
        write_recordings(recording, tmp_path / f"{name}.jsonl")
        path = written(tmp_path, COST.format(f"{name}.jsonl"))
        who = ", ".join(WORKERS) if name == "plain" else "eve"
        with pytest.raises(ConfigError, match=f"the price of {who} is unknown"):
            check_environment(load_recipe(path), tmp_path)
    write_recordings(priced, tmp_path / "priced.jsonl")
    path = written(tmp_path, COST.format("priced.jsonl"))
    check_environment(load_recipe(path), tmp_path)
    environment = environment_of(load_recipe(path).environment, tmp_path)
    assert environment.version != RecordedAnswers(plain, RecordedSettings(sizes=(2,))).version
    (episode,) = environment.episodes("train", 1, seed=1)
    assert "Prices are per million tokens" in messages(episode, PromptStyle())[1].text
    plan = Plan((Step(0, "Answer the question."),))
    assert anyio.run(environment.carry_out, episode, plan).cost


def test_prompts_of_recipes(tmp_path: Path) -> None:
    """The prompt of production has a fingerprint; one of the environment cannot be served."""
    recipe = load_recipe(written(tmp_path, SMALL))
    world = environment_of(recipe.environment, tmp_path)
    (episode,) = world.episodes("train", 1, seed=1)
    style = recipe.prompt.style
    assert messages_of(recipe, world, episode) == messages(episode, style)
    assert fingerprint_of(recipe.prompt) == fingerprint(style)
    own = load_recipe(written(tmp_path, SMALL + '[prompt]\nform = "environment"\n'))
    assert messages_of(own, world, episode)[0].text == world.message(episode)
    with pytest.raises(ConfigError, match="cannot be served"):
        fingerprint_of(own.prompt)
    recorded = RecordedAnswers(small_recording(), RecordedSettings(sizes=(2,)))
    with pytest.raises(ConfigError, match="recorded has no prompt of its own"):
        messages_of(own, recorded, recorded.episodes("train", 1, seed=1)[0])


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("tiny_conductor.world:", "tiny_conductor.wrld:", "cannot be imported: No module named"),
        (":Workshop", "", "write module:name"),
        ("tiny_conductor.world:Workshop", "builtins:dict", "returns no podium_train.Environment"),
        ('"python"', '"python"\noptions = { size = 3 }', "'options' in [environment] do not fit"),
    ],
)
def test_environments_that_cannot_be_made(old: str, new: str, told: str, tmp_path: Path) -> None:
    """The error names the key of the recipe."""
    recipe = load_recipe(written(tmp_path, SMALL.replace(old, new)))
    with pytest.raises(ConfigError) as error:
        environment_of(recipe.environment, tmp_path)
    assert told in str(error.value)


@pytest.mark.parametrize(
    ("base", "told"),
    [
        ("~/modl", "there is no folder /"),
        ("models/new/3b", "not a name on the Hugging Face Hub"),
        (".", "has no config.json"),
    ],
)
def test_a_base_that_cannot_be_a_model(base: str, told: str, tmp_path: Path) -> None:
    """It is refused without a request to the Hub."""
    found = load_recipe(written(tmp_path, SMALL.replace('"base"', f'"{base}"')))
    with pytest.raises(ConfigError, match=told):
        check_model(found, tmp_path)
