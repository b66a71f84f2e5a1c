"""Writes the page of results: the figures of all parts, as Markdown."""

from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from string import Template

from podium_evals.evidence import tables
from podium_evals.evidence.answer import answer
from podium_evals.evidence.figures import draw_all
from podium_evals.evidence.measuring import Measured
from podium_evals.evidence.published import comparison
from podium_evals.evidence.tier_tables import single_table, tier_table
from podium_evals.results import conclude, rounding


def write_page(measured: Sequence[Measured], path: Path, command: str) -> None:
    """Write the page, and its pictures into the folder `images` beside it.

    Args:
        measured: all parts.
        path: the Markdown file.
        command: the command that the header of the page shows.

    Raises:
        ConfigError: matplotlib is not installed.
        OSError: a file cannot be written.
    """
    known, new, workers, bundles = (
        _of(measured, split, bundled=bundled)
        for split, bundled in (
            ("questions", False),
            ("kinds", False),
            ("workers", False),
            ("questions", True),
        )
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    draw_all(known, path.parent / "images")
    text = Template(files(__package__).joinpath("page.md").read_text("utf-8")).substitute(
        command=command,
        answer=answer(known, new),
        asked=tables.table(("recording, pool", "workers", "questions", "asked", "samples"), _asked(known)),
        headroom=tables.table(("recording, pool", "best single", "possible gains"), _headroom(known), 3),
        meaning=tables.table(("arm", "how it answers"), _meaning(measured), 2),
        known=tables.grid(known, tables.score_and_gain),
        costs=tables.grid(known, tables.cost),
        new=tables.grid(new, tables.score_and_gain),
        new_costs=tables.grid(new, tables.cost),
        probes=max(each.report.setting.probes for each in new),
        singles=single_table(known),
        tiers=tier_table(known),
        workers=tables.grid(workers, tables.score_and_gain),
        bundles=tables.grid(bundles, tables.score_and_gain),
        own=tables.table(_OWN_HEAD, _against_own(known), 2),
        heat=known[0].part.title,
        published=comparison([*known, *new]),
        data=tables.table(("recording, pool", "SHA-256", "source"), _data(known), 3),
        prices=_prices(measured),
        versions=", ".join(f"{name} {number}" for name, number in known[0].report.versions.items()),
        details="\n\n".join(_details(measured)),
    )
    path.write_text(text, "utf-8")


def _of(measured: Sequence[Measured], split: str, *, bundled: bool) -> list[Measured]:
    return [
        each
        for each in measured
        if each.part.split == split and (each.report.setting.bundles is not None) == bundled
    ]


def _asked(known: Sequence[Measured]) -> Iterator[Sequence[str]]:
    for each in known:
        report = each.report
        asked = report.arms[0].questions
        counts = (len(report.workers), report.recorded_questions, asked, len(report.setting.seeds))
        yield [each.part.title, *(f"{count:,}" for count in counts)]


def _headroom(known: Sequence[Measured]) -> Iterator[Sequence[str]]:
    for each in known:
        best = each.arm("best single")
        assert best is not None  # every part has this arm
        assert best.score is not None  # otherwise no arm would have been compared
        told = f"{each.best_workers}, {tables.score_between(best.score)}"
        yield [each.part.title, told, conclude(each.report).sentence.replace("-", "−")]


def _meaning(measured: Sequence[Measured]) -> Iterator[Sequence[str]]:
    names = dict.fromkeys(arm.name for each in measured for arm in each.report.arms)
    for name in names:
        yield [name, tables.MEANING[name]]


_OWN_HEAD = (
    "recording, pool",
    "arm",
    "calls",
    "USD for 1,000",
    "score",
    "above three answers of the best single",
)


_VOTES = (
    "best single",
    "best single 3 times",
    "best single, budget of vote of the best 3",
    "vote of the best 3",
    "vote of the best 5",
)


def _against_own(known: Sequence[Measured]) -> Iterator[Sequence[str]]:
    for each in known:
        for arm in each.against_own:
            if arm.name not in _VOTES or arm.score is None or arm.recorded < arm.questions:
                continue
            told = "" if arm.difference is None else tables.between(arm.difference.together)
            shown = rounding.count(arm.calls), tables.cost(arm), rounding.score(arm.score.mean)
            yield [each.part.title, arm.name, *shown, told]


def _data(known: Sequence[Measured]) -> Iterator[Sequence[str]]:
    for each in known:
        about = each.report.provenance
        source = "" if about is None else f"{about.source} at {about.revision[:7]}, {about.licence}"
        yield [each.part.title, f"`{each.report.fingerprint}`", source]


def _prices(measured: Sequence[Measured]) -> str:
    told = {worker.price_source for each in measured for worker in each.report.workers if worker.price_source}
    dates = sorted({source[-10:] for source in told})
    return dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"


def _details(measured: Sequence[Measured]) -> Iterator[str]:
    for each in measured:
        report = each.report
        asked = report.arms[0].questions
        what = "bundles" if report.setting.bundles is not None else "questions"
        new = {"questions": "known kinds", "kinds": "new kinds", "workers": "new workers"}[each.part.split]
        yield f"### {each.part.title}: {asked:,} {what}, {new}"
        yield tables.details(each)
        if reasons := list(_unrecorded(each)):
            yield "\n".join(f"- {reason}" for reason in reasons)


def _unrecorded(measured: Measured) -> Iterator[str]:
    for arm in measured.report.arms:
        if arm.unfit:
            yield f"{arm.name}: {arm.unfit}"
        elif arm.recorded < arm.questions:
            missing = arm.questions - arm.recorded
            told = f"{arm.name}: {missing:,} of {arm.questions:,} are not recorded"
            yield f"{told}, the first because {arm.unrecorded}"
