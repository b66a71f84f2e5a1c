"""The picture of the page of results, as SVG: the same figures give the same bytes.

matplotlib is an optional dependency (an extra), so this module imports it only to draw.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from podium.errors import ConfigError, install_hint
from podium_evals.arms import ArmResult
from podium_evals.evidence.measuring import Measured

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TEXT, LINE, PALE = "#1f2430", "#3b4252", "#c3c9d4"
COLOURS = {
    "random worker": "#9aa3b2",
    "best single": "#1f2430",
    "best single, next best if empty": "#cc79a7",
    "kind rule": "#0072b2",
    "kind rule, next best if empty": "#56b4e9",
    "learned router": "#009e73",
    "vote of the best 3": "#d55e00",
    "best single 3 times": "#8e44ad",
    "best single, budget of kind rule": "#e69f00",
    "any correct, not achievable": "#dbe7ff",
}
_OVER_COST = (
    "random worker",
    "best single",
    "kind rule",
    "learned router",
    "best single, budget of kind rule",
)
_STYLE = {
    "svg.hashsalt": "podium",
    "svg.fonttype": "none",  # text stays text, so that files are small and readers can search the text
    "font.family": "sans-serif",
    "font.size": 9,
    "text.color": TEXT,
    "axes.labelcolor": TEXT,
    "axes.edgecolor": LINE,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": LINE,
    "ytick.color": LINE,
    "figure.facecolor": "white",  # dark pages show the picture on white
    "savefig.facecolor": "white",
}


def check_figures() -> None:
    """Check that pictures can be drawn.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    try:
        import matplotlib as mpl  # noqa: F401, PLC0415 - an extra
    except ImportError as error:
        hint = install_hint("evals[figures]")
        raise ConfigError(f"a picture needs matplotlib, which is not installed: {hint}") from error


def draw(known: Sequence[Measured], path: Path) -> None:
    """Draw the scores of all pools, and for pools with recorded costs the scores over the costs.

    Args:
        known: the measured parts with new questions of known kinds.
        path: the file; its folder is created if it is missing.

    Raises:
        ConfigError: matplotlib is not installed.
        OSError: the file cannot be written.
    """
    check_figures()
    from matplotlib import rc_context  # noqa: PLC0415 - an extra
    from matplotlib.figure import Figure  # noqa: PLC0415 - an extra

    path.parent.mkdir(parents=True, exist_ok=True)
    priced = [each for each in known if each.tiers is not None]
    style: Any = _STYLE  # matplotlib's type lists the name of each setting
    with rc_context(style):
        figure = Figure(figsize=(10, 4.4), layout="constrained")
        widths = [2.2, *[1.0] * len(priced)]
        scores, *costs = figure.subplots(1, len(widths), width_ratios=widths, squeeze=False)[0]
        _scores(scores, [each for each in known if each.tiers is None])
        for place, each in zip(costs, priced, strict=True):
            _costs(place, each)
        handles = dict(zip(*reversed(_together([scores, *costs])), strict=True))
        figure.legend(
            handles.values(), handles.keys(), loc="outside lower center", ncols=4, frameon=False, fontsize=8
        )
        figure.savefig(path, metadata={"Date": None, "Creator": None})


def _together(axes: Iterable["Axes"]) -> tuple[list[Any], list[str]]:
    handles, labels = [], []
    for place in axes:
        found, told = place.get_legend_handles_labels()
        handles += found
        labels += told
    return handles, labels


def _scores(axes: "Axes", measured: Sequence[Measured]) -> None:
    """Draw for each pool the scores of some arms as bars, with their 95 % intervals."""
    names = [name for name in COLOURS if any(each.arm(name) for each in measured)]
    width = 0.84 / max(len(names), 1)
    for number, name in enumerate(names):
        shown = [(place, arm.score) for place, each in enumerate(measured) if (arm := each.arm(name))]
        places = [place + (number - (len(names) - 1) / 2) * width for place, _ in shown]
        means = [score.mean for _, score in shown if score is not None]
        errors = [(s.mean - s.low, s.high - s.mean) for _, s in shown if s is not None]
        axes.bar(
            places,
            means,
            width * 0.92,
            yerr=np.asarray(errors).reshape(-1, 2).T,
            color=COLOURS[name],
            edgecolor=LINE,
            linewidth=0.4,
            error_kw={"elinewidth": 0.8, "ecolor": LINE},
            label=name,
        )
    axes.set_xticks(range(len(measured)), [each.part.title for each in measured])
    axes.set_ylim(0, 1)
    axes.set_ylabel("score")


def _costs(axes: "Axes", measured: Measured) -> None:
    """Draw the score of workers and arms over their cost, and a line of those that no cheaper one beats."""
    arms = [arm for name in _OVER_COST if (arm := measured.arm(name))]
    points = [point for arm in (*arms, *measured.workers) if (point := _point(arm)) is not None]
    if points:
        axes.step(
            *zip(*pareto(points), strict=True), where="post", color=PALE, linewidth=2, label="Pareto front"
        )
    _dots(axes, measured.workers, "single worker", color=PALE, marker=".", s=50, edgecolor=LINE)
    for arm in arms:
        _dots(axes, [arm], arm.name, color=COLOURS[arm.name], marker="o", s=42)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("")
    axes.set_title(measured.part.title, fontsize=9, loc="left")
    axes.set_xlabel("USD for 1,000 questions")


def _dots(axes: "Axes", arms: Iterable[ArmResult], label: str, **style: Any) -> None:
    points = [point for arm in arms if (point := _point(arm)) is not None]
    if points:
        costs, scores = zip(*points, strict=True)
        shown: dict[str, Any] = {"linewidths": 0.6, "edgecolor": "white", "label": label, "zorder": 3}
        axes.scatter(costs, scores, **shown | style)


def _point(arm: ArmResult) -> tuple[float, float] | None:
    """Return the USD for a thousand questions, and the score; `None` if either is not known."""
    return None if arm.score is None or not arm.cost else (arm.cost * 1000, arm.score.mean)


def pareto(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the points that are better than all cheaper points, by cost.

    Args:
        points: costs and scores.
    """
    front: list[tuple[float, float]] = []
    for cost, score in sorted(points, key=lambda point: (point[0], -point[1])):
        if not front or score > front[-1][1]:
            front.append((cost, score))
    return front
