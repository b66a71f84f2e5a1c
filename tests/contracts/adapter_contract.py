"""The contract of every adapter. Subclass it as `Test…`, with the fixture `adapter`.

class TestMine(AdapterContract):
    @pytest.fixture
    def adapter(self) -> Adapter: ...

An `Adapter` makes workers of the host (an agent, a chat model) from functions that return their answers, and
the host's object for a conductor (a query engine, a team) from such workers. `lacks` names the tests that a
host cannot pass, with the reasons; these tests are skipped.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

import anyio
import pytest
from contracts.provider_errors import PROVIDER_ERRORS, ProviderError
from core.actors import ONCE, boss, rows

from podium import Conductor, FunctionWorker, Limits
from podium.errors import PlannerError, PodiumError
from podium.hosts.errors import worker_error
from podium.journal import SqlJournal
from podium.plan_text.writer import KEEP
from podium.planners import FixedPlanner, Planner
from podium.types import Outcome, Problem
from podium.workers import FREE, StepInput, Worker

Speak = Callable[[str], Awaitable[str]]
"""Returns a worker's answer from the text of all its messages."""


@dataclass(frozen=True)
class Told:
    """One step in the host's output."""

    step: int
    worker: str
    status: str
    output: str
    tokens: int
    """Input and output tokens."""
    problem: str = ""


@dataclass(frozen=True)
class Answer:
    """The host's output for a question."""

    text: str
    status: str
    """`ok`, `partial` or `failed`, in any form of the host."""
    steps: tuple[Told, ...]


def answer_of(text: str, status: str, outcomes: Sequence[Outcome]) -> Answer:
    """Return an answer of a host that tells of outcomes."""
    steps = tuple(
        Told(each.step, each.worker, each.status, each.text, each.usage.total_tokens, _said(each.problem))
        for each in outcomes
    )
    return Answer(text, status, steps)


def _said(problem: Problem | None) -> str:
    return "" if problem is None else problem.message


def answer_in(text: str, facts: Mapping[str, Any], outputs: Mapping[int, str], *counts: str) -> Answer:
    """Return an answer of a host that tells of the run as JSON; `counts` are its names of tokens."""
    steps = tuple(
        Told(
            step=told["step"],
            worker=told["worker"],
            status=told["status"],
            output=outputs.get(told["step"], ""),
            tokens=sum(told["usage"][name] for name in counts),
            problem="" if told["problem"] is None else told["problem"]["message"],
        )
        for told in facts["steps"]
    )
    return Answer(text, facts["status"], steps)


class Face(ABC):
    """The host's object for one conductor."""

    @abstractmethod
    async def ask(self, question: str) -> Answer:
        """Ask a question from async code, like users of the host."""

    @abstractmethod
    def ask_sync(self, question: str) -> Answer:
        """Ask a question from synchronous code, like users of the host."""

    @abstractmethod
    def stream(self, question: str) -> AsyncGenerator[tuple[int, str], None]:
        """Yield each piece of output that the host streams, with its step."""


class Adapter(ABC):
    """Makes the objects of a host."""

    tokens: int
    """Tokens that each call of a worker reports."""
    as_worker: Callable[[Any], Worker]
    """Returns a worker of the host as a worker of Podium; the function for users of the host."""

    @abstractmethod
    def worker(self, name: str, speak: Speak) -> Any:
        """Return a worker of the host, whose calls each report `tokens`."""

    @abstractmethod
    def face(self, planner: Planner, workers: Sequence[Any], **options: Any) -> Face:
        """Return the host's object for a conductor with the `options` of `Conductor`."""


def planner_of(*steps: tuple[int, str, tuple[int, ...]]) -> FixedPlanner:
    """Return a planner with these steps: worker, subtask, access list."""
    return FixedPlanner(rows(*steps))


def saying(text: str) -> Speak:
    async def speak(shown: str) -> str:
        return text

    return speak


def failing(shown: str) -> Awaitable[str]:
    raise ValueError("out of order")


def plain(text: str) -> str:
    """Return the text of an answer without the sentence at the end of an incomplete one."""
    return text.partition("\n\n(Not complete: ")[0]


def _causes(error: BaseException | None) -> list[BaseException]:
    found = list[BaseException]()
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found


_WHOLE: Final = rows((0, "look", ()), (2, "write", (0,)))
_FAILS: Final = rows((0, "look", ()), (1, "check", ()), (2, "write", (0, 1)))
_OTHER: Final = rows((0, "look", ()), (2, "write again", (0,)))
_TWICE: Final = {"limits": Limits(rounds=2)}
_REPLAN: Final = {"on_failure": "replan"}


