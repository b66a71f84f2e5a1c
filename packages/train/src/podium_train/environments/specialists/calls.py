"""What a worker of the world answers to a subtask."""

from typing import Literal

from podium_train.environments.specialists.questions import Task
from podium_train.environments.specialists.workers import Skills, chance, succeeds

Operation = Literal["solve", "verify", "retrieve", "compute"]
"""What a subtask asks for."""

VERBS: tuple[tuple[str, Operation], ...] = (
    ("verif", "verify"),
    ("check", "verify"),
    ("retrieve", "retrieve"),
    ("look up", "retrieve"),
    ("comput", "compute"),
    ("calculat", "compute"),
)
"""Words in a subtask that ask for an operation; a subtask without them asks for the solution."""
UNTESTED = 0.6
"""The share of programs that a good solver leaves with an error, which a verifier mends."""
FROM_MEMORY = 0.3
"""How often a worker that can retrieve and compute answers a question of kind `multi` in one call."""


def operation_of(subtask: str) -> Operation:
    """Return the operation that a subtask asks for: its first known verb decides."""
    text = subtask.casefold()
    found = [(text.find(verb), operation) for verb, operation in VERBS if verb in text]
    return min(found)[1] if found else "solve"


def answer(task: Task, skills: Skills, operation: Operation, seen: str | None) -> str:
    """Return what a worker answers.

    Args:
        task: the question.
        skills: the worker's skills.
        operation: what the subtask asks for.
        seen: the answer of the last visible step; `None` if the worker sees no step.
    """
    wrong = f"not sure: {chance(task.key, 'wrong', operation):.3f}"
    if operation == "verify":
        return _verified(task, skills, seen, wrong)
    if operation == "retrieve":
        return _retrieved(task, skills, wrong)
    if operation == "compute" and task.kind == "multi":
        right = task.found in (seen or "") and _can(task, skills, "compute", "arith")
        return task.answer if right else wrong
    if operation == "compute" and task.kind != "arith":
        return wrong
    return _solved(task, skills, wrong)


def draft(task: Task) -> str:
    """Return the program of a good solver before it is verified, if it has an error."""
    return f"untested {task.answer}"


def _verified(task: Task, skills: Skills, seen: str | None, wrong: str) -> str:
    """Mend a draft and keep a right answer; a wrong answer stays wrong, and a failed check spoils all."""
    if seen is None or not _can(task, skills, "verify", "verify"):
        return wrong
    return task.answer if seen in (task.answer, draft(task)) else seen


def _retrieved(task: Task, skills: Skills, wrong: str) -> str:
    if task.kind == "lookup":
        return _solved(task, skills, wrong)
    if task.kind != "multi":
        return wrong
    return task.found if _can(task, skills, "retrieve", "lookup") else wrong


def _solved(task: Task, skills: Skills, wrong: str) -> str:
    if task.kind == "multi":
        able = _can(task, skills, "retrieve", "lookup") and _can(task, skills, "compute", "arith")
        return task.answer if able and chance(task.key, "memory") < FROM_MEMORY else wrong
    if not _can(task, skills, "solve", task.kind):
        return wrong
    if task.kind == "code" and chance(task.key, "tested") < UNTESTED:
        return draft(task)
    return task.answer


def _can(task: Task, skills: Skills, operation: Operation, needed: str) -> bool:
    return succeeds(task.key, skills, operation, needed)
