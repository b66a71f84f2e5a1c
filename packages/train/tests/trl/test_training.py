"""SFT and GRPO with TRL from the command line, also after a kill."""

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import anyio
import pytest
import torch
from peft import AutoPeftModelForCausalLM
from safetensors.torch import load_file
from servers.chat_server import Call, ChatServer, Reply, whole
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl_base import PLAN, QUIET, make_base

from podium.errors import ConfigError
from podium_train.recipe import environment_of, load_recipe, messages_of
from podium_train.rewards import Score, ScoreRequest, episode_json
from podium_train.runs import read_record
from podium_train.store import RewardStore
from podium_train.trl import Generator, PlanReward, measure_held_out, merge_lora, tokens_of

RECIPE = """
folder = "run"
environment = { type = "python", factory = "tiny_conductor.world:Workshop" }
held_out = { episodes = 4, every = 2 }
[prompt]
form = "environment"
[model]
base = "base"
dtype = "float32"
[sft]
examples = "plans.jsonl"
epochs = 2
learning_rate = 1e-3
batch = 4
micro_batch = 4
max_tokens = 1000
save_every = 2
[grpo]
groups = 2
group_size = 8
steps = 6
learning_rate = 1e-3
schedule = "constant"
max_tokens = 32
micro_batch = 16
save_every = 2
"""
COMMAND = [sys.executable, "-m", "podium_train"]
LAUNCH = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("base") / "base"
    make_base(folder)
    return folder


def prepare(folder: Path, base: Path, text: str = RECIPE) -> Path:
    (folder / "base").symlink_to(base)
    (folder / "recipe.toml").write_text(text)
    return folder / "recipe.toml"


