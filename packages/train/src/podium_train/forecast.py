"""What a training will execute and cost, told before it starts."""

import json
from pathlib import Path
from statistics import fmean

from podium_train.recipes import Recipe


def forecast(recipe: Recipe, folder: Path) -> list[str]:
    """Return sentences about the remaining steps of `[grpo]`.

    Cost and duration are estimated from the steps that were logged, if there are some.
    """
    grpo = recipe.grpo
    assert grpo is not None
    path = folder / recipe.folder / "steps.jsonl"
    lines = (
        [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]
        if path.exists()
        else []
    )
    left = max(grpo.steps - (lines[-1]["step"] if lines else 0), 0)
    texts = left * grpo.groups * grpo.group_size
    most = texts * recipe.prompt.style.max_steps
    size = f"{left:,} steps of {grpo.groups} × {grpo.group_size} texts"
    calls = f"{texts:,} plans, and up to {most:,} calls of workers"
    told = [f"{size}: {calls}; equal plans are executed once."]
    limits = recipe.reward.limits
    if recipe.environment.type != "live":
        told.append("The calls cost nothing, because no live worker is called.")
    elif lines:
        told.append(f"Expected cost: {left * fmean(line['cost'] for line in lines):,.2f} USD.")
    else:
        told.append("Expected cost: unknown before the first steps. The paper's 51,200 plans cost 1,200 USD.")
    if limits.budget is not None:
        told.append(f"The budget is {limits.budget:,.2f}; plans beyond it are not executed.")
    seconds = [line["seconds"] for line in lines if line.get("seconds")]
    if seconds:
        told.append(f"Expected duration: {left * fmean(seconds) / 60:,.0f} minutes.")
    return told
