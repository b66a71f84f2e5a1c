"""Compares the three kinds of planners on one job: a prompted one, one turn by turn, and a saved plan.

The job: review some files, and write a report. The models are scripted, in this process: each call takes a
fixed time and a time for each token that it writes. Tokens are estimated from the texts.

Run it with `python -m benchmarks.planners [--files 6] [--json FILE]`.
"""

import argparse
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter

import anyio
from rich.console import Console
from rich.table import Table

from podium import Card, ChatPlanner, Conductor, Limits, Price
from podium.plan_text import Parameter, SavedPlan
from podium.planners import FixedPlanner, Planner, TurnPlanner
from podium.types import Completion
from podium.usage import Usage, estimate_tokens
from podium.workers import Request, Worker

FIRST, OF_TOKEN = 0.2, 0.005
"""Seconds until the first token, and of each token."""
PRICE = Price(input=1.0, output=4.0)
_FAULTS = "Line 3 divides by zero when the list is empty. " * 8
_REPORT = "The review found one fault in each file: a division by zero. " * 8
STEPS = (
    {"worker": "reviewer", "subtask": "Review {{item}}.", "access": [], "each": "{{files}}"},
    {"worker": "writer", "subtask": "Write the report.", "access": [0]},
)


class Model(Worker):
    """A scripted model."""

    def __init__(self, name: str, reply: Callable[[Request], str]) -> None:
        self.card = Card(name=name, price=PRICE)
        self._reply = reply

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Answer after the time that the text takes."""
        text = self._reply(request)
        read = sum(estimate_tokens(message.text) for message in request.messages)
        written = estimate_tokens(text)
        await anyio.sleep(FIRST + OF_TOKEN * written)
        yield Completion(text, usage=Usage(read, written))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a kind of planner needs for the job."""

    planner: str
    calls: int
    planner_calls: int
    read: int
    """Tokens."""
    written: int
    """Tokens."""
    usd: float
    seconds: float


def planner_of(kind: str, files: Sequence[str]) -> Planner:
    """Return a planner of a kind, whose model is scripted for the job."""
    rows = [dict(STEPS[0], each=list(files)), STEPS[1]]
    saved = SavedPlan(name="review", parameters={"files": Parameter(["string"])}, steps=STEPS)
    calls = [("reviewer", f"Review {file}.") for file in files] + [("writer", "Write the report.")]

    def next_turn(request: Request) -> str:
        made = sum(message.role == "assistant" for message in request.messages)
        if made == len(calls):
            return _REPORT
        name, asked = calls[made]
        return f"<tool_call>{json.dumps({'name': name, 'arguments': {'request': asked}})}</tool_call>"

    match kind:
        case "prompted":
            written = "\n".join(map(json.dumps, rows)) + "\n"
            return ChatPlanner(Model("planner", lambda _: written), workflows=True)
        case "turn by turn":
            return TurnPlanner(Model("planner", next_turn), native=False)
    return FixedPlanner(saved)


async def measure(kind: str, files: Sequence[str]) -> Cost:
    """Carry out the job with a kind of planner."""
    workers = [Model("reviewer", lambda _: _FAULTS), Model("writer", lambda _: _REPORT)]
    limits = Limits(steps=200, calls=400)
    asked = json.dumps({"files": list(files)}) if kind == "saved" else "Review the files, and write a report."
    async with Conductor(planner_of(kind, files), workers, limits=limits) as conductor:
        began = perf_counter()
        result = await conductor.run(asked)
    assert result.status == "ok", result.problem
    usage, planner_calls = result.usage, sum(each.asked for each in result.proposals)
    return Cost(
        planner=kind,
        calls=planner_calls + sum(bool(each.attempts) for each in result.outcomes),
        planner_calls=planner_calls,
        read=usage.total_input_tokens,
        written=usage.total_output_tokens,
        usd=result.cost or 0.0,
        seconds=perf_counter() - began,
    )


def main() -> None:
    """Measure the three kinds, and show the table."""
    parser = argparse.ArgumentParser(description="Compares the three kinds of planners on one job.")
    parser.add_argument("--files", type=int, default=6, help="number of files to review")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    files = [f"src/module_{number}.py" for number in range(options.files)]
    found = [anyio.run(measure, kind, files) for kind in ("prompted", "turn by turn", "saved")]
    table = Table("planner", "calls", "of the planner", "tokens read", "written", "USD", "seconds")
    for each in found:
        figures = (each.calls, each.planner_calls, each.read, each.written)
        table.add_row(each.planner, *map(str, figures), f"{each.usd:.4f}", f"{each.seconds:.2f}")
    Console().print(table)
    if options.json is not None:
        options.json.write_text(json.dumps([asdict(each) for each in found], indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
