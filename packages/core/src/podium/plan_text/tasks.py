"""Reads plans whose steps have names and may be in any order."""

import re
from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush
from typing import NamedTuple, NoReturn

from podium.errors import PlanInvalid, PlanInvalidCode
from podium.plan_text.fields import Roster, field_key, plan_of, read_row
from podium.plan_text.ids import StepIds, step_number
from podium.plan_text.literals import Node, Word
from podium.types.plan import Plan
from podium.types.references import RESERVED
from podium.types.steps import PREVIOUS, answers_of, reaching

_NOTHING = ("", "none", "null")
_REFERENCE = re.compile(r"(?<!\\)\{\{\s{0,9}([^{}\s](?:[^{}]{0,98}[^{}\s])?)\s{0,9}\}\}")
_NUMBERED = ("each", "when", "else")
"""Keys of workflows that refer to steps, and only by numbers."""


class Task(NamedTuple):
    """A step of such a plan."""

    start: int
    row: dict[str, Node]
    """Its fields, by the keys of the spelling `json`; without `access`, it sees the steps it refers to."""
    names: list[Node]
    """Its ids and titles."""


def fail(code: PlanInvalidCode, step: int, position: int, fault: str) -> NoReturn:
    """Raise `PlanInvalid` for a step, by its place in the text."""
    raise PlanInvalid(code, f"step {step} {fault}", step=step, position=position)


def read_tasks(tasks: Sequence[Task], roster: Roster, *, form: str, join: int | None) -> Plan:
    """Return the plan of tasks, each after those that it depends on, else in the order of the text.

    Args:
        tasks: the tasks.
        roster: the workers; it gets notes on the form.
        form: the form of the tasks in the text.
        join: the position of a call that joins what no task uses, and has no worker.
    """
    names = _Names(tasks)
    seen = [names.seen(place, task) for place, task in enumerate(tasks)]
    if not names.are_written and min(set[int]().union(*seen), default=0) > 0:
        told = (
            "the steps have no ids, and none depends on step 0: write ids, because numbers count from 0 or 1"
        )
        raise PlanInvalid("bad_id", told, position=tasks[0].start)
    order = _order(seen, tasks, names)
    numbers = {place: at for at, place in enumerate(order)} if names.labels is None else names.labels
    if names.labels is None and (names.are_written or order != sorted(order)):
        names.check_numbered()
    ids = StepIds()
    steps = [read_row(names.row(place, seen[place], numbers), roster, ids) for place in order]
    plan = plan_of(steps, [tasks[place].start for place in order])
    used = reaching(steps, answers_of(steps))
    unused = ", ".join(names.told(place) for at, place in enumerate(order) if at not in used)
    if unused and join is not None:
        told = f"join() has no worker, and call {names.told(order[-1])} does not use the output of {unused}"
        message = f"{told}: write a last call whose worker joins the outputs, with $n for each"
        raise PlanInvalid("missing_field", message, position=join)
    if unused and order[-1] != len(order) - 1:
        told = (
            f"no step uses the output of {names.told(order[-1])}, and it does not use the output of {unused}"
        )
        message = f"{told}: write last the step whose output is the answer"
        raise PlanInvalid("bad_access", message, position=tasks[order[-1]].start)
    roster.notes.insert(0, f"the steps are {form}")
    if names.labels is None and names.are_written:
        roster.notes.append(", ".join(f"{names.told(place)} is step {at}" for at, place in enumerate(order)))
    if unused:
        roster.notes.append(f"the answer does not use the output of {unused}")
    return plan


def _order(seen: Sequence[set[int]], tasks: Sequence[Task], names: "_Names") -> list[int]:
    """Return the places of the tasks, sorted."""
    sorter, ready, order = TopologicalSorter(dict(enumerate(seen))), list[int](), list[int]()
    try:
        sorter.prepare()
    except CycleError as error:
        circle: list[int] = error.args[1][::-1]
        told = " depends on ".join(map(names.told, circle))
        fail("forward_access", circle[0], tasks[circle[0]].start, f"depends on itself: {told}")
    while sorter.is_active():
        for place in sorter.get_ready():
            heappush(ready, place)
        order.append(heappop(ready))
        sorter.done(order[-1])
    return order


