"""What is known of a run while it goes on, and how it is drawn."""

import re
from io import StringIO

import pytest
from rich.console import Console

from podium import ChatPlanner, Conductor, RulePlanner, ScriptedWorker
from podium.cli.drawing import RunTable
from podium.cli.live import LiveState, follow, run_notes
from podium.execution.graph import SUPERSEDED
from podium.planners import FixedPlanner
from podium.types import (
    ApprovalAsked,
    ApprovalGiven,
    AttemptFailed,
    Call,
    Event,
    Outcome,
    Plan,
    PlanReady,
    Problem,
    Result,
    RunResumed,
    RunStarted,
    RunStopped,
    Step,
    StepDelta,
    StepEnded,
    StepStarted,
    StepStatus,
)
from podium.workers import Card

pytestmark = pytest.mark.anyio


def rows(*steps: str) -> str:
    """Write a plan whose steps go to worker 0, each seeing the one before."""
    written = (
        f'{{"worker": 0, "subtask": "{subtask}", "access": {[index - 1] if index else []}}}\n'
        for index, subtask in enumerate(steps)
    )
    return "".join(written)


async def followed(conductor: Conductor, board: LiveState) -> Result:
    """Run with a board that is kept up to date."""
    return await follow(lambda listen: conductor.run("Do it.", on_event=listen), board)


def drawn(board: LiveState, now: float | None = 0.0) -> str:
    """Return a board as it is drawn."""
    console = Console(width=120, file=StringIO())
    table = RunTable(str, now, 120)
    console.print(table.draw(board) if now is None else table.draw_live(board))
    for note in run_notes(board, str):
        console.print(note.text, soft_wrap=True)
    assert isinstance(console.file, StringIO)
    return "".join(f"{line.rstrip()}\n" for line in console.file.getvalue().splitlines())


async def test_steps_end_with_worker_and_time() -> None:
    """Each step of a run that went well is ticked off."""
    board = LiveState()
    planner = ChatPlanner(ScriptedWorker("boss", rows("first", "second")))
    result = await followed(Conductor(planner, [ScriptedWorker("hand", "done")]), board)
    assert board.root is not None
    assert board.root.result is result
    steps = board.root.steps(board.root.state.rounds[1])
    assert [(step.status, step.subtask, step.sees) for step in steps.values()] == [
        ("ok", "first", ()),
        ("ok", "second", (0,)),
    ]
    assert re.search(r"✓ 1 hand +second +0 +ok", drawn(board))


async def test_nested_run_hangs_under_its_step() -> None:
    """The steps of a conductor that is a worker are drawn below the step it worked on."""
    inner = Conductor(
        ChatPlanner(ScriptedWorker("small boss", rows("inside"))),
        [ScriptedWorker("hand", "done")],
        card=Card(name="team"),
    )
    board = LiveState()
    await followed(Conductor(ChatPlanner(ScriptedWorker("boss", rows("outside"))), [inner]), board)
    outside, inside = (line for line in drawn(board).splitlines() if "side" in line)
    assert re.match(r"✓ 0 team +outside +ok", outside)
    assert inside.index("✓ 0 hand") > outside.index("✓")


async def test_nested_runs_of_items_are_counted() -> None:
    """A map has one row, with the number of the runs inside of its items."""
    inner = Conductor(
        ChatPlanner(ScriptedWorker("small boss", rows("inside"))),
        [ScriptedWorker("hand", "done")],
        card=Card(name="team"),
    )
    board = LiveState()
    outer = Conductor(FixedPlanner(Plan((Step(0, "outside {{item}}", each=(1, 2, 3)),))), [inner])
    await followed(outer, board)
    assert "3 of 3 items, 3 nested runs" in drawn(board)
    assert "inside" not in drawn(board)


async def test_plan_that_was_not_used_is_told() -> None:
    """A bad plan is drawn with its reason, and what came of its steps gives way to the plan that was run."""
    board = LiveState()
    bad = rows("first") + '{"worker": 7, "subtask": "nobody", "access": []}\n'
    planner = ChatPlanner(ScriptedWorker("boss", bad))
    conductor = Conductor(planner, [ScriptedWorker("hand", "done")], fallback_planner=RulePlanner())
    result = await followed(conductor, board)
    assert result.status == "partial"
    picture = drawn(board)
    assert "planner boss: step 1 names worker 7" in picture
    assert "plan by rule, the fallback" in picture
    assert "first" not in picture


async def test_failed_step_says_why() -> None:
    """A step that failed is crossed out; the problem of the run, which is told below, has the reason once."""
    board = LiveState()
    planner = ChatPlanner(ScriptedWorker("boss", rows("first")))
    await followed(Conductor(planner, [ScriptedWorker("hand", RuntimeError("boom " * 40))]), board)
    assert re.search(r"✗ 0 hand +first +failed", drawn(board))
    assert "boom" not in drawn(board, None)
    assert board.root is not None
    assert board.root.told.count("boom") == 40


