"""Find the tasks of a crew whose answers are partial or have labels, and the tasks that use these answers.

CrewAI passes the outputs of other tasks to a task as one text. This text has no labels, and does not name
missing parts.
"""

from dataclasses import replace
from typing import Final
from weakref import WeakKeyDictionary

from crewai import Crew, Task

from podium.types import Problem, Result

_MAX_NAME: Final = 80


class TaskGaps:
    """Stores why the latest answer of a task is partial, and its labels, by crew and number of the task."""

    def __init__(self) -> None:
        self._problems: WeakKeyDictionary[Crew, dict[int, Problem]] = WeakKeyDictionary()
        self._labels: WeakKeyDictionary[Crew, dict[int, frozenset[str]]] = WeakKeyDictionary()

    def labels(self, crew: Crew, task: Task, context: str | None, *, again: bool) -> frozenset[str]:
        """Return the labels of the outputs in the context of a task.

        Args:
            crew: the crew of the task.
            task: the task.
            context: the outputs of other tasks that the task is shown.
            again: whether a guardrail has rejected the answer of the task; then the context has this answer.
        """
        known = self._labels.get(crew, {})
        found = [
            known.get(number, frozenset())
            for number, other in enumerate(crew.tasks)
            if (again if other is task else _is_shown(other, context))
        ]
        return frozenset().union(*found)

    def mark(self, crew: Crew, task: Task, context: str | None, result: Result) -> Result:
        """Return a task's result, as partial if its context has partial outputs of other tasks.

        Args:
            crew: the crew of the task.
            task: the task.
            context: the outputs of other tasks that the task was shown.
            result: the result of the task's run.
        """
        known = self._problems.setdefault(crew, {})
        found = [
            Problem(problem.code, f"the output of task {_name(other)!r} is partial: {problem.message}")
            for number, other in enumerate(crew.tasks)
            if other is not task and (problem := known.get(number)) is not None and _is_shown(other, context)
        ]
        if found and result.status in ("ok", "partial"):
            own = () if result.problem is None else (result.problem,)
            words = "; ".join(problem.message for problem in (*own, *found))
            result = replace(result, status="partial", problem=Problem((*own, *found)[0].code, words))
        for number, other in enumerate(crew.tasks):
            if other is task:
                self._labels.setdefault(crew, {})[number] = result.labels
            if other is task and result.status == "partial" and result.problem is not None:
                known[number] = result.problem
            elif other is task:
                known.pop(number, None)
        return result


def _is_shown(task: Task, context: str | None) -> bool:
    output = task.output
    return bool(context and output is not None and output.raw and output.raw in context)


def _name(task: Task) -> str:
    name = " ".join((task.name or task.description).split())
    return name if len(name) <= _MAX_NAME else f"{name[:_MAX_NAME]}…"