class _Names:
    """The names of tasks; without any, their places count from 0."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._tasks = tasks
        self._places: dict[str | int, int] = {}
        labels = dict[int, int]()
        for place, task in enumerate(tasks):
            own = dict.fromkeys(name for node in task.names for name in _names_of(node))
            numbers = [name for name in own if isinstance(name, int)]
            if len(numbers) > 1:
                fail("bad_id", place, task.start, f"has two ids, {numbers[0]} and {numbers[1]}: write one")
            if taken := [name for name in own if name in self._places]:
                told = f"has the id {taken[0]!r:.60} of step {self._places[taken[0]]}"
                fail("bad_id", place, task.start, f"{told}: give every step a different id")
            self._places |= dict.fromkeys(own, place)
            if numbers:
                labels[place] = numbers[0]
        self.are_written = bool(self._places)
        self.labels = labels if len(labels) == len(tasks) else None
        """The numbers of the tasks by place; `None` if not all have one."""
        if not self.are_written:
            self._places = {place: place for place in range(len(tasks))}

    def told(self, place: int) -> str:
        """Return the first name of a task for people."""
        names = [node.value for node in self._tasks[place].names if _names_of(node)]
        return f"{(names or [place])[0]!r:.60}"

    def check_numbered(self) -> None:
        """Raise `PlanInvalid` for keys that refer to steps by other numbers than those in the text."""
        for place, task in enumerate(self._tasks):
            for key, value in task.row.items():
                if field_key(key) in _NUMBERED:
                    told = f"has the key {key!r}, which refers to steps by number"
                    fail("bad_id", place, value.start, f"{told}: write numbers as ids of all steps")

    def seen(self, place: int, task: Task) -> set[int]:
        """Return the places of the tasks that a task sees: its access list, else its references."""
        subtask, access, shown = task.row["subtask"], task.row.get("access"), set[int]()
        for inner in _REFERENCE.findall(subtask.value) if isinstance(subtask.value, str) else ():
            target = self._target(inner)
            if target is not None:
                shown.add(target[0])
            elif inner.partition(".")[0].isdecimal():
                fail("bad_reference", place, subtask.start, f"refers to {{{{{inner}}}}}, which is not a step")
        seen = shown if access is None else self._entries(place, access)
        for unseen in sorted(shown - seen):
            told = f"refers to {self.told(unseen)}, and does not depend on it"
            fail("bad_reference", place, subtask.start, f"{told}: add it to the dependencies")
        return seen

    def _entries(self, place: int, access: Node) -> set[int]:
        seen = set[int]()
        for entry in _items(access):
            found = [self._places[name] for name in _names_of(entry) if name in self._places]
            word = entry.value.strip().lower() if isinstance(entry.value, str) else "…"
            if found:
                seen.add(found[0])
            elif word == "all":
                seen.update(range(place))
            elif word not in (PREVIOUS, *_NOTHING):
                value = entry.value if isinstance(entry.value, str | int) else "…"
                every = ", ".join(map(self.told, range(len(self._tasks))))
                told = f"depends on {value!r:.60}, which is not a step: write {every:.400}"
                fail("bad_access", place, entry.start, told)
        return seen

    def _target(self, inner: str) -> tuple[int, str] | None:
        """Return the place of the task in a reference, and the path after it; `None` for other texts."""
        head, dot, path = inner.partition(".")
        for name, rest in ((inner, ""), (head, dot + path)):
            number = int(name) if name.isdecimal() and len(name) < 10 else name.casefold()
            if number in self._places and number not in RESERVED:
                return self._places[number], rest
        return None

    def row(self, place: int, seen: set[int], numbers: Mapping[int, int]) -> Node:
        """Return a task as an object of the spelling `json`, with these numbers of steps."""
        start, row, _ = self._tasks[place]

        def renumbered(found: re.Match[str]) -> str:
            target = self._target(found[1])
            return found[0] if target is None else f"{{{{{numbers[target[0]]}{target[1]}}}}}"

        row, subtask, access = dict(row), row["subtask"], row.get("access", Node(start, []))
        if isinstance(subtask.value, str) and not isinstance(subtask.value, Word):
            row["subtask"] = Node(subtask.start, _REFERENCE.sub(renumbered, subtask.value))
        entries = [Node(access.start, numbers[each]) for each in sorted(seen)]
        entries += [Node(each.start, PREVIOUS) for each in _items(access) if each.value == PREVIOUS]
        row["access"] = Node(access.start, entries)
        return Node(start, row if self.labels is None else {"id": Node(start, numbers[place]), **row})


def _names_of(node: Node) -> list[str | int]:
    """Return the names under which access lists have an id or title: its text and its number."""
    number, text = step_number(node), node.value.strip().casefold() if isinstance(node.value, str) else ""
    return [name for name in (text, number) if name is not None and name not in _NOTHING]


def _items(node: Node) -> list[Node]:
    return node.value if isinstance(node.value, list) else [node]
