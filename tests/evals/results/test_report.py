"""Tests of reports, of their figures and of what they say."""

from pathlib import Path
from typing import Any

import pytest
from evals.results.two_specialists import SUMS, VERBS, WORKERS, two_specialists, written

from podium.errors import ConfigError
from podium_evals.errors import RecordingInvalid
from podium_evals.recorded import Recordings, read_pool
from podium_evals.results import Report, Setting, compare_arms, rounding
from podium_evals.results.comparison import fingerprint, named_arms
from podium_evals.statistics import Interval

pytestmark = pytest.mark.anyio


async def _compare(recordings: Recordings, *names: str, **setting: Any) -> Report:
    arms = named_arms(names, recordings.workers)
    return await compare_arms(recordings, arms, Setting(**setting), recording="here")


async def test_a_report_can_be_made_again() -> None:
    """It has the data's fingerprint, seeds, versions and the dates of prices; figures are the same again."""
    recordings = two_specialists()
    first, second = [await _compare(recordings, "kind-rule", split_seed=4) for _ in range(2)]
    assert first.arms == second.arms
    assert first.setting.split_seed == 4
    assert first.fingerprint == fingerprint(two_specialists()) != fingerprint(two_specialists(samples=2))
    assert first.versions.keys() == {"python", "podium-evals", "podium-conductor", "numpy"}
    assert [each.name for each in first.workers] == list(WORKERS)
    assert first.workers[1].price_source.endswith("price of 2026-11-10")
    assert (first.workers[2].price_source, first.workers[2].best_in) == ("", 0)
    assert first.provenance is not None
    told = first.as_json()
    assert told["provenance"]["licence"] == "CC0-1.0"
    assert told["arms"][1]["difference"]["together"]["low"] <= told["arms"][1]["difference"]["alone"]["mean"]


def test_nothing_is_rounded_in_an_arms_favour() -> None:
    """Scores and gains down, costs up, intervals outwards; binary fractions count as what they mean."""
    assert (rounding.score(0.6789), rounding.score(0.3), rounding.score(1.0)) == (".678", ".300", "1.000")
    assert (rounding.gain(0.0199), rounding.gain(-0.0191), rounding.gain(0.1 + 0.2)) == (
        "+.019",
        "-.020",
        "+.300",
    )
    assert rounding.interval(Interval(0, -0.0001, 0.0301)) == "-.001 +.031"
    assert rounding.interval(Interval(0, 0.0, 1.0)) == "+.000 +1.000"
    assert (rounding.per_thousand(0.0012301), rounding.per_thousand(None)) == ("1.24", "—")
    assert (rounding.whole(1000.2), rounding.count(1.001), rounding.seconds(0.51)) == ("1,001", "1.01", "0.6")


def test_pools_are_named(tmp_path: Path) -> None:
    """A file, its workers; anything else is an error."""
    path = written(tmp_path, two_specialists())
    assert read_pool(path).workers == WORKERS
    assert read_pool(path, f"{SUMS}, {VERBS}").workers == (VERBS, SUMS)
    with pytest.raises(RecordingInvalid, match=r"nowhere\.jsonl cannot be read"):
        read_pool("nowhere.jsonl")
    with pytest.raises(ConfigError, match="there is no arm 'magic'"):
        named_arms(["magic"], WORKERS)
