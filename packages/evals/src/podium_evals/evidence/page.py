"""Writes the page of results: one table, one picture, sentences that the figures support, and all figures."""

from collections.abc import Iterable, Iterator, Sequence
from csv import writer
from importlib.resources import files
from io import StringIO
from pathlib import Path
from string import Template

from podium_evals.arms import ArmResult
from podium_evals.evidence.measuring import OWN, REPAIRED, Measured
from podium_evals.evidence.picture import draw
from podium_evals.results import BASE, rounding
from podium_evals.statistics import Interval

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
    *("recording", "split", "asked", "questions", "arm", "reads right answers", "score", "score low"),
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


def write_page(measured: Sequence[Measured], path: Path, command: str) -> None:
    """Write the page, its picture into the folder `images` beside it, and the file of figures.

    Args:
        measured: all parts.
        path: the Markdown file.
        command: the command that the header of the page shows.

    Raises:
        ConfigError: matplotlib is not installed.
        OSError: a file cannot be written.
    """
    known = [each for each in measured if each.part.split == "questions" and not each.part.bundles]
    new = [each for each in measured if each.part.split == "kinds"]
    priced = [each for each in known if each.tiers is not None]
    texts = [each for each in known if each.tiers is None]
    path.parent.mkdir(parents=True, exist_ok=True)
    draw(known, path.parent / "images" / "evidence.svg")
    (path.parent / FIGURES).write_text(figures(measured), "utf-8")
    text = Template(files(__package__).joinpath("page.md").read_text("utf-8")).substitute(
        command=command,
        repair=_repair(texts),
        kinds=_over(texts, KIND_REPAIRED, REPAIRED),
        router=_over(texts, ROUTER, REPAIRED),
        new=" ".join(map(_new, new)),
        calls=_over(texts, VOTE, OWN),
        tools=" ".join(map(_tools, priced)),
        probes=max((each.report.setting.probes for each in new), default=0),
        table=_table([*known, *new]),
        data=" ".join(_data(known)),
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
        f"The best single worker whose empty answers go to the next best worker is "
        f"{_over(known, REPAIRED, BASE)} It takes {_listed(calls)} calls for each question."
    )


def _over(measured: Sequence[Measured], name: str, base: str) -> str:
    """Return where an arm is better than another, where it is worse, and where neither is shown."""
    found = {each.part.title: arm.difference for each in measured if (arm := each.arm(name, base))}
    together = {title: each.together for title, each in found.items() if each is not None}
    better = [f"{title} ({between(of)})" for title, of in together.items() if of.low >= _LEAST]
    worse = [f"{title} ({between(of)})" for title, of in together.items() if of.high <= -_LEAST]
    neither = [
        f"{title} ({between(of)})" for title, of in together.items() if of.low < _LEAST and of.high > -_LEAST
    ]
    parts = [("better on ", better), ("worse on ", worse), ("not shown to differ on ", neither)]
    told = "; ".join(head + _listed(each) for head, each in parts if each)
    return f"{told or 'recorded nowhere'}."


def _new(measured: Measured) -> str:
    arms = (REPAIRED, VOTE, OWN, FOUND, ROUTER)
    shown = [(name, arm) for name in arms if (arm := measured.arm(name)) is not None]
    told = [f"{name} {rounding.score(None if a.score is None else a.score.mean)}" for name, a in shown]
    base = measured.arm(BASE)
    assert base is not None  # otherwise nothing would have been compared
    assert base.score is not None
    best = rounding.score(base.score.mean)
    calibrated = measured.arm(FOUND, REPAIRED)
    than = ""
    if calibrated is not None and calibrated.difference is not None:
        than = f"; {FOUND}, compared with the repaired best single, {between(calibrated.difference.together)}"
    return f"{_begun(measured.part.title)}: the best single {best}, {_listed(told)}{than}."


def _tools(measured: Measured) -> str:
    base, rule = measured.arm(BASE), measured.arm(KIND)
    if base is None or rule is None or rule.difference is None or None in (base.score, rule.score):
        return ""
    assert base.score is not None
    assert rule.score is not None
    return (
        f"{_begun(measured.part.title)}: the best single has {rounding.score(base.score.mean)} at "
        f"{rounding.per_thousand(base.cost)} USD for 1,000 questions, the kind rule "
        f"{rounding.score(rule.score.mean)} ({between(rule.difference.together)}) at "
        f"{rounding.per_thousand(rule.cost)} USD."
    )


def _validity(known: Sequence[Measured]) -> str:
    told = []
    for each in known:
        best = next((worker.name for worker in each.report.workers if worker.best_in), "")
        empty = next((arm.empty for arm in each.workers if arm.name == best), None)
        if empty is not None:
            told.append(f"{rounding.percent(empty)} % on {each.part.title} ({best})")
    return f"Of the best single worker: {_listed(told)}." if told else ""


def _data(known: Sequence[Measured]) -> Iterator[str]:
    seen = set[str]()
    for each in known:
        report, about = each.report, each.report.provenance
        source = "" if about is None else f"{about.source.removeprefix('https://')} at {about.revision[:7]}"
        samples, told = len(report.setting.seeds), "" if source in seen else f" ({source})"
        seen.add(source)
        yield (
            f"{_begun(each.part.title)}{told}: {len(report.workers)} workers, {report.recorded_questions:,} "
            f"questions, {samples} {'sample' if samples == 1 else 'samples'}, `{report.fingerprint[:16]}`."
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
    """Return all figures as CSV: a row for each arm, worker and tier of each part."""
    text = StringIO()
    rows = writer(text, lineterminator="\n")
    rows.writerow(_HEAD)
    for each in measured:
        asked = "bundles" if each.report.setting.bundles is not None else "questions"
        place = (each.part.title, each.part.split, asked)
        for arm in (*each.report.arms, *each.workers):
            rows.writerow([*place, *_figures(each, arm)])
        rows.writerows([*place, *cells] for cells in _tiers(each))
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


def _tiers(measured: Measured) -> Iterator[Sequence[str]]:
    """Yield what the tiers of a router reach on the half of the questions on which they were not chosen."""
    if measured.tiers is None:
        return
    asked = str(measured.report.arms[0].questions)
    for tier in measured.tiers.tiers:
        of, reached = tier.goal, tier.reached
        is_score = of.of == "quality"
        goal = (
            f"a score of {rounding.score(of.value)}" if is_score else f"{rounding.per_thousand(of.value)} USD"
        )
        kept = reached.quality.mean >= of.value if is_score else reached.cost.mean <= of.value
        score = (rounding.score(reached.quality.mean), *_ends(reached.quality, is_score=True))
        cost = rounding.per_thousand(reached.cost.mean)
        note = "kept" if kept else "not kept"
        yield [asked, f"router for {goal}", "", *score, *[""] * 9, "1.00", "", cost, "", "", note]
    for goal_missed, why in measured.tiers.unreached:
        yield [asked, f"router for {goal_missed.of} {goal_missed.value:g}", *[""] * 18, why]
