"""The steps of a round while they run, and the values that their references stand for."""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, TypedDict

import anyio

from podium.execution.attempt import Attempt
from podium.prompts.prompt import NOT_RUN, gap_of
from podium.types.messages import Message
from podium.types.outcome import CONDITION, Action, Outcome, Problem, StepStatus, answering
from podium.types.references import ABSENT, BadValue, Reference, read_json, value_at
from podium.types.steps import OUTER, PREVIOUS, AnyStep, Block, Step, branches, task_of
from podium.workers.worker import VisibleStep

STOPPED = Problem("cancelled", "the run was stopped")
Lineage = tuple[tuple[str, int], ...]
"""The lists from which an item of a map came, each with its position; maps over the same list share it."""


class Unmet(Exception):
    """A reference has no value, and the step that refers to it ends so."""

    def __init__(self, status: StepStatus, problem: Problem) -> None:
        super().__init__(problem.message)
        self.status, self.problem = status, problem


class Value(NamedTuple):
    """A value, and how many of its outer lists are outputs of maps, whose fields are those of the items."""

    data: Any
    levels: int = 0

    def part(self, path: Sequence[str], reference: Reference) -> "Value":
        """Return the part of the value at a path; raise `BadValue` with the reference if there is none."""
        value = self
        for key in path:
            value = value.field(key, reference)
        return value

    def field(self, key: str, reference: Reference) -> "Value":
        """Return the part with a key, or at a position; raise `BadValue` if there is none."""
        data = self.data
        if isinstance(data, list) and key.isdecimal() and int(key) < len(data):
            return Value(data[int(key)], max(self.levels - 1, 0))
        if self.levels:
            parts = [
                None if each is None else Value(each, self.levels - 1).field(key, reference).data
                for each in data
            ]
            return Value(joined(parts), 1)
        return Value(value_at(data, (key,), reference))


def joined(parts: Sequence[Any]) -> list[Any]:
    """Return the parts of items as one list: lists are joined, and then a missing part adds nothing."""
    if not any(isinstance(part, list) for part in parts):
        return list(parts)
    found: list[Any] = []
    for part in parts:
        found += part if isinstance(part, list) else [] if part is None else [part]
    return found


NO_NAMES: Mapping[str, Value] = MappingProxyType({})
_NO_ELEMENTS: Mapping[int, "StepNode"] = MappingProxyType({})


@dataclass(slots=True, eq=False)
class Frame:
    """A plan, or one turn of a block: its steps, and the turn before."""

    steps: Sequence[AnyStep]
    outer: "StepNode | None" = None
    """The block; `None` for the plan."""
    prefix: str = ""
    """The beginning of the paths of its steps; empty for the plan."""
    in_loop: bool = False
    before: "Frame | None" = None
    """The turn before, of the innermost loop; `None` in a first turn, and outside of loops."""
    nodes: list["StepNode"] = field(default_factory=list)
    """The steps, by number."""

    @property
    def answer(self) -> "StepNode":
        """The step whose output is the output of the plan: the last branch at the end that ran."""
        row = [self.nodes[index] for index in branches(self.steps)] or [self.nodes[-1]]
        ended = [node.outcome for node in row if node.outcome is not None]
        return row[ended.index(answering(ended))] if len(ended) == len(row) else row[-1]

    def later_branches(self, node: "StepNode") -> Sequence["StepNode"]:
        """Return the branches at the end after a branch that no other step reads; they come first."""
        row = branches(self.steps)
        if node.number not in row[:-1] or node.acts or node.dependents or node.waiters or node.followers:
            return ()
        return [self.nodes[index] for index in row if index > node.number and index < len(self.nodes)]


