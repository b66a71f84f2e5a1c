"""The page of results, its picture, and the file of all figures: the same figures give the same bytes.

matplotlib takes a second to import, so it is imported only to draw.
"""

from collections.abc import Iterable, Iterator, Sequence
from csv import writer
from io import StringIO
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.evidence.measuring import OWN, PRICED, REPAIRED, Measured
from podium_evals.arms import ArmResult
from podium_evals.results import rounding
from podium_evals.results.comparison import BASE
from podium_evals.statistics import Interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TEMPLATE = Path(__file__).with_name("page.md")
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


def draw(known: Sequence[Measured], path: Path) -> None:
    """Draw the scores of all pools, and for pools with recorded costs the scores over the costs."""
    from matplotlib import rc_context  # noqa: PLC0415 - takes a second to import
    from matplotlib.figure import Figure  # noqa: PLC0415 - as above

    path.parent.mkdir(parents=True, exist_ok=True)
    priced = [each for each in known if each.part.pool == PRICED]
    style: Any = _STYLE  # matplotlib's type lists the name of each setting
    with rc_context(style):
        figure = Figure(figsize=(10, 4.4), layout="constrained")
        widths = [2.2, *[1.0] * len(priced)]
        scores, *costs = figure.subplots(1, len(widths), width_ratios=widths, squeeze=False)[0]
        _scores(scores, [each for each in known if each.part.pool != PRICED])
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
    """Return the points that are better than all cheaper points, by cost."""
    front: list[tuple[float, float]] = []
    for cost, score in sorted(points, key=lambda point: (point[0], -point[1])):
        if not front or score > front[-1][1]:
            front.append((cost, score))
    return front


KIND, KIND_REPAIRED, ROUTER, VOTE = (
    "kind rule",
    "kind rule, next best if empty",
    "learned router",
    "vote of the best 3",
)
FOUND = "calibrated, kind found"
_LEAST = 0.001
"""The end of an interval that is shown as different from zero."""
_NOT_SHOWN = (
    "random worker",
    "random plan",
    "vote of the best 5",
    "routing oracle",
    "calibrated",
    "calibrated router",
)
"""Arms that are only in the file of figures."""
FIGURES = "evidence-figures.csv"
_HEAD = (
    *("recording", "split", "questions", "arm", "reads right answers", "score", "score low"),
    *("score high", "gain", "alone low", "alone high", "together low", "together high", "over repaired low"),
    *(
        "over repaired high",
        "over own 3 low",
        "over own 3 high",
        "calls",
        "tokens",
        "USD for 1,000",
        "seconds",
    ),
    *("empty", "note"),
)


def write_page(measured: Sequence[Measured], path: Path) -> None:
    """Write the page, its picture into the folder `images` beside it, and the file of figures."""
    known = [each for each in measured if each.part.split == "questions"]
    new = [each for each in measured if each.part.split == "kinds"]
    priced = [each for each in known if each.part.pool == PRICED]
    texts = [each for each in known if each.part.pool != PRICED]
    path.parent.mkdir(parents=True, exist_ok=True)
    draw(known, path.parent / "images" / "evidence.svg")
    (path.parent / FIGURES).write_text(figures(measured), "utf-8")
    text = Template(_TEMPLATE.read_text("utf-8")).substitute(
        repair=_repair(texts),
        kinds=_over(texts, KIND_REPAIRED, REPAIRED),
        router=_over(texts, ROUTER, REPAIRED),
        found=FOUND,
        new=_over(new, FOUND, REPAIRED),
        calls=_over(texts, VOTE, OWN, "the vote"),
        tools="".join(map(_tools, priced)),
        probes=max((each.part.probes for each in new), default=0),
        table=_table([*known, *new]),
        data="".join(_data(known)),
        validity=_validity(texts),
        prices=_prices(priced),
        versions=", ".join(f"{name} {number}" for name, number in known[0].report.versions.items()),
    )
    path.write_text(text, "utf-8")


def _repair(known: Sequence[Measured]) -> str:
    calls = [
        f"{rounding.count(arm.calls)} on {each.part.title}" for each in known if (arm := each.arm(REPAIRED))
    ]
    return (
        f"After an empty answer, `{REPAIRED}` asks the next best worker. "
        f"{_over(known, REPAIRED, BASE)} "
        f"Calls for each question: {_listed(calls)}."
    )


def _over(measured: Sequence[Measured], name: str, base: str, subject: str = "this arm") -> str:
    """Return where an arm is better than another, where it is worse, and where neither is shown."""
    found = {each.part.title: arm.difference for each in measured if (arm := each.arm(name, base))}
    together = {title: each.together for title, each in found.items() if each is not None}
    better = [f"{title} ({between(of)})" for title, of in together.items() if of.low >= _LEAST]
    worse = [f"{title} ({between(of)})" for title, of in together.items() if of.high <= -_LEAST]
    neither = [
        f"{title} ({between(of)})" for title, of in together.items() if of.low < _LEAST and of.high > -_LEAST
    ]
    parts = [
        (f"{subject} scores higher", better),
        (f"{subject} scores lower", worse),
        ("the difference is unclear", neither),
    ]
    first, *others = [f"{head} on {_listed(each)}." for head, each in parts if each] or [
        "nothing is recorded."
    ]
    return " ".join([f"Compared with `{base}`, {first}", *map(_begun, others)])


