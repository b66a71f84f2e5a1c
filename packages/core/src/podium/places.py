"""The places of a round's steps: which can start, what they are shown, and which nobody needs.

It decides and does nothing: `execute` starts, stops and ends steps.
"""

from collections.abc import Iterator, Sequence
from typing import Literal

from podium.errors import LimitExceeded
from podium.outcome import Outcome, Problem
from podium.place import Place
from podium.plan import Plan, Step
from podium.setting import OnFailure

Verdict = Literal["wait", "start", "skip", "abort"]


class Places:
    """The steps of a round, in the plan's order, while the plan may still be arriving.

    Args:
        on_failure: what becomes of a step that lacks what it was to be shown.
    """

    def __init__(self, on_failure: OnFailure) -> None:
        self._on_failure = on_failure
        self._places: list[Place] = []
        self._superseded: list[Place] = []
        self.plan: Plan | None = None
        """The whole plan; `None` until it is known."""

    def __iter__(self) -> Iterator[Place]:
        return iter(self._places)

    def __getitem__(self, index: int) -> Place:
        return self._places[index]

    @property
    def last(self) -> Place | None:
        """The place of the plan's last step, once that is known."""
        return self._places[-1] if self.plan is not None and self._places else None

    @property
    def all(self) -> tuple[Place, ...]:
        """Those of the plan, in its order, then those that a new plan superseded."""
        return (*self._places, *self._superseded)

    def append(self, step: Step) -> Place:
        """Give the next step its place."""
        index = len(self._places)
        number = 1
        for other in self._superseded:
            if other.index == index:
                number = max(number, other.following)
        place = Place(index, step, number)
        for seen in step.access:
            before = self._places[seen]
            before.dependents.append(place)
            place.blocked += before.outcome is None
            place.good += before.is_good
        self._places.append(place)
        return place

    def take(self, plan: Plan) -> list[Place]:
        """Give each step of the plan its place; return those of steps that it does not have."""
        same = 0
        while same < min(len(self._places), len(plan.steps)) and self._places[same].step == plan.steps[same]:
            same += 1
        others = self._places[same:]
        for place in others:
            if place.trying is not None:
                place.following = place.trying.following
        self._superseded += others
        del self._places[same:]
        for step in plan.steps[same:]:
            self.append(step)
        self.plan = plan
        return others

    def verdict(self, place: Place) -> Verdict:
        """Say what is to become of a step by what has ended so far.

        A step that lacks something is left alone until the plan is known, but under `note`.
        """
        if place.visible is not None or place.outcome is not None:
            return "wait"
        if place.good >= place.least or self._bridges(place):
            return "start"
        if not place.is_lacking or self.plan is None:
            return "wait"
        if self._on_failure == "fail" and not self._is_refused():
            return "abort"
        return "wait" if place.blocked else "skip"

    def _bridges(self, place: Place) -> bool:
        """Say whether a step is run although it lacks some of what it was to be shown, and is told so.

        What was refused for the run's limits is no reason to leave the answer out, which
        something was kept for.
        """
        if place.blocked:
            return False
        return self._on_failure == "note" or (place is self.last and place.good > 0 and self._is_refused())

    def _is_refused(self) -> bool:
        """Say whether a step was refused for the run's limits."""
        ended = (place.outcome.problem for place in self._places if place.outcome is not None)
        return any(problem is not None and problem.code == LimitExceeded.code for problem in ended)

    def lack(self, place: Place) -> Problem:
        """Say why a step is skipped."""
        bad = next(self._places[seen] for seen in place.step.access if not self._places[seen].is_good)
        status = "" if bad.outcome is None else bad.outcome.status
        return Problem("dependency", f"step {bad.index}, which it is shown, ended {status}")

    def show(self, place: Place, labels: frozenset[str]) -> None:
        """Settle what a step that can start is shown: of more than are enough, those that ended first.

        Args:
            place: the step's.
            labels: those every step is shown.
        """
        step, places = place.step, self._places
        good: Sequence[int] = step.access
        if place.good < len(good):
            good = [seen for seen in good if places[seen].is_good]
        if step.enough is not None and len(good) > step.enough:
            good = sorted(sorted(good, key=lambda seen: places[seen].rank)[: step.enough])
        seen = good if len(good) >= place.least else step.access
        place.visible = tuple([places[index].as_shown() for index in seen])
        place.labels = labels.union(*[places[index].written for index in good])
        if len(good) < len(step.access):
            place.shown = tuple(good)

    @property
    def unwanted(self) -> Iterator[Place]:
        """The steps that have not ended and that nobody waits for, since enough others had; the latest first.

        Giving one up may leave an earlier one without anybody who waits for it.
        """
        if self.plan is not None:
            for place in reversed(self._places[:-1]):
                if place.outcome is None and not place.is_wanted:
                    yield place

    @property
    def paid(self) -> tuple[tuple[str, Outcome], ...]:
        """What ended well, as it ended, with what stands for it by content."""
        good = sorted(
            (place for place in self.all if place.exact and place.is_good), key=lambda place: place.rank
        )
        return tuple((place.exact, place.outcome) for place in good if place.outcome is not None)
