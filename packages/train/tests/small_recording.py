"""A small recording for tests: five workers, ten kinds, questions that are answered by numbers."""

from random import Random

from podium_evals.recorded import Question, Recording, Recordings, Sample

WORKERS = ("ada", "bob", "cyd", "dan", "eve")
KINDS = ("sums", "words", "maps", "dates", "codes", "games", "trees", "verbs", "coins", "stars")


def small_recording(*, questions: int = 12, samples: int = 2, seed: int = 1) -> Recordings:
    """Return a recording; each worker is good at two kinds."""
    random = Random(seed)
    found = []
    for place, kind in enumerate(KINDS):
        for number in range(questions):
            right = str(100 + place * questions + number)
            other = 100 + (place + 1) % len(KINDS) * questions + number
            question = Question(
                id=f"{kind}/{number}",
                kind=kind,
                text=f"What follows {other} in the {kind} of case {chr(97 + number)}{{{{ }}}}?",
                expected=right,
            )
            for at, worker in enumerate(WORKERS):
                is_good = place // 2 == at
                answers = tuple(
                    _sample(right, is_right=random.random() < (0.9 if is_good else 0.3), random=random)
                    for _ in range(samples)
                )
                found.append(Recording(question, worker, answers))
    return Recordings(found)


def _sample(right: str, *, is_right: bool, random: Random) -> Sample:
    if is_right:
        return Sample(text=right, score=1.0)
    return Sample(text=random.choice(["", "none", "7", "8"]), score=0.0)
