"""Reads what a remote agent sends of a task: its state and its artifacts.

Events are plain JSON data, as A2A writes them.
"""

from collections.abc import Mapping
from typing import Any, Final

from podium.a2a.artifact import Artifact
from podium.errors import (
    AgentFailed,
    AgentNeedsAuth,
    AgentNeedsInput,
    AgentRejected,
    WorkerBroken,
    WorkerError,
)
from podium.hosts import text_completion
from podium.types import Completion
from podium.workers.openai.error_mapping import Origin

_COMPLETED: Final = "TASK_STATE_COMPLETED"
_ENDS: Final[Mapping[str, tuple[type[WorkerError], str]]] = {
    "TASK_STATE_FAILED": (AgentFailed, "failed"),
    "TASK_STATE_CANCELED": (AgentFailed, "cancelled the task itself"),
    "TASK_STATE_REJECTED": (AgentRejected, "does not take the task"),
    "TASK_STATE_INPUT_REQUIRED": (AgentNeedsInput, "asks before it goes on, and a step has nobody to answer"),
    "TASK_STATE_AUTH_REQUIRED": (AgentNeedsAuth, "wants to be authorized before it goes on"),
}
"""States in which there is no answer: the error, and what the agent did."""
_STOPPED: Final = frozenset({_COMPLETED, *_ENDS})
_OPEN: Final = frozenset({"TASK_STATE_INPUT_REQUIRED", "TASK_STATE_AUTH_REQUIRED"})
"""States in which the agent waits: nothing goes on, and the task is still there."""


class TaskReader:
    """One task, as far as it is known.

    Args:
        worker: the worker's name, for errors.
    """

    def __init__(self, worker: str) -> None:
        self._worker = worker
        self._state = ""
        self._said = ""
        self._artifacts: dict[str, Artifact] = {}
        self._sent = ""
        self.task_id = ""
        """The task's id; empty where the agent has begun none."""

    @property
    def has_stopped(self) -> bool:
        """Whether the agent does no more, unless it is asked again."""
        return self._state in _STOPPED

    @property
    def is_open(self) -> bool:
        """Whether the agent has a task that is not over."""
        return bool(self.task_id) and (not self.has_stopped or self._state in _OPEN)

    def feed(self, event: Mapping[str, Any]) -> str:
        """Take an event, and return the text that it adds to the answer.

        Args:
            event: a `StreamResponse`.

        Raises:
            WorkerBroken: the agent has replaced a text that was returned already.
        """
        appended = self.note(event)
        if appended:
            self._sent += appended
            return appended
        return self._unsent()

    def note(self, event: Mapping[str, Any]) -> str:
        """Take an event; return its text if that simply follows what was there."""
        match event:
            case {"message": message}:
                self._state = _COMPLETED
                self._artifact("message", append=False).add(message.get("parts"))
            case {"task": task}:
                self._take_status(task.get("id"), task.get("status") or {})
                for artifact in task.get("artifacts") or []:
                    self._artifact(str(artifact.get("artifactId")), append=False).add(artifact.get("parts"))
            case {"statusUpdate": update}:
                self._take_status(update.get("taskId"), update.get("status") or {})
            case {"artifactUpdate": update}:
                return self._take_artifact(update)
        return ""

    def completion(self) -> Completion:
        """Return the answer: the artifacts as text; without any, the message with which the task ended.

        Raises:
            WorkerError: the task did not end with an answer.
        """
        if self._state in _ENDS:
            kind, told = _ENDS[self._state]
            said = f": {self._quoted}" if self._said else ""
            raise kind(f"agent {self._worker!r} {told}{said}", maybe_paid=True)
        if self._state != _COMPLETED:
            raise WorkerBroken(f"agent {self._worker!r} ended without an answer", maybe_paid=True)
        gaps = [gap for artifact in self._artifacts.values() for gap in artifact.gaps]
        found = text_completion(self._texts() or [self._said], gaps, self._worker)
        if found is None:
            raise WorkerBroken(
                f"agent {self._worker!r} completed the task without an answer", maybe_paid=True
            )
        return found

    @property
    def _quoted(self) -> str:
        return Origin(self._worker).quote(self._said)

    def _texts(self) -> list[str]:
        return [artifact.text for artifact in self._artifacts.values() if artifact.is_told]

    def rest_of(self, answer: str) -> str:
        """Return what is left of an answer after the texts that `feed` has returned."""
        return answer.removeprefix(self._sent)

    def _unsent(self) -> str:
        whole = "\n\n".join(self._texts())
        if not whole.startswith(self._sent):
            told = f"agent {self._worker!r} replaced an artifact that was passed on already"
            raise WorkerBroken(told, maybe_paid=True)
        piece = whole[len(self._sent) :]
        self._sent = whole
        return piece

    def _take_status(self, task_id: object, status: Mapping[str, Any]) -> None:
        self.task_id = str(task_id or self.task_id)
        self._state = str(status.get("state") or self._state)
        message = Artifact()
        message.add((status.get("message") or {}).get("parts"))
        self._said = message.text

    def _take_artifact(self, update: Mapping[str, Any]) -> str:
        """Take an update of an artifact; return its text if that simply follows what was there."""
        self.task_id = str(update.get("taskId") or self.task_id)
        sent, append = update.get("artifact") or {}, bool(update.get("append"))
        key = str(sent.get("artifactId"))
        is_last = append and key == next(reversed(self._artifacts), None)
        artifact = self._artifact(key, append=append)
        follows = is_last and artifact.is_told
        added = artifact.add(sent.get("parts"))
        return added if follows else ""

    def _artifact(self, key: str, *, append: bool) -> Artifact:
        if not append or key not in self._artifacts:
            self._artifacts[key] = Artifact()
        return self._artifacts[key]
