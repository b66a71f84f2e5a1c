"""Recordings of tests, and prices of four of their workers."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date
from pathlib import Path

from podium.usage import Usage
from podium.workers import Price
from podium_evals.recorded import (
    DatedPrice,
    PriceTable,
    Provenance,
    Question,
    Recording,
    Recordings,
    Sample,
    write_recordings,
)

Right = Callable[[int, int, int], bool]
"""Says of a worker, a question and a sample, by their numbers, whether the answer is right."""

_LISTED = {
    "google_gemma-3-27b-it": (0.1, 0.2, date(2026, 10, 19)),
    "anthropic_claude-sonnet-4": (3.0, 15.0, date(2026, 11, 10)),
    "meta-llama_llama-3.3-70b-instruct": (0.1, 0.3, date(2026, 11, 10)),
    "openai_o3-mini": (1.1, 4.4, date(2026, 11, 10)),
}
PRICED = tuple(_LISTED)
CHEAP, DEAR, WEAK, _ = PRICED
LISTED = PriceTable(
    DatedPrice(worker=worker, as_of=day, price=Price(input=read, output=written), source="a list")
    for worker, (read, written, day) in _LISTED.items()
)


def sample_of(worker: str, *, is_right: bool, usage: Usage | None = Usage(100, 10)) -> Sample:
    """Return the answer that is right for all questions, or a wrong one."""
    return Sample(text="yes" if is_right else f"no, says {worker}", score=float(is_right), usage=usage)


def made(
    questions: Iterable[tuple[str, str]],
    workers: Sequence[str],
    right: Right,
    *,
    samples: int = 1,
    usage: Usage | None = Usage(100, 10),
) -> Recordings:
    """Return the answers of workers to questions, each a kind and a text, with the listed prices."""

    def recordings() -> Iterator[Recording]:
        for number, (kind, text) in enumerate(questions):
            question = Question(id=f"q{number}", kind=kind, text=text, expected="yes")
            for place, worker in enumerate(workers):
                rights = [right(place, number, sample) for sample in range(samples)]
                answers = tuple(sample_of(worker, is_right=each, usage=usage) for each in rights)
                yield Recording(question, worker, answers)

    return Recordings(recordings(), prices=LISTED)


VERBS, SUMS, NOTHING = CHEAP, DEAR, "nobody"
WORKERS = (VERBS, SUMS, NOTHING)


def two_specialists(*, samples: int = 1) -> Recordings:
    """Return eighty questions, half of them verbs, with some samples of each answer, which are alike."""
    kinds = ("verbs", "sums") * 40
    rows = [(f"{kind} {n % 4 // 2}", f"{kind} {n}?") for n, kind in enumerate(kinds)]
    recordings = made(rows, WORKERS, lambda worker, number, _: worker == number % 2, samples=samples)
    return Recordings(recordings, Provenance(source="made here", licence="CC0-1.0"), prices=LISTED)


def written(folder: Path, recordings: Recordings) -> str:
    path = folder / "recording.jsonl.gz"
    write_recordings(recordings, path)
    return str(path)
