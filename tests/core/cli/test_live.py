"""What is known of a run while it goes on, and how it is drawn."""

import re
from io import StringIO

import pytest
from rich.console import Console

from podium import ChatPlanner, Conductor, RulePlanner, ScriptedWorker
from podium.cli.drawing import RunTable
from podium.cli.live import LiveState, follow, run_notes
from podium.types import (
    Result,
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