@pytest.mark.anyio
class AdapterContract:
    lacks: ClassVar[Mapping[str, str]] = {}
    """Names of tests that the host cannot pass, with the reasons."""

    @pytest.fixture(autouse=True)
    def _skip_what_it_lacks(self, request: pytest.FixtureRequest) -> None:
        name = request.node.originalname
        if name in self.lacks:
            pytest.skip(self.lacks[name])

    @pytest.fixture
    def anyio_backend(self) -> str:
        return "asyncio"

    async def test_a_worker_is_shown_its_access_list_and_nothing_else(self, adapter: Adapter) -> None:
        seen: dict[str, str] = {}

        def spy(name: str) -> Speak:
            async def speak(shown: str) -> str:
                seen[name] = shown
                return f"canary-of-{name}"

            return speak

        names = ("one", "two", "three", "four", "five")
        steps = ((0, "task-one", ()), (1, "task-two", (0,)), (2, "task-three", ()))
        planner = planner_of(*steps, (3, "task-four", (1, 2)), (4, "task-five", (0, 3)))
        access = {"one": (), "two": ("one",), "three": (), "four": ("two", "three"), "five": ("one", "four")}
        face = adapter.face(planner, [adapter.worker(name, spy(name)) for name in names])
        assert (await face.ask("the-question")).text == "canary-of-five"
        for name, visible in access.items():
            found = {other for other in names if f"canary-of-{other}" in seen[name]}
            tasks = {other for other in names if f"task-{other}" in seen[name]}
            assert (name, found, tasks) == (name, set(visible), {*visible, name})
            assert "the-question" in seen[name]

    async def test_steps_side_by_side_are_under_way_at_once(self, adapter: Adapter) -> None:
        """Each waits for the other, which it would in vain if they ran in turn."""
        there: set[str] = set()

        def meet(name: str) -> Speak:
            async def speak(shown: str) -> str:
                there.add(name)
                with anyio.fail_after(20):
                    while len(there) < 3:  # noqa: ASYNC110 - a host may run workers in separate event loops
                        await anyio.sleep(0.01)
                return name

            return speak

        workers = [adapter.worker(name, meet(name)) for name in ("left", "middle", "right")]
        planner = planner_of((0, "a", ()), (1, "b", ()), (2, "c", ()), (3, "join", (0, 1, 2)))
        answer = await adapter.face(planner, [*workers, adapter.worker("join", saying("met"))]).ask("?")
        assert (answer.text, answer.status) == ("met", "ok")

    async def test_there_is_one_outcome_for_each_step(self, adapter: Adapter) -> None:
        """Of those that failed, and of those that were skipped for it, too; what was paid for stays."""
        workers = [adapter.worker("good", saying("paid for")), adapter.worker("bad", failing)]
        planner = planner_of((0, "a", ()), (1, "b", ()), (0, "c", (1,)), (0, "d", (0, 2)))
        answer = await adapter.face(planner, workers, retry=ONCE).ask("?")
        ends = [f"{told.step} {told.status}" for told in answer.steps]
        assert (ends, answer.steps[1].worker) == (["0 ok", "1 failed", "2 skipped", "3 ok"], "bad")
        assert "out of order" in answer.steps[1].problem
        assert (plain(answer.text), answer.status) == ("paid for", "partial")

    async def test_the_output_of_another_step_is_no_answer(self, adapter: Adapter) -> None:
        """When the last step fails, the host raises an error of Podium's, perhaps wrapped, without it."""
        workers = [adapter.worker("good", saying("paid for")), adapter.worker("bad", failing)]
        face = adapter.face(planner_of((0, "a", ()), (1, "b", (0,))), workers, retry=ONCE)
        with pytest.raises(Exception, match="out of order") as caught:
            await face.ask("?")
        assert "paid for" not in str(caught.value)
        assert any(isinstance(cause, PodiumError) for cause in _causes(caught.value))

    @pytest.mark.parametrize("case", PROVIDER_ERRORS[::14], ids=lambda case: case.name)
    async def test_a_provider_exception_is_told_alike(self, adapter: Adapter, case: ProviderError) -> None:
        """In the words of `podium.hosts`, whichever host it came through; core tests all of them."""

        async def speak(shown: str) -> str:
            raise case.make()

        planner = planner_of((0, "a", ()), (1, "b", (0,)), (0, "c", (0, 1)))
        workers = [adapter.worker("good", saying("fine")), adapter.worker("bad", speak)]
        answer = await adapter.face(planner, workers, retry=ONCE).ask("?")
        assert answer.steps[1].problem == str(worker_error(case.make(), "bad"))

    async def test_without_a_plan_the_host_raises(self, adapter: Adapter) -> None:
        """By the error of the planner, with its code; the host may wrap it."""
        face = adapter.face(FixedPlanner("I would rather not."), [adapter.worker("a", saying("x"))])
        with pytest.raises(Exception, match="there is no plan") as caught:
            await face.ask("?")
        codes = [error.code for error in _causes(caught.value) if isinstance(error, PlannerError)]
        assert "planner_unusable" in codes

    async def test_a_mistake_in_a_worker_of_the_users_own_leaves_the_host(self, adapter: Adapter) -> None:
        def mistaken(step_input: StepInput) -> str:
            raise TypeError("a mistake")

        workers = [adapter.worker("a", saying("x")), FunctionWorker(mistaken, price=FREE)]
        with pytest.raises(Exception, match="a mistake") as caught:
            await adapter.face(planner_of((0, "a", ()), (1, "b", (0,))), workers).ask("?")
        assert any(isinstance(error, TypeError) for error in _causes(caught.value))

    async def test_a_type_error_of_the_hosts_own_worker_fails_its_step(self, adapter: Adapter) -> None:
        async def speak(shown: str) -> str:
            raise TypeError("out of order")

        planner = planner_of((0, "a", ()), (1, "b", (0,)), (0, "c", (0, 1)))
        workers = [adapter.worker("good", saying("fine")), adapter.worker("bad", speak)]
        answer = await adapter.face(planner, workers, retry=ONCE).ask("?")
        assert (answer.steps[1].status, answer.status) == ("failed", "partial")

    async def test_the_bill_of_each_step_is_right(self, adapter: Adapter) -> None:
        """Side by side as in turn, each step has what its own calls came to."""
        workers = [adapter.worker(name, saying(name)) for name in ("a", "b", "c")]
        planner = planner_of((0, "x", ()), (1, "y", ()), (0, "z", ()), (2, "join", (0, 1, 2)))
        answer = await adapter.face(planner, workers).ask("?")
        assert [told.tokens for told in answer.steps] == [adapter.tokens] * 4

    async def test_limits_hold(self, adapter: Adapter) -> None:
        """No more calls are made than the run may make; the answer, or the refusal of the plan, says so."""
        called: list[str] = []

        async def speak(shown: str) -> str:
            called.append(shown)
            return "done"

        planner = planner_of((0, "a", ()), (0, "b", ()), (0, "c", ()), (0, "d", (0, 1, 2)))
        face = adapter.face(planner, [adapter.worker("busy", speak)], limits=Limits(calls=2), retry=ONCE)
        status = "partial"
        try:
            answer = await face.ask("?")
            status, told = answer.status, f"{[step.problem for step in answer.steps]}"
        except Exception as refused:  # noqa: BLE001 - a host that starts no step early has the whole plan first
            told = str(refused)
        assert (status, "Limits.calls" in told) == ("partial", True)
        assert len(called) <= 2

    async def test_pieces_are_streamed_with_their_step(self, adapter: Adapter) -> None:
        workers = [adapter.worker("a", saying("one two three")), adapter.worker("b", saying("four five"))]
        planner = planner_of((0, "x", ()), (1, "y", (0,)))
        pieces: dict[int, str] = {}
        async with aclosing(adapter.face(planner, workers).stream("?")) as stream:
            async for step, text in stream:
                pieces[step] = pieces.get(step, "") + text
        assert pieces == {0: "one two three", 1: "four five"}

    async def test_a_cancel_reaches_the_worker(self, adapter: Adapter) -> None:
        started, stopped, later = asyncio.Event(), asyncio.Event(), list[str]()

        async def hang(shown: str) -> str:
            started.set()
            try:
                await anyio.sleep_forever()
            except asyncio.CancelledError:
                stopped.set()
                raise
            raise AssertionError("unreachable")

        async def after(shown: str) -> str:
            later.append(shown)
            return "late"

        planner = planner_of((0, "a", ()), (1, "b", (0,)))
        face = adapter.face(planner, [adapter.worker("slow", hang), adapter.worker("after", after)])
        task = asyncio.create_task(face.ask("?"))
        with anyio.fail_after(20):
            await started.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await stopped.wait()
        assert later == []

    def test_code_that_is_not_async_can_ask(self, adapter: Adapter) -> None:
        face = adapter.face(planner_of((0, "a", ())), [adapter.worker("a", saying("plain"))])
        assert face.ask_sync("?").text == "plain"

    async def test_code_that_is_not_async_can_ask_inside_a_loop(self, adapter: Adapter) -> None:
        face = adapter.face(planner_of((0, "a", ())), [adapter.worker("a", saying("inside"))])
        assert face.ask_sync("?").text == "inside"

    async def test_runs_at_once_do_not_mix(self, adapter: Adapter) -> None:
        """One face asked many things at the same time gives each its own answer."""

        async def speak(shown: str) -> str:
            await anyio.sleep(0.01)
            return " ".join(word for word in shown.replace("?", " ").split() if word.startswith("topic-"))

        face = adapter.face(planner_of((0, "a", ()), (0, "b", (0,))), [adapter.worker("echo", speak)])
        answers: dict[str, str] = {}

        async def ask(topic: str) -> None:
            answers[topic] = (await face.ask(f"{topic} ?")).text

        topics = [f"topic-{number}" for number in range(10, 13)]
        with anyio.fail_after(40):
            async with anyio.create_task_group() as group:
                for topic in topics:
                    group.start_soon(ask, topic)
        assert sorted(answers) == topics
        assert all(set(answer.split()) == {topic} for topic, answer in answers.items())

    async def test_a_face_can_be_asked_again(self, adapter: Adapter) -> None:
        """After an answer, and after a failure; nothing of the first question is shown for the second."""
        seen: list[str] = []

        async def speak(shown: str) -> str:
            seen.append(shown)
            if "fail-now" in shown and len(seen) == 1:
                raise ValueError("first time")
            return "fine"

        face = adapter.face(planner_of((0, "a", ())), [adapter.worker("a", speak)], retry=ONCE)
        with pytest.raises(Exception, match="first time"):
            await face.ask("fail-now")
        assert (await face.ask("second")).text == "fine"
        assert "fail-now" not in seen[-1]

    @pytest.mark.parametrize(
        ("options", "plans", "end", "looks"),
        [
            pytest.param(_TWICE, (_FAILS, KEEP), ("first", "partial"), 1, id="partial and kept"),
            pytest.param(_TWICE, (_WHOLE, _OTHER), ("second", "ok"), 2, id="improved"),
            pytest.param(_REPLAN, (_FAILS, _OTHER), ("second", "ok"), 1, id="replanned"),
        ],
    )
    async def test_a_run_may_have_a_second_plan(
        self, adapter: Adapter, options: dict[str, Any], plans: list[str], end: tuple[str, str], looks: int
    ) -> None:
        """The answer is the one of the plan that stands, and no call is lost or repeated."""
        looked = list[str]()

        async def look(shown: str) -> str:
            looked.append(shown)
            return "found"

        async def write(shown: str) -> str:
            return "second" if "write again" in shown else "first"

        named = {"look": look, "bad": failing, "write": write}
        workers = [adapter.worker(name, speak) for name, speak in named.items()]
        answer = await adapter.face(boss(*plans), workers, retry=ONCE, **options).ask("?")
        assert (plain(answer.text), answer.status, len(looked)) == (*end, looks)

    async def test_a_run_goes_on_in_another_process(self, adapter: Adapter, tmp_path: Path) -> None:
        """Another conductor over the same file finds what the host's workers have answered."""
        looked, fails = list[str](), [True]

        async def look(shown: str) -> str:
            looked.append(shown)
            return "found"

        async def write(shown: str) -> str:
            if fails:
                raise ValueError("out of order")
            return "written"

        def workers() -> list[Any]:
            return [adapter.worker("look", look), adapter.worker("write", write)]

        planner = planner_of((0, "a", ()), (1, "b", (0,)))
        location = f"sqlite:///{tmp_path / 'journal.db'}"
        face = adapter.face(planner, workers(), journal=SqlJournal(location), retry=ONCE)
        with pytest.raises(Exception, match="out of order"):
            await face.ask("?")
        fails.clear()
        async with SqlJournal(location) as journal:
            (row,) = await journal.runs()
            again = Conductor(planner, [adapter.as_worker(each) for each in workers()], journal=journal)
            result = await again.resume(row.run_id)
        assert (result.answer, result.status, len(looked)) == ("written", "ok", 1)
        assert result.outcomes[0].usage.total_tokens == adapter.tokens
