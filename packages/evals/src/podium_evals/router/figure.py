"""Draws quality over cost as an SVG picture for light and dark pages."""

from pathlib import Path

from podium.errors import ConfigError, install_hint
from podium_evals.router.training import TrainingReport

INK, CURVE, WORKER = "#7d7d7d", "#3b82f6", "#e07b39"
"""Colours with a contrast of at least 3 to 1, both on white and on black."""


def check_figures() -> None:
    """Check that figures can be drawn.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    try:
        import matplotlib as mpl  # noqa: F401, PLC0415 - matplotlib is optional
    except ImportError as error:
        hint = install_hint("evals[figures]")
        raise ConfigError(f"a figure needs matplotlib, which is not installed: {hint}") from error


def draw_curve(report: TrainingReport, path: Path | str) -> None:
    """Draw the curve of a report with its 95 % intervals, and the points of the single workers.

    Args:
        report: the report; its curve is not empty.
        path: the file, which ends in `.svg`.

    Raises:
        ConfigError: matplotlib is not installed.
        OSError: the file cannot be written.
    """
    check_figures()
    from matplotlib import rc_context  # noqa: PLC0415 - matplotlib is optional
    from matplotlib.figure import Figure  # noqa: PLC0415 - as above

    with rc_context(
        {
            "text.color": INK,
            "axes.labelcolor": INK,
            "axes.edgecolor": INK,
            "xtick.color": INK,
            "ytick.color": INK,
            "svg.fonttype": "none",
            "svg.hashsalt": "podium",
            "font.size": 11,
        }
    ):
        figure = Figure(figsize=(7.5, 4.8), layout="constrained")
        axes = figure.add_subplot()
        axes.patch.set_alpha(0)
        costs = [1_000 * point.cost.mean for point in report.curve]
        axes.fill_between(
            costs,
            [point.quality.low for point in report.curve],
            [point.quality.high for point in report.curve],
            color=CURVE,
            alpha=0.2,
            linewidth=0,
        )
        axes.plot(costs, [point.quality.mean for point in report.curve], color=CURVE, label="router")
        for number, worker in enumerate(report.workers):
            assert worker.cost is not None  # otherwise there is no curve
            label = "one worker" if number == 0 else None
            axes.plot(1_000 * worker.cost, worker.score, "o", color=WORKER, label=label)
            axes.annotate(
                worker.name,
                (1_000 * worker.cost, worker.score),
                xytext=(5, 5),
                textcoords="offset points",
                fontsize=8,
            )
        if min(costs) > 0 and all(worker.cost for worker in report.workers):
            axes.set_xscale("log")
            axes.xaxis.set_major_formatter("{x:g}")
        axes.set_xlabel("USD for 1,000 questions" + (" (estimated)" if report.is_estimated else ""))
        axes.set_ylabel("mean score")
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, loc="lower right")
        figure.savefig(path, format="svg", transparent=True, metadata={"Date": None})
