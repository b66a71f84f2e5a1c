"""Counts the executions inside of one step of a plan: the items of a map, the turns of a loop."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from re import compile as pattern

from podium.types.outcome import Outcome, StepStatus
from podium.types.steps import AnyStep, Block

_ITEM = pattern(r"\[[^]]*\]|\(\d+\)")
_TURN = pattern(r"\((\d+)\)\.")


@dataclass(slots=True)
class Executions:
    """The latest outcomes inside of one step, at any depth."""

    name: str
    """The number of the step."""
    ends: dict[str, Outcome] = field(default_factory=dict)
    """By path."""
    counts: Counter[StepStatus] = field(default_factory=Counter)
    """How the items ended; of a block without items, its steps."""
    total: int = 0
    """The number of items that are known so far."""
    turn: int = 0
    """The number of the latest turn; 0 for other steps."""
    since: float | None = None
    """When the first of them started, in seconds since the run began or was resumed; `None` before."""
    tokens: int = 0
    known: float = 0.0
    """The sum of the costs that are known, in USD."""
    unknown: int = 0
    """The number of unknown costs."""
    estimated: int = 0
    """The number of estimated usages, whose cost is the most that may be billed."""

    def take(self, outcome: Outcome) -> None:
        """Add an outcome, or replace the earlier one of the execution; one that waits has not ended."""
        self.drop(outcome.path)
        if outcome.is_waiting:
            return
        self.ends[outcome.path] = outcome
        self._count(outcome, 1)
        self.begin(outcome.path)

    def drop(self, path: str) -> None:
        """Remove the outcome of an execution."""
        if (before := self.ends.pop(path, None)) is not None:
            self._count(before, -1)

    def begin(self, path: str, at: float | None = None) -> None:
        """Take note of an execution that begins, `at` seconds after the run."""
        self.since = at if self.since is None else self.since
        if (found := _TURN.match(path, len(self.name))) is not None:
            self.turn = max(self.turn, int(found[1]))

    def _count(self, outcome: Outcome, sign: int) -> None:
        self.counts[outcome.status] += sign * self.is_part(outcome.path)
        self.tokens += sign * outcome.usage.total_tokens
        self.known += sign * (outcome.cost or 0.0)
        self.unknown += sign * (outcome.cost is None)
        self.estimated += sign * outcome.usage.estimated

    def is_part(self, path: str) -> bool:
        """Return whether a path is of an item, or of a step of the block, and not inside of one."""
        rest = path[len(self.name) :]
        return rest[1:].isdecimal() if rest.startswith(".") else _ITEM.fullmatch(rest) is not None

    @property
    def cost(self) -> float | None:
        """The sum of the costs in USD; `None` if one is unknown."""
        return None if self.unknown else round(self.known, 12)

    @property
    def ended(self) -> int:
        """How many items, or steps of the block, have ended."""
        return self.counts.total()

    def failed(self) -> Sequence[Outcome]:
        """Return the items, or steps of the block, that failed."""
        return [each for path, each in self.ends.items() if each.status == "failed" and self.is_part(path)]

    def told(self, step: AnyStep | None = None) -> str:
        """Return the counts in words, as in `37 of 200 items, 2 failed`; of a loop, its turn.

        Args:
            step: the step of the plan; not needed for a map.
        """
        total, what = self.total, "items"
        if isinstance(step, Block) and step.each is None:
            if step.until is not None:
                return f"turn {self.turn} of {step.most}" if self.turn else ""
            total, what = len(step.steps), "steps"
        words = [f"{self.ended} of {max(total, self.ended)} {what}"]
        words += [
            f"{self.counts[status]} {status}"
            for status in ("failed", "skipped", "cancelled")
            if self.counts[status]
        ]
        return ", ".join(words) if self.ended or total else ""


def executions_of(outcomes: Iterable[Outcome]) -> dict[int, Executions]:
    """Return the executions inside of each step, from the outcomes of a round."""
    found: dict[int, Executions] = {}
    for each in outcomes:
        if each.path and not each.is_superseded:
            own = found.setdefault(each.plan_step, Executions(str(each.plan_step)))
            if each.path not in own.ends:  # those that a crash interrupted are at the end
                own.take(each)
    return found
