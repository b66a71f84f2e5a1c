"""Draws `docs/images/terminal.svg`, the image of a run in the README: `python -m scripts.run_picture`.

It runs a plan with scripted workers, which need no model.
"""

from io import StringIO
from pathlib import Path

import anyio
from rich.console import Console

from podium import ChatPlanner, Conductor, ScriptedWorker
from podium.cli.answer import status_line
from podium.cli.drawing import RunTable
from podium.cli.live import LiveState, follow, run_notes
from podium.plan_text import write_plan
from podium.types import Plan, Step
from podium.workers import Card, Price

_TARGET = Path(__file__).parents[1] / "docs" / "images" / "terminal.svg"
_COLUMNS = 96
_QUESTION = "Which of our suppliers raised prices, and by how much on average?"


def _worker(name: str, text: str, latency: float) -> ScriptedWorker:
    """Return a priced worker that answers `text` after `latency` seconds."""
    return ScriptedWorker(Card(name=name, price=Price(input=1.0, output=4.0)), text, latency=latency)


def _planner(*steps: Step) -> ChatPlanner:
    """Return a planner whose model writes these steps."""
    card = Card(name="conductor-7b", price=Price(input=0.1, output=0.4))
    return ChatPlanner(ScriptedWorker(card, write_plan(Plan(steps), "rows")))


def _conductor() -> Conductor:
    team = Conductor(
        _planner(
            Step(0, "List the suppliers in the archive"),
            Step(0, "Find the price lists of this year"),
            Step(1, "価格表を調べて要約する", (1,)),
            Step(1, "Join the lists", (0, 2)),
        ),
        [
            _worker("searcher", "a list of suppliers " * 90, 0.4),
            _worker("reader", "twelve price lists " * 60, 0.7),
        ],
        card=Card(name="research team"),
    )
    planner = _planner(
        Step(0, "Collect the price lists of two years"),
        Step(1, "State which rises are allowed"),
        Step(1, "Compute the average rise", (0,)),
        Step(2, "Check the numbers", (0, 2)),
        Step(2, "Write the answer", (1, 2, 3)),
    )
    pool = [
        team,
        _worker("analyst", "Seven of 31 suppliers raised prices. " * 40, 0.9),
        _worker("writer", "Seven suppliers raised prices, by 4.2 % on average.", 0.6),
    ]
    return Conductor(planner, pool)


def main() -> None:
    """Run the plan and write the image."""
    state = LiveState()
    result = anyio.run(follow, lambda listen: _conductor().run(_QUESTION, on_event=listen), state)
    console = Console(record=True, width=_COLUMNS, file=StringIO(), highlight=False, markup=False)
    console.print(f'$ podium run "{_QUESTION}"', style="bold", soft_wrap=True)
    console.print(RunTable(str, None, _COLUMNS).draw(state))
    for note in run_notes(state, str):
        console.print(note.text, style=note.style, soft_wrap=True)
    console.print(result.answer)
    console.print(f"podium: {status_line(result)}", style="dim", soft_wrap=True)
    _TARGET.parent.mkdir(exist_ok=True)
    _TARGET.write_text(console.export_svg(title="podium run"), encoding="utf-8")
    print(_TARGET)


if __name__ == "__main__":
    main()
