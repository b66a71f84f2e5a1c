"""What is known of a run while it goes on, and how it is drawn."""

import re
from io import StringIO

import pytest
from rich.console import Console

from podium import ChatPlanner, Conductor, RulePlanner, ScriptedWorker
from podium.cli.drawing import RunTable
from podium.cli.live import LiveState, follow, run_notes
from podium.execution.graph import SUPERSEDED
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
    RunStarted,
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
