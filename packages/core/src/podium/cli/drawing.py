"""Draws a run as a table, also while it runs, and a plan as a table."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic

import anyio
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Column, Table
from rich.text import Text

from podium.cli.live import Job, LiveState, RunRow, Shown, StepRow, follow, run_notes
from podium.cli.screen import Screen, counted, duration, money, short_count
from podium.run_state.round_state import RoundState
from podium.types.events import ApprovalAsked
from podium.types.plan import Plan
from podium.types.result import Result
from podium.types.steps import task_of, worker_of

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
_TAIL_LINES = 6
_Line = Text | tuple[str | Text, ...]
"""A line of the table: a text over all columns, or the cells of the columns."""


@dataclass(frozen=True, slots=True)
class RunTable:
    """Draws the state of a run."""

    shown: Shown
    now: float | None
    """The time on the clock of the state's events; `None` for a run that is not running."""
    width: int
    """The columns of the terminal."""

    def draw(self, state: LiveState) -> RenderableType:
        """Draw the steps of the run and of its nested runs."""
        root = state.root
        if root is None or not root.state.rounds:
            at_work = root is None or (root.result is None and self.now is not None)
            told = f"{self._frame()} {'starting' if root is None else 'working'}"
            return Group(*[Text(told)] if at_work else ())
        table = self._table(header=True)
        parts: list[RenderableType] = [table]
        for line in self._run(root, 0):
            if isinstance(line, Text):
                table = self._table(header=False)
                parts += [line, table]
            else:
                table.add_row(*line)
        return Group(*parts)

    def draw_live(self, state: LiveState) -> RenderableType:
        """Draw a running run: totals, steps, notes, and the end of the answer so far."""
        root = state.root
        totals = [self._totals(root)] if root is not None and root.state.rounds else []
        answer = "" if root is None else self.shown(root.answer)
        notes = [_cropped(note.text, note.style) for note in run_notes(state, self.shown)]
        tail = [_cropped(line, "dim") for line in answer.splitlines()[-_TAIL_LINES:]]
        return Group(*totals, self.draw(state), *notes, *tail)

    def _table(self, *, header: bool) -> Table:
        """Return a table with fixed columns, so that several tables are aligned."""
        wide = self.width >= _WIDE
        table = plain_table(expand=True)
        table.show_header, table.padding = header, (0, 1, 0, 0)
        table.add_column("  step", width=30 if wide else 20, no_wrap=True)
        table.add_column("task", ratio=1, min_width=8, no_wrap=True)
        if wide:
            table.add_column("sees", width=12, no_wrap=True)
        table.add_column("state", width=9, no_wrap=True)
        for head, width in (("tokens", 10 if wide else 6), ("cost", 8), ("time", 11)):
            table.add_column(head, width=width, no_wrap=True, justify="right")
        return table

    def _run(self, run: RunRow, depth: int) -> Iterator[_Line]:
        rounds = run.state.rounds
        for current in rounds.values():
            asked = [each for each in run.state.waiting if each.round == current.number]
            approval, ready = _approval(current, asked), current.ready
            is_fallback = ready is not None and ready.is_fallback
            if not depth or len(rounds) > 1 or is_fallback or approval:
                told = "  " * depth + self._round(current, run) + (f"  {approval}" if approval else "")
                yield _cropped(self.shown(told), "bold yellow" if is_fallback else "bold")
            steps = run.steps(current).values()
            digits = max((len(step.number) for step in steps), default=1)
            for step in steps:
                yield self._step(step, step.number.ljust(digits), depth)
                for nested in step.runs:
                    yield from self._run(nested, depth + 1)

    def _round(self, current: RoundState, run: RunRow) -> str:
        told = f"round {current.number}"
        if (ready := current.ready) is not None:
            return f"{told}  plan by {ready.planner}{', the fallback' if ready.is_fallback else ''}"
        if run.result is not None or self.now is None:
            return told
        draft = run.drafts.get(current.number)
        return f"{told}  {self._frame()} writing the plan, {draft.chars if draft else 0:,} characters"

    def _step(self, step: StepRow, number: str, depth: int) -> tuple[str | Text, ...]:
        mark, style = _MARKS[step.status]
        worker = f" {number} {self._one_line(step.worker) or '…'}{' !' if step.acts else ''}"
        label = Text.assemble(("  " * depth + (mark or self._frame()), style), worker)
        outcome, tokens, cost, took = step.outcome, "", "", ""
        if outcome is not None and (outcome.attempts or outcome.reused or step.inside is not None):
            if step.tokens or not outcome.reused:
                tokens, cost = self._tokens(step), money(step.cost, at_most=step.is_estimated)
            took = "" if outcome.reused else duration(outcome.seconds)
        elif outcome is None and step.inside is not None:
            tokens, cost = self._tokens(step), money(step.cost, at_most=step.is_estimated)
        if outcome is None and step.since is not None and self.now is not None:
            took = duration(self.now - step.since)
        sees = (", ".join(map(str, step.sees)),) if self.width >= _WIDE else ()
        task = ": ".join(filter(None, [step.waits or step.counts, step.subtask]))
        cells = (self._one_line(task), *sees, self._state(step), tokens, cost, took)
        return label, *(Text(cell, "dim" if step.status == "skipped" else "") for cell in cells)

    def _state(self, step: StepRow) -> str:
        if step.outcome is not None:
            return "reused" if step.outcome.reused else step.outcome.status
        if step.waits:
            return "waits"
        if self.now is None:
            return "not ended" if step.calls or step.inside is not None else "not begun"
        return step.status if step.again is None else f"retry {max(0.0, step.again - self.now):.0f}s"

    def _tokens(self, step: StepRow) -> str:
        about = "~" if step.is_estimated else ""
        return about + (f"{step.tokens:,}" if self.width >= _WIDE else short_count(step.tokens))

    def _totals(self, root: RunRow) -> Text:
        steps = [step for current in root.state.rounds.values() for step in root.steps(current).values()]
        ended = sum(step.outcome is not None for step in steps)
        tokens = sum(step.tokens for step in steps)
        took = "" if self.now is None else f", {duration(self.now - root.began)}"
        told = f"{ended} of {counted(len(steps), 'step')} ended, {tokens:,} tokens{took}"
        return _cropped(told, "bold")

    def _one_line(self, text: str) -> str:
        return " ".join(self.shown(text).split())

    def _frame(self) -> str:
        return "?" if self.now is None else _FRAMES[int(self.now * 10) % len(_FRAMES)]


