"""The memory and disk of a training, and the script that plans it."""

import subprocess
import sys
from pathlib import Path

from sizes import needs_of, shape_of

from podium_train.recipe import load_recipe, shipped_recipes

SCRIPT = Path(__file__).parents[3] / "examples" / "gpu" / "train.py"


def test_the_recipe_of_the_paper(tmp_path: Path) -> None:
    """All weights of 7 B are 16 bytes each; they fit on two GPUs with 80 GB, and not on one."""
    (tmp_path / "recipe.toml").write_text(shipped_recipes()["paper-7b"])
    recipe, shape = load_recipe(tmp_path / "recipe.toml"), shape_of("Qwen/Qwen2.5-7B-Instruct")
    assert round(shape.weights / 1e9, 1) == 7.6
    two, one = (needs_of(recipe, shape, gpus=gpus, gpu=80) for gpus in (2, 1))
    assert (round(two.states), round(one.states), two.fits(80), one.fits(80)) == (61, 122, True, False)
    assert 500 < two.disk < 550


def test_the_plan_without_a_gpu(tmp_path: Path) -> None:
    """All weights on two GPUs; the recipe is valid, and nothing runs."""
    words = [sys.executable, str(SCRIPT), "--folder", str(tmp_path / "run"), "--gpus", "2"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "DOES NOT FIT" not in done.stdout
    assert "There is no GPU here: this is the plan." in done.stdout
    assert "zero3.yaml --num_processes 2 -m podium_train grpo" in done.stdout
    assert load_recipe(tmp_path / "run" / "recipe.toml").model.lora is None
