"""Pictures of the page of results, as SVG: the same figures give the same bytes.

matplotlib is an optional dependency (an extra), so this module imports it only to draw.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from podium_evals.arms import ArmResult
from podium_evals.evidence.measuring import Measured
from podium_evals.evidence.palette import COLOURS, LINE, MARKERS, PALE, TEXT
from podium_evals.evidence.tier_figure import draw_tiers
from podium_evals.router.figure import check_figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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


def draw_all(measured: Sequence[Measured], folder: Path) -> None:
    """Draw the pictures into a folder, which is created if it is missing.

    Args:
        measured: the measured parts with new questions of known kinds.
        folder: the folder.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    check_figures()
    folder.mkdir(parents=True, exist_ok=True)
    _draw(folder / "evidence-headroom.svg", partial(_headroom, measured=measured))
    _draw(folder / "evidence-cost.svg", partial(_costs, measured=measured))
    _draw(folder / "evidence-tiers.svg", partial(draw_tiers, measured=measured))
    _draw(folder / "evidence-kinds.svg", partial(_kinds, measured=measured[0]))


def _draw(path: Path, draw: Callable[["Figure"], object]) -> None:
    from matplotlib import rc_context  # noqa: PLC0415 - an extra
    from matplotlib.figure import Figure  # noqa: PLC0415 - an extra

    style: Any = _STYLE  # matplotlib's type lists the name of each setting
    with rc_context(style):
        figure = Figure(layout="constrained")
        draw(figure)
        figure.savefig(path, metadata={"Date": None, "Creator": None})


def _headroom(figure: "Figure", *, measured: Sequence[Measured]) -> None:
    """Draw for each pool the scores of some arms as bars, with their 95 % intervals."""
    figure.set_size_inches(7.5, 3.6)
    axes = figure.subplots()
    names = (
        "random worker",
        "best single",
        "kind rule",
        "learned router",
        "vote of the best 3",
        "best single 3 times",
        "routing oracle",
        "any correct, not achievable",
    )
    width = 0.84 / len(names)
    for number, name in enumerate(names):
        shown = [(place, arm.score) for place, each in enumerate(measured) if (arm := _whole(each.arm(name)))]
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
    figure.legend(loc="outside lower center", ncols=4, frameon=False, fontsize=8)


def _costs(figure: "Figure", *, measured: Sequence[Measured]) -> None:
    """Draw the score of each arm over its cost, and a line of the arms that are better than cheaper ones."""
    columns = 2
    rows = len(measured) // columns + 1  # the last place has the legend
    figure.set_size_inches(7.5, 2.7 * rows)
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for place, each in zip(axes, measured, strict=False):
        _cost_of(place, each)
    for place in axes[len(measured) :]:
        place.set_axis_off()
    handles: dict[str, Any] = {}
    for place in axes:
        handles |= dict(zip(*reversed(place.get_legend_handles_labels()), strict=True))
    axes[len(measured)].legend(handles.values(), handles.keys(), loc="center", frameon=False, fontsize=9)


def _cost_of(axes: "Axes", measured: Measured) -> None:
    arms = [arm for arm in measured.report.arms if arm.achievable and arm.name in COLOURS]
    priced = [_point(arm) for arm in (*arms, *measured.workers) if _point(arm) is not None]
    front = pareto([point for point in priced if point is not None])
    axes.step(*zip(*front, strict=True), where="post", color=PALE, linewidth=2, label="Pareto front")
    _dots(axes, measured.workers, "single worker", color=PALE, marker=".", s=60, edgecolor=LINE)
    for arm in arms:
        colour, marker = COLOURS[arm.name], MARKERS[arm.name]
        _dots(axes, [arm], arm.name, color=colour, marker=marker, s=75 if marker == "*" else 42)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("")
    axes.set_title(measured.part.title, fontsize=9, loc="left")
    axes.set_xlabel("USD for 1,000 questions")
    axes.set_ylabel("score")


def _dots(axes: "Axes", arms: Iterable[ArmResult], label: str, **style: Any) -> None:
    points = [point for arm in arms if (point := _point(arm)) is not None]
    if points:
        costs, scores = zip(*points, strict=True)
        shown: dict[str, Any] = {"linewidths": 0.6, "edgecolor": "white", "label": label, "zorder": 3}
        axes.scatter(costs, scores, **shown | style)


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


def _kinds(figure: "Figure", *, measured: Measured) -> None:
    """Draw the score of each worker, and of two arms, on each kind."""
    shown = [
        *measured.workers,
        *(arm for name in ("kind rule", "learned router") if (arm := measured.arm(name))),
    ]
    kinds = sorted({kind for arm in shown for kind in arm.kinds or {}})
    scores = np.asarray([[(arm.kinds or {}).get(kind, np.nan) for arm in shown] for kind in kinds])
    order = np.argsort(-scores[:, : len(measured.workers)].mean(axis=1), kind="stable")
    figure.set_size_inches(7.5, 1.6 + 0.135 * len(kinds))
    axes = figure.subplots()
    mesh = axes.pcolormesh(scores[order], cmap="cividis", vmin=0, vmax=1, rasterized=True)
    axes.set_yticks(np.arange(len(kinds)) + 0.5, [kinds[place] for place in order], fontsize=6.5)
    names = [arm.name.partition("_")[2] or arm.name for arm in shown]  # without the vendor
    axes.set_xticks(np.arange(len(shown)) + 0.5, names, rotation=35, ha="left", fontsize=7)
    axes.xaxis.tick_top()
    axes.invert_yaxis()
    axes.tick_params(length=0)
    axes.set_frame_on(False)
    axes.axvline(len(measured.workers), color="white", linewidth=3)
    figure.colorbar(mesh, ax=axes, label="score", shrink=0.3, pad=0.02)


def _point(arm: ArmResult) -> tuple[float, float] | None:
    """Return the USD for a thousand questions, and the score; `None` if either is not known."""
    whole = _whole(arm)
    if whole is None or whole.score is None or not whole.cost:
        return None
    return whole.cost * 1000, whole.score.mean


def _whole(arm: ArmResult | None) -> ArmResult | None:
    """Return an arm if all of its questions are recorded; else `None`."""
    return arm if arm is not None and arm.score is not None and arm.recorded == arm.questions else None