def run(command: str, recipe: Path) -> subprocess.CompletedProcess[str]:
    words = [*COMMAND, command, "--config", str(recipe)]
    return subprocess.run(words, capture_output=True, text=True, env=QUIET, timeout=300, check=False)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_killed_run_ends_with_the_same_weights(tmp_path: Path, base: Path) -> None:
    """And with the same log, and the same best checkpoint."""
    (tmp_path / "whole").mkdir()
    (tmp_path / "killed").mkdir()
    whole, killed = (prepare(tmp_path / name, base) for name in ("whole", "killed"))
    done = run("grpo", whole)
    assert done.returncode == 0, done.stderr
    with subprocess.Popen(
        [*COMMAND, "grpo", "--config", str(killed)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=QUIET,
    ) as process:
        ends = time.monotonic() + 200
        while 'step": 3' not in _log(killed) and time.monotonic() < ends:
            time.sleep(0.05)
        os.kill(process.pid, signal.SIGKILL)
    again = run("grpo", killed)
    assert again.returncode == 0, again.stderr
    assert "step 1 of" not in again.stdout
    first, second = (load_file(path.parent / "run/final/model.safetensors") for path in (whole, killed))
    start = load_file(base / "model.safetensors")
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert any(not torch.equal(first[name], start[name]) for name in first)
    logs = [[json.loads(line) for line in _log(path).splitlines()] for path in (whole, killed)]
    for lines in logs:
        assert [line["step"] for line in lines] == [1, 2, 3, 4, 5, 6]
        assert "validation" in lines[1]["held_out"]
    assert [line["reward"] for line in logs[0]] == [line["reward"] for line in logs[1]]
    assert (killed.parent / "run/best/best.json").read_text() == (
        whole.parent / "run/best/best.json"
    ).read_text()
    measured = run("eval", killed)
    assert "validation: 0." in measured.stdout, measured.stderr


@pytest.mark.timeout(300)
def test_an_interrupted_run_says_how_to_continue(tmp_path: Path, base: Path) -> None:
    """With the exit code 130, and without a trace."""
    recipe = prepare(tmp_path, base, RECIPE.replace("steps = 6", "steps = 500"))
    words = [*COMMAND, "grpo", "--config", str(recipe)]
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    # a shell that runs the tests in the background makes its children ignore the signal
    heeds = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(words, **pipes, env=QUIET, text=True, preexec_fn=heeds) as process:  # noqa: PLW1509
        ends = time.monotonic() + 200
        while 'step": 3' not in _log(recipe) and time.monotonic() < ends:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
    assert process.returncode == 130, told
    assert "podium-train: interrupted. The log and the last checkpoint are kept" in told
    assert f"`podium-train grpo --config {recipe}`" in told
    assert "Traceback" not in told


@pytest.mark.timeout(300)
def test_sft_then_grpo(tmp_path: Path, base: Path) -> None:
    """GRPO starts from the model that learnt the plans; long examples are counted."""
    recipe = prepare(tmp_path, base, RECIPE.replace("steps = 6", "steps = 2"))
    found = load_recipe(recipe)
    environment = environment_of(found.environment, tmp_path)
    rows = []
    for number, episode in enumerate(environment.episodes("train", 8, seed=1)):
        messages = [{"role": m.role, "content": m.text} for m in messages_of(found, environment, episode)]
        plan = PLAN if number else PLAN.replace("lookup", "lookup " * 900)
        rows.append(json.dumps({"messages": messages, "completion": plan}) + "\n")
    (tmp_path / "plans.jsonl").write_text("".join(rows))
    done = run("sft", recipe)
    assert done.returncode == 0, done.stderr
    assert "1 of 8 examples have more than 1000 tokens: left out" in done.stdout
    assert "100% of the weights moved" in done.stdout
    trained = load_file(tmp_path / "run/sft/final/model.safetensors")
    assert any(
        not torch.equal(weight, load_file(base / "model.safetensors")[name])
        for name, weight in trained.items()
    )
    record = read_record(tmp_path / "run/sft/final")
    assert record is not None
    assert (record.part, record.start, record.recipe) == ("sft", "base", found)
    recipe.write_text(
        recipe.read_text().replace('"environment"', '"environment"\nstyle = { reasons = true }')
    )
    assert "'reasons' in [prompt.style]: false, now true" in run("grpo", recipe).stderr
    recipe.write_text(RECIPE.replace("steps = 6", "steps = 2"))
    words = [*COMMAND, "grpo", "--config", str(recipe), "--report-to", "tensorboard"]
    assert subprocess.run(words, env=QUIET, timeout=300, check=False).returncode == 0
    files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert {path.stat().st_mode for path in files} == {recipe.stat().st_mode}
    assert [path for path in files if path.name == "README.md"] == []
    assert [path for path in files if path.name.startswith("events.out.tfevents")]


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_prefill(tmp_path: Path, base: Path) -> None:
    """It is in each prompt, is not learnt, and belongs to the text that is rewarded."""
    text = (
        RECIPE.replace('dtype = "float32"\n', "")
        .replace("steps = 6", "steps = 2")
        .replace('form = "environment"', 'form = "environment"\nstyle = { prefill = "model_id = [" }')
    )
    recipe = prepare(tmp_path, base, text)
    done = run("grpo", recipe)
    assert done.returncode == 0, done.stderr
    assert "Loading weights" not in done.stderr
    assert "FutureWarning" not in done.stderr
    assert torch.cuda.is_available() or "on the processor, with weights in float32" in done.stdout
    lines = [json.loads(line) for line in _log(recipe).splitlines()]
    assert lines[-1]["valid_plans"] > 0.2
    assert lines[-1]["held_out"]["validation"]["greedy"] > 0
    texts = [json.loads(line) for line in (tmp_path / "run/texts.jsonl").read_text().splitlines()]
    assert [text["step"] for text in texts] == [1] * 4 + [2] * 4
    assert len({text["question"] for text in texts[:4]}) == 2  # one for each group
    assert all(text["text"].startswith("model_id = [") and text["reason"] for text in texts)
    assert {text["reward"] for text in texts if not text["has_plan"]} <= {0.0}
    words = [*COMMAND, "eval", "--config", str(recipe), "--show", "2"]
    measured = subprocess.run(words, capture_output=True, text=True, env=QUIET, timeout=200, check=False)
    assert "validation: 0." in measured.stdout, measured.stderr
    assert measured.stdout.count("\ntext: model_id = [") == measured.stdout.count("\nreward: ") == 2
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "run/checkpoint-2")
    asked = [{"role": "user", "content": "Why?"}]
    shown = tokenizer.apply_chat_template(asked, tokenize=False, add_generation_prompt=True)
    assert shown == "<user>Why?<assistant>model_id = ["
    assert tokenizer.apply_chat_template(asked, tokenize=False) == "<user>Why?"
    for completion in (PLAN, PLAN.removeprefix("model_id = [")):
        found = tokens_of(asked, completion, tokenizer=tokenizer, prefill="model_id = [")
        learnt = found["completion_mask"].index(1)
        assert tokenizer.decode(found["input_ids"][:learnt]) == shown
        assert tokenizer.decode(found["input_ids"][learnt:]) == PLAN.removeprefix("model_id = [") + "<end>"
    with pytest.raises(ConfigError, match="changes the plan of the example"):
        tokens_of(asked, PLAN, tokenizer=tokenizer, prefill="<think>")


