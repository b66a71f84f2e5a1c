"""Draws the score of a router over its cost."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from podium_evals.evidence.measuring import Measured
from podium_evals.evidence.palette import COLOURS, LINE, PALE
from podium_evals.router import Tiers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLUMNS = 2


def draw_tiers(figure: "Figure", *, measured: Sequence[Measured]) -> None:
    """Draw the score of the router with its interval, and the single workers, for each part with tiers."""
    shown = [(each.part.title, each.tiers) for each in measured if each.tiers is not None]
    rows = -(-len(shown) // _COLUMNS)
    figure.set_size_inches(7.5, 2.7 * rows + 0.4)
    axes = list(figure.subplots(rows, _COLUMNS, squeeze=False).flat)
    for place, (title, tiers) in zip(axes, shown, strict=False):
        _draw_one(place, tiers)
        place.set_title(title, fontsize=9, loc="left")
    for place in axes[len(shown) :]:
        place.set_axis_off()
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=8)


def _draw_one(axes: "Axes", tiers: Tiers) -> None:
    colour = COLOURS["learned router"]
    costs = [1000 * point.cost.mean for point in tiers.curve]
    scores = [point.quality for point in tiers.curve]
    low, high = [each.low for each in scores], [each.high for each in scores]
    axes.fill_between(costs, low, high, color=colour, alpha=0.2, linewidth=0, label="95 % interval")
    axes.plot(costs, [each.mean for each in scores], color=colour, label="router")
    _draw_workers(
        axes, tiers, is_best=False, label="single worker", color=PALE, marker="o", s=24, edgecolor=LINE
    )
    best = COLOURS["best single"]
    _draw_workers(axes, tiers, is_best=True, label="best single", color=best, marker="*", s=75)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("")
    axes.set_xlabel("USD for 1,000 questions")
    axes.set_ylabel("score")


def _draw_workers(axes: "Axes", tiers: Tiers, *, is_best: bool, **style: Any) -> None:
    shown = [worker for worker in tiers.workers if worker.is_best is is_best]
    costs, scores = [1000 * worker.cost for worker in shown], [worker.score for worker in shown]
    axes.scatter(costs, scores, linewidths=0.6, zorder=3, **style)
