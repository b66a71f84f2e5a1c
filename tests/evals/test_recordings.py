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


def test_a_question_is_found_by_its_content() -> None:
    """Line ends, outer spaces and forms of Unicode do not count; inner spaces do, as in a grid."""
    sky = "What colour is the sky?"
    for text in (sky, f"  {sky}\r\n", f"\n{sky}   \n"):
        assert recordings().find(text) is BLUE
    assert recordings().find("What colour is  the sky?") is None
    assert content_key("caf\u00e9") == content_key("cafe\u0301")


def test_only_what_all_workers_were_asked() -> None:
    """A comparison is fair on common questions only."""
    common = recordings().only(["a", "b"])
    assert common.questions == (RED, TWO)
    assert recordings().only(["a"]).questions == (RED, BLUE, TWO)
    with pytest.raises(RecordingInvalid, match="'c'"):
        recordings().only(["a", "c"])
    with pytest.raises(RecordingInvalid, match="at least one"):
        recordings().only([])


def test_an_answer_that_some_worker_gave_has_its_score() -> None:
    """So the answers of reducers are scored; an answer that nobody gave is not guessed at."""
    assert recordings().score(RED, " pink\n") == 0.5
    assert recordings().score(RED, "  ") == 0.0
    assert recordings().score(RED, "crimson") is None
