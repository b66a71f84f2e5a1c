"""Steps and plans: pure data that cannot be built wrong.

A plan knows its own shape (who sees whom, what may run side by side). It knows no pool
and no text: `parse` reads one, `spelling` writes one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self, TypeGuard

from podium.errors import PlanInvalid, PlanInvalidCode
from podium.types.messages import Message, read_message
from podium.types.references import bad_reference, malformed_reference, references_in

SCHEMA = 1
"""Version of a plan's JSON form; raised when an older reader would misread it."""
PREVIOUS = "previous"
"""The entry of an access list that stands for all steps of the round before."""
ENOUGH_AND_REFERENCES = "a step whose subtask refers to outputs needs all its steps: leave out enough"
"""Why `enough` cannot stand beside a reference."""


@dataclass(frozen=True, slots=True)
class Step:
    """One subtask, who does it, and what that worker is shown."""

    worker: int
    """Number of the worker in its pool, from 0."""
    subtask: str
    """What the worker is told to do, in natural language. `{{n}}` stands for the output of step n, which must
    be on the access list; `\\{{` is a literal `{{`."""
    access: tuple[int, ...] = ()
    """Indices of the earlier steps whose subtask and output it is shown; kept sorted, each once."""
    enough: int | None = None
    """How many of the steps on the access list it waits for: it starts once so many ended well, and
    is shown those. `None`, which the length of the list becomes, means all of them."""
    previous: bool = False
    """Whether its worker is also shown the subtasks and outputs of all steps of the round before."""
    label: int | None = field(default=None, compare=False)
    """The number that the planner gave the step, under which workers are shown it; `None`: its index.
    Events, outcomes, approvals and edits count steps by index."""

    def __post_init__(self) -> None:
        if not _are_numbers(self.worker, *self.access):
            message = f"worker {self.worker!r}, access {self.access!r}: both are numbers, counted from 0"
            raise PlanInvalid("bad_access" if _are_numbers(self.worker) else "bad_worker", message)
        if self.worker < 0:
            raise PlanInvalid("bad_worker", f"worker {self.worker} is negative: workers count from 0")
        if not self.subtask.strip():
            raise PlanInvalid("empty_subtask", "a step without a subtask: say what its worker is to do")
        object.__setattr__(self, "access", tuple(sorted(set(self.access))))
        if self.enough is not None:
            if not _is_number(self.enough) or not 1 <= self.enough <= len(self.access):
                raise PlanInvalid("bad_enough", wrong_enough(self.enough, len(self.access)))
            if self.enough == len(self.access):
                object.__setattr__(self, "enough", None)
        self._check_references()

    def _check_references(self) -> None:
        if wrong := malformed_reference(self.subtask):
            raise PlanInvalid("bad_reference", bad_reference("a step", wrong))
        for number in self.references:
            if number not in self.access:
                raise PlanInvalid("bad_reference", bad_reference("a step", str(number)))
        if self.references and self.enough is not None:
            raise PlanInvalid("bad_enough", ENOUGH_AND_REFERENCES)

    @property
    def references(self) -> tuple[int, ...]:
        """The steps whose output the subtask refers to as `{{n}}`, sorted; all are on the access list."""
        return references_in(self.subtask)

    @property
    def access_list(self) -> list[int | str]:
        """The access list as it is written: `"previous"` if the round before is shown, then the indices."""
        return [PREVIOUS, *self.access] if self.previous else list(self.access)

    @property
    def least(self) -> int:
        """How many of the steps on the access list must end well before it starts."""
        return len(self.access) if self.enough is None else self.enough