@pytest.mark.timeout(300)
def test_a_run_without_plans(tmp_path: Path, base: Path) -> None:
    """It and its measurement end with the reason and another exit code."""
    text = RECIPE.replace("steps = 6", "steps = 2").replace("max_tokens = 32", "max_tokens = 2")
    recipe = prepare(tmp_path, base, text)
    done = run("grpo", recipe)
    assert (done.returncode, "The last model is in" in done.stdout) == (3, True)
    assert "none of the 16 texts of the last step, 2, has a valid plan" in done.stderr.splitlines()[-1]
    measured = run("eval", recipe)
    assert (measured.returncode, "validation: 0.000 sampled" in measured.stdout) == (3, True)
    assert measured.stderr.splitlines()[-1].startswith("none of the 8 texts has a valid plan.")


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.filterwarnings("ignore::FutureWarning:transformers")
def test_lora(tmp_path: Path, base: Path) -> None:
    """The small matrices are trained, a second command continues, and merging changes no text.

    A command with other settings is refused.
    """
    text = RECIPE.replace("[sft]", "[model.lora]\nrank = 4\nalpha = 8\n[sft]")
    recipe = prepare(tmp_path, base, text.replace("steps = 6", "steps = 2"))
    assert run("grpo", recipe).returncode == 0
    recipe.write_text(text.replace("steps = 6", "steps = 4"))
    again = run("grpo", recipe)
    assert again.returncode == 0, again.stderr
    assert "step 1 of" not in again.stdout
    assert "step 3 of 4" in again.stdout
    log = _log(recipe)
    recipe.write_text(text.replace("steps = 6", "steps = 8").replace("rank = 4", "rank = 2"))
    refused = run("grpo", recipe)
    assert (refused.returncode, _log(recipe)) == (2, log)
    assert "'rank' in [model.lora]: 4, now 2" in refused.stderr
    files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert {path.stat().st_mode for path in files} == {recipe.stat().st_mode}
    assert [path for path in files if path.name == "README.md"] == []
    trained = tmp_path / "run/checkpoint-4"
    merge_lora(trained, tmp_path / "whole", dtype="float32")
    small = AutoPeftModelForCausalLM.from_pretrained(trained, dtype="float32")
    whole = AutoModelForCausalLM.from_pretrained(tmp_path / "whole", dtype="float32")
    tokens = torch.arange(4, 40)[None]
    with torch.no_grad():
        assert torch.allclose(small(tokens).logits, whole(tokens).logits, atol=1e-4)
    first = load_file(base / "model.safetensors")
    assert any(
        not torch.equal(weight, first[name]) for name, weight in whole.state_dict().items() if name in first
    )


def run_twice(command: str, recipe: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*LAUNCH, "-m", "podium_train", command, "--config", str(recipe)],
        capture_output=True,
        text=True,
        env={**QUIET, "ACCELERATE_USE_CPU": "true"},
        timeout=300,
        check=False,
    )


@pytest.mark.timeout(200)
def test_sharded_weights_and_unequal_batches(tmp_path: Path, base: Path) -> None:
    """Of five prompts in batches of two, one process has two batches and the other has one."""
    script = str(Path(__file__).parent / "sharded_texts.py")
    words = [*LAUNCH, script, str(base), str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, env=QUIET, timeout=150, check=False)
    assert done.returncode == 0, done.stderr
    assert [(tmp_path / place).read_text() for place in "01"] == ["3", "2"]


