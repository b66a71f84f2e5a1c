"""Measures of training steps, the rules that stop a run, and what is kept."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from scored_world import episode

from podium.errors import ConfigError
from podium.workers import Card
from podium_train import Episode, Score
from podium_train.guards import (
    Guards,
    GuardSettings,
    HeldOut,
    Sample,
    StepMeasures,
    ended_without_plans,
    measure,
)
from podium_train.run_files import BestCheckpoint, StepLog, lines_of, logged_texts, read_steps, written_text

SHARES: Any = {"accuracy": 0.4, "valid_plans": 0.9, "unknown": 0.0, "groups_without_variance": 0.2}
ENTROPY: Any = {"worker_entropy": 0.9, "number_entropy": 0.95}
GOOD = StepMeasures(step=1, texts=64, reward=0.7, length=100.0, **SHARES, **ENTROPY)


def sample(pool: Sequence[str], workers: tuple[int, ...], value: float | None = 1.0, **facts: Any) -> Sample:
    cards = tuple(Card(name=f"w{number}") for number in range(len(pool)))
    episode = Episode(question=" ".join(pool), cards=cards, workers=tuple(pool), kind="sum")
    return Sample(episode=episode, score=Score(value=value, workers=workers), length=10, **facts)


def test_the_measures_of_a_step() -> None:
    """Shares, means and counts of known and unknown texts in two groups."""
    first, second = ("a", "b"), ("c", "b")
    samples = [
        sample(first, (0, 1), 1.0),
        sample(first, (1,), 0.5, cut=True),
        sample(first, (), 0.0),
        sample(second, (1,), None),
    ]
    found = measure(3, samples, loss=0.1)
    assert (found.texts, found.reward, found.valid_plans, found.unknown) == (4, 0.5, 0.75, 0.25)
    assert found.accuracy == pytest.approx(1 / 3)
    assert (found.groups_without_variance, found.steps) == (0.5, {1: 2, 2: 1})
    assert (found.most_used, found.most_used_share) == ("b", 3 / 4)
    assert (found.length, found.cut, found.loss) == (10, 0.25, 0.1)


def test_entropy_is_relative_to_the_pools() -> None:
    """Equal use is 1; one worker or one place is 0, whatever the names."""
    pools = [("a", "b"), ("b", "a")]
    equal = measure(1, [sample(pool, (number,)) for pool in pools for number in (0, 1)])
    assert (equal.worker_entropy, equal.number_entropy) == (1, 1)
    one_worker = measure(1, [sample(pools[0], (0,)), sample(pools[1], (1,))])
    assert (one_worker.worker_entropy, one_worker.number_entropy, one_worker.most_used_share) == (0, 1, 1)
    one_place = measure(1, [sample(pool, (0,)) for pool in pools])
    assert (one_place.worker_entropy, one_place.number_entropy) == (1, 0)


@pytest.mark.parametrize(
    ("change", "rule", "told"),
    [
        ({"worker_entropy": 0.2, "most_used": "gpt", "most_used_share": 0.9}, "collapse", "gpt has 90%"),
        ({"groups_without_variance": 1.0}, "no_variance", "nothing is learnt"),
        ({"valid_plans": 0.4}, "valid_plans", "only 40%"),
        ({"length": 301.0}, "length", "301 tokens"),
        ({"unknown": 0.6}, "unknown", "server of rewards"),
    ],
)
def test_a_rule_stops_a_run(change: dict[str, float], rule: str, told: str) -> None:
    """After as many steps in a row as the patience, with a reason; a good step starts the count again."""
    guards = Guards(GuardSettings(patience=3, warm_up=2))
    bad = replace(GOOD, **change)  # type: ignore[arg-type]
    steps = [GOOD, GOOD, bad, bad, GOOD, bad, bad, bad]
    *before, stop = [guards.check(replace(each, step=number)) for number, each in enumerate(steps, 1)]
    assert (before, stop.rule) == ([None] * 7, rule)
    assert told in stop.told
    assert "3 steps up to step 8" in stop.told


def test_the_log_continues_after_a_crash(tmp_path: Path) -> None:
    """Steps after the checkpoint and a cut line are removed; held-out accuracy is kept."""
    path = tmp_path / "run" / "steps.jsonl"
    log = StepLog(path)
    for step in range(1, 6):
        log.write(replace(GOOD, step=step, held_out={"mixes": HeldOut(sampled=0.5, greedy=0.6)}))
    with path.open("a") as file:
        file.write('{"step": 6, "tex')
    StepLog(path, resumed_at=3).write(replace(GOOD, step=4))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["step"] for line in lines] == [1, 2, 3, 4]
    with path.open("a") as file:
        file.write('{"step": 5, "tex')
    assert read_steps(path.parent) == lines
    path.write_text("{nonsense}\n")
    with pytest.raises(ConfigError, match="is damaged"):
        read_steps(path.parent)
    held = {"sampled": 0.5, "greedy": 0.6, "unknown": {}, "sampled_second": None, "greedy_second": None}
    assert lines[0]["held_out"] == {"mixes": held}


def test_the_best_checkpoint_is_kept(tmp_path: Path) -> None:
    """A better one replaces it, and a crash while copying leaves nothing half."""
    kept = BestCheckpoint(tmp_path)
    assert kept.best is None
    offered = []
    for step, accuracy in ((10, 0.5), (20, 0.7), (30, 0.6)):
        checkpoint = tmp_path / f"checkpoint-{step}"
        checkpoint.mkdir()
        (checkpoint / "weights").write_text(str(step))
        (tmp_path / "best.new").mkdir()  # left by a crash
        offered.append(kept.offer(checkpoint, step=step, accuracy=accuracy))
        shutil.rmtree(tmp_path / "best.new", ignore_errors=True)
    assert offered == [True, True, False]
    assert (kept.best.step, (kept.folder / "weights").read_text()) == (20, "20")
    assert not (tmp_path / "best.old").exists()


def test_a_run_that_ends_without_plans_has_failed() -> None:
    """Although no rule had the patience to stop it."""
    lines = [asdict(replace(GOOD, step=step, valid_plans=1.0 / step)) for step in (1, 2)]
    assert [ended_without_plans(each) for each in ([], lines)] == [None, None]
    stop = ended_without_plans([*lines, asdict(replace(GOOD, step=3, valid_plans=0.0))])
    assert f"none of the {GOOD.texts} texts of the last step, 3, has a valid plan" in stop.told


def test_a_few_texts_of_a_step_are_kept_to_read() -> None:
    """Spread over the groups, with the reason of each reward."""
    scores = [
        Score(value=1.0, answer="4", workers=(0,)),
        Score(value=0.5, answer="5", workers=(0,)),
        Score(value=0.75, answer="4.1", workers=(0,)),
        Score(value=0.0, problem="no_plan"),
        Score(value=None, why_unknown="budget", workers=(0,)),
        Score(value=1.0, answer="4", kept=True, second_round=True),
    ]
    samples = [
        Sample(episode=episode(str(at)), score=score, length=3, text=f"text {at}\x1b[2J\nend")
        for at, score in enumerate(scores)
        for _ in range(2)
    ]
    texts = list(logged_texts(7, samples))
    assert [(text.step, text.question) for text in texts] == [(7, "0"), (7, "1"), (7, "3"), (7, "4")]
    reasons = [text.reason for text in logged_texts(7, samples[::3])]
    assert reasons == ["right answer", "wrong answer", "no valid plan: no_plan", "the budget is spent"]
    others = [written_text(each.episode, each.text, each.score).reason for each in samples[4::6]]
    assert others == ["answer graded 0.50", "keeps the answer: right answer"]
    assert list(lines_of(texts[0])) == [
        "question: 0",
        "workers: 0 good, 1 bad",
        "text: text 0\N{REPLACEMENT CHARACTER}[2J",
        "  end",
        "answer: 4",
        "reward: 1.000, right answer",
    ]
    assert list(logged_texts(7, [])) == []
