"""Reads the events of a remote agent's task, which carry its state and artifacts."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from podium.errors import (
    AgentFailed,
    AgentNeedsAuth,
    AgentNeedsInput,
    AgentRejected,
    WorkerBroken,
    WorkerError,
)
from podium.hosts import encoded_size, text_completion
from podium.types import Completion, storable
from podium.types.outcome import inner_problem
from podium.workers.openai.errors import Origin


class Artifact:
    """The parts of an artifact or a message, which may arrive one by one.

    Texts that follow each other are joined, because agents send a text word by word. Data and links get their
    own lines. Embedded files have no text; `gaps` describes them.
    """

    def __init__(self) -> None:
        self.gaps: list[str] = []
        """Descriptions of the parts without text."""
        self._pieces: list[str] = []
        self._ends_in_text = True

    @property
    def text(self) -> str:
        """The text of all parts."""
        return "".join(self._pieces)

    @property
    def is_told(self) -> bool:
        """Whether the text has more than white space."""
        return any(piece.strip() for piece in self._pieces)

    def add(self, parts: Iterable[Mapping[str, Any]] | None) -> str:
        """Add parts in the JSON form of A2A, and return the text that they add."""
        before = len(self._pieces)
        for part in parts or ():
            self._add(part)
        return "".join(self._pieces[before:])

    def _add(self, part: Mapping[str, Any]) -> None:
        name = part.get("filename") or "a file"
        match part:
            case {"text": str(text)}:
                self._pieces.append(storable(text if self._ends_in_text else f"\n{text}"))
                self._ends_in_text = True
            case {"data": data}:
                self._add_line(json.dumps(data, ensure_ascii=False))
            case {"url": str(url)}:
                self._add_line(f"{name}: {url}")
            case {"raw": str(raw)}:
                kind = part.get("mediaType") or "of unknown type"
                self.gaps.append(f"{name} ({kind}, {encoded_size(raw)})")
            case _:
                self.gaps.append("a part of an unknown kind")

    def _add_line(self, line: str) -> None:
        self._pieces.append(storable(f"\n{line}" if self._pieces else line))
        self._ends_in_text = False


_COMPLETED: Final = "TASK_STATE_COMPLETED"
_ENDS: Final[Mapping[str, tuple[type[WorkerError], str]]] = {
    "TASK_STATE_FAILED": (AgentFailed, "failed"),
    "TASK_STATE_CANCELED": (AgentFailed, "cancelled the task itself"),
    "TASK_STATE_REJECTED": (AgentRejected, "rejected the task"),
    "TASK_STATE_INPUT_REQUIRED": (AgentNeedsInput, "asks for input, which a step cannot give"),
    "TASK_STATE_AUTH_REQUIRED": (AgentNeedsAuth, "asks for authorization, which a step cannot give"),
}
"""States without an answer, each with its error and the end of the message."""
_STOPPED: Final = frozenset({_COMPLETED, *_ENDS})
_OPEN: Final = frozenset({"TASK_STATE_INPUT_REQUIRED", "TASK_STATE_AUTH_REQUIRED"})
"""States in which the task waits for input and has not ended."""


class TaskReader:
    """The known state of one task.

    Args:
        worker: the worker's name, for errors.
    """

    def __init__(self, worker: str) -> None:
        self._worker = worker
        self._state = ""
        self._said = ""
        self._artifacts: dict[str, Artifact] = {}
        self._sent = ""
        self._facts: object = None
        """What another Podium tells about its run."""
        self.task_id = ""
        """The task's id; empty if the agent has not created a task."""

    @property
    def has_stopped(self) -> bool:
        """Whether the agent has stopped working on the task."""
        return self._state in _STOPPED

    @property
    def is_open(self) -> bool:
        """Whether there is a task that has not ended."""
        return bool(self.task_id) and (not self.has_stopped or self._state in _OPEN)

    def feed(self, event: Mapping[str, Any]) -> str:
        """Process an event, and return the text that it adds to the answer.

        Args:
            event: a `StreamResponse`.

        Raises:
            WorkerBroken: the agent replaced a text that was already returned.
        """
        appended = self.note(event)
        if appended:
            self._sent += appended
            return appended
        return self._unsent()

    def note(self, event: Mapping[str, Any]) -> str:
        """Process an event; return its text if it is appended to the existing text."""
        match event:
            case {"message": message}:
                self._state = _COMPLETED
                self._artifact("message", append=False).add(message.get("parts"))
            case {"task": task}:
                self._take_status(task.get("id"), task)
                for artifact in task.get("artifacts") or []:
                    self._artifact(str(artifact.get("artifactId")), append=False).add(artifact.get("parts"))
            case {"statusUpdate": update}:
                self._take_status(update.get("taskId"), update)
            case {"artifactUpdate": update}:
                return self._take_artifact(update)
        return ""

    def completion(self) -> Completion:
        """Return the answer: the text of the artifacts, or else the task's last message.

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
        problem = inner_problem(self._facts)
        return found if problem is None else replace(found, missing=problem.message)

    @property
    def _quoted(self) -> str:
        return Origin(self._worker).quote(self._said)

    def _texts(self) -> list[str]:
        return [artifact.text for artifact in self._artifacts.values() if artifact.is_told]

    def rest_of(self, answer: str) -> str:
        """Return the part of an answer after the texts that `feed` has returned."""
        return answer.removeprefix(self._sent)

    def _unsent(self) -> str:
        whole = "\n\n".join(self._texts())
        if not whole.startswith(self._sent):
            told = f"agent {self._worker!r} replaced an artifact that was already streamed"
            raise WorkerBroken(told, maybe_paid=True)
        piece = whole[len(self._sent) :]
        self._sent = whole
        return piece

    def _take_status(self, task_id: object, update: Mapping[str, Any]) -> None:
        self.task_id = str(task_id or self.task_id)
        status, self._facts = update.get("status") or {}, (update.get("metadata") or {}).get("podium")
        self._state = str(status.get("state") or self._state)
        message = Artifact()
        message.add((status.get("message") or {}).get("parts"))
        self._said = message.text

    def _take_artifact(self, update: Mapping[str, Any]) -> str:
        """Process an update of an artifact; return its text if it is appended to the existing text."""
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
