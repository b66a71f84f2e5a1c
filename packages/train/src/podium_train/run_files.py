"""The files of a run, and what it tells people: logs of steps and texts, whole checkpoints, the best one."""

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from podium.errors import ConfigError
from podium.secrets import printable
from podium_train.environments import Episode
from podium_train.guards import REASONS, Sample, StepMeasures
from podium_train.rewards import Score

TEXTS: Final = "texts.jsonl"
"""The name of the log of texts in the folder of a run."""
_LOGGED = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenText:
    """A text of the conductor and its grade: one line of the log of texts."""

    step: int | None
    """Number of the training step; `None` outside of training."""
    question: str
    workers: tuple[str, ...]
    """The workers of the pool, by their numbers in plans."""
    earlier: str | None
    """The text of the first round, for a text of the second."""
    text: str
    """What the conductor wrote, with the prefill."""
    answer: str
    """The answer of the plan; empty if there is none."""
    reward: float | None
    """The reward before the cost and the second round are weighed; `None` if it is unknown."""
    has_plan: bool
    """Whether the text has a valid plan."""
    reason: str
    """Why it has this reward."""


def written_text(
    episode: Episode, text: str, score: Score, *, earlier: str | None = None, step: int | None = None
) -> WrittenText:
    """Return a text with its grade."""
    return WrittenText(
        step=step,
        question=episode.question,
        workers=episode.workers,
        earlier=earlier,
        text=text,
        answer=score.answer,
        reward=score.value,
        has_plan=bool(score.workers) or score.kept,
        reason=_reason(score),
    )


def logged_texts(step: int, samples: Sequence[Sample]) -> Iterator[WrittenText]:
    """Yield a few texts of a step, of different groups if there are enough."""
    for at in range(min(_LOGGED, len(samples))):
        each = samples[at * len(samples) // min(_LOGGED, len(samples))]
        yield written_text(each.episode, each.text, each.score, earlier=each.earlier, step=step)


def lines_of(written: WrittenText) -> Iterator[str]:
    """Yield the lines that show a text to people, without control characters."""
    workers = ", ".join(f"{number} {name}" for number, name in enumerate(written.workers))
    parts = {
        "question": written.question,
        "workers": workers,
        "first text": written.earlier,
        "text": written.text,
        "answer": written.answer,
        "reward": f"{'unknown' if written.reward is None else f'{written.reward:.3f}'}, {written.reason}",
    }
    for name, value in parts.items():
        if value:
            first, *rest = printable(value).splitlines() or [""]
            yield f"{name}: {first}"
            yield from (f"  {line}" for line in rest)


def _reason(score: Score) -> str:
    if score.why_unknown:
        return REASONS[score.why_unknown]
    if score.problem:
        return f"no valid plan: {score.problem}"
    kept = "keeps the answer: " if score.kept else ""
    grade = 2 * (score.value or 0.0) - 1
    named = {1.0: "right answer", 0.0: "wrong answer"}.get(grade, f"answer graded {grade:.2f}")
    return kept + named


STEPS: Final = "steps.jsonl"
"""The name of the log in the folder of a run."""


class StepLog:
    """Appends the measures, or some texts, of each step to a file."""

    def __init__(self, path: Path, *, resumed_at: int = 0) -> None:
        self._path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            kept = [line for line in self._lines() if _step(line) <= resumed_at]
            new = path.with_suffix(".new")
            new.write_text("".join(line + "\n" for line in kept), encoding="utf-8")
            new.replace(path)
        except OSError as error:
            raise ConfigError(f"the log {path} cannot be written: {error.strerror}") from error

    def write(self, measures: StepMeasures | WrittenText) -> None:
        """Append a line."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(measures)) + "\n")

    def _lines(self) -> list[str]:
        if not self._path.exists():
            return []
        return [line for line in self._path.read_text(encoding="utf-8").splitlines() if line.endswith("}")]


def read_steps(folder: Path) -> Sequence[dict[str, Any]]:
    """Return the lines of a run's log; none without a log. A line that a crash cut off is left out."""
    path = folder / STEPS
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the log {path} cannot be read: {error}") from error
    try:
        return [json.loads(line) for line in lines if line.endswith("}")]
    except json.JSONDecodeError as error:
        raise ConfigError(f"the log {path} is damaged: {error}") from error


def _step(line: str) -> int:
    return int(json.loads(line)["step"])


MEMORY: Final = "guards.json"
"""File in a checkpoint with the memory of the guards. It is written last: a checkpoint with it is whole."""


def last_checkpoint(folder: Path) -> Path | None:
    """Return the last whole checkpoint of a run, from which the run continues."""
    whole = [path.parent for path in folder.glob(f"checkpoint-*/{MEMORY}")]
    return max(whole, key=step_of, default=None)


def step_of(checkpoint: Path | None) -> int:
    """Return the step of a checkpoint; 0 for `None`."""
    return 0 if checkpoint is None else int(checkpoint.name.rpartition("-")[2])


_FACTS = "best.json"


@dataclass(frozen=True, slots=True)
class Best:
    """The kept checkpoint."""

    step: int
    """Number of its step."""
    accuracy: float
    """Its sampled accuracy on the validation split."""


class BestCheckpoint:
    """Keeps a copy of the best checkpoint in `FOLDER/best`.

    The copy is whole or absent after a crash.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "best"

    @property
    def best(self) -> Best | None:
        """The kept checkpoint; `None` if there is none."""
        path = self.folder / _FACTS
        return Best(**json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None

    def offer(self, checkpoint: Path, *, step: int, accuracy: float) -> bool:
        """Keep a copy of a checkpoint if it is better than the kept one."""
        kept = self.best
        if kept is not None and kept.accuracy >= accuracy:
            return False
        new, old = self.folder.with_name("best.new"), self.folder.with_name("best.old")
        shutil.rmtree(new, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
        shutil.copytree(checkpoint, new)
        (new / _FACTS).write_text(json.dumps(asdict(Best(step, accuracy))), encoding="utf-8")
        if self.folder.exists():
            self.folder.rename(old)
        new.rename(self.folder)
        shutil.rmtree(old, ignore_errors=True)
        return True


class Reporter:
    """Prints a line for each step. Of several processes of a training, only the first one tells anything."""

    def __init__(self, console: Console | None = None) -> None:
        is_other = os.environ.get("RANK", "0") != "0"
        self._console = console or Console(highlight=False, soft_wrap=True, quiet=is_other)

    def line(self, text: str) -> None:
        """Print a line."""
        self._console.print(text, markup=False)

    def step(self, done: int, total: int, text: str) -> None:
        """Tell that a step has ended."""
        self.line(f"step {done} of {total}: {text}")