def board_of(*events: Event) -> LiveState:
    """Return a board that took in the start of a run with the workers `hand` and `foot`, and these events."""
    board = LiveState()
    for event in (RunStarted(run_id="r", at=0.0, workers=("hand", "foot")), *events):
        board.take(event, 0.0)
    return board


def started(step: int, subtask: str, attempt: int = 1) -> StepStarted:
    """Return the event that hand began a step."""
    return StepStarted(
        run_id="r", at=0.0, round=1, step=step, attempt=attempt, worker="hand", subtask=subtask
    )


def wrote(step: int, attempt: int = 1) -> StepDelta:
    """Return the event that a step wrote something."""
    return StepDelta(run_id="r", at=0.0, round=1, step=step, attempt=attempt, text="x")


def ended(step: int, status: StepStatus, attempt: int = 1) -> StepEnded:
    """Return the event that a step of hand ended; one that was cancelled was superseded."""
    problem = SUPERSEDED if status == "cancelled" else None
    outcome = Outcome(round=1, step=step, worker="hand", status=status, problem=problem, attempts=attempt)
    return StepEnded(run_id="r", at=0.0, round=1, step=step, attempt=attempt, outcome=outcome)


def planned(*steps: Step) -> PlanReady:
    """Return the event that the plan of these steps is whole."""
    return PlanReady(run_id="r", at=0.0, round=1, plan=Plan(steps), planner="boss")


def statuses(board: LiveState) -> list[str]:
    """Return how the steps of the first round stand."""
    assert board.root is not None
    return [step.status for step in board.root.steps(board.root.state.rounds[1]).values()]


def test_step_with_another_access_list_starts_again() -> None:
    """It waits once its first call is superseded, and what that does later is not shown."""
    replaced = (started(0, "a"), ended(0, "ok"), started(1, "b"), planned(Step(0, "a"), Step(0, "b", (0,))))
    assert statuses(board_of(*replaced, ended(1, "cancelled"))) == ["ok", "waiting"]
    anew = (started(1, "b", 2), ended(1, "cancelled"))
    assert statuses(board_of(*replaced, *anew)) == ["ok", "running"]
    assert statuses(board_of(*replaced, *anew, ended(1, "ok", 2))) == ["ok", "ok"]


def failed(step: int, attempt: int, wait: float | None = None) -> AttemptFailed:
    """Return the event that a call came to nothing, and how long the next one is waited for."""
    call = Call(attempt=attempt, worker="hand", problem=Problem("worker_unavailable", "it is down"))
    return AttemptFailed(run_id="r", at=0.0, round=1, step=step, attempt=attempt, call=call, wait=wait)


def test_call_that_is_made_again_is_told() -> None:
    """A step that is retried goes on in its row, which says what failed and when it is called again."""
    waiting = (planned(Step(0, "a")), started(0, "a"), wrote(0), failed(0, 1, wait=2.0))
    picture = drawn(board_of(*waiting))
    assert "call 1 of hand: it is down" in picture
    assert re.search(r" 0 hand +a +retry 2s", picture)
    board = board_of(*waiting, started(0, "a", 2))
    assert statuses(board) == ["running"]
    assert "retry" not in drawn(board)
    board.take(ended(0, "ok", 2), 0.0)
    assert re.search(r"✓ 0 hand +a +ok", drawn(board))
    assert "call 1 of hand: it is down" in drawn(board)


def test_plan_that_waits_for_approval() -> None:
    """The round says that it is waited for, and then who said what; a changed plan is drawn."""
    asked = ApprovalAsked(run_id="r", at=0.0, round=1, plan=Plan((Step(0, "a"),)))
    board = board_of(planned(Step(0, "a")), asked)
    assert "waits for approval" in drawn(board)
    changed = Plan((Step(1, "b"),))
    board.take(ApprovalGiven(run_id="r", at=0.0, round=1, approved=True, plan=changed, by="Ann"), 0.0)
    assert "approved with changes by Ann" in drawn(board)
    assert re.search(r"0 foot +b +waiting", drawn(board))
    board.take(ApprovalGiven(run_id="r", at=0.0, round=1, approved=False, why="too dear"), 0.0)
    assert "refused: too dear" in drawn(board)


def test_run_that_broke_off() -> None:
    """Nothing of it seems to go on; once it is resumed, what had not ended waits to be called again."""
    stopped = RunStopped(run_id="r", at=1.0, problem=Problem("cancelled", "the run was stopped"))
    broken = (planned(Step(0, "a"), Step(0, "b")), started(0, "a"), ended(0, "ok"), started(1, "b"), stopped)
    board = board_of(*broken)
    picture = drawn(board, None)
    assert "stopped: the run was stopped" in picture
    assert re.search(r"· 1 hand +b +not ended", picture)
    board.take(RunResumed(run_id="r", at=1.0, workers=("hand", "foot"), recovery=0), 5.0)
    assert statuses(board) == ["ok", "waiting"]
    board.take(started(1, "b", 2), 6.0)
    board.take(failed(1, 2, wait=1.0), 6.0)
    board.take(started(1, "b", 3), 7.0)
    board.take(ended(1, "ok", 3), 8.0)
    assert statuses(board) == ["ok", "ok"]