def _approval(current: RoundState, asked: Sequence[ApprovalAsked]) -> str:
    """Return the decision on the plan, or what waits for one; empty if no approval is needed."""
    event = current.approval
    if isinstance(event, ApprovalAsked) and event.step is None:
        return "waits for approval"
    if asked:
        more = f" and {len(asked) - 1} more wait" if len(asked) > 1 else " waits"
        return f"step {asked[0].name}{more}"
    if event is None or isinstance(event, ApprovalAsked):
        return ""
    done = "approved" if event.answer is None else "answered"
    said = (done if event.approved else "refused") + ("" if event.plan is None else " with changes")
    return said + (f" by {event.by}" if event.by else "") + (f": {event.why}" if event.why else "")


def _cropped(text: str, style: str) -> Text:
    line = text.replace("\n", " ").replace("\t", " ")
    return Text(line, style=style, no_wrap=True, overflow="ellipsis")


_TICK = 0.1
"""Seconds between two refreshes."""


class View:
    """The live view of one run, on stderr."""

    def __init__(self, screen: Screen, state: LiveState) -> None:
        self._screen = screen
        self._state = state
        self._live = Live(console=screen.console(stderr=True), auto_refresh=False)

    async def watch(self, job: Job) -> Result:
        """Run the job, show its progress, and return its result."""
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
                self._live.update(self._table(None).draw(self._state), refresh=True)
        for note in run_notes(self._state, self._screen.shown):
            self._live.console.print(Text(note.text, style=note.style), soft_wrap=True)
        if isinstance(ended_with, Exception):
            raise ended_with
        return ended_with

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Hide the view during the block, so that the terminal is free for other output."""
        self._live.update(self._table(monotonic()).draw(self._state))
        self._live.stop()
        try:
            yield
        finally:
            self._live.vertical_overflow = "ellipsis"  # `stop` changes it
            self._live.start()

    async def _keep_drawing(self) -> None:
        while True:
            if self._live.is_started:
                self._live.update(self._table(monotonic()).draw_live(self._state), refresh=True)
            await anyio.sleep(_TICK)

    def _table(self, now: float | None) -> RunTable:
        return RunTable(self._screen.shown, now, self._live.console.width)


def draw_run(screen: Screen, state: LiveState) -> None:
    """Draw a run that is not running, with its notes, on stdout."""
    table = RunTable(screen.shown, None, screen.console().width).draw(state)
    screen.draw(table, *(note.text for note in run_notes(state, screen.shown)))


def plan_table(
    plan: Plan, workers: Sequence[str] | None, shown: Shown, actions: Collection[int] = ()
) -> Table:
    """Draw a plan, one row per step; without names of workers with their numbers."""
    table = plain_table("step", "worker", "subtask", "sees")
    for place in sorted(plan.outline, key=lambda place: place.path):
        step, index = place.step, place.path[0]
        who = worker_of(step, workers) + (" (acts)" if len(place.path) == 1 and index in actions else "")
        sees = ", ".join(map(str, step.access_list)) or "-"
        sees += "" if step.enough is None or step.each is not None else f" ({step.enough} of them)"
        number = plan.numbered(index) if len(place.path) == 1 else place.name
        table.add_row(number, Text(shown(who)), Text(shown(task_of(step))), sees)
    if not plan.steps:
        table.add_row("-", "-", "keep the previous answer" if plan.answer is None else "answer", "-")
    return table


def plain_table(*columns: Column | str, expand: bool = False) -> Table:
    """Return a table without lines; with `expand`, as wide as the terminal."""
    return Table(*columns, box=None, header_style="dim", pad_edge=False, expand=expand)
