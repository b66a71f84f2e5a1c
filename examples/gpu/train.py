"""Trains a conductor on GPUs with the settings of the paper, or prints the plan where there is no GPU.

    python examples/gpu/train.py --base Qwen/Qwen2.5-7B-Instruct --folder run-7b

The folder has a `podium.toml` with the workers and `questions.jsonl` with questions and their answers; for a
warm start, it also has `plans.jsonl` with examples. The script writes `recipe.toml` there if it is missing,
computes the memory and the disk, prints the commands, and carries them out. With one GPU it trains LoRA, and
with more it divides all weights among them. A killed run continues when the command is given again.

It was not run on a GPU.
"""

import argparse
import re
import shlex
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from sizes import needs_of, shape_of

from podium.errors import ConfigError
from podium_train.recipe import load_recipe, shipped_launchers, shipped_recipes

LAUNCHER = "zero3.yaml"
LORA = "\n[model.lora]\nrank = 32\nalpha = 64\n"
SFT = '\n[sft]\nexamples = "plans.jsonl"\nepochs = 2\nlearning_rate = 1e-5\nmicro_batch = 2\n'


def main() -> int:
    """Print the plan, and carry it out if there are GPUs; return 1 after an error."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--base", default="Qwen/Qwen2.5-7B-Instruct", help="a folder, or a name on the Hub")
    parser.add_argument("--folder", type=Path, required=True, help="folder with the workers and questions")
    parser.add_argument("--gpus", type=int, default=_gpus() or 2, help="default: those of this machine, or 2")
    parser.add_argument("--memory", type=float, default=80.0, help="memory of a GPU, in GB")
    chosen = parser.parse_args()
    try:
        return _train(chosen.base, chosen.folder, chosen.gpus, chosen.memory)
    except ConfigError as error:
        print(f"train.py: {error}", file=sys.stderr)
        return 1


def _train(base: str, folder: Path, gpus: int, memory: float) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "recipe.toml"
    if not path.exists():
        path.write_text(recipe_text(base, gpus=gpus, has_examples=(folder / "plans.jsonl").exists()))
    recipe = load_recipe(path)
    needs = needs_of(recipe, shape_of(base), gpus=gpus, gpu=memory)
    free = shutil.disk_usage(folder).free / 1e9
    print(f"{needs.told(memory)}, {free:.0f} GB are free")
    parts = ["sft"] if recipe.sft is not None else []
    commands = [_launched(part, path, gpus) for part in (*parts, "grpo")]
    words = [sys.executable, "-m", "podium_train"]
    commands.append([*words, "eval", "--config", str(path)])
    commands.append([*words, "export", "--config", str(path), "--out", str(folder / "conductor")])
    if gpus > 1:
        (folder / LAUNCHER).write_text(shipped_launchers()[LAUNCHER])
    for command in commands:
        print(f"  {shlex.join(command)}")
    if not _gpus():
        print("There is no GPU here: this is the plan.")
        return 0
    if not needs.fits(memory) or free < needs.disk:
        raise ConfigError(f"the training does not fit: change {path}, or add GPUs or disk")
    for command in commands:
        done = subprocess.run(command, check=False)  # noqa: S603 - our own words
        if done.returncode:
            return done.returncode
    return 0


def recipe_text(base: str, *, gpus: int, has_examples: bool) -> str:
    """Return the recipe of the paper for another base and number of GPUs."""
    text = shipped_recipes()["paper-7b"].replace("Qwen/Qwen2.5-7B-Instruct", base)
    text = text.replace('folder = "paper-7b-run"', 'folder = "run"')
    if gpus == 1:
        text = text.replace("\n[grpo]\n", f"{LORA}\n[grpo]\n")
        text = re.sub("learning_rate = .*", "learning_rate = 1e-5", text)
        text = re.sub("memory = .*\ntensor_parallel = .*", "memory = 0.4", text)
    else:
        text = re.sub("tensor_parallel = .*", f"tensor_parallel = {gpus}", text)
    return text + (SFT if has_examples else "")


def _launched(part: str, recipe: Path, gpus: int) -> list[str]:
    words = [sys.executable, "-m"]
    if gpus > 1:
        launcher = str(recipe.parent / LAUNCHER)
        words += ["accelerate.commands.launch", "--config_file", launcher, "--num_processes", str(gpus), "-m"]
    return [*words, "podium_train", part, "--config", str(recipe)]


def _gpus() -> int:
    """Return the number of GPUs of this machine."""
    if find_spec("torch") is None:
        return 0
    import torch  # noqa: PLC0415 - a plan needs no torch

    return torch.cuda.device_count()


if __name__ == "__main__":
    sys.exit(main())
