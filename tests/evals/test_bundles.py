"""Bundles are the same for a seed, and are answered by plans that give each part alone."""

import pytest
from contracts.worker_contract import WorkerContract

from podium.types import Message
from podium.workers import Request, StepInput, VisibleStep, Worker
from podium_evals.errors import RecordingInvalid
from podium_evals.recorded import (
    Bundle,
    JoinParts,
    Part,
    Question,
    Recording,
    Recordings,
    Sample,
    make_bundles,
)

SUM = Question(id="sum", kind="sums", text="What is 20 + 22?")
HALF = Question(id="half", kind="halves", text="Halve 42, in braces: {{0}}.")
SKY = Question(id="sky", kind="colours", text="What colour is the sky?")
BUNDLE = Bundle(
    id="b",
    parts=(Part(question=SUM), Part(question=SKY), Part(question=HALF, needs=0, number="42")),
)


def many(kinds: int = 8, each: int = 12) -> Recordings:
    """Return questions of some kinds, of which some have the answer of another one among their numbers."""
    questions = [
        Question(
            id=f"{kind}/{number}", kind=f"k{kind}", text=f"Kind {kind}: add 1 to {10 * kind + number + 100}."
        )
        for kind in range(kinds)
        for number in range(each)
    ]
    return Recordings(
        Recording(each, "a", (Sample(text=str(int(each.text.split()[-1][:-1]) + 1), score=1.0),))
        for each in questions
    )


class TestJoinParts(WorkerContract):
    def asking(self, text: str, *, stream: bool = False) -> Request:
        shown = (VisibleStep(0, "find", text), VisibleStep(1, "find", "other"))
        return Request(
            messages=(Message("user", "join"),), step_input=StepInput("join", shown), stream=stream
        )

    @pytest.fixture
    def worker(self) -> Worker:
        return JoinParts()

    @pytest.fixture
    def slow_worker(self) -> Worker:
        pytest.skip("joining waits for nothing")


def test_the_text_names_parts_and_hides_the_number() -> None:
    """The linked part says whose answer it needs."""
    assert "Part 2:\nWhat colour is the sky?" in BUNDLE.text
    assert "Part 3:\nHalve [the answer to part 1], in braces: {{0}}." in BUNDLE.text
    assert BUNDLE.texts == {"part_1": SUM.text, "part_2": SKY.text}


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ("Part 1: 42\nPart 2: blue\nPart 3: 21", ("42", "blue", "21")),
        ("**Part 1:** 42\n\n**Part 2**: see\nbelow\n\n### Part 3:\n21\n", ("42", "see\nbelow", "21")),
        ("Part 1: 42\nPart 3: 21", ("42", "", "21")),
        ("It is 42.", ("", "", "")),
        ("Part 1: Q _\n_ _\n\n**Part 2:** 7", ("Q _\n_ _", "7", "")),
    ],
)
def test_answers_are_found_by_their_headings(answer: str, found: tuple[str, ...]) -> None:
    """In the forms that models write; a part without a heading has no answer."""
    assert BUNDLE.answers(answer) == found


def test_bundles_are_frozen_by_their_seed() -> None:
    """The same on every machine and in every order of the recording; another seed gives others."""
    recorded = many()
    made = make_bundles(recorded, 12, seed=7, linked=0.5)
    shuffled = Recordings(reversed(list(recorded)))
    assert make_bundles(shuffled, 12, seed=7, linked=0.5) == made
    assert make_bundles(recorded, 12, seed=8, linked=0.5) != made
    assert [len(bundle.parts) for bundle in made] == [4, 5, 3, 5, 3, 3, 2, 4, 2, 2, 4, 4]


def test_parts_are_of_different_kinds_and_stand_once() -> None:
    made = make_bundles(many(), 15, seed=1, linked=0.5)
    used = [part.question.key for bundle in made for part in bundle.parts]
    assert len(used) == len(set(used))
    for bundle in made:
        assert 2 <= len(bundle.parts) <= 5
        assert len({part.question.kind for part in bundle.parts}) == len(bundle.parts)


def test_links_go_back_and_are_right() -> None:
    """The needed part stands before; its right answer is the number that is missing."""
    recorded = many()
    made = make_bundles(recorded, 15, seed=1, linked=1.0)
    links = [(bundle, part) for bundle in made for part in bundle.parts if part.needs is not None]
    assert len(links) > 5
    for bundle, part in links:
        needed = bundle.parts[part.needs or 0]
        assert part.needs is not None
        assert bundle.parts.index(part) > part.needs
        assert recorded.samples(needed.question, "a")[0].text == part.number
        assert part.number not in part.text.split()[-3:]
    assert not [
        part for bundle in make_bundles(recorded, 9, seed=1, linked=0) for part in bundle.parts if part.number
    ]


def test_too_few_questions_are_told() -> None:
    """And sizes that make no bundle."""
    with pytest.raises(RecordingInvalid, match="too few"):
        make_bundles(many(kinds=3), 50, seed=1)
    with pytest.raises(RecordingInvalid, match="two parts"):
        make_bundles(many(), 1, seed=1, sizes=(1, 3))
