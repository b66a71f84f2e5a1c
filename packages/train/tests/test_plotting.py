"""The picture of a run's log."""

from pathlib import Path
from random import Random
from xml.etree import ElementTree as ET

import pytest

from podium.errors import ConfigError
from podium_train.environments.specialists import BASELINES, Specialists
from podium_train.guards import STEPS, HeldOut, Sample, StepLog, measure
from podium_train.plotting import draw_run
from podium_train.rewards import Score


def write_log(folder: Path, steps: int) -> None:
    """Write the log of a run whose plans become right."""
    log, random = StepLog(folder / STEPS), Random(0)
    for step in range(1, steps + 1):
        episodes = Specialists().episodes("train", 8, seed=step)
        samples = [
            Sample(
                episode=episode,
                score=Score(
                    value=1.0 if random.random() < step / steps else 0.5,
                    workers=tuple(each.worker for each in BASELINES["keyword rule"](episode).steps),
                ),
                length=20,
            )
            for episode in episodes
            for _ in range(4)
        ]
        held = {"mixes": HeldOut(sampled=step / steps, greedy=1.0)} if step % 10 == 0 else {}
        log.write(measure(step, samples, held_out=held))


def words(path: Path) -> str:
    """Return all words of a picture."""
    tree = ET.parse(path)  # noqa: S314 - a picture of this test
    return " ".join("".join(element.itertext()) for element in tree.iter() if element.text)


def test_the_picture_of_a_run(tmp_path: Path) -> None:
    """It has a part for each measure; equal logs give equal pictures."""
    write_log(tmp_path, 40)
    draw_run(tmp_path, tmp_path / "a.svg")
    draw_run(tmp_path, tmp_path / "b.svg")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    told = words(tmp_path / "a.svg")
    for word in ("Reward", "mixes, sampled", "mixes, greedy", "Entropy", "1 step", "2 steps", "valid plans"):
        assert word in told


def test_a_run_of_one_step(tmp_path: Path) -> None:
    """Nothing was held out yet, and a line that a crash cut off is left out."""
    write_log(tmp_path, 1)
    with (tmp_path / STEPS).open("a") as file:
        file.write('{"step": 2, "rew')
    draw_run(tmp_path, tmp_path / "a.svg")
    assert "mixes" not in words(tmp_path / "a.svg")


@pytest.mark.parametrize(
    ("content", "out", "told"),
    [
        (None, "a.svg", "has no steps.jsonl"),
        ("", "a.svg", "no step has ended yet"),
        ("{nonsense}\n", "a.svg", "is damaged"),
        ("", "a.png", "must end in .svg"),
    ],
)
def test_what_cannot_be_drawn(tmp_path: Path, content: str | None, out: str, told: str) -> None:
    """The error says why."""
    if content is not None:
        (tmp_path / STEPS).write_text(content)
    with pytest.raises(ConfigError, match=told):
        draw_run(tmp_path, tmp_path / out)


def test_a_folder_that_is_missing(tmp_path: Path) -> None:
    """The picture cannot be written."""
    write_log(tmp_path, 2)
    with pytest.raises(ConfigError, match="cannot be written"):
        draw_run(tmp_path, tmp_path / "nothing" / "a.svg")