@dataclass(frozen=True, slots=True)
class PlannedBy:
    """Who wrote a plan."""

    name: str
    """The planner's name; `user` where the caller wrote or changed the plan."""
    why: str = ""
    """What the planner says of its choice, where it does; of a plan of the fallback planner that the caller
    gave, why the conductor's own planner wrote none."""
    is_fallback: bool = False
    """Whether it is the fallback planner, in place of the conductor's own."""


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
    planner: PlannedBy | None = field(default=None, compare=False, repr=False)
    """The planner that wrote it, where `Conductor.plan` returned it: a run of it names this planner. Where
    that is the fallback planner, the run is `partial`, as one that it plans itself."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", tuple(self.steps))
        self._check_labels()
        for index, step in enumerate(self.steps):
            if step.access and not 0 <= step.access[0] <= step.access[-1] < index:
                wrong = next(seen for seen in step.access if not 0 <= seen < index)
                raise PlanInvalid("forward_access", forward_access(index, wrong), step=index)

    def _check_labels(self) -> None:
        labels = [step.label for step in self.steps if step.label is not None]
        if not labels:
            return
        for index, label in enumerate(step.label for step in self.steps):
            if label is None or label in labels[:index]:
                fault = "has no label" if label is None else f"has the label {label} of a step before it"
                message = f"step {index} {fault}: give every step a label of its own, or none"
                raise PlanInvalid("bad_id", message, step=index)

    @property
    def labels(self) -> tuple[int, ...]:
        """The number of each step as its workers are shown it: the planner's own, else its index."""
        return tuple(label_of(step, index) for index, step in enumerate(self.steps))

    def numbered(self, index: int) -> str:
        """Return the index of a step as it is shown: beside the planner's number, where that is another."""
        label = self.steps[index].label if index < len(self.steps) else None
        return str(index) if label in (None, index) else f"{index} (id {label})"

    @property
    def dependencies(self) -> tuple[tuple[int, ...], ...]:
        """For each step, the steps it waits for."""
        return tuple(step.access for step in self.steps)

    @property
    def needed(self) -> frozenset[int]:
        """The steps that reach the answer along access lists; no other is worth running."""
        return self.reaching(len(self.steps) - 1) if self.steps else frozenset()

    def reaching(self, step: int) -> frozenset[int]:
        """Return the steps that reach `step` along access lists, and itself."""
        found = {step}
        for index in range(step, -1, -1):  # a step sees none but those before it
            if index in found:
                found.update(self.steps[index].access)
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

    def fit(self, workers: int, most_steps: int, *, previous: bool = False) -> None:
        """Check that a pool can carry the plan out.

        Args:
            workers: the number of workers.
            most_steps: most steps the plan may have.
            previous: whether there is a round before, which access lists may name.

        Raises:
            PlanInvalid: it has no steps or too many, or names a worker or a round that is not there.
        """
        if not self.steps:
            raise PlanInvalid("nothing_to_keep", "the plan has no steps: there is no answer to keep yet")
        if len(self.steps) > most_steps:
            message = f"the plan has {len(self.steps)} steps; Limits.plan_steps allows {most_steps}"
            raise PlanInvalid("too_many_steps", message)
        for index, step in enumerate(self.steps):
            if step.worker >= workers:
                message = f"step {index} names worker {step.worker}; there are 0 to {workers - 1}"
                raise PlanInvalid("unknown_worker", message, step=index)
            if step.previous and not previous:
                raise PlanInvalid("no_previous", no_previous(index), step=index)

    def renumbered(self, workers: Sequence[int]) -> Self:
        """Return the plan with worker `i` replaced by `workers[i]`."""
        if all(workers[step.worker] == step.worker for step in self.steps):
            return self
        return replace(self, steps=tuple(replace(step, worker=workers[step.worker]) for step in self.steps))

    def to_json(self) -> dict[str, Any]:
        """Write the plan as plain JSON data, with the version of its form."""
        query = {"query": [m.to_wire() for m in self.query]} if self.query else {}
        planner = {} if self.planner is None else {"planner": asdict(self.planner)}
        return {"schema": SCHEMA, **query, **planner, "steps": [_step_to_json(step) for step in self.steps]}

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
        query = tuple(read_message(message) for message in query)
        return cls(steps, query, planner=_planner_from_json(data.get("planner")))

    def to_mermaid(self, workers: Sequence[str] | None = None) -> str:
        """Draw the plan as a mermaid flowchart.

        Args:
            workers: names to show in place of numbers, in the pool's order.
        """
        lines = ["flowchart TD"]
        for index, step in enumerate(self.steps):
            who = f"worker {step.worker}" if workers is None else workers[step.worker]
            subtask = step.subtask if len(step.subtask) <= 60 else step.subtask[:59] + "…"
            some = "" if step.enough is None else f"<br/>after {step.enough} of {len(step.access)}"
            lines.append(f'    s{index}["{self.numbered(index)}: {_label(who)}<br/>{_label(subtask)}{some}"]')
            lines += [f"    s{seen} --> s{index}" for seen in step.access]
            if step.previous:
                lines.append(f"    before([the round before]) --> s{index}")
        if self.steps:
            lines.append(f"    s{len(self.steps) - 1} --> answer([answer])")
        return "\n".join(lines) + "\n"


def _is_number(value: object) -> TypeGuard[int]:
    """Say whether it is an integer; `True` is one to Python, but numbers nobody."""
    return type(value) is int


def _planner_from_json(value: object) -> PlannedBy | None:
    match value:
        case None:
            return None
        case {"name": str(name), "why": str(why), "is_fallback": bool(is_fallback)}:
            return PlannedBy(name, why, is_fallback)
    told = 'write {"name": "…", "why": "…", "is_fallback": false}, or leave it out'
    raise PlanInvalid("bad_shape", f"the plan's planner is {value!r:.60}: {told}")


def _step_to_json(step: Step) -> dict[str, Any]:
    enough = {} if step.enough is None else {"enough": step.enough}
    label = {} if step.label is None else {"label": step.label}
    return {"worker": step.worker, "subtask": step.subtask, "access": step.access_list, **enough, **label}


def _step_from_json(row: object, index: int) -> Step:
    code: PlanInvalidCode = "bad_shape"
    if isinstance(row, Mapping):
        if not row.keys() >= {"worker", "subtask", "access"}:
            code = "missing_field"
        worker, subtask, access = row.get("worker"), row.get("subtask"), row.get("access")
        enough, label = row.get("enough"), row.get("label")
        if _is_number(worker) and isinstance(subtask, str) and isinstance(access, list):
            seen = tuple(filter(_is_number, access))
            previous = PREVIOUS in access
            others = [entry for entry in access if entry != PREVIOUS]
            has_numbers = all(value is None or _is_number(value) for value in (enough, label))
            if len(seen) == len(others) and has_numbers:
                return Step(worker, subtask, seen, enough, previous, label)
    message = f"step {index}: give it an integer worker, a text subtask and an access list of integers"
    raise PlanInvalid(code, message, step=index)


def label_of(step: Step, index: int) -> int:
    """Return the number under which workers are shown a step: its label, else its index."""
    return index if step.label is None else step.label


def wrong_enough(enough: object, inputs: int) -> str:
    """Say why `enough` cannot stand beside an access list of so many steps."""
    allowed = f"a number from 1 to {inputs}, or nothing for all" if inputs else "nothing: it sees no step"
    return f"enough is {enough!r:.60}: write {allowed}"


def no_previous(step: int) -> str:
    """Say why `step` cannot be shown the round before."""
    return f'step {step} lists "{PREVIOUS}", and no round before it has an output: leave it out'


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
