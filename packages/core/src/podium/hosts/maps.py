"""Names the executions inside of maps and blocks, and counts the items of maps."""

from podium.types.events import (
    AnswerDelta,
    AttemptFailed,
    Event,
    FanOut,
    StepDelta,
    StepEnded,
    StepStarted,
)
from podium.types.executions import Executions
from podium.types.outcome import Outcome

_PART = 0.1
"""The part of the items of a map after whose ends its counts are told again."""


class Maps:
    """The executions of one run inside of maps and blocks, from the events of the run.

    The first event is of this run; the events of its nested runs are left out.
    """

    def __init__(self) -> None:
        self._run_id = ""
        self._names: dict[tuple[int, int], str] = {}
        self._maps: dict[tuple[int, str], Executions] = {}
        self._tokens: dict[tuple[int, int], dict[str, int]] = {}
        """By round and step of the plan: the tokens of the executions inside of it, by name."""
        self._told: dict[tuple[int, str], int] = {}
        """How many items of a map had ended when its counts were told last."""

    def take(self, event: Event) -> None:
        """Take the next event of the run."""
        self._run_id = self._run_id or event.run_id
        match event:
            case _ if event.run_id != self._run_id:
                pass
            case StepStarted() if event.path:
                self._names[event.round, event.step] = event.path
            case StepEnded() if event.outcome.path:
                self._names[event.round, event.step] = event.outcome.path
                inside = self._tokens.setdefault((event.round, event.outcome.plan_step), {})
                inside[event.outcome.path] = event.outcome.usage.total_tokens
                if (name := self._map_of(event.round, event.outcome.path)) is not None:
                    self._items(event.round, name).take(event.outcome)
            case FanOut(kind="items") if self._map_of(event.round, event.path) is None:
                self._items(event.round, event.path or str(event.step)).total = event.known

    def path(self, event: StepStarted | StepDelta | StepEnded | AttemptFailed | AnswerDelta) -> str:
        """Return the name of an execution inside of a map or a block; empty for a step of the plan."""
        is_own = event.run_id == self._run_id
        return self._names.get((event.round or 0, event.step or 0), "") if is_own else ""

    def name(self, event: StepStarted | StepDelta | StepEnded | AttemptFailed | AnswerDelta) -> str:
        """Return the name of the step of an event; see `Outcome.name`."""
        return self.path(event) or str(event.step)

    def tokens(self, outcome: Outcome) -> int:
        """Return the tokens of a step, with those of the executions inside of it."""
        inside = {} if outcome.path else self._tokens.get((outcome.round, outcome.step), {})
        return outcome.usage.total_tokens + sum(inside.values())

    def is_in_map(self, event: Event) -> bool:
        """Return whether an event is of an execution inside of a map."""
        if not isinstance(event, StepStarted | StepDelta | StepEnded | AttemptFailed):
            return False
        return self._map_of(event.round, self.path(event)) is not None

    def counts(self, event: Event) -> str:
        """Return the counts of a map at its start, and after each further tenth of its items; else empty."""
        if not isinstance(event, FanOut | StepEnded):
            return ""
        name = self._map_of(event.round, event.path if isinstance(event, FanOut) else event.outcome.path)
        place = event.round, name or (isinstance(event, FanOut) and event.path) or str(event.step)
        items = self._maps.get(place)
        if items is None or not items.total:
            return ""
        if items.ended - self._told.get(place, -items.total) < max(_PART * items.total, 1):
            return ""
        self._told[place] = items.ended
        return f"step {place[1]}: {items.told()}"

    def _items(self, number: int, name: str) -> Executions:
        return self._maps.setdefault((number, name), Executions(name))

    def _map_of(self, number: int, path: str) -> str | None:
        """Return the name of the outermost map around an execution; `None` without one."""
        for at, sign in enumerate(path):
            if sign == "[" or (sign == "(" and (number, path[:at]) in self._maps):
                return path[:at]
        return None
