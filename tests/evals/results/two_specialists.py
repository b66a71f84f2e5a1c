"""A recording whose right figures are known: two specialists, and one that knows nothing."""

from collections.abc import Iterator
from pathlib import Path

from evals.listed_prices import LISTED

from podium.usage import Usage
from podium_evals.recorded import Provenance, Question, Recording, Recordings, Sample, write_recordings

VERBS, SUMS, NOTHING = "google_gemma-3-27b-it", "anthropic_claude-sonnet-4", "nobody"
WORKERS = (VERBS, SUMS, NOTHING)


def two_specialists(*, better: str = "", samples: int = 1, kinds: int = 4) -> Recordings:
    """Return eighty questions, half of them verbs.

    Args:
        better: a worker that is right on all.
        samples: samples of each answer, which are alike.
        kinds: number of kinds, an even number.
    """

    def recordings() -> Iterator[Recording]:
        for number in range(80):
            kind = ("verbs", "sums")[number % 2]
            question = Question(
                id=f"q{number}", kind=f"{kind} {number % kinds // 2}", text=f"{kind} {number}?"
            )
            for worker in WORKERS:
                is_right = worker == better or (worker, kind) in ((VERBS, "verbs"), (SUMS, "sums"))
                text = "yes" if is_right else f"no, says {worker}"
                sample = Sample(text=text, score=float(is_right), usage=Usage(100, 10))
                yield Recording(question, worker, (sample,) * samples)

    return Recordings(recordings(), Provenance(source="made here", licence="CC0-1.0"), prices=LISTED)


def written(folder: Path, recordings: Recordings) -> str:
    path = folder / "recording.jsonl.gz"
    write_recordings(recordings, path)
    return str(path)
