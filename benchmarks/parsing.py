"""Measures the time and memory of parsing plans: typical plans, worst-case texts, growth with size.

Run it with `python -m benchmarks.parsing [--quick] [--json FILE]`. Each figure is the best of several runs,
to reduce the effect of other load on the machine.
"""

import argparse
import json
import time
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import get_args

from rich.console import Console

from benchmarks.bars import Bar, bars_table
from podium.errors import PlanError
from podium.plan_text import PlanReader, Spelling, parse_plan, write_plan
from podium.plan_text.parser import MAX_CHARS
from podium.types import Plan, Step

WORKERS = 3
TYPICAL_BAR_US = 150.0
"""Maximum time to parse a typical plan of 1.5 KB, in microseconds."""
WORST_BAR_MS = 50.0
"""Maximum time to parse any text of 256 KiB, in milliseconds."""
MEMORY_BAR_MIB = 64.0
"""Maximum memory of the parser, in MiB."""
GROWTH_BAR = 4.6
"""Maximum ratio of the times for a text of four times the size and for the text."""

HOSTILE = {
    "braces": "{",
    "brackets": "[",
    "nested keys": '{"a":',
    "open strings": '{"',
    "open comments": "{#",
    "commented lines": "{#\n",
    "labels with open lists": "model_id=[",
    "labels with open strings": "subtasks=['a\n",
    "labels": "access ",
    "tiny objects": "{}",
    "tiny lists": "access:[0],",
    "whole sets": "model_id:[0] subtasks:['a'] access:[[]] ",
    "steps in lines": '{"worker":0,"subtask":"a","access":[]}\n',
    "steps in a line": '{"worker":0,"subtask":"a","access":[]} or ',
    "quotes and blanks": '{"' + " " * 1700 + "x",
    "quotes": '"',
    "triple quotes": '{"""',
    "joined strings": "subtasks=['a'\n'a'\n'a'\n",
    "backslashes": "\\",
    "escaped quotes": '{"\\"',
    "tags": "<think></think>",
    "angle brackets": "<",
    "newlines": "\n",
    "letters": "a",
}
"""Pieces that are repeated to make a hostile text."""

GROWING: dict[str, Callable[[int], str]] = {
    "prose": lambda size: "The worker has access to all models; some subtask waits. " * (size // 57),
    "one long string": lambda size: "subtasks = ['" + "Look again. " * (size // 12),
    "long lists": lambda size: _lists(size // 5),
    "long rows": lambda size: _rows(size // 5),
    "escapes": lambda size: 'subtasks = ["' + "\\n\\t" * (size // 4) + '"]',
    "lines in a string": lambda size: "subtasks = ['" + "a\n" * (size // 2),
    "blanks": lambda size: "access" + " " * size,
    "angle brackets": lambda size: "<" * size,
}
"""Texts of a given size that the parser reads to the end, because they exceed no limit."""


def seconds(work: Callable[[], object], repeats: int) -> float:
    """Return the shortest duration of `work`, in seconds; a `PlanError` is not a failure."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        with suppress(PlanError):
            work()
        best = min(best, time.perf_counter() - start)
    return best


def typical_plan() -> Plan:
    """Return a plan of five steps with about 1.5 KB of text."""
    subtask = "Work out part {} of the question and give each reason; don't skip any. Quote what you use, "
    subtask += 'say "unknown" where a fact is missing, and keep units. ' + "Check the result once more. " * 4
    return Plan(tuple(Step(i % WORKERS, subtask.format(i), tuple(range(i))) for i in range(5)))


def typical() -> list[Bar]:
    """Measure typical plans, in each spelling."""
    bars = []
    for spelling in get_args(Spelling):
        text = write_plan(typical_plan(), spelling)
        took = seconds(lambda text=text: parse_plan(text, workers=WORKERS), 300)  # type: ignore[misc]
        bars.append(_bar(f"{spelling}, {len(text):,} characters", took * 1e6, "µs", TYPICAL_BAR_US))
    return bars


def hostile() -> list[Bar]:
    """Measure the time for hostile texts of 256 KiB, and the memory for the worst of them."""
    took, memory = dict[str, float](), dict[str, float]()
    for name, piece in HOSTILE.items():
        text = (piece * (MAX_CHARS // len(piece) + 1))[:MAX_CHARS]
        took[name] = seconds(lambda text=text: parse_plan(text, workers=WORKERS), 3)  # type: ignore[misc]
        memory[name] = peak(text)
    worst = sorted(took, key=took.__getitem__, reverse=True)[:6]
    heaviest = max(memory, key=memory.__getitem__)
    bars = [_bar(f"256 KiB of {name}", took[name] * 1e3, "ms", WORST_BAR_MS) for name in worst]
    bars.append(_bar(f"256 KiB of {heaviest}", memory[heaviest], "MiB", MEMORY_BAR_MIB))
    return bars


def arriving() -> list[Bar]:
    """Measure 256 KiB that arrive one character at a time."""
    bars = []
    for name in ("tiny objects", "newlines", "open comments", "joined strings"):
        text = (HOSTILE[name] * MAX_CHARS)[:MAX_CHARS]
        took = seconds(lambda text=text: feed(text), 2)  # type: ignore[misc]
        bars.append(_bar(f"256 KiB of {name}, by character", took * 1e3, "ms", None))
    return bars


def growth() -> list[Bar]:
    """Measure the ratio of the times for a text of four times the size and for the text."""
    bars = []
    for name, make in GROWING.items():
        small, large = make(MAX_CHARS // 6), make(MAX_CHARS // 6 * 4)
        ratio = seconds(lambda text=large: parse_plan(text, workers=WORKERS), 15)  # type: ignore[misc]
        ratio /= seconds(lambda text=small: parse_plan(text, workers=WORKERS), 30)  # type: ignore[misc]
        bars.append(_bar(f"fourfold {name}", ratio, "times", GROWTH_BAR))
    return bars


def feed(text: str) -> None:
    """Parse `text` in pieces of one character."""
    reader = PlanReader(workers=WORKERS)
    for char in text:
        reader.feed(char)
    reader.close()


def peak(text: str) -> float:
    """Return the peak memory of parsing `text`, in MiB."""
    tracemalloc.start()
    with suppress(PlanError):
        parse_plan(text, workers=WORKERS)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most / 2**20


def main() -> None:
    """Measure everything, print the figures, and write them to the file of `--json`."""
    options = argparse.ArgumentParser(description="Measures the time and memory of parsing plans.")
    options.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to FILE")
    options.add_argument("--quick", action="store_true", help="measure typical plans only")
    asked = options.parse_args()
    bars = typical()
    if not asked.quick:
        bars += [*hostile(), *arriving(), *growth()]
    Console().print(bars_table(bars))
    if asked.json:
        told = json.dumps([bar.to_json() for bar in bars], ensure_ascii=False, indent=2)
        asked.json.write_text(told + "\n", encoding="utf-8")


def _bar(what: str, measured: float, unit: str, limit: float | None) -> Bar:
    return Bar(what=what, limit=limit, unit=unit, measured=measured)


def _lists(size: int) -> str:
    return write_plan(_long_plan(size), "lists")


def _rows(size: int) -> str:
    return write_plan(_long_plan(size), "rows")


def _long_plan(size: int) -> Plan:
    return Plan(tuple(Step(0, 'Look "here". ' * (size // 15)) for _ in range(5)))


if __name__ == "__main__":
    main()
