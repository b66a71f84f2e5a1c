"""Exports of conductors, and planning with them."""

import json
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from servers.chat_server import Call, ChatServer, Reply, says
from servers.docs_model import answer
from small_recipes import RECIPE, RECORDED, WORLD
from small_recording import WORKERS, small_recording
from typer.testing import CliRunner

from podium.cli.root import app
from podium.config import load_config
from podium.errors import ConfigError, PlannerError
from podium.plan_text import write_plan
from podium.workers.rates import KindEntry, MeasuredFile, RateEntry, identity_of, write_measured
from podium_evals.arms import vote_plan
from podium_evals.recorded import write_recordings
from podium_train import PromptStyle, fingerprint
from podium_train.export import FACTS, FACTS_FILE, ConductorFacts, export_conductor, read_facts
from podium_train.prompts import with_prefill
from podium_train.recipe import environment_of, load_recipe
from podium_train.runs import RECORD, PoolFacts, record_of, write_record

STYLE = PromptStyle(spelling="lists")
TOKENIZER = ("tokenizer.json", "tokenizer_config.json")
POOL = PoolFacts(sizes=(1, 2), workers=(), rates=False, prices=True, brings=(), tools=(), shows_question=True)
FACTS_OF = ConductorFacts(
    fingerprint=fingerprint(STYLE), style=STYLE, base="base", environment="workshop", data="1", pool=POOL
)
CONFIG = """
endpoints.local.base_url = "{url}"
workers.adder = {{ endpoint = "local", model = "adder", price = {{ input = 0, output = 0 }} }}
[planner]
type = "conductor"
path = "conductor"
base_url = "{url}"
model = "conductor"
provider = "vllm"
[limits]
plan_steps = {steps}
"""


def trained(folder: Path, recipe: str = RECIPE) -> Path:
    """Write a recipe and the files of a model that was trained with it."""
    (folder / "recipe.toml").write_text(recipe)
    found = load_recipe(folder / "recipe.toml")
    prefill = found.prompt.style.prefill
    model = folder / "run" / "best"
    model.mkdir(parents=True)
    texts = dict.fromkeys(("config.json", *TOKENIZER), "{}")
    texts |= {"model.safetensors": "weights", "optimizer.pt": "state", "rng_state.pth": "state"}
    texts["chat_template.jinja"] = with_prefill("{{ messages }}", prefill)
    texts["best.json"] = '{"step": 20, "accuracy": 0.75}'
    for name, text in texts.items():
        (model / name).write_text(text)
    (folder / "run" / "steps.jsonl").write_text('{"step": 10}\n{"step": 20, "reward": 0.8}\n')
    (model / "model.safetensors").chmod(0o600)
    write_record(model, record_of("grpo", found, folder))
    return folder / "recipe.toml"


def test_an_export_has_the_model_and_its_facts(tmp_path: Path) -> None:
    path = trained(tmp_path)
    recipe = load_recipe(path)
    facts = export_conductor(recipe, tmp_path, tmp_path / "run/best", tmp_path / "out")
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"chat_template.jinja", "config.json", "model.safetensors", FACTS_FILE, *TOKENIZER}
    assert read_facts(tmp_path / "out") == facts
    assert (facts.fingerprint, facts.step, facts.accuracy) == (FACTS_OF.fingerprint, 20, 0.75)
    assert (facts.environment, facts.pool.sizes) == ("workshop", (4, 5, 7))
    modes = {path.stat().st_mode for path in (tmp_path / "out").iterdir()}
    assert modes == {path.stat().st_mode}  # as the umask says, although safetensors lets only its owner read
    assert (facts.pool.workers, facts.pool.rates, facts.pool.prices) == ((), False, True)