@pytest.mark.long
@pytest.mark.timeout(300)
def test_two_processes_make_the_updates_of_one(tmp_path: Path, base: Path) -> None:
    """The examples of an update are those of the recipe; a batch that cannot be divided is refused."""
    messages = [{"role": "user", "content": "What is 1 + 1?"}]
    rows = [{"messages": messages, "completion": PLAN + " " * number} for number in range(8)]
    recipe = prepare(tmp_path, base, RECIPE.replace("micro_batch = 4", "micro_batch = 2", 1))
    (tmp_path / "plans.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = run_twice("sft", recipe)
    assert done.returncode == 0, done.stderr
    assert "step 4 of 4: loss" in done.stdout  # 8 examples, 2 epochs, 4 examples an update
    assert "100% of the weights moved" in done.stdout
    recipe.write_text(RECIPE)
    assert "not a multiple of micro_batch × processes, 4 × 2" in run_twice("sft", recipe).stderr


@pytest.mark.long
@pytest.mark.timeout(400)
def test_two_processes(tmp_path: Path, base: Path) -> None:
    """They train one model on half of the texts each, and only the first one writes and tells.

    The outcomes and the budget are in one database.
    """
    text = RECIPE.replace("steps = 6", "steps = 2").replace("micro_batch = 16", "micro_batch = 4")
    limits = "[reward.limits]\nbudget = 60.0\nplan_cost = 12.0\n[guards]\nunknown = 1.0\n"
    recipe = prepare(tmp_path, base, text + limits)
    done = run_twice("grpo", recipe)
    assert done.returncode == 0, done.stderr
    assert [line.split(":")[0] for line in done.stdout.splitlines() if line.startswith("step")] == [
        "step 1 of 2",
        "step 2 of 2",
    ]
    lines = [json.loads(line) for line in _log(recipe).splitlines()]
    assert [(line["step"], line["texts"]) for line in lines] == [(1, 16), (2, 16)]
    assert "validation" in lines[1]["held_out"]
    with RewardStore(tmp_path / "run/rewards.db") as store:
        assert sum(line["cost"] for line in lines) <= store.spent <= 60
        assert len(store) > 0


def test_the_reward_function_in_another_process(tmp_path: Path, base: Path) -> None:
    """It can be pickled, as the asynchronous trainer needs, and rewards a batch."""
    recipe = prepare(tmp_path, base)
    found = load_recipe(recipe)
    reward = pickle.loads(pickle.dumps(PlanReward(found, tmp_path)))  # noqa: S301 - of this test
    (episode,) = environment_of(found.environment, tmp_path).episodes("train", 1, seed=1)

    async def rewards() -> list[float | None]:
        return await reward(
            completions=[[{"role": "assistant", "content": text}] for text in (PLAN, "no plan")],
            completion_ids=[[1], [2]],
            episode=[episode_json(episode)] * 2,
            trainer_state=SimpleNamespace(global_step=0),
        )  # type: ignore[no-any-return]

    first, second = anyio.run(rewards)
    assert first in (0.5, 1.0)
    assert second == 0.0


def _log(recipe: Path) -> str:
    path = recipe.parent / "run/steps.jsonl"
    return path.read_text() if path.exists() else ""


def test_unknown_outcomes_can_be_logged(tmp_path: Path, base: Path) -> None:
    """The log of a step has the number of held-out texts without an outcome, by the reason."""
    recipe = load_recipe(prepare(tmp_path, base))
    generator = Generator(
        AutoModelForCausalLM.from_pretrained(base), AutoTokenizer.from_pretrained(base), max_tokens=4
    )

    def score(asked: Sequence[ScoreRequest]) -> list[Score]:
        return [Score(value=None, why_unknown="outcome") for _ in asked]

    (found,) = measure_held_out(recipe, tmp_path, generator, score).values()
    logged = json.loads(json.dumps(asdict(found)))
    assert logged["unknown"] == {"outcome": 2 * recipe.held_out.episodes}
    assert logged["sampled"] is logged["greedy"] is None


@pytest.mark.parametrize(
    ("status", "told"),
    [(None, "the Hugging Face Hub cannot be reached: "), (404, "the Hugging Face Hub refuses it: ")],
)
def test_the_hub_is_asked_once(tmp_path: Path, status: int | None, told: str) -> None:
    """Where it cannot be reached, and where it has no such model."""
    asked: list[str] = []

    def answer(call: Call) -> Reply:
        asked.append(call.path)
        return whole({}, status=status or 500)

    (tmp_path / "recipe.toml").write_text(RECIPE)
    with ChatServer(answer).in_thread() as server:
        url = server.url.removesuffix("/v1") if status else "http://127.0.0.1:9"
        words = [*COMMAND, "grpo", "--config", str(tmp_path / "recipe.toml")]
        env = {**QUIET, "HF_HUB_OFFLINE": "0", "HF_ENDPOINT": url, "HF_HOME": str(tmp_path / "home")}
        done = subprocess.run(words, capture_output=True, text=True, env=env, timeout=60, check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert told in done.stderr
    assert len([path for path in asked if path.endswith("config.json")]) == (1 if status else 0)


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_a_type_of_weights_that_needs_a_gpu(tmp_path: Path, base: Path) -> None:
    """It is refused before anything else, and the default is possible on each machine."""
    recipe = prepare(tmp_path, base, RECIPE.replace("float32", "bfloat16"))
    done = run("grpo", recipe)
    assert (done.returncode, done.stdout) == (2, "")
    assert "'dtype' in [model] is 'bfloat16', and there is no GPU" in done.stderr
