"""The expected cost of plans that live workers carry out."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from podium.cli import counted, money
from podium.usage import Usage
from podium_evals.statistics import Expected
from podium_train.recipes import Recipe, environment_of
from podium_train.rewards import RewardStore

PAPER_PLANS, PAPER_CALLS, PAPER_USD = 51_200, 150_000, 1_200
"""The training of the RL Conductor (arXiv 2512.04388). The calls and the cost in USD are computed from
the steps of a plan and the cost of a question that the paper reports."""
PAPER_TOKENS = 1_820
"""Tokens of the workers for a question, as the paper reports."""


def cost_lines(recipe: Recipe, folder: Path, plans: int, lines: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return sentences about the cost of plans.

    Args:
        recipe: the settings.
        folder: the folder of the recipe.
        plans: number of plans.
        lines: the log of the steps so far.
    """
    if recipe.environment.type != "live":
        return ["The plans cost nothing, because no live worker is called."]
    database = folder / recipe.folder / recipe.reward.database
    costs, spent = _stored(database) if recipe.reward.url is None else ([], 0.0)
    budget, told = recipe.reward.limits.budget, [_expected(recipe, folder, plans, lines, costs)]
    if budget is not None:
        told.append(f"The budget is {money(budget)}; {money(spent)} is spent. Later plans are not executed.")
    share = f"{plans / PAPER_PLANS:.0%}"
    told.append(
        f"For scale: the training of the paper has {PAPER_PLANS:,} plans with about {PAPER_CALLS:,} calls of "
        f"workers, about ${PAPER_USD:,}; these plans are {share} of its plans, or "
        f"{money(PAPER_USD * plans / PAPER_PLANS)} at its cost of a plan."
    )
    return told


def _expected(
    recipe: Recipe, folder: Path, plans: int, lines: Sequence[Mapping[str, Any]], costs: Sequence[float]
) -> str:
    if lines and recipe.grpo is not None:
        steps = plans / (recipe.grpo.groups * recipe.grpo.group_size)
        found = Expected.sum_of([line["cost"] for line in lines], steps)
        return f"Expected cost: {found.told(money)}, from {counted(len(lines), 'step')}."
    if costs:
        found = Expected.sum_of(costs, plans)
        return f"Expected cost: {found.told(money)}, from {counted(len(costs), 'executed plan')}."
    return _of_prices(recipe, folder, plans)


def _of_prices(recipe: Recipe, folder: Path, plans: int) -> str:
    environment = environment_of(recipe.environment, folder)
    cards = {
        card.name: card
        for episode in environment.episodes("train", 100, seed=0)
        for place, card in enumerate(episode.cards)
        if place not in episode.fills
    }
    prices = [card.price for card in cards.values() if card.price is not None]
    if unpriced := [name for name, card in cards.items() if card.price is None]:
        return f"Expected cost: unknown, because {unpriced[0]!r} has no price."
    each = [
        price.cost(usage) for price in prices for usage in (Usage(PAPER_TOKENS, 0), Usage(0, PAPER_TOKENS))
    ]
    between = f"between {money(min(each) * plans)} and {money(max(each) * plans)}"
    return (
        f"Expected cost: unknown before the first plans. With {PAPER_TOKENS:,} tokens of a plan, as in the "
        f"paper, it is {between}, depending on the workers."
    )


def _stored(database: Path) -> tuple[list[float], float]:
    """Return the known costs of executed plans, and the spending."""
    if not database.exists():
        return [], 0.0
    with RewardStore(database) as store:
        return store.costs(), store.spent