@dataclass(slots=True, eq=False)
class StepNode:
    """A step and its state in a round, or one execution of it: an item of a map, a step of a turn."""

    index: int
    """Its number in the round, unique; of a step of the plan, its index."""
    step: AnyStep
    following: int = 1
    """Number of the next call of its worker."""
    subtask: str = ""
    """The subtask as other steps see it."""
    template: str = ""
    """The subtask before values were filled in; empty if there are none."""
    acts: bool = False
    """Whether the step is an action."""
    is_free: bool = False
    """Whether only persons carry it out, who need no calls."""
    frame: Frame = field(default_factory=lambda: Frame(()))
    """The plan, or the turn of a block, whose step it is."""
    number: int = 0
    """Its number in the frame."""
    path: str = ""
    """Its name inside of maps and blocks, as in `2[17].0`; empty for a step of the plan."""
    parent: "Expansion | None" = None
    """The map or block that made it; `None` for a step of the plan."""
    names: Mapping[str, Value] = field(default_factory=lambda: NO_NAMES)
    """What `item`, `index` and other names of items stand for."""
    lineage: Lineage = ()
    order: tuple[int, ...] = ()
    """The positions of the items around it: those of earlier items go first."""
    elements: Mapping[int, "StepNode"] = field(default_factory=lambda: _NO_ELEMENTS)
    """By number: the own elements of an item, of maps over the same list."""
    origin: "StepNode | None" = None
    """The step from whose output the item came; `None` for other steps."""
    inputs: list["StepNode"] = field(default_factory=list)
    """The steps of its access list."""
    expansion: "Expansion | None" = None
    """Its items or turns, if it is a map or a block that has begun; else `None`."""
    holds: bool | None = None
    """Whether its condition holds; `None` until it is known, and without one."""
    stand_in: "StepNode | None" = None
    """The step whose output stands for its own, because it is skipped; otherwise `None`."""
    unmet: tuple[StepStatus, Problem] | None = None
    """How it ends because it cannot run; `None` while it may run."""
    batch: "Batch | None" = None
    """The items or the turn with which it was made, which may wait at a gate; `None` for other steps."""
    action: Action | None = None
    """What the action is asked to do; `None` for other steps, until its inputs are known, and for an input
    that is too long."""
    took: Action | None = None
    """The action that it takes, or waits for, because an equal one was begun before; else `None`."""
    is_whole: bool = False
    """Whether its output is complete, and was made from complete inputs."""
    least: int = field(init=False)
    """Number of steps of the access list that must be `ok` before this step starts."""
    blocked: int = 0
    """Number of steps of the access list that have not ended."""
    good: int = 0
    """Number of steps of the access list that are `ok`; for an action, that are also complete."""
    awaits: list["StepNode"] = field(default_factory=list)
    """The other steps to which its list, its condition and the steps inside refer."""
    dependents: list["StepNode"] = field(default_factory=list)
    """The steps that have this step on their access list."""
    waiters: list["StepNode"] = field(default_factory=list)
    """The other steps that refer to this step."""
    followers: list["StepNode"] = field(default_factory=list)
    """The maps whose items come from its items, or see them."""
    visible: tuple[VisibleStep, ...] | None = None
    """The steps that its worker sees; `None` until the step can start."""
    shown: tuple[int, ...] | None = None
    """The steps whose output the worker sees; `None` means all steps on the access list."""
    reach: frozenset[str] = frozenset()
    """The labels of what conditions and lists around it refer to."""
    labels: frozenset[str] = frozenset()
    """The labels of all data that its worker sees."""
    written: frozenset[str] = frozenset()
    """The labels of its output."""
    exact: str = ""
    """Hash of its input with secrets; empty if not needed."""
    key: str = ""
    """Hash of its input without secrets; empty if not needed."""
    scope: anyio.CancelScope | None = None
    """The scope in which it runs; `None` while it does not run."""
    calls: list[Attempt] = field(default_factory=list)
    """Its calls in this process."""
    workers: list[int] = field(init=False)
    """The numbers of the workers that it may call; the next worker is first."""
    has_started: bool = False
    """Whether the ledger has counted its start."""
    started: float | None = None
    """Start of a map or a block, in seconds since the run began."""
    reason: Problem | None = None
    """Why the step was cancelled or skipped by the scheduler."""
    outcome: Outcome | None = None
    paused: Outcome | None = None
    """Its calls of the caller's tools, for whose results it waits; else `None`."""
    said: tuple[Message, ...] = ()
    """The worker's messages with earlier such calls, whose results are known."""
    known: Value | None = None
    """Its output as a value, for several elements of a map; `None` for other steps."""
    is_typed: bool = False
    """Whether its output is JSON data."""
    rank: int = 0
    """Number of steps of the round that ended before it."""

    def __post_init__(self) -> None:
        self.least = self.step.least
        self.workers = [self.step.worker] if isinstance(self.step, Step) else []

    def forget(self) -> None:
        """Let go of the steps that refer to it: memory that is in no cycle is free at once."""
        for others in (self.dependents, self.waiters, self.followers, self.frame.nodes):
            others.clear()
        self.parent = self.expansion = self.batch = None

    @property
    def name(self) -> str:
        """Its name for people: the path, or the number of a step of the plan."""
        return self.path or str(self.index)

    @property
    def prefix(self) -> Hashable:
        """What the prompts of the items of a map have in common, as far as they begin with it."""
        return (task_of(self.frame.steps[self.number]), self.visible) if self.order else None

    @property
    def asks(self) -> bool:
        """Whether a person is asked."""
        return self.is_free and not self.expands

    @property
    def expands(self) -> bool:
        """Whether it is a map or a block, whose items or turns call workers."""
        return self.step.each is not None or isinstance(self.step, Block)

    @property
    def parts(self) -> "Sequence[StepNode]":
        """Its items or the steps of its turns, as far as they are made."""
        return () if self.expansion is None else self.expansion.children

    @property
    def call(self) -> Step:
        """The step, which calls a worker."""
        assert isinstance(self.step, Step)
        return self.step

    @property
    def closed_batch(self) -> "Batch | None":
        """The outermost batch around the step whose gate has not let it in; `None` if it may start."""
        batch, found = self.batch, None
        while batch is not None:
            found = found if batch.is_open else batch
            batch = batch.node.batch
        return found

    @property
    def needs_call(self) -> bool:
        """Whether the step must still call a worker, and no call for it is running."""
        if self.is_free or self.has_ended or self.reason is not None:
            return False
        return not self.calls or self.calls[-1].problem is not None

    @property
    def has_ended(self) -> bool:
        """Whether the step has an outcome, or waits for results of tools."""
        return self.outcome is not None or self.paused is not None

    @property
    def text(self) -> str:
        """The text that the latest call has sent so far."""
        return "".join(self.calls[-1].pieces) if self.calls else ""

    @property
    def is_undecided(self) -> bool:
        """Whether the step waits for inputs."""
        return self.visible is None and self.outcome is None

    @property
    def is_stopped(self) -> bool:
        """Whether the step was cancelled because the run was stopped."""
        return self.outcome is not None and self.outcome.problem == STOPPED

    @property
    def is_wanted(self) -> bool:
        """Whether another step waits for this step, or was made without it in an earlier process."""
        if any(state.outcome is None for state in self.followers):
            return True
        readers = (*self.dependents, *self.waiters)
        return any(state.is_undecided or state.lacks(self.index) for state in readers)

    @property
    def is_dropped(self) -> bool:
        """Whether a condition skipped the step, so that it drops out of access lists."""
        return self.outcome is not None and self.outcome.is_dropped

    def lacks(self, index: int) -> bool:
        """Return whether the step has ended, and was made without a step that it needed."""
        if not self.is_good or self.shown is None or len(self.shown) >= self.least:
            return False
        return index not in self.shown

    def takes(self, other: "StepNode") -> bool:
        """Return whether another step gives this step an input: an action needs a complete one."""
        return other.is_whole if self.acts else other.is_good

    @property
    def is_good(self) -> bool:
        """Whether the step is `ok`, and has its output."""
        return self.outcome is not None and self.outcome.status == "ok" and not self.outcome.tool_calls

    def released(self) -> "list[StepNode]":
        """Update the counts of the steps that depend on this step after its end, and return them."""
        if self.outcome is None:  # it waits for results of tools
            return []
        for state in self.dependents:
            state.blocked -= 1
            state.good += state.takes(self)
            if self.is_dropped:
                state.least = min(state.least, sum(not each.is_dropped for each in state.inputs))
        return [*self.dependents, *self.waiters] if self.waiters else self.dependents

    def as_shown(self, *, has_output: bool) -> VisibleStep:
        """Return the step as other steps see it, with its output or the reason why it has none."""
        outcome, text, gap = self.outcome, "", ""
        if not has_output:
            gap = (gap_of(outcome) if outcome is not None else "") or NOT_RUN
        elif outcome is not None:
            text = outcome.text
        return VisibleStep(self.number, self.subtask, text, gap, label=self.step.label)

    def seen(self, number: int) -> "StepNode":
        """Return a step of its frame as this step sees it: an item sees its own element of a map."""
        return self.elements.get(number) or self.frame.nodes[number]

    def target(self, reference: Reference) -> "tuple[StepNode, tuple[str, ...]] | None":
        """Return the step to which a reference leads, and the rest of its path; `None` for a name."""
        root, path = reference
        if isinstance(root, int):
            return self.seen(root), path
        if root == OUTER and self.frame.outer is not None:
            return self.frame.outer.seen(int(path[0])), path[1:]
        if root == PREVIOUS and self.frame.before is not None:
            return self.frame.before.answer, path
        return None

    def value_of(self, reference: Reference, *, may_lack: bool = False) -> Value:
        """Return what a reference stands for; raise `Unmet` if the step cannot run with it."""
        found = self.target(reference)
        if found is None and reference.root == PREVIOUS:
            return Value(ABSENT)
        try:
            if found is None:
                return self.named(reference)
            return found[0].value.part(found[1], reference)
        except BadValue as error:
            if may_lack:
                return Value(ABSENT)
            raise Unmet("failed", Problem.of(error)) from error

    def named(self, reference: Reference) -> Value:
        """Return the value of a parameter or an item; raise `BadValue` if it has no such part."""
        return self.names[str(reference.root)].part(reference.path, reference)

    @property
    def value(self) -> Value:
        """The output as a value; raise `Unmet` without one."""
        outcome = self.outcome
        if self.is_dropped:
            told = f"it refers to step {self.name}, which was skipped"
            raise Unmet("skipped", Problem(CONDITION, told))
        if self.is_stopped:
            raise Unmet("cancelled", STOPPED)
        if outcome is None or outcome.status != "ok":
            status = "has not ended" if outcome is None else f"ended {outcome.status}"
            raise Unmet("failed", Problem("dependency", f"it refers to step {self.name}, which {status}"))
        if self.stand_in is not None:
            return self.stand_in.value
        if self.known is not None or self.expansion is not None:
            return self.known or self.expansion.value  # type: ignore[union-attr]
        if not self.is_typed:
            return Value(outcome.text)
        try:
            data = read_json(outcome.text)
        except ValueError:  # a person has confirmed an action
            return Value(outcome.text)
        return Value(data, int(self.step.each is not None and isinstance(data, list)))  # of an edited map

    def need_items(self) -> None:
        """Raise `Unmet` if the step is a map whose list a person has edited, so that it has no items."""
        if self.step.each is not None and self.is_good and self.stand_in is None and self.expansion is None:
            told = f"the output of step {self.name} was edited as a whole: edit its items, or their list"
            raise Unmet("failed", Problem("bad_list", told))

    def reads(self, references: Iterable[Reference]) -> frozenset[str]:
        """Return the labels of the outputs to which references lead."""
        found = [target for each in references if (target := self.target(each)) is not None]
        return frozenset[str]().union(*(node.written for node, _ in found))


