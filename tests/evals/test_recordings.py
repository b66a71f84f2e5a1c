"""Questions, samples and recordings: found by content, joined, selected, scored."""

import pytest

from podium_evals.errors import RecordingInvalid
from podium_evals.recorded import Question, Recording, Recordings, Sample, content_key

RED = Question(id="q/red", kind="colours", text="What colour is a ripe tomato?")
BLUE = Question(id="q/blue", kind="colours", text="What colour is the sky?")
TWO = Question(id="q/two", kind="numbers", text="What is 1 + 1?")


def recordings() -> Recordings:
    """Return three questions; `b` was not asked one of them."""
    return Recordings(
        [
            Recording(RED, "a", (Sample(text="red", score=1.0), Sample(text="pink", score=0.5))),
            Recording(RED, "b", (Sample(text="RED", score=1.0),)),
            Recording(BLUE, "a", (Sample(text="blue", score=1.0),)),
            Recording(TWO, "b", (Sample(text="2", score=1.0),)),
            Recording(TWO, "a", (Sample(text="3", score=0.0),)),
        ]
    )


@pytest.mark.parametrize(
    "text",
    [
        "What colour is the sky?",
        "  What colour is the sky?\r\n",
        "\nWhat colour is the sky?   \n\n",
    ],
)
def test_a_question_is_found_by_its_content(text: str) -> None:
    """Line ends and outer spaces do not count."""
    assert recordings().find(text) is BLUE


def test_composed_and_decomposed_letters_are_the_same() -> None:
    """Unicode has two forms of many letters."""
    assert content_key("caf\u00e9") == content_key("cafe\u0301")


def test_inner_spaces_count() -> None:
    """In a grid they are the question."""
    assert content_key("0 1\n1 0") != content_key("0 1 1 0")
    assert recordings().find("What colour is  the sky?") is None


def test_only_what_all_workers_were_asked() -> None:
    """A comparison is fair on common questions only."""
    common = recordings().only(["a", "b"])
    assert common.questions == (RED, TWO)
    assert recordings().only(["a"]).questions == (RED, BLUE, TWO)
    with pytest.raises(RecordingInvalid, match="'c'"):
        recordings().only(["a", "c"])
    with pytest.raises(RecordingInvalid, match="at least one"):
        recordings().only([])


def test_questions_are_chosen_by_a_function() -> None:
    """As by kind, or by the part of a split."""
    numbers = recordings().where(lambda question: question.kind == "numbers")
    assert (numbers.questions, numbers.kinds, numbers.workers) == ((TWO,), ("numbers",), ("a", "b"))


def test_an_answer_that_some_worker_gave_has_its_score() -> None:
    """So the answers of reducers are scored; an answer that nobody gave is not guessed at."""
    assert recordings().score(RED, " pink\n") == 0.5
    assert recordings().score(RED, "  ") == 0.0
    assert recordings().score(RED, "crimson") is None


def test_a_score_is_between_nothing_and_one() -> None:
    """Another scale would be compared without a word."""
    with pytest.raises(RecordingInvalid, match="1\\.5"):
        Sample(text="x", score=1.5)


def test_the_mean_of_samples_needs_a_grade() -> None:
    """Answers without scores have no mean."""
    with pytest.raises(RecordingInvalid, match="have no scores"):
        _ = Recording(RED, "a", (Sample(text="red"),)).score


def test_positions_are_even() -> None:
    """Half of many questions fall below 0.5."""
    many = [Question(id=str(n), kind="k", text=f"question {n}") for n in range(2000)]
    assert 900 < sum(question.position(3) < 0.5 for question in many) < 1100
