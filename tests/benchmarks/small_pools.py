"""Small recordings with the names, the workers and the sample counts of the public ones."""

from collections.abc import Iterator, Sequence

import numpy as np

from benchmarks.evidence.recordings import CALLS
from podium.usage import Usage
from podium_evals.recorded import Provenance, Question, Recording, Recordings, Sample

KINDS = ("sums", "verbs", "maps", "dates", "rhymes", "codes")


def small_recordings(name: str, workers: Sequence[str], samples: int, questions: int = 120) -> Recordings:
    """Return questions of six kinds. Each worker is good at one kind, and some answers are empty.

    Tool calls have tokens and seconds, and no texts.
    """
    is_call = name == CALLS
    random = np.random.default_rng(len(workers) + samples)

    def sample(worker: str, number: int, is_right: bool) -> Sample:  # noqa: FBT001 - the drawn answer
        if is_call:
            text = f"(text not recorded) {worker}: {float(is_right)}"
            return Sample(text=text, score=float(is_right), usage=Usage(100 + len(worker), 20), latency_s=1.5)
        text = str(number) if is_right else "" if number % 5 == 0 else f"not {number}, says {worker}"
        return Sample(text=text, score=float(is_right))

    def recordings() -> Iterator[Recording]:
        for number in range(questions):
            kind = KINDS[number % len(KINDS)]
            question = Question(
                id=f"{name}/{number}", kind=kind, text=f"{kind}: what is {number}?", level=name
            )
            for place, worker in enumerate(workers):
                rate = 0.9 if place % len(KINDS) == number % len(KINDS) else 0.4
                rights = random.random(samples) < rate
                samples_of = tuple(sample(worker, number, bool(each)) for each in rights)
                yield Recording(question, worker, samples_of)

    source = Provenance(source="https://example.org/recorded", revision="a" * 40, licence="CC0-1.0")
    return Recordings(recordings(), source)
