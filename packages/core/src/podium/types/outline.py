"""The steps of a plan at all depths, with the steps whose data reaches each of them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from podium.types.references import Reference, parts_of
from podium.types.steps import OUTER, PREVIOUS, AnyStep, Block, Step, branches, waits_of


class Place(NamedTuple):
    """A step of a plan, or of a block in it."""

    path: tuple[int, ...]
    """The index of the step of the plan, then in blocks the indices of the blocks' steps."""
    step: AnyStep
    sees: frozenset[int]
    """The indices in the outline of the steps whose data reaches the step, directly."""
    previous: bool
    """Whether data of the previous round reaches the step."""

    @property
    def name(self) -> str:
        """The name of the step for people, as in `2`, or `2.0` in a block."""
        return ".".join(map(str, self.path))


Path = tuple[int, ...]


def outline(steps: Sequence[AnyStep]) -> tuple[Place, ...]:
    """Return all steps: first those of the plan, in order, and then those of blocks."""
    return _Outliner(steps).places()


class _Outliner:
    """Follows the references of steps to the steps whose data they lead to."""

    def __init__(self, steps: Sequence[AnyStep]) -> None:
        self._steps: dict[Path, AnyStep] = {}
        todo: list[tuple[Path, AnyStep]] = [((index,), step) for index, step in enumerate(steps)]
        for path, step in todo:  # the loop appends to `todo`
            self._steps[path] = step
            if isinstance(step, Block):
                todo += [((*path, index), inner) for index, inner in enumerate(step.steps)]

    def places(self) -> tuple[Place, ...]:
        """Return all steps with the steps whose data reaches them."""
        numbers, found = {path: number for number, path in enumerate(self._steps)}, list[Place]()
        for path, step in self._steps.items():
            seen, previous = self._shown(path, step) if isinstance(step, Step) else (set[Path](), False)
            seen |= self._inside(path, step)
            for place in (path, *self._around(path)):  # items and conditions reach all steps inside
                seen.update(self._reached(place, waits_of(self._steps[place])))
            if step.otherwise is not None:
                seen.add((*path[:-1], step.otherwise))
            found.append(
                Place(path, step, frozenset(numbers[each] for each in seen if each in numbers), previous)
            )
        return tuple(found)

    def _around(self, path: Path) -> list[Path]:
        """Return the paths of the blocks around a step, the innermost first."""
        return [path[:length] for length in range(len(path) - 1, 0, -1)]

    def _inside(self, path: Path, step: AnyStep) -> set[Path]:
        """Return what the subtask of a step leads to, or the steps that give the output of a block."""
        if isinstance(step, Step):
            parts = parts_of(step.subtask)
            return set(self._reached(path, [part for part in parts if isinstance(part, Reference)]))
        last = branches(step.steps) or [len(step.steps) - 1]
        ends = [] if step.until is None else [step.until.reference]
        return {*((*path, index) for index in last), *self._reached((*path, len(step.steps)), ends)}

    def _reached(self, path: Path, references: Iterable[Reference]) -> Iterator[Path]:
        """Yield the paths of the steps to which references of a step lead."""
        for root, rest in references:
            if isinstance(root, int):
                yield (*path[:-1], root)
            elif root == OUTER and len(path) > 1 and rest and rest[0].isdecimal():
                yield (*path[:-2], int(rest[0]))
            elif root == PREVIOUS:
                yield from self._turn_before(path)

    def _turn_before(self, path: Path) -> list[Path]:
        """Return the paths of the steps of the innermost loop around a step; none outside of loops."""
        for around in self._around(path):
            loop = self._steps[around]
            if isinstance(loop, Block) and loop.until is not None:
                return [(*around, index) for index in range(len(loop.steps))]
        return []

    def _shown(self, path: Path, step: AnyStep) -> tuple[set[Path], bool]:
        """Return what an access list shows, and whether it shows the previous round."""
        shown, shows_round = {(*path[:-1], index) for index in step.access}, False
        if step.previous:
            before = self._turn_before(path)
            shown, shows_round = shown.union(before), not before
        if step.outer and len(path) > 1:
            more, shows = self._shown(path[:-1], self._steps[path[:-1]])
            shown, shows_round = shown | more, shows_round or shows
        return shown, shows_round
