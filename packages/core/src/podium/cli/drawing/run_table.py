"""Draws the state of a run as a table, also while it runs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic

import anyio
from rich.cells import cell_len, set_cell_size
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from podium.cli.live import Job, LiveState, RoundRow, RunRow, StepRow, follow, run_notes
from podium.cli.screen import Screen, counted, duration, money, short_count
from podium.types.result import Result

_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_MARKS = {
    "waiting": ("·", "dim"),
    "running": ("", "cyan"),
    "ok": ("✓", "green"),
    "failed": ("✗", "red"),
    "skipped": ("-", "yellow"),
    "cancelled": ("✗", "yellow"),
}
_WIDE = 100
"""Width of a terminal with room for the column `sees` and for exact token counts, in columns."""
_STATE, _COST, _TIME = 9, 8, 11
_TAIL_LINES = 6


@dataclass(frozen=True, slots=True)
class RunTable:
    """Draws the state of a run.

    Args:
        shown: makes foreign text safe for a terminal.
        now: the time, in seconds, on the clock of the state's events; `None` for a run that is not
            running.
        width: the columns of the terminal.
    """

    shown: Callable[[str], str]
    now: float | None
    width: int = 80

    def draw(self, state: LiveState) -> RenderableType:
        """Draw the steps of the run and of its nested runs."""
        return Group(*self._lines(state))

    def draw_live(self, state: LiveState, height: int) -> RenderableType:
        """Draw a running run: steps, notes, the end of the answer so far, and totals.

        Args:
            state: the state of the run.
            height: the lines of the terminal; lines that do not fit are left out, except the totals.
        """
        lines, below = self._lines(state), list[Text]()
        root = state.root
        if root is not None and root.rounds:
            below.append(self._totals(root))
        room = max(4, height - 1) - len(below)
        if len(lines) > room:
            left_out = len(lines) - room + 1
            lines = [*lines[: room - 1], Text(f"… {counted(left_out, 'more line')}", style="dim")]
        extra = [self._cropped(note.text, note.style) for note in run_notes(state, self.shown)]
        if root is not None and root.answer:
            tail = self.shown(root.answer).splitlines()[-_TAIL_LINES:]
            extra += [self._cropped(line, "dim") for line in tail]
        return Group(*lines, *extra[: room - len(lines)], *below)

    def _lines(self, state: LiveState) -> list[Text]:
        root = state.root
        if root is None:
            return [Text(f"{self._frame()} starting")]
        if not root.rounds:
            at_work = root.result is None and self.now is not None
            return [Text(f"{self._frame()} working")] if at_work else []
        head = self._line("  step", "task", "sees", "state", "tokens", "cost", "time")
        head.stylize("dim")
        return [head, *self._run(root, 0)]

    def _run(self, run: RunRow, depth: int) -> Iterator[Text]:
        for number, current in run.rounds.items():
            if not depth or len(run.rounds) > 1 or current.is_fallback or current.approval:
                yield self._cropped(" " * 2 * depth + self._round(number, current, run), _style(current))
            digits = max((len(step.number or str(index)) for index, step in current.steps.items()), default=1)
            for index, step in sorted(current.steps.items()):
                yield self._step((step.number or str(index)).ljust(digits), step, depth)
                for nested in step.runs:
                    yield from self._run(nested, depth + 1)

    def _round(self, number: int, current: RoundRow, run: RunRow) -> str:
        told = f"round {number}"
        if (ready := current.state.ready) is not None:
            told += f"  plan by {ready.planner}" + (", the fallback" if current.is_fallback else "")
        elif run.result is None and self.now is not None:
            told += f"  {self._frame()} writing the plan, {current.plan_chars:,} characters"
        return told + (f"  {current.approval}" if current.approval else "")

    def _step(self, number: str, step: StepRow, depth: int) -> Text:
        mark, style = _MARKS[step.status]
        outcome, tokens, cost, took = step.outcome, "", "", ""
        if outcome is not None and (outcome.attempts or outcome.reused):
            if outcome.usage.total_tokens or not outcome.reused:
                tokens = self._tokens(outcome.usage.total_tokens, estimated=outcome.usage.estimated)
                cost = money(outcome.cost)
            took = "" if outcome.reused else duration(outcome.seconds)
        elif outcome is None and step.since is not None and self.now is not None:
            took = duration(self.now - step.since)
        line = self._line(
            f"{'  ' * depth}{mark or self._frame()} {number} {self._one_line(step.worker) or '…'}"
            + (" !" if step.acts else ""),
            self._one_line(step.subtask),
            ", ".join(map(str, step.sees)),
            self._state(step),
            tokens,
            cost,
            took,
        )
        line.stylize(style, 0, 2 * depth + 1)
        return line

    def _state(self, step: StepRow) -> str:
        if step.outcome is not None:
            return "reused" if step.outcome.reused else step.outcome.status
        if self.now is None:
            return "not ended" if step.is_begun else "not begun"
        if step.again is not None:
            return f"retry {max(0.0, step.again - self.now):.0f}s"
        return step.status

    def _totals(self, root: RunRow) -> Text:
        steps = [step for current in root.rounds.values() for step in current.steps.values()]
        ended = [step.outcome for step in steps if step.outcome is not None]
        tokens = sum(outcome.usage.total_tokens for outcome in ended)
        took = "" if self.now is None else f", {duration(self.now - root.began)}"
        told = f"{len(ended)} of {counted(len(steps), 'step')} ended, {tokens:,} tokens{took}"
        return self._cropped(told, "bold")

    def _line(self, *cells: str) -> Text:
        """Return a line with the cells in their columns, each cut to its width."""
        label, task, sees, state, tokens, cost, took = cells
        wide = self.width >= _WIDE
        label_width, sees_width, tokens_width = (30, 12, 10) if wide else (20, 0, 6)
        numbers = f"{tokens:>{tokens_width}} {cost:>{_COST}} {took:>{_TIME}}"
        taken = label_width + 2 + (sees_width + 2 if wide else 0) + 2 + _STATE + 1 + cell_len(numbers)
        parts = [_fit(label, label_width), _fit(task, max(8, self.width - taken))]
        parts += [_fit(sees, sees_width)] if wide else []
        line = "  ".join([*parts, f"{_fit(state, _STATE)} {numbers}"])
        return Text(line.rstrip(), no_wrap=True, overflow="crop")

    def _tokens(self, count: int, *, estimated: bool) -> str:
        about = "~" if estimated else ""
        return about + (f"{count:,}" if self.width >= _WIDE else short_count(count))

    def _cropped(self, text: str, style: str) -> Text:
        return Text(self._one_line(text, keep_indent=True), style=style, no_wrap=True, overflow="ellipsis")

    def _one_line(self, text: str, *, keep_indent: bool = False) -> str:
        line = self.shown(text).replace("\n", " ").replace("\t", " ")
        return line if keep_indent else " ".join(line.split())

    def _frame(self) -> str:
        return "?" if self.now is None else _FRAMES[int(self.now * 10) % len(_FRAMES)]


def _fit(text: str, width: int) -> str:
    """Return the text in exactly `width` cells, with an ellipsis if it is cut."""
    return set_cell_size(text, width) if cell_len(text) <= width else set_cell_size(text, width - 1) + "…"


def _style(current: RoundRow) -> str:
    return "bold yellow" if current.is_fallback else "bold"


_TICK = 0.1
"""Seconds between two refreshes."""


class View:
    """The live view of one run, on stderr."""

    def __init__(self, screen: Screen, state: LiveState) -> None:
        self._screen = screen
        self._state = state
        self._live = Live(console=screen.console(stderr=True), auto_refresh=False)

    async def watch(self, job: Job) -> Result:
        """Run the job, show its progress, and return its result.

        Raises:
            PodiumError: `Conductor.run` raises it.
        """
        ended_with: Result | Exception
        with self._live:
            try:
                async with anyio.create_task_group() as drawing:
                    drawing.start_soon(self._keep_drawing)
                    try:
                        ended_with = await follow(job, self._state)
                    except Exception as error:  # noqa: BLE001 - raised below: the task group would wrap it
                        ended_with = error
                    drawing.cancel_scope.cancel()
            finally:
                ended = RunTable(self._screen.shown, None, self._live.console.width)
                self._live.update(ended.draw(self._state), refresh=True)
        for note in run_notes(self._state, self._screen.shown):
            self._live.console.print(Text(note.text, style=note.style), soft_wrap=True)
        if isinstance(ended_with, Exception):
            raise ended_with
        return ended_with

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Hide the view during the block, so that the terminal is free for other output."""
        self._live.update(self._table().draw(self._state))
        self._live.stop()
        try:
            yield
        finally:
            self._live.vertical_overflow = "ellipsis"  # `stop` changes it
            self._live.start()

    async def _keep_drawing(self) -> None:
        while True:
            if self._live.is_started:
                height = self._live.console.height
                self._live.update(self._table().draw_live(self._state, height), refresh=True)
            await anyio.sleep(_TICK)

    def _table(self) -> RunTable:
        return RunTable(self._screen.shown, monotonic(), self._live.console.width)
