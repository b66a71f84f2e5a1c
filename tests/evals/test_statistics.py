"""Tests of intervals, comparisons and splits."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from podium_evals.recorded import Question
from podium_evals.statistics import Resampling, Unit, compare, halves
from podium_evals.statistics.intervals import leave_kinds_out


def _questions(kinds: list[str]) -> list[Question]:
    return [Question(id=str(n), kind=kind, text=f"question {n}") for n, kind in enumerate(kinds)]


@pytest.mark.long
@pytest.mark.parametrize("unit", ["question", "kind"])
def test_intervals_cover_the_truth_as_often_as_they_say(unit: Unit) -> None:
    """Also where kinds differ, if kinds are drawn; and the joint intervals do so for all arms at once."""
    random = np.random.default_rng(3)
    covered, together, times = 0, 0, 200
    for _ in range(times):
        effects = random.normal(0.1, 0.2 if unit == "kind" else 0, size=40)
        kinds = [f"kind {n}" for n in range(40) for _ in range(5)]
        base = random.random(200)
        arms = {f"arm {a}": base + np.repeat(effects, 5) + random.normal(0, 0.3, size=200) for a in range(4)}
        resampling = Resampling(kinds, unit=unit, draws=400)
        found = compare({"base": base, **arms}, resampling, against="base")
        covered += found["arm 0"].alone.low <= 0.1 <= found["arm 0"].alone.high
        together += all(each.together.low <= 0.1 <= each.together.high for each in found.values())
    assert all(0.88 <= each / times <= 0.99 for each in (covered, together))


def test_a_difference_that_is_always_the_same_is_certain() -> None:
    """It has no spread; an arm that is the same as the base has no difference."""
    base = [0.0, 1.0, 0.5]
    arms = {"base": base, "same": base, "more": [each + 0.25 for each in base]}
    found = compare(arms, Resampling("abc"), against="base")
    assert (found["same"].together.low, found["same"].together.high) == (0, 0)
    assert (found["more"].alone.low, found["more"].together.high) == (0.25, 0.25)


def test_no_difference_is_impossible() -> None:
    """Scores are from 0 to 1. With few questions, an interval that reaches far ends at -1 and 1."""
    worse, better = [0.0, 0.0, 0.0, 0.9], [1.0, 1.0, 1.0, 0.9]
    low = compare({"a": better, "b": worse}, Resampling("wxyz"), against="a")["b"]
    high = compare({"a": worse, "b": better}, Resampling("wxyz"), against="a")["b"]
    assert (low.alone.low, low.together.low, high.alone.high, high.together.high) == (-1, -1, 1, 1)
    assert low.alone.mean == -high.alone.mean == -0.75


def test_a_comparison_refuses_scores_of_other_questions() -> None:
    with pytest.raises(ValueError, match=r"arm 'b' has 1 scores for 2 questions"):
        compare({"a": [1, 0], "b": [1]}, Resampling("xy"), against="a")
    with pytest.raises(ValueError, match="at least two kinds: there are 1"):
        Resampling("xx", unit="kind")
    assert compare({"a": [1, 0]}, Resampling("xy"), against="a") == {}


kinds_of_questions = st.lists(st.sampled_from("abcdef"), min_size=2, max_size=60)


@given(kinds_of_questions, st.integers(0, 5))
def test_halves_share_nothing_and_each_kind_is_halved(kinds: list[str], seed: int) -> None:
    questions = _questions(kinds)
    first, second = halves(questions, seed=seed)
    assert sorted([*first, *second]) == list(range(len(kinds)))
    for kind in set(kinds):
        inside = [sum(kinds[place] == kind for place in half) for half in (first, second)]
        assert inside[1] - inside[0] in {0, 1}
    again, _ = halves(questions, seed=seed)
    assert again.tolist() == first.tolist()


def test_questions_that_belong_together_are_in_one_half() -> None:
    """A text and its paraphrase share a split key."""
    questions = [
        Question(id=f"{n}{form}", kind="a", text=f"{form} {n}", split_key=str(n))
        for n in range(9)
        for form in ("said", "said otherwise")
    ]
    for half in halves(questions):
        keys = [questions[place].split_key for place in half]
        assert all(keys.count(key) == 2 for key in keys)


@given(kinds_of_questions.filter(lambda kinds: len(set(kinds)) >= 2))
@settings(max_examples=50)
def test_each_kind_is_left_out_once(kinds: list[str]) -> None:
    """Nothing is fitted on a kind that is scored."""
    out: list[int] = []
    for fitted, scored in leave_kinds_out(_questions(kinds), folds=2):
        assert not {kinds[n] for n in fitted} & {kinds[n] for n in scored}
        out += scored.tolist()
    assert sorted(out) == list(range(len(kinds)))
    with pytest.raises(ValueError, match="one kind only"):
        next(leave_kinds_out(_questions(kinds[:1]), folds=2))
