"""Compares runs under limits of cost with the same runs without limits, each in a new process.

The models are one server on loopback, which writes 80 tokens a second and stops at `max_tokens`:
`python -m benchmarks.limits`.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from podium import Card, ChatPlanner, ChatWorker, Conductor, Endpoint, Limits, Price
from tests.servers.chat_server import Call, ChatServer, Part, Pause, Reply, chunk, completion, events, whole

SHAPES: dict[str, Sequence[tuple[int, str, Sequence[int]]]] = {
    "diamond of 4": (
        (0, "Find the facts.", ()),
        (1, "Judge the facts.", (0,)),
        (2, "Count the facts.", (0,)),
        (0, "Answer the question.", (1, 2)),
    ),
    "fan of 10": (
        *((part % 3, f"Work on part {part} of the question.", ()) for part in range(8)),
        (1, "Combine all parts.", tuple(range(8))),
        (0, "Answer the question.", (8,)),
    ),
    "chain of 3": (
        (0, "Find the facts.", ()),
        (1, "Judge the facts.", (0,)),
        (2, "Answer the question.", (1,)),
    ),
}
ANSWER_TOKENS = 300
PRICE, BOSS = Price(input=2.0, output=8.0), Price(input=5.0, output=25.0)
_PIECE = 20
"""Tokens of one piece of a stream."""
_SPEED = 80
"""Tokens that a model writes in a second."""


def reply(call: Call) -> Reply:
    """Write as a model does, at 80 tokens a second after 0.3 s."""
    model = call.body["model"]
    text = f"{model}: " + "word" * (ANSWER_TOKENS - 1)
    if model in SHAPES:
        rows = ({"worker": who, "subtask": what, "access": list(seen)} for who, what, seen in SHAPES[model])
        text = "".join(json.dumps(row) + "\n" for row in rows)
    cap = call.body.get("max_tokens") or call.body.get("max_completion_tokens") or 100_000
    written = text[: 4 * cap]
    usage = {"prompt_tokens": len(call.raw) // 4, "completion_tokens": len(written) // 4}
    usage["total_tokens"] = sum(usage.values())

    reason = "length" if written != text else "stop"
    if not call.body.get("stream"):
        seconds = 0.3 + len(written) / 4 / _SPEED
        return Reply((Pause(seconds), *whole(completion(written, usage=usage, finish_reason=reason)).parts))
    parts: list[Mapping[str, Any] | Part] = [Pause(0.3)]
    for at in range(0, len(written), 4 * _PIECE):
        parts += [Pause(_PIECE / _SPEED), chunk({"content": written[at : at + 4 * _PIECE]})]
    return events(*parts, chunk({}, finish_reason=reason), chunk({}) | {"choices": [], "usage": usage})


async def run(url: str, shape: str, limits: Limits) -> dict[str, object]:
    """Run a question once."""
    endpoint = Endpoint(url)
    planner = ChatPlanner(ChatWorker(shape, endpoint=endpoint, card=Card(name="boss", price=BOSS)))
    team = [ChatWorker(f"m{at}", endpoint=endpoint, card=Card(name=f"w{at}", price=PRICE)) for at in range(3)]
    async with Conductor(planner, team, limits=limits) as conductor:
        began = time.perf_counter()
        result = await conductor.run("How tall is the tower?")
        seconds = time.perf_counter() - began
    calls = len(result.proposals) + sum(max(len(each.calls), 1) for each in result.outcomes)
    return {
        "answer": result.answer,
        "status": result.status,
        "cost": result.cost,
        "seconds": seconds,
        "calls": calls,
    }


def main() -> None:
    """Print a table with one line for each shape and limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("arm", nargs="*", help="URL, shape and limit of one run, in its own process")
    if arm := parser.parse_args().arm:
        limits = Limits() if arm[2] == "none" else Limits(cost=float(arm[2]))
        print(json.dumps(asyncio.run(run(arm[0], arm[1], limits))))
        return
    table = Table("shape", "limit", "USD", "seconds", "times", "calls", "status", "same answer")
    with ChatServer(reply).in_thread() as server:
        for shape in SHAPES:
            free = None
            for times in (None, 15, 3):
                limit = "none" if times is None or free is None else str(times * free["cost"])
                command = [sys.executable, "-m", "benchmarks.limits", server.url, shape, limit]
                told = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout  # noqa: S603 - this file
                done = json.loads(told)
                free = free or done
                table.add_row(
                    shape,
                    "none" if times is None else f"{times} times",
                    f"{done['cost']:.4f}",
                    f"{done['seconds']:.2f}",
                    f"{done['seconds'] / free['seconds']:.2f}",
                    str(done["calls"]),
                    done["status"],
                    "yes" if done["answer"] == free["answer"] else "no",
                )
    Console().print(table)


if __name__ == "__main__":
    main()
