"""Steps and plans: pure data that cannot be built wrong.

A plan knows its own shape (who sees whom, what may run side by side). It knows no pool
and no text: `parse` reads one, `spelling` writes one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeGuard

from podium.errors import PlanInvalid, PlanInvalidCode
from podium.messages import Message, read_message

SCHEMA = 1
"""Version of a plan's JSON form; raised when an older reader would misread it."""


@dataclass(frozen=True, slots=True)
class Step:
    """One subtask, who does it, and what that worker is shown."""

    worker: int
    """Number of the worker in its pool, from 0."""
    subtask: str
    """What the worker is told to do, in natural language."""
    access: tuple[int, ...] = ()
    """Indices of the earlier steps whose subtask and output it is shown; kept sorted, each once."""

    def __post_init__(self) -> None:
        if not _are_numbers(self.worker, *self.access):
            message = f"worker {self.worker!r}, access {self.access!r}: both are numbers, counted from 0"
            raise PlanInvalid("bad_access" if _are_numbers(self.worker) else "bad_worker", message)
        if self.worker < 0:
            raise PlanInvalid("bad_worker", f"worker {self.worker} is negative: workers count from 0")
        if not self.subtask.strip():
            raise PlanInvalid("empty_subtask", "a step without a subtask: say what its worker is to do")
        object.__setattr__(self, "access", tuple(sorted(set(self.access))))


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps in order; the output of the last one is the answer.

    A plan of no steps means "keep the previous answer" and has a place only after a
    first round.
    """

    steps: tuple[Step, ...]
    query: tuple[Message, ...] = field(default=(), compare=False, repr=False)
    """The conversation it was made for, which its workers are shown; empty when nobody said."""
    why: str = field(default="", compare=False, repr=False)
    """Who wrote it, why it is so, and what became of plans before it; empty when nobody said."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", tuple(self.steps))
        for index, step in enumerate(self.steps):
            if step.access and not 0 <= step.access[0] <= step.access[-1] < index:
                wrong = next(seen for seen in step.access if not 0 <= seen < index)
                raise PlanInvalid("forward_access", forward_access(index, wrong), step=index)

    @property
    def dependencies(self) -> tuple[tuple[int, ...], ...]:
        """For each step, the steps it waits for."""
        return tuple(step.access for step in self.steps)

    @property
    def needed(self) -> frozenset[int]:
        """The steps that reach the answer along access lists; no other is worth running."""
        found: set[int] = set()
        todo = [len(self.steps) - 1] if self.steps else []
        while todo:
            index = todo.pop()
            if index not in found:
                found.add(index)
                todo.extend(self.steps[index].access)
        return frozenset(found)

    @property
    def layers(self) -> tuple[tuple[int, ...], ...]:
        """Steps grouped by the longest chain before them; one layer's steps never see each other."""
        levels: list[int] = []
        for step in self.steps:
            levels.append(1 + max((levels[seen] for seen in step.access), default=-1))
        return tuple(
            tuple(i for i, level in enumerate(levels) if level == wanted)
            for wanted in range(max(levels, default=-1) + 1)
        )

    def critical_path(self, seconds: Sequence[float] | None = None) -> tuple[int, ...]:
        """Return the chain of steps that takes longest, first to last.

        Args:
            seconds: how long each step takes; `None` counts every step as 1.
        """
        weights = [1.0] * len(self.steps) if seconds is None else seconds
        ends: list[float] = []
        for index, step in enumerate(self.steps):
            ends.append(weights[index] + max((ends[seen] for seen in step.access), default=0.0))
        if not ends:
            return ()
        path = [max(range(len(ends)), key=ends.__getitem__)]
        while self.steps[path[-1]].access:
            path.append(max(self.steps[path[-1]].access, key=ends.__getitem__))
        return tuple(reversed(path))

    def renumbered(self, workers: Sequence[int]) -> Self:
        """Return the plan with worker `i` replaced by `workers[i]`."""
        steps = tuple(Step(workers[s.worker], s.subtask, s.access) for s in self.steps)
        return replace(self, steps=steps)

    def to_json(self) -> dict[str, Any]:
        """Write the plan as plain JSON data, with the version of its form."""
        steps = [{"worker": s.worker, "subtask": s.subtask, "access": list(s.access)} for s in self.steps]
        query = {"query": [m.to_wire() for m in self.query]} if self.query else {}
        return {"schema": SCHEMA, **query, "steps": steps}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote. Use `parse_plan` for what a model or a person wrote.

        Raises:
            PlanInvalid: it is of another schema, lacks a field, or breaks a rule.
            QueryError: an entry of its query is no chat message.
        """
        if data.get("schema") != SCHEMA:
            raise PlanInvalid(
                "unknown_schema", f"plan schema {data.get('schema')!r}: this version reads {SCHEMA}"
            )
        if "steps" not in data:
            raise PlanInvalid("missing_field", "the plan lacks steps: give it a list of them")
        rows, query = data["steps"], data.get("query", [])
        for name, value in (("steps", rows), ("query", query)):
            if not isinstance(value, list):
                raise PlanInvalid("bad_shape", f"the plan's {name} is no list, but {value!r:.60}: write [ ]")
        steps = tuple(_step_from_json(row, index) for index, row in enumerate(rows))
        return cls(steps, tuple(read_message(message) for message in query))

    def to_mermaid(self, workers: Sequence[str] | None = None) -> str:
        """Draw the plan as a mermaid flowchart.

        Args:
            workers: names to show in place of numbers, in the pool's order.
        """
        lines = ["flowchart TD"]
        for index, step in enumerate(self.steps):
            who = f"worker {step.worker}" if workers is None else workers[step.worker]
            subtask = step.subtask if len(step.subtask) <= 60 else step.subtask[:59] + "…"
            lines.append(f'    s{index}["{index}: {_label(who)}<br/>{_label(subtask)}"]')
            lines += [f"    s{seen} --> s{index}" for seen in step.access]
        if self.steps:
            lines.append(f"    s{len(self.steps) - 1} --> answer([answer])")
        return "\n".join(lines) + "\n"


def _is_number(value: object) -> TypeGuard[int]:
    """Say whether it is an integer; `True` is one to Python, but numbers nobody."""
    return type(value) is int


def _step_from_json(row: object, index: int) -> Step:
    code: PlanInvalidCode = "bad_shape"
    if isinstance(row, Mapping):
        if not row.keys() >= {"worker", "subtask", "access"}:
            code = "missing_field"
        worker, subtask, access = row.get("worker"), row.get("subtask"), row.get("access")
        if _is_number(worker) and isinstance(subtask, str) and isinstance(access, list):
            seen = tuple(filter(_is_number, access))
            if len(seen) == len(access):
                return Step(worker, subtask, seen)
    message = f"step {index}: give it an integer worker, a text subtask and a list of integers access"
    raise PlanInvalid(code, message, step=index)


def forward_access(step: int, seen: int) -> str:
    """Say why `step` cannot be shown `seen`."""
    allowed = f"write [] or numbers from 0 to {step - 1}" if step else "write [] for the first step"
    if seen == step:
        return f"step {step} lists itself, and sees only steps before it: {allowed}"
    if seen < 0:
        return f"step {step} lists {seen}, and steps count from 0: {allowed}"
    return f"step {step} lists step {seen}, which is not before it: {allowed}"


def _label(text: str) -> str:
    """Escape text for a quoted mermaid label, where `#` opens an entity."""
    plain = " ".join(text.split())
    for mark in '#%"<>`':
        plain = plain.replace(mark, f"#{ord(mark)};")
    return plain


def _are_numbers(*values: object) -> bool:
    return all(isinstance(value, int) and not isinstance(value, bool) for value in values)
