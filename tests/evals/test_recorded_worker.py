"""Recorded workers answer what was recorded, and nothing else; reducers choose one of the answers."""

from collections.abc import Sequence

import pytest
from contracts.worker_contract import WorkerContract

from podium import Conductor, Plan, Result, Step
from podium.planners import FixedPlanner, RulePlanner
from podium.types import Message
from podium.usage import Usage
from podium.workers import Card, Price, Request, StepInput, VisibleStep, Worker, complete
from podium_evals.errors import Unrecorded
from podium_evals.recorded import (
    NO_ANSWER,
    Question,
    RecordedWorker,
    Recording,
    Recordings,
    Sample,
    Vote,
    recorded_pool,
)

SKY = Question(id="sky", kind="colours", text="What colour is the sky?")
BRACES = Question(id="braces", kind="code", text="What does {{0}} mean in a template?")
SUM = Question(id="sum", kind="numbers", text="What is 20 + 22?")
NEXT = Question(id="next", kind="numbers", text="42")
THREE = tuple(Sample(text=text, score=score) for text, score in (("blue", 1.0), ("grey", 0.0), ("red", 0.0)))


@pytest.fixture
def recordings() -> Recordings:
    """Two workers, of which one was asked everything."""
    return Recordings(
        [
            Recording(SKY, "a", THREE),
            Recording(BRACES, "a", (Sample(text="a reference", score=1.0),)),
            Recording(SUM, "a", (Sample(text="42", score=1.0, usage=Usage(9, 300)),)),
            Recording(NEXT, "a", (Sample(text="43", score=1.0),)),
            Recording(SUM, "b", (Sample(text="", score=0.0),)),
            Recording(SKY, "b", (Sample(text="grey", score=0.0),)),
        ]
    )


def run(recordings: Recordings, query: str, *steps: Step, show_question: bool = True) -> Result:
    """Run a plan over the recorded workers `a` (0) and `b` (1)."""
    planner, pool = FixedPlanner(Plan(steps)), recorded_pool(recordings)
    return Conductor(planner, pool, show_question=show_question).run_sync(query)


class TestRecorded(WorkerContract):
    @pytest.fixture
    def worker(self) -> Worker:
        def sample(text: str) -> Sample:
            return Sample(text=f"You asked: {text}", usage=Usage(500, 900), latency_s=60.0)

        texts = [*self.questions, self.questions[0] + ", and nothing else" * 25]
        recordings = Recordings(
            Recording(Question(id=text, kind="echo", text=text), "echo", (sample(text),)) for text in texts
        )
        card = Card(name="echo", price=Price(input=1.0, output=2.0))
        return RecordedWorker(recordings, "echo", card=card)

    @pytest.fixture
    def slow_worker(self) -> Worker:
        pytest.skip("recorded answers are there at once")


@pytest.mark.parametrize(
    "subtask", [SKY.text, f"  {SKY.text}\n", "Answer the question.", f"Answer this question: {SKY.text}"]
)
def test_the_question_alone_is_answered(recordings: Recordings, subtask: str) -> None:
    """In the subtask, in the run's question, or in both."""
    result = run(recordings, SKY.text, Step(1, subtask), show_question=subtask != f"  {SKY.text}\n")
    assert (result.status, result.answer) == ("ok", "grey")


def test_an_output_that_is_the_question_is_answered(recordings: Recordings) -> None:
    """A step that is given an earlier output by reference is shown that text alone."""
    result = run(recordings, "go on", Step(0, SUM.text), Step(0, "{{0}}", (0,)), show_question=False)
    assert result.answer == "43"