def test_an_export_tells_what_cards_showed(tmp_path: Path) -> None:
    """Rates of recorded answers, and the fixed pool of live workers."""
    model = tmp_path / "run/best"
    write_recordings(small_recording(), tmp_path / "recording.jsonl")
    path = trained(tmp_path, RECIPE.replace(WORLD, RECORDED))
    facts = export_conductor(load_recipe(path), tmp_path, model, tmp_path / "recorded")
    assert (facts.pool.workers, facts.pool.rates, facts.pool.prices) == ((), True, False)
    assert (facts.pool.brings, facts.pool.tools, facts.pool.shows_question) == (("vote",), (), True)
    config = CONFIG.format(url="http://127.0.0.1:9/v1", steps=5).partition("[planner]")[0]
    own = '\n[workers.join]\ntype = "gather"\n[planner]\ntype = "rule"\n'
    (tmp_path / "podium.toml").write_text(config + own)
    rows = "".join(f'{{"question": "What is {n} + 1?", "answer": "{n + 1}"}}\n' for n in range(20))
    (tmp_path / "questions.jsonl").write_text(rows)
    live = 'type = "live"\nconfig = "podium.toml"\nquestions = "questions.jsonl"\ngrader = "number"'
    path.write_text(RECIPE.replace(WORLD, live))
    write_record(model, record_of("grpo", load_recipe(path), tmp_path))
    pool = export_conductor(load_recipe(path), tmp_path, model, tmp_path / "live").pool
    assert (pool.workers, pool.brings, pool.tools) == (("adder", "join"), (), ("join",))
    assert (pool.rates, pool.prices) == (False, True)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("out", "name a new folder"),
        (RECORD, "was not trained by podium-train"),
        ("own", "cannot be served"),
        ("prefill", "has the prefill '', and the training had 'Plan: '"),
    ],
)
def test_exports_that_are_refused(change: str, told: str, tmp_path: Path) -> None:
    prompts = {"own": 'form = "environment"', "prefill": 'style = { prefill = "Plan: " }'}
    path = trained(tmp_path, RECIPE + (f"[prompt]\n{prompts[change]}\n" if change in prompts else ""))
    model = tmp_path / "run/best"
    if change == "out":
        (tmp_path / "out").mkdir()
    elif change == "prefill":
        (model / "chat_template.jinja").write_text("{{ messages }}")
    elif change != "own":
        (model / change).unlink()
    with pytest.raises(ConfigError, match=told):
        export_conductor(load_recipe(path), tmp_path, model, tmp_path / "out")
    assert change == "out" or not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            RECIPE + "[prompt]\nstyle = { reasons = true, max_steps = 3, rounds = 2 }\n",
            [
                "'reasons' in [prompt.style]: false, now true",
                "'max_steps' in [prompt.style]: 5, now 3",
                "'rounds' in [prompt.style]: 1, now 2",
            ],
        ),
        (
            RECIPE.replace(WORLD, 'type = "recorded"\nrecording = "other.jsonl"'),
            ['\'type\' in [environment]: "python", now "recorded"', "'recording' in [environment]: not set"],
        ),
    ],
)
def test_an_export_needs_the_recipe_of_its_training(text: str, told: Any, tmp_path: Path) -> None:
    """Each setting that differs is named; what does not matter for the conductor may differ."""
    path = trained(tmp_path)
    path.write_text(text)
    with pytest.raises(ConfigError) as error:
        export_conductor(load_recipe(path), tmp_path, tmp_path / "run/best", tmp_path / "out")
    assert [each for each in told if each not in str(error.value)] == []
    assert not (tmp_path / "out").exists()
    path.write_text(RECIPE.replace("[grpo]", "[grpo]\nsteps = 7"))
    export_conductor(load_recipe(path), tmp_path, tmp_path / "run/best", tmp_path / "out")


def test_the_weights_under_small_matrices(tmp_path: Path) -> None:
    """They must be those from which the training started, or the export would be another model."""
    (tmp_path / "base").mkdir()
    (tmp_path / "base/model.safetensors").write_text("first")
    path = trained(tmp_path)
    model = tmp_path / "run/best"
    settings = {"base_model_name_or_path": str(tmp_path / "base")}
    (model / "adapter_config.json").write_text(json.dumps(settings))
    (tmp_path / "base/model.safetensors").write_text("other")
    with pytest.raises(ConfigError, match="not the weights from which its training started"):
        export_conductor(load_recipe(path), tmp_path, model, tmp_path / "out")


def test_the_plans_of_a_training_run_in_production(tmp_path: Path) -> None:
    """All of them, through `podium run`: the section adds the workers that the pools of the training had.

    The model writes for each question what is right in its training.
    """
    answers = "answers = { sizes = [5], held_workers = 0 }"
    write_recordings(small_recording(), tmp_path / "recording.jsonl")
    recorded = f'type = "recorded"\nrecording = "recording.jsonl"\n{answers}'
    path = trained(tmp_path, RECIPE.replace(WORLD, recorded))
    recipe = load_recipe(path)
    export_conductor(recipe, tmp_path, tmp_path / "run/best", tmp_path / "conductor")
    environment = environment_of(recipe.environment, tmp_path)
    episodes = environment.episodes("train", 24, seed=1)
    plans = {
        " ".join(each.question.split()): write_plan(vote_plan((0, 1), environment.models_of(each)), "lists")
        for each in episodes
    }

    def model(call: Call) -> Reply:
        told = " ".join(json.dumps(call.body["messages"], ensure_ascii=False).replace("\\n", " ").split())
        if call.body["model"] == "conductor":
            return says(call, next(plan for question, plan in plans.items() if question in told))
        return says(call, f"The answer is {call.body['model']}.")

    with ChatServer(model).in_thread() as server:
        tables = "".join(f'[workers.{name}]\nendpoint = "local"\nmodel = "{name}"\n' for name in WORKERS)
        _, _, rest = CONFIG.format(url=server.url, steps=5).partition("[planner]")
        text = f'[endpoints.local]\nbase_url = "{server.url}"\n{tables}[planner]{rest}[journal]\noff = true\n'
        (tmp_path / "podium.toml").write_text(text)
        words = ["run", "--config", str(tmp_path / "podium.toml"), "--json"]
        for each in episodes:
            done = CliRunner().invoke(app, [*words, each.question])
            assert done.exit_code == 0, done.output
            result = json.loads(done.stdout)
            assert {outcome["status"] for outcome in result["outcomes"]} == {"ok"}
            assert result["answer"] == f"The answer is {WORKERS[0]}."


