"""A cassette has each call of a run, and replays it exactly or says that it was not recorded."""

import json
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import pytest
from servers.chat_server import Call, ChatServer, Reply, says
from typer.testing import Result

from podium import Card, Conductor, FunctionWorker
from podium.errors import PlannerError, WorkerUnavailable
from podium.execution import Retry
from podium.planners import ChatPlanner, FixedPlanner
from podium.types import Plan, Sampling, Step
from podium.workers import ChatWorker, Endpoint
from podium_evals.errors import RecordingInvalid
from podium_evals.recording import Cassette

pytestmark = pytest.mark.anyio
Podium = Callable[..., Result]
GUESS = Step(0, "Guess.")
TWICE = Plan((GUESS, GUESS, Step(1, "Join {{0}} and {{1}}.", (0, 1))))


class Team:
    """Two workers that count their calls, of which the first fails where `fails` says so."""

    def __init__(self, fails: tuple[int, ...] = ()) -> None:
        self.calls, self._fails = 0, fails

    def conductor(self, plan: Plan = TWICE) -> Conductor:
        workers = [
            FunctionWorker(self._guess, card=Card(name="guess")),
            FunctionWorker(lambda step: f"joined {step.subtask}", card=Card(name="join")),
        ]
        return Conductor(FixedPlanner(plan), workers, retry=Retry(attempts=2))

    async def _guess(self, step: Any) -> str:
        self.calls += 1
        number = self.calls
        await anyio.sleep(0.01)
        if number in self._fails:
            raise WorkerUnavailable("the line is dead")
        return f"guess {number}"


async def texts(conductor: Conductor, cassette: Cassette) -> list[str]:
    result = await conductor.run("?", middleware=cassette)
    assert result.status == "ok", result.problem
    return [outcome.text for outcome in result.outcomes]


@pytest.mark.parametrize("fails", [(), (2,)])
async def test_a_run_is_replayed_exactly(tmp_path: Path, fails: tuple[int, ...]) -> None:
    """Equal calls of one run differ; those of another run, also at the same time, are the same."""
    team, path, seen = Team(fails), tmp_path / "steps.jsonl", list[list[str]]()

    async def ask(cassette: Cassette) -> None:
        seen.append(await texts(team.conductor(), cassette))

    with Cassette(path, mode="record") as cassette:
        async with anyio.create_task_group() as group:
            group.start_soon(ask, cassette)
            group.start_soon(ask, cassette)
        assert (cassette.recorded, cassette.replayed) == (3, 3)
    with path.open("ab") as file:  # a killed process has begun a line
        file.write(path.read_bytes()[:20])
    with Cassette(path) as cassette:
        await ask(cassette)
    with Cassette(path, mode="record") as cassette:
        await ask(cassette)
        assert (cassette.recorded, cassette.replayed) == (0, 3)
    assert team.calls == 2 + len(fails)
    assert len({each[2] for each in seen}) == 1
    (guesses,) = {frozenset(each[:2]) for each in seen}
    assert len(guesses) == 2


@pytest.mark.parametrize(
    "plan",
    [
        Plan((Step(0, "Guess again."),)),
        Plan((Step(1, "Guess."),)),
        Plan((GUESS, GUESS, GUESS, Step(1, "{{0}}{{1}}{{2}}", (0, 1, 2)))),
    ],
)
async def test_another_call_is_not_recorded(tmp_path: Path, plan: Plan) -> None:
    """Another prompt, another worker, or one more equal call: nothing is guessed, and nobody is called."""
    team, path = Team(), tmp_path / "steps.jsonl"
    with Cassette(path, mode="record") as cassette:
        await texts(team.conductor(), cassette)
    with Cassette(path) as cassette:
        result = await team.conductor(plan).run("?", middleware=cassette)
    assert result.problem is not None
    assert (result.status, result.problem.code, team.calls) == ("failed", "unrecorded", 2)
    assert "steps.jsonl has no answer of " in result.problem.message


async def test_a_cut_answer_is_of_its_limit(tmp_path: Path) -> None:
    path, reasons = tmp_path / "steps.jsonl", iter(["length", "stop"])
    async with ChatServer(lambda call: says(call, "a word", finish_reason=next(reasons))) as server:
        worker = ChatWorker("m", endpoint=Endpoint(server.url))
        conductor = Conductor(FixedPlanner(Plan((Step(0, "Say."),))), [worker])
        for most, mode, recorded in ((5, "record", 1), (5, "replay", 0), (9, "record", 1), (7, "replay", 0)):
            with Cassette(path, mode=mode) as cassette:  # type: ignore[arg-type]
                await conductor.run("?", middleware=cassette, sampling=Sampling(max_tokens=most))
                assert cassette.recorded == recorded
        assert len(server.calls) == 2


