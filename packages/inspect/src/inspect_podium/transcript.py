"""Shows a run in Inspect's transcript: the plan and its steps as a Markdown table."""

import re
from collections.abc import Mapping
from typing import Any

from inspect_ai.log import transcript
from inspect_ai.model import ModelOutput

from inspect_podium.messages import METADATA

_LONGEST = 300
"""Maximum length of a text in the table, in characters; the metadata of the sample has the whole texts."""
_SPECIAL = re.compile(r"([\\`*_|\[\]])")


def show_run(output: ModelOutput) -> None:
    """Add a run to the transcript of the sample."""
    transcript().info(run_markdown((output.metadata or {})[METADATA]), source=METADATA)


def run_markdown(facts: Mapping[str, Any]) -> str:
    """Return a run as Markdown: its status, tokens, cost and problem, and a row for each step."""
    planner, problem = facts["planner"], facts["problem"]
    head = [f"**{facts['status']}**"]
    head += [] if planner is None else [f"planned by {_cell(planner['name'])}"]
    steps = len(facts["steps"])
    head += [
        f"{steps} step{'' if steps == 1 else 's'}",
        f"{facts['usage']['input_tokens'] + facts['usage']['output_tokens']:,} tokens",
        f"cost {_dollars(facts['cost'])}",
        f"{facts['seconds']:.1f} s",
    ]
    lines = [", ".join(head), ""]
    lines += [] if problem is None else [f"`{problem['code']}`: {_cell(problem['message'])}", ""]
    lines += ["| step | worker | sees | subtask | output | cost |", "|---|---|---|---|---|---|"]
    lines += [_row(step) for step in facts["steps"]]
    return "\n".join(lines)


def _row(step: Mapping[str, Any]) -> str:
    failed = step["problem"]
    output = step["output"] if failed is None else f"{step['status']}: {failed['message']} {step['output']}"
    number = str(step["step"]) if step["round"] == 1 else f"{step['step']} (round {step['round']})"
    sees = ", ".join(map(str, step["access"]))
    cells = (number, step["worker"], sees, step["subtask"], output, _dollars(step["cost"]))
    return f"| {' | '.join(map(_cell, cells))} |"


def _dollars(cost: float | None) -> str:
    return "unknown" if cost is None else f"${cost:.6f}".rstrip("0").rstrip(".")


def _cell(text: str) -> str:
    """Return a text on one line, without effect on the Markdown around it."""
    line = " ".join(text.split())
    cut = line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"
    return _SPECIAL.sub(r"\\\1", cut)