class Ending(NamedTuple):
    """How a map or a block ends."""

    status: StepStatus
    problem: Problem | None = None
    text: str = ""


@dataclass(slots=True, eq=False)
class Batch:
    """Items, or the steps of a turn, that were made together and start when the gate lets them."""

    node: StepNode
    """The map or block."""
    nodes: list[StepNode] = field(default_factory=list)
    ready: list[StepNode] = field(default_factory=list)
    """The steps that wait at its gate, also those inside of items."""
    is_asked: bool = False
    is_open: bool = False


class Expansion(ABC):
    """The items of a map, or the turns of a block."""

    def __init__(self, node: StepNode) -> None:
        self.node = node
        self.children: list[StepNode] = []
        self.left = 0
        """Number of children that have not ended."""

    @abstractmethod
    def advance(self) -> Sequence[StepNode]:
        """Make the steps that can be made now, and return them; raise `Unmet` if the whole step fails."""

    @abstractmethod
    def ending(self) -> Ending | None:
        """Return how the whole step ends; `None` while it runs."""

    @property
    @abstractmethod
    def value(self) -> Value:
        """The output as a value."""

    @property
    @abstractmethod
    def is_whole(self) -> bool:
        """Whether all parts of the output are complete, and were made from complete inputs."""

    def ended(self, child: StepNode) -> None:  # noqa: ARG002 - maps need it
        """Take note of the end of a child."""
        self.left -= 1

    def unneeded(self) -> Iterable[StepNode]:
        """Return the children that are not needed any more."""
        return ()

    def replaces(self, old: StepNode, new: StepNode) -> None:
        """Put another node in the place of a child whose worker turned out to act."""
        self.children[self.children.index(old)] = new


class Place(TypedDict, total=False):
    """Where an execution inside of a map or a block is; see `StepNode`."""

    path: str
    parent: Expansion
    names: Mapping[str, Value]
    lineage: Lineage
    order: tuple[int, ...]
    elements: Mapping[int, StepNode]
    origin: StepNode | None