def configured(folder: Path, url: str, facts: ConductorFacts | None = FACTS_OF) -> Path:
    (folder / "conductor").mkdir()
    if facts is not None:
        (folder / "conductor" / FACTS_FILE).write_bytes(FACTS.dump_json(facts))
    (folder / "podium.toml").write_text(CONFIG.format(url=url, steps=5))
    return folder / "podium.toml"


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_an_export_plans_with_the_prompt_of_its_training(tmp_path: Path, anyio_backend: str) -> None:
    """Through `podium.toml`; another limit of steps is refused."""
    with ChatServer(answer).in_thread() as server:
        conductor = load_config(configured(tmp_path, server.url)).conductor(journaled=False)
        plan = await conductor.plan("What is 2 + 2?")
        assert (bool(plan.steps), plan.planner.name) == (True, "conductor")
        (tmp_path / "podium.toml").write_text(CONFIG.format(url=server.url, steps=3))
        with pytest.raises(PlannerError, match="plan_steps = 5"):
            await load_config(tmp_path / "podium.toml").conductor(journaled=False).plan("What is 2 + 2?")


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_plan_begins_with_the_prefill(tmp_path: Path, anyio_backend: str) -> None:
    """The server's model has written what follows it, in pieces and as a whole."""
    style = PromptStyle(spelling="lists", prefill="Let us see. model_id = [")
    facts = replace(FACTS_OF, style=style, fingerprint=fingerprint(style))
    rest = '0]\nsubtasks = ["What is 2 + 2?"]\naccess_list = [[]]'
    with ChatServer(lambda call: says(call, rest)).in_thread() as server:
        conductor = load_config(configured(tmp_path, server.url, facts)).conductor(journaled=False)
        plan = await conductor.plan("What is 2 + 2?")
        assert [step.subtask for step in plan.steps] == ["What is 2 + 2?"]
        result = await conductor.run("What is 2 + 2?")
        assert result.rounds[0].proposals[0].text == style.prefill + rest


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        (None, "podium-train export"),
        (replace(FACTS_OF, fingerprint="0123456789abcdef"), "trained with the prompt 0123456789abcdef"),
        (replace(FACTS_OF, pool=replace(POOL, tools=("join",))), "that the pool lacks: add a worker join"),
    ],
)
def test_conductors_that_cannot_plan(facts: ConductorFacts | None, told: str, tmp_path: Path) -> None:
    """The error of the config says why, and `podium check` tells it."""
    path = configured(tmp_path, "http://127.0.0.1:9/v1", facts)
    with pytest.raises(ConfigError, match=told):
        load_config(path).conductor(journaled=False)
    done = CliRunner().invoke(app, ["check", "--config", str(path)])
    assert done.exit_code == 1
    assert told in " ".join(done.output.split())


OTHER_NUMBERS = "join, adder, and the pool has adder, join"


@pytest.mark.parametrize(
    ("style", "pool", "told"),
    [
        (STYLE, {}, ""),
        (STYLE, {"rates": True}, "these have none: adder. So its plans may be worse. Measure the"),
        (STYLE, {"prices": False}, "without prices of workers, and these have one: adder"),
        (PromptStyle(spelling="lists", show="ordinals"), {"workers": ("join", "adder")}, OTHER_NUMBERS),
    ],
    ids=["same", "no rates", "a price", "other numbers"],
)
def test_other_cards_than_in_the_training(style: PromptStyle, pool: Any, told: str, tmp_path: Path) -> None:
    """A warning when the conductor is made, and the remedy. A worker that reads no prose needs no rate."""
    known = replace(FACTS_OF, style=style, fingerprint=fingerprint(style), pool=replace(POOL, **pool))
    path = configured(tmp_path, "http://127.0.0.1:9/v1", known)
    path.write_text(path.read_text() + '[workers.join]\ntype = "gather"\n')
    conductor = load_config(path).conductor(journaled=False)
    assert (len(conductor.warnings), told in "".join(conductor.warnings)) == (bool(told), True)


def test_rates_on_cards(tmp_path: Path) -> None:
    """Rates that the training did not have are warned about."""
    path = configured(tmp_path, "http://127.0.0.1:9/v1")
    config = load_config(path)
    figures: Any = {"answers": 3, "right": 2, "prior": 0.5, "rate": 0.6, "low": 0.2, "high": 0.9}
    rate = RateEntry(identity=identity_of(config.worker("adder")), cost=None, **figures)
    day = date(2026, 1, 1)
    kind = KindEntry(measured_on=day, fingerprint="", questions=("1 + 1?",), rates={"adder": rate})
    write_measured(MeasuredFile(kinds={"sums": kind}), tmp_path / "measured.json")
    path.write_text(path.read_text() + '[pool]\nmeasured = "measured.json"\n')
    (warning,) = load_config(path).conductor(journaled=False).warnings
    assert "Leave out `measured` in [pool]" in warning
