"""A router predicts each worker's probability of a right answer to a question. It is saved as one file."""

import json
import zipfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from podium_evals.errors import RouterInvalid
from podium_evals.router.text_scores import Floats, TextScores

VERSION = 2
_UNREADABLE = (OSError, EOFError, zipfile.BadZipFile, ValueError, KeyError, TypeError, AttributeError)


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterFacts:
    """Facts about the fit of a router: its workers, their costs, and the fitted parameters."""

    workers: tuple[str, ...]
    """The names of the workers, in the order of its predictions."""
    costs: tuple[float | None, ...]
    """The mean cost of an answer of each worker, in USD; `None` if its price was not known."""
    questions: int
    kinds: int
    fingerprint: str
    """A digest of the questions, the workers and the scores."""
    alpha: float
    """The strength of the ridge penalty with the best out-of-fold result."""
    calibrations: tuple[tuple[float, float], ...]
    """The slope and the intercept that turn each worker's predictions into probabilities."""
    worth: float | None = None
    """The worth of a right answer, in USD, of the router's tier; `None` for a router without a tier."""
    version: int = VERSION


class Router:
    """Predicts the scores of workers on a question. `fit_router` makes a router.

    Args:
        facts: facts about the fit.
        scores: the regression from texts to scores.
    """

    def __init__(self, facts: RouterFacts, scores: TextScores) -> None:
        self.facts = facts
        self.scores = scores

    def predict(self, text: str) -> dict[str, float]:
        """Return the expected score of each worker, 0 to 1: the probability of a right answer."""
        return dict(zip(self.facts.workers, self.predict_all([text])[0].tolist(), strict=True))

    def predict_all(self, texts: Sequence[str]) -> Floats:
        """Return the expected scores, shape (texts, workers)."""
        return calibrated(self.scores.predict(texts), self.facts.calibrations)

    def save(self, path: Path | str) -> None:
        """Write the router to a file. An existing file is replaced when the new one is complete.

        The file is an `npz` archive of arrays and a JSON header. Reading a file runs no code from it.

        Raises:
            OSError: the file cannot be written.
        """
        arrays: dict[str, NDArray[Any]] = self.scores.arrays()
        arrays["header"] = np.asarray(json.dumps(asdict(self.facts)))
        path = Path(path)
        unfinished = path.with_name(f".{path.name}.part")
        try:
            with unfinished.open("wb") as file:
                np.savez_compressed(file, allow_pickle=False, **arrays)
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read a router from a file.

        Raises:
            RouterInvalid: there is no such file, or the file is not a router of this version.
        """
        try:
            with Path(path).open("rb") as opened, np.load(opened, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            header = json.loads(str(arrays.pop("header")))
            version = header["version"]
            if version == VERSION:
                return cls._of(header, arrays)
        except _UNREADABLE as error:
            raise RouterInvalid(f"{path} is not a router: {type(error).__name__}: {error}") from error
        raise RouterInvalid(
            f"{path} is a router of version {version!r}, but version {VERSION} is "
            f"needed: train the router again"
        )

    @classmethod
    def _of(cls, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Self:
        listed = {"calibrations": tuple(map(tuple, header["calibrations"])), "costs": tuple(header["costs"])}
        facts = RouterFacts(**header | listed | {"workers": tuple(map(str, header["workers"]))})
        return cls(facts, TextScores.of_arrays(arrays))


def calibrated(predicted: Floats, calibrations: Sequence[tuple[float, float]]) -> Floats:
    """Turn the predictions of a regression into probabilities, shape (questions, workers)."""
    slopes, intercepts = np.asarray(calibrations).T
    probabilities: Floats = 1 / (1 + np.exp(-(slopes * predicted + intercepts)))
    return probabilities
