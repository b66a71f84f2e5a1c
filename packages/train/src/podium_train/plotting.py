"""Draws the log of a run as an SVG picture for light and dark pages."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from podium.errors import ConfigError
from podium_evals.router.figure import check_figures
from podium_train.guards import read_steps

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK = "#7d7d7d"
"""The colour of text and axes, with a contrast of 3 to 1 or more on white and on black."""
COLOURS = ("#3b82f6", "#e07b39", "#12a37f", "#c45ab3", "#a38a00", "#6b7fd7")
WINDOW = 10
"""Number of steps over which lines are averaged."""
MOST_WORKERS = 5
"""Number of workers whose shares are drawn."""
_STYLE = {
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 7,
    "svg.fonttype": "none",
    "svg.hashsalt": "podium",
    "font.size": 9,
}
Steps = Sequence[Mapping[str, Any]]


def draw_run(folder: Path, out: Path) -> None:
    """Draw reward, accuracy, entropy, lengths of plans, shares of workers and validity over the steps.

    Lines are means of 10 steps; pale lines are single steps. Of the workers, the five with the largest shares
    are drawn.

    Args:
        folder: the folder of the run, with `steps.jsonl`.
        out: the file, which ends in `.svg`.

    Raises:
        ConfigError: the folder has no log or an empty one, matplotlib is not installed, or the file cannot
            be written.
    """
    if out.suffix != ".svg":
        raise ConfigError(f"{out}: the name of the picture must end in .svg")
    steps = read_steps(folder)
    if not steps:
        raise ConfigError(f"the log in {folder} is empty: no step has ended yet")
    check_figures()
    from matplotlib import rc_context  # noqa: PLC0415 - an extra
    from matplotlib.figure import Figure  # noqa: PLC0415 - as above

    style: Any = _STYLE  # matplotlib's type lists the name of each setting
    with rc_context(style):
        figure = Figure(figsize=(7.5, 8.6), layout="constrained")
        for axes, draw in zip(figure.subplots(3, 2).flat, PANELS, strict=True):
            axes.patch.set_alpha(0)
            draw(axes, steps)
            axes.set_xlabel("step")
            if axes.get_legend_handles_labels()[0]:
                axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=2, columnspacing=1)
        try:
            figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
        except OSError as error:
            raise ConfigError(f"{out} cannot be written: {error}") from error


def _reward(axes: "Axes", steps: Steps) -> None:
    _line(axes, steps, "reward", itemgetter("reward"), COLOURS[0])
    _line(axes, steps, "accuracy", itemgetter("accuracy"), COLOURS[1])
    axes.set_title("Reward and accuracy in training", loc="left")


def _held_out(axes: "Axes", steps: Steps) -> None:
    measured = [step for step in steps if step["held_out"]]
    names = list(dict.fromkeys(name for step in measured for name in step["held_out"]))
    for name, colour in zip(names, COLOURS, strict=False):
        for how, style in (("sampled", "-"), ("greedy", ":")):
            points = [(at["step"], at["held_out"][name][how]) for at in measured if name in at["held_out"]]
            points = [point for point in points if point[1] is not None]
            axes.plot(*zip(*points, strict=True), style, color=colour, marker=".", label=f"{name}, {how}")
    axes.set_title("Accuracy on held-out episodes", loc="left")


def _entropy(axes: "Axes", steps: Steps) -> None:
    _line(axes, steps, "by worker", itemgetter("worker_entropy"), COLOURS[0])
    _line(axes, steps, "by number", itemgetter("number_entropy"), COLOURS[1])
    axes.set_ylim(0, 1.05)
    axes.set_title("Entropy of the used workers (1: all equally)", loc="left")


def _plan_lengths(axes: "Axes", steps: Steps) -> None:
    sizes = sorted({int(size) for step in steps for size in step["steps"]})
    rows = [[_share_of_size(step, size) for step in steps] for size in sizes]
    labels = [f"{size} step{'s' if size > 1 else ''}" for size in sizes]
    if rows:
        axes.stackplot([step["step"] for step in steps], rows, labels=labels, colors=COLOURS, alpha=0.8)
    axes.set_ylim(0, 1)
    axes.set_title("Share of plans by number of steps", loc="left")


def _share_of_size(step: Mapping[str, Any], size: int) -> float:
    counts: Mapping[str, int] = step["steps"]
    return counts.get(str(size), 0) / (sum(counts.values()) or 1)


def _workers(axes: "Axes", steps: Steps) -> None:
    total: dict[str, float] = {}
    for step in steps:
        for name, share in step.get("worker_shares", {}).items():
            total[name] = total.get(name, 0.0) + share
    most = sorted(total, key=lambda name: (-total[name], name))[:MOST_WORKERS]
    for name, colour in zip(most, COLOURS, strict=False):
        _line(axes, steps, name, partial(_share_of_worker, name=name), colour, singly=False)
    axes.set_ylim(0, 1.05)
    axes.set_title("Share of steps in the worker's pools", loc="left")


def _share_of_worker(step: Mapping[str, Any], name: str) -> float:
    shares: Mapping[str, float] = step["worker_shares"]
    return shares.get(name, 0.0)


def _validity(axes: "Axes", steps: Steps) -> None:
    for label, key, colour in (
        ("valid plans", "valid_plans", COLOURS[0]),
        ("groups without variance", "groups_without_variance", COLOURS[1]),
        ("unknown outcome", "unknown", COLOURS[2]),
    ):
        _line(axes, steps, label, itemgetter(key), colour)
    axes.set_ylim(0, 1.05)
    axes.set_title("Valid plans, and what teaches nothing", loc="left")


PANELS: tuple[Callable[["Axes", Steps], None], ...] = (
    _reward,
    _held_out,
    _entropy,
    _plan_lengths,
    _workers,
    _validity,
)


def _line(
    axes: "Axes",
    steps: Steps,
    label: str,
    value: Callable[[Mapping[str, Any]], float],
    colour: str,
    *,
    singly: bool = True,
) -> None:
    """Draw the means of a measure, and with `singly` also its values."""
    places = [step["step"] for step in steps]
    values = [value(step) for step in steps]
    means = [fmean(values[max(0, at - WINDOW + 1) : at + 1]) for at in range(len(values))]
    if singly:
        axes.plot(places, values, color=colour, alpha=0.25, linewidth=0.8)
    axes.plot(places, means, color=colour, label=label)