async def test_a_planner_is_recorded(tmp_path: Path) -> None:
    """With the calls of its steps, whole and streamed; without its model there is no plan."""
    path, numbers = tmp_path / "steps.jsonl", count()

    def reply(call: Call) -> Reply:
        if "tower" in call.body["messages"][-1]["content"] and next(numbers) == 0:
            return says(call, '[{"worker": 0, "subtask": "Look.", "access": []}]')
        return says(call, "330 metres")

    async with ChatServer(reply) as server:
        worker = ChatWorker("m", endpoint=Endpoint(server.url))
        conductor = Conductor(ChatPlanner(worker), [worker])
        for mode in ("record", "replay"):
            with Cassette(path, mode=mode) as cassette:  # type: ignore[arg-type]
                for streams in ({}, {"on_event": lambda _: None}):
                    options: Any = {"middleware": cassette, **streams}
                    assert (await conductor.run("How high is the tower?", **options)).answer == "330 metres"
        assert len(server.calls) == 2
        with Cassette(path) as cassette, pytest.raises(PlannerError, match="has no answer of"):
            await conductor.run("How high is the mountain?", middleware=cassette)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "cannot be read"),
        (b"", "it is empty"),
        (b'{"type": "recording"}\n', "is not a cassette: it does not begin with"),
        (b'{"type": "cassette", "version": 1}\n{"type": "call"}\n', "line 2 is not a call"),
    ],
)
def test_another_file_is_refused(tmp_path: Path, content: bytes | None, told: str) -> None:
    path = tmp_path / "steps.jsonl"
    if content is not None:
        path.write_bytes(content)
    cases: list[tuple[Path, Any, str]] = [(path, "replay", told)]
    if content:
        cases += [(path, "record", told), (path.with_suffix(".jsonl.gz"), "record", r"\.gz at its end")]
    for file, mode, why in cases:
        with pytest.raises(RecordingInvalid, match=why), Cassette(file, mode=mode):
            pass
    assert not content or path.read_bytes() == content


def adds(call: Call) -> Reply:
    """Add, wrongly at first; a step that is shown a sum adds one."""
    asked = call.body["messages"][-1]["content"]
    words = asked.split("What is ")[-1].split()
    return says(call, f"The answer is {2 * int(words[0]) + (1 if 'Check' in asked else 0)}.")


ROW = '{{"question": "What is {} + {} ?", "answer": {}, "grader": "number"}}\n'
ROWS = "".join(ROW.format(n, n, 2 * n + 1) for n in range(5))


def test_plans_are_compared(podium: Podium, config: Path, server: ChatServer) -> None:
    """By their scores on the same questions; a second time without a call."""
    server.reply = adds
    (config.parent / "sums.jsonl").write_text(ROWS)
    once = [{"worker": "speaker", "subtask": "Add.", "access": []}]
    check = [*once, {"worker": "thinker", "subtask": "Check {{0}}.", "access": [0]}]
    for plan, steps in (("once", once), ("check", check)):
        (config.parent / f"{plan}.json").write_text(json.dumps(steps))
    words = "evals record run sums.jsonl --out steps.jsonl --plan once.json --plan check.json"
    asking = words.split()
    first = podium(*asking)
    assert first.exit_code == 0, first.stderr
    assert "podium: steps.jsonl: 10 calls recorded, 5 replayed" in first.stderr
    lines = first.stdout.splitlines()
    assert lines[0].startswith("once.json: score 0.000, 5 of 5 scored, 5 calls, ")
    gain = "gain +1.000 (+1.000 … +1.000)"
    assert lines[1].startswith(f"check.json: score 1.000, {gain}, 5 of 5 scored, 10 calls")
    again = podium(*asking, "--replay", "--json")
    assert (again.exit_code, json.loads(again.stdout)["replayed"], len(server.calls)) == (0, 15, 10)
    (config.parent / "sums.jsonl").write_text(ROWS.replace("What", "So what"))
    lost = podium(*asking, "--replay")
    told = "once.json: 0 of 5 scored, 0 calls, 0 tokens, $0, 5 unrecorded"
    assert (lost.exit_code, told in lost.stdout) == (3, True), lost.stdout
