"""The runs of one execution of a task.

CrewAI has the manager do a task again if a guardrail of the task rejects the answer. The later runs take the
actions of the earlier ones.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Self

from crewai import Task

from podium.conductor import Conductor
from podium.run import Listener
from podium.run_state import unbilled
from podium.run_state.paid import PaidResults
from podium.types import Event
from podium.types.events import PIECES


@dataclass
class TaskTries:
    """The runs of one execution of a task."""

    began: datetime | None
    """When CrewAI began to execute the task; a run after a guardrail does not change it."""
    may_repeat: bool
    """Whether a guardrail may reject the answer."""
    run_ids: list[str] = field(default_factory=list)
    _heard: list[Event] = field(default_factory=list)
    """The events of the runs, without a journal."""

    @classmethod
    def of(cls, task: Task, before: Self | None) -> Self:
        """Return the runs of the current execution of a task.

        Args:
            task: the task.
            before: its latest execution; `None` for none.
        """
        if before is not None and before.began == task.start_time:
            return before
        return cls(task.start_time, bool(task.guardrail or task.guardrails))

    def listener(self, conductor: Conductor, on_event: Listener | None) -> Listener | None:
        """Return a listener that stores what `actions` needs, and passes each event to `on_event`."""
        if not self.may_repeat or not conductor.acts or conductor.journal is not None:
            return on_event

        def hear(event: Event) -> None:
            if not isinstance(event, PIECES):
                self._heard.append(event)
            if on_event is not None:
                on_event(event)

        return hear

    async def actions(self, conductor: Conductor) -> PaidResults | None:
        """Return the actions of the earlier runs; `None` if there are none."""
        events, journal = self._heard, conductor.journal
        if journal is not None and self.may_repeat:
            events = []
            for run_id in self.run_ids:
                events += [entry.event for entry in await journal.read(run_id)]
                events += [event for run in await journal.nested(run_id) for event in run]
        if not events:
            return None
        return PaidResults(self.run_ids[-1], actions=unbilled(events, conductor.pool.names).actions)
