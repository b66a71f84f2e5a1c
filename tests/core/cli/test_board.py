"""What is known of a run while it goes on, and how it is drawn."""

from io import StringIO

import pytest
from rich.console import Console

from podium import ChatPlanner, Conductor, ScriptedWorker
from podium.cli.board import Board
from podium.cli.tree import Artist
from podium.cli.watch import follow
from podium.workers.worker import Card

pytestmark = pytest.mark.anyio


def rows(*steps: str) -> str:
    """Write a plan whose steps go to worker 0, each seeing the one before."""
    written = (
        f'{{"worker": 0, "subtask": "{subtask}", "access": {[index - 1] if index else []}}}\n'
        for index, subtask in enumerate(steps)
    )
    return "".join(written)


def drawn(board: Board) -> str:
    """Return a board as it is drawn."""
    console = Console(width=120, file=StringIO())
    console.print(Artist(str, 0.0, 120).draw(board))
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


async def test_steps_end_with_worker_and_time() -> None:
    """Each step of a run that went well is ticked off."""
    board = Board()
    planner = ChatPlanner(ScriptedWorker("boss", rows("first", "second")))
    result = await follow(Conductor(planner, [ScriptedWorker("hand", "done")]), "Do it.", board)
    assert board.root is not None
    assert board.root.result is result
    steps = board.root.rounds[1].steps
    assert [(step.status, step.subtask, step.sees) for step in steps.values()] == [
        ("ok", "first", ()),
        ("ok", "second", (0,)),
    ]
    assert "✓ 1 hand  second  sees 0" in drawn(board)


async def test_nested_run_hangs_under_its_step() -> None:
    """The steps of a conductor that is a worker are drawn below the step it worked on."""
    inner = Conductor(
        ChatPlanner(ScriptedWorker("small boss", rows("inside"))),
        [ScriptedWorker("hand", "done")],
        card=Card(name="team"),
    )
    board = Board()
    await follow(Conductor(ChatPlanner(ScriptedWorker("boss", rows("outside"))), [inner]), "Do it.", board)
    outside, inside = (line for line in drawn(board).splitlines() if "side" in line)
    assert "✓ 0 team  outside" in outside
    assert inside.index("✓ 0 hand  inside") > outside.index("✓")


async def test_plan_that_was_not_used_is_told() -> None:
    """A bad plan is drawn with its reason, and what came of its steps gives way to the plan that was run."""
    board = Board()
    bad = rows("first") + '{"worker": 7, "subtask": "nobody", "access": []}\n'
    planner = ChatPlanner(ScriptedWorker("boss", bad))
    result = await follow(Conductor(planner, [ScriptedWorker("hand", "done")]), "Do it.", board)
    assert result.status == "ok"
    picture = drawn(board)
    assert "plan not used: boss: step 1 names worker 7" in picture
    assert "plan by rule" in picture
    assert "first" not in picture


async def test_failed_step_says_why() -> None:
    """A step that failed is crossed out, with the reason beside it."""
    board = Board()
    planner = ChatPlanner(ScriptedWorker("boss", rows("first")))
    await follow(Conductor(planner, [ScriptedWorker("hand", RuntimeError("boom"))]), "Do it.", board)
    assert "✗ 0 hand  first" in drawn(board)
    assert "boom" in drawn(board)
