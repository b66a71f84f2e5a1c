"""Draws the state of a run as a tree: rounds, their steps, and runs nested in steps."""

from collections.abc import Callable
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.text import Text
from rich.tree import Tree

from podium.cli.live.live_rows import RoundRow, RunRow, StepRow
from podium.cli.live.live_state import LiveState
from podium.types.outcome import Call
from podium.usage import Usage

_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_MARKS = {
    "waiting": ("·", "dim"),
    "running": ("", "cyan"),
    "ok": ("✓", "green"),
    "failed": ("✗", "red"),
    "skipped": ("-", "yellow"),
    "cancelled": ("✗", "yellow"),
}
_TAIL_LINES = 6


@dataclass(frozen=True, slots=True)
class TreeRenderer:
    """Draws the state of a run.

    Args:
        shown: makes foreign text safe for a terminal.
        now: the time, in seconds, on the clock of the state's events; `None` for a run that
            is not under way.
        width: the columns of the terminal.
    """

    shown: Callable[[str], str]
    now: float | None
    width: int = 80

    def draw(self, state: LiveState, *, with_answer: bool = False) -> RenderableType:
        """Draw the run; with `with_answer` also the last lines of the answer so far."""
        root = state.root
        if root is None:
            return Text(f"{self._frame()} starting")
        tree = Tree(Text("run", style="bold"))
        self._add_run(tree, root)
        if not root.rounds and root.result is None and self.now is not None:
            tree.add(Text(f"{self._frame()} working"))
        if not with_answer or not root.answer:
            return tree
        tail = "\n".join(self.shown(root.answer).splitlines()[-_TAIL_LINES:])
        return Group(tree, Text(tail, style="dim"))

    def _add_run(self, tree: Tree, run: RunRow) -> None:
        for number, current in run.rounds.items():
            branch = tree.add(self._round(number, current))
            self._add_reasons(branch, current)
            if not current.is_planned and not current.steps and run.result is None and self.now is not None:
                branch.add(Text(f"{self._frame()} writing the plan, {current.plan_chars:,} characters"))
            for index, step in current.steps.items():
                leaf = branch.add(self._step(index, step))
                self._add_calls(leaf, step)
                for nested in step.runs:
                    self._add_run(leaf, nested)
        if run.stopped is not None:
            tree.add(Text(f"stopped: {self._line(run.stopped.message)}", style="yellow"))

    def _round(self, number: int, current: RoundRow) -> Text:
        text = Text(f"round {number}", style="bold")
        if current.is_planned:
            who = f"  plan by {self.shown(current.planner)}" + (
                ", the fallback" if current.is_fallback else ""
            )
            text.append(who, style="not bold yellow" if current.is_fallback else "not bold dim")
        return text

    def _add_reasons(self, branch: Tree, current: RoundRow) -> None:
        """Add a line, which may wrap, for each reason of a round."""
        if current.why:
            branch.add(Text(f"because {self._line(current.why)}"))
        if current.is_planned and current.plan_why:
            branch.add(Text(self._line(current.plan_why), style="dim"))
        for reason in current.rejected:
            branch.add(Text(self._line(reason), style="yellow"))
        if current.approval:
            branch.add(Text(self._line(current.approval), style="cyan"))

    def _step(self, index: int, step: StepRow) -> Text:
        mark, style = _MARKS[step.status]
        text = Text(f"{mark or self._frame()} {step.number or index} ", style=style)
        text.append(self.shown(step.worker), style="bold")
        text.append(f"  {self._short(step.subtask)}")
        if step.sees:
            text.append(f"  sees {', '.join(map(str, step.sees))}", style="dim")
        text.append(f"  {self._spent(step)}", style="dim")
        return text

    def _add_calls(self, leaf: Tree, step: StepRow) -> None:
        """Add a line for each failed call, for its retry, and for the failure of the step."""
        for call in step.failed:
            leaf.add(Text(self._failed(call), style="yellow"))
        if step.again is not None and self.now is not None:
            leaf.add(Text(f"retry in {max(0.0, step.again - self.now):.0f} s", style="yellow"))
        if step.beside:
            leaf.add(Text(f"{self.shown(step.beside)} is asked too", style="yellow"))
        if step.outcome is not None and step.outcome.problem is not None:
            leaf.add(Text(self._line(step.outcome.problem.message), style=_MARKS[step.status][1]))

    def _failed(self, call: Call) -> str:
        told = "" if call.problem is None else self._line(call.problem.message)
        paid = ", perhaps paid" if call.maybe_paid else ""
        return f"call {call.attempt} of {self.shown(call.worker)}: {told}{paid}"

    def _spent(self, step: StepRow) -> str:
        if step.outcome is not None:
            took = "reused" if step.outcome.reused else f"{step.outcome.seconds:.2f} s"
            return ", ".join([*_bill(step.outcome.usage, step.outcome.cost), took])
        if self.now is None:
            return "did not end" if step.last else "did not start"
        if step.since is None:
            return "waiting"
        written = f"{step.chars:,} characters, " if step.chars else ""
        return f"{written}{self.now - step.since:.1f} s"

    def _frame(self) -> str:
        return "?" if self.now is None else _FRAMES[int(self.now * 10) % len(_FRAMES)]

    def _short(self, text: str) -> str:
        """Return the text on one line that leaves room for what else stands there."""
        line, most = self._line(text), max(24, self.width - 44)
        return line if len(line) <= most else line[: most - 1] + "…"

    def _line(self, text: str) -> str:
        """Return the whole text without line breaks of its own."""
        return " ".join(self.shown(text).split())


def _bill(usage: Usage, cost: float | None) -> list[str]:
    """Say what a step used, if it used anything."""
    about = "about " if usage.estimated else ""
    tokens = [f"{about}{usage.total_tokens:,} tokens"] if usage.total_tokens else []
    return [*tokens, f"${cost:.4f}"] if cost else tokens
