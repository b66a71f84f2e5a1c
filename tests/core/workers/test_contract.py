"""The workers that need no server keep the contract of workers."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from contracts.worker_contract import WorkerContract
from core.actors import Actor, never, plan_of

from podium import Conductor, FunctionWorker, Message, ScriptedWorker
from podium.planners import FixedPlanner
from podium.workers import Calculator, Documents, Gather, Join, Request, StepInput, VisibleStep, Vote, Worker


def _echo(step_input: StepInput) -> str:
    return f"You asked: {step_input.subtask}"


class TestFunction(WorkerContract):
    @pytest.fixture
    def worker(self) -> Worker:
        return FunctionWorker(_echo)

    @pytest.fixture
    def slow_worker(self) -> Iterator[Worker]:
        over = threading.Event()

        def wait(step_input: StepInput) -> str:
            over.wait(30)
            return _echo(step_input)

        yield FunctionWorker(wait)
        over.set()


class TestScripted(WorkerContract):
    @pytest.fixture
    def worker(self) -> Worker:
        return ScriptedWorker("s", lambda request: f"You asked: {request.messages[-1].text}", piece=4)

    @pytest.fixture
    def slow_worker(self) -> Worker:
        return ScriptedWorker("s", "late", latency=600.0)


class TestCalculator(WorkerContract):
    """Arithmetic, whose answers repeat what was worked out."""

    questions = tuple(f"{n} * 7" for n in range(10, 30))

    @pytest.fixture
    def worker(self) -> Worker:
        return Calculator()

    @pytest.fixture
    def slow_worker(self) -> Worker:
        pytest.skip("the calculator waits for nothing: its work is bounded and done in one go")


class TestDocuments(WorkerContract):
    """The search of a folder with one page for each question."""

    @pytest.fixture
    def worker(self, tmp_path: Path) -> Worker:
        for text in self.questions:
            (tmp_path / f"{text}.md").write_text(f"# Page\n\nHere it is about {text} and no other.\n")
        return Documents(tmp_path)

    @pytest.fixture
    def slow_worker(self) -> Worker:
        pytest.skip("only a slow disk makes the search slow")


class TestJoining(WorkerContract):
    """Joining and voting, whose questions are what two of three steps say."""

    def asking(self, text: str, *, stream: bool = False) -> Request:
        shown = tuple(VisibleStep(n, "judge", text if n else "no") for n in range(3))
        messages = (Message("user", "vote"),)
        return Request(messages=messages, step_input=StepInput("vote", shown), stream=stream)

    @pytest.fixture(params=[Gather, Join, Vote])
    def worker(self, request: pytest.FixtureRequest) -> Worker:
        made: Worker = request.param()
        return made

    @pytest.fixture
    def slow_worker(self) -> Worker:
        pytest.skip("joining and counting wait for nothing")


class TestConductor(WorkerContract):
    @pytest.fixture
    def worker(self) -> Worker:
        echo = FunctionWorker(lambda step_input: f"You asked: {step_input.query[-1].text}")
        return Conductor(FixedPlanner(plan_of((0, "go", ()))), [echo])

    @pytest.fixture
    def slow_worker(self) -> Worker:
        return Conductor(FixedPlanner(plan_of((0, "go", ()))), [Actor("never", never)])