def _tools(measured: Measured) -> str:
    base, rule = measured.arm(BASE), measured.arm(KIND)
    if base is None or rule is None or rule.difference is None or None in (base.score, rule.score):
        return ""
    assert base.score is not None
    assert rule.score is not None
    return (
        f"\n    - {_begun(measured.part.title)}: the best single worker scores "
        f"{rounding.score(base.score.mean)} for {rounding.per_thousand(base.cost)} USD per 1,000 questions. "
        f"The best worker of each kind scores {rounding.score(rule.score.mean)} (gain "
        f"{between(rule.difference.together)}) for {rounding.per_thousand(rule.cost)} USD."
    )


def _validity(known: Sequence[Measured]) -> str:
    told = []
    for each in known:
        best = next((worker.name for worker in each.report.workers if worker.best_in), "")
        empty = next((arm.empty for arm in each.workers if arm.name == best), None)
        if empty is not None:
            told.append(f"{rounding.percent(empty)} % on {each.part.title} ({best})")
    return f"Share of empty or unreadable answers of the best single worker: {_listed(told)}." if told else ""


def _data(known: Sequence[Measured]) -> Iterator[str]:
    seen = set[str]()
    for each in known:
        report, about = each.report, each.report.provenance
        source = "" if about is None else f"{about.source.removeprefix('https://')} at {about.revision[:7]}"
        samples, told = len(report.setting.seeds), "" if source in seen else f" ({source})"
        seen.add(source)
        yield (
            f"\n    - {_begun(each.part.title)}{told}: {len(report.workers)} workers, "
            f"{report.recorded_questions:,} questions, {samples} {'sample' if samples == 1 else 'samples'}, "
            f"`{report.fingerprint[:16]}`."
        )


def _begun(title: str) -> str:
    return title[:1].upper() + title[1:]


def _prices(priced: Sequence[Measured]) -> str:
    days = {each.price_source[-10:] for part in priced for each in part.report.workers if each.price_source}
    return _listed(sorted(days)) or "no day"


def _listed(texts: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(texts[:-1]), *texts[-1:])))


def _table(measured: Sequence[Measured]) -> str:
    """Return a table with a row for each arm and a column for each part."""
    found = dict.fromkeys(arm.name for each in measured for arm in each.report.arms)
    names = [name for name in found if name not in _NOT_SHOWN]
    heads = [each.part.title + (", new" if each.part.split == "kinds" else "") for each in measured]
    lines = [["arm", *heads], ["---", *["---:"] * len(heads)]]
    for name in names:
        cells = [_cell(each.arm(name)) for each in measured]
        lines.append([_marked(measured, name), *cells])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _marked(measured: Sequence[Measured], name: str) -> str:
    arms = (arm for each in measured for arm in each.report.arms if arm.name == name)
    return name if all(arm.achievable for arm in arms) else f"{name} *"


def _cell(arm: ArmResult | None) -> str:
    if arm is None or arm.score is None:
        return rounding.UNKNOWN
    told = rounding.score(arm.score.mean)
    return told if arm.difference is None else f"{told} ({between(arm.difference.together)})"


def between(interval: Interval) -> str:
    """Return an interval of a difference, with signs, rounded outwards."""
    low, high = rounding.interval(interval).split()
    return f"{low} to {high}".replace("-", "−")


def figures(measured: Sequence[Measured]) -> str:
    """Return all figures as CSV: a row for each arm and worker of each part."""
    text = StringIO()
    rows = writer(text, lineterminator="\n")
    rows.writerow(_HEAD)
    for each in measured:
        for arm in (*each.report.arms, *each.workers):
            rows.writerow([each.part.title, each.part.split, *_figures(each, arm)])
    return text.getvalue()


def _figures(measured: Measured, arm: ArmResult) -> Iterable[str]:
    whole = arm.score is not None and arm.recorded == arm.questions
    yield from (f"{arm.questions}", arm.name, "" if arm.achievable else "yes")
    if not whole or arm.score is None:
        yield from [*[""] * 17, arm.unfit or arm.unrecorded]
        return
    is_worker, alone = arm in measured.workers, arm.difference
    yield from (rounding.score(arm.score.mean), *_ends(arm.score, is_score=True))
    yield "" if alone is None else rounding.gain(alone.alone.mean)
    yield from _ends(None if alone is None else alone.alone)
    yield from _ends(None if alone is None or is_worker else alone.together)
    for base in (REPAIRED, OWN):
        found = None if is_worker else measured.arm(arm.name, base)
        yield from _ends(None if found is None or found.difference is None else found.difference.together)
    yield from (rounding.count(arm.calls), rounding.whole(arm.tokens), rounding.per_thousand(arm.cost))
    empty = rounding.UNKNOWN if arm.empty is None else rounding.score(arm.empty)
    yield from (rounding.seconds(arm.latency_s), empty, "")


def _ends(of: Interval | None, *, is_score: bool = False) -> Sequence[str]:
    if of is None:
        return ("", "")
    told = rounding.interval(of)
    return (told.replace("+", "") if is_score else told).split()