@pytest.mark.parametrize(
    ("steps", "show_question", "told"),
    [
        ([Step(0, "Is it?")], False, "no worker has a recorded answer to the question 'Is it?'"),
        ([Step(1, "42")], False, "'b' has no recorded answer to 'next'"),
        ([Step(0, f"Think hard. {SKY.text}")], True, "and another question"),
        ([Step(0, SKY.text), Step(0, SUM.text), Step(0, "{{1}}", (0, 1))], False, "shown step 0 besides its"),
    ],
)
def test_what_was_not_recorded_is_told_and_not_tried_again(
    recordings: Recordings, steps: list[Step], told: str, *, show_question: bool
) -> None:
    """With a code of its own, at no cost, after one call."""
    result = run(recordings, SKY.text, *steps, show_question=show_question)
    last = result.outcomes[-1]
    assert (result.status, result.answer) == ("failed", "")
    assert last.problem is not None
    assert (last.problem.code, last.attempts, last.usage, last.cost) == ("unrecorded", 1, Usage(), 0.0)
    assert told in last.problem.message


def test_steps_of_a_plan_get_different_samples(recordings: Recordings) -> None:
    """As long as there are; the seed says where it begins, and the same seed gives the same answers."""

    def answers(seed: int) -> list[str]:
        plan = Plan((*[Step(0, SKY.text)] * 3, Step(1, "vote", (0, 1, 2))))
        pool = [RecordedWorker(recordings, "a", seed=seed), Vote()]
        return [each.text for each in Conductor(FixedPlanner(plan), pool).run_sync(SKY.text).outcomes[:3]]

    assert sorted(answers(0)) == ["blue", "grey", "red"]
    assert answers(0) == answers(0)
    assert len({str(answers(seed)) for seed in range(12)}) == 3


def test_usage_is_recorded_or_marked_as_estimated(recordings: Recordings) -> None:
    exact, guessed = (run(recordings, each.text, Step(0, each.text)).outcomes[0].usage for each in (SUM, SKY))
    assert (exact, guessed.estimated, guessed.input_tokens > 3) == (Usage(9, 300), True, True)


def test_an_empty_answer_is_an_answer_that_scores_nothing(recordings: Recordings) -> None:
    """It is not asked for again, and the run says what is missing."""
    result = run(recordings, SUM.text, Step(1, SUM.text))
    assert (result.status, result.answer) == ("partial", NO_ANSWER)
    assert result.problem is not None
    assert "the recorded answer is empty" in result.problem.message
    assert result.outcomes[0].attempts == 1
    assert recordings.score(SUM, NO_ANSWER) == 0.0


def test_a_conversation_before_the_question_is_not_recorded(recordings: Recordings) -> None:
    """Answers may depend on it."""
    conductor = Conductor(RulePlanner(), recorded_pool(recordings, ["a"]))
    before = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    result = conductor.run_sync([*before, {"role": "user", "content": SKY.text}])
    assert (result.problem and result.problem.code) == "unrecorded"


def showing(outputs: Sequence[str], *, stream: bool = False) -> Request:
    visible = tuple(VisibleStep(number, "find", output) for number, output in enumerate(outputs))
    query = (Message("user", "which?"),)
    return Request(messages=query, step_input=StepInput("choose", visible, query), stream=stream)


class TestVote(WorkerContract):
    """Its questions are the answers it is shown."""

    def asking(self, text: str, *, stream: bool = False) -> Request:
        return showing([text, text], stream=stream)

    @pytest.fixture
    def worker(self) -> Worker:
        return Vote()

    @pytest.fixture
    def slow_worker(self) -> Worker:
        pytest.skip("choosing waits for nothing")


@pytest.mark.anyio
async def test_what_is_chosen() -> None:
    """Ties go to the earlier step; a step without an answer has no vote; an access list is needed."""
    for outputs, chosen in (
        (["red", "Blue.", "blue"], "Blue."),
        (["red", "blue"], "red"),
        ([NO_ANSWER, NO_ANSWER, "blue"], "blue"),
    ):
        assert (await complete(Vote(), showing(outputs))).text == chosen
    answer = await complete(Vote(), showing([NO_ANSWER, ""]))
    assert (answer.text, answer.missing) == (NO_ANSWER, "no visible step has an answer")
    with pytest.raises(Unrecorded, match="access list"):
        await complete(Vote(), showing([]))
