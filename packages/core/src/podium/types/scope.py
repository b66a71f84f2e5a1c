"""What the steps of a plan may refer to, the types of these values, and which data reaches which step.

Checked before anything is paid.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple, NoReturn

from podium.errors import PlanInvalid, PlanInvalidCode
from podium.types.references import Condition, Reference, named_in, references_in, renumbered, shown
from podium.types.schemas import ANY, TYPES, Form
from podium.types.steps import (
    OUTER,
    PREVIOUS,
    AnyStep,
    Block,
    Step,
    answers_of,
    depends_on,
    each_of,
    inner_of,
    inside_of,
    waits_of,
)

MOST_DEPTH = 4
"""Maximum nesting of blocks."""


class Mapped(NamedTuple):
    """The type of a map's output: a list. A position leads to an item, another key to parts of the items."""

    item: "Type"


class Either(NamedTuple):
    """The type of an output that several steps may give. A part must be in all of them."""

    options: tuple["Type", ...]


Type = Form | Mapped | Either | None
"""The type of an output; `None` for text of which no step says more."""


class _NoPart(Exception):
    """A type has no such part; the argument says why."""


def part(of: Type, key: str) -> Type:
    """Return the type of a part of a value."""
    match of:
        case None:
            raise _NoPart("it is text without a type: write returns on that step")
        case Form():
            if (found := of.field(key)) is None:
                raise _NoPart(f"it has no {key!r}")
            return found
        case Either():
            return Either(tuple(part(option, key) for option in of.options))
        case Mapped() if key.isdecimal():
            return of.item
    inner = part(of.item, key)
    if [kind for kind in TYPES if allows(inner, kind)] == ["array"]:  # lists are joined, other values are not
        return Mapped(item_of(inner))
    return Mapped(ANY if allows(inner, "array") else inner)


def item_of(of: Type) -> Type:
    """Return the type of the items of a list."""
    match of:
        case None:
            raise _NoPart("it is text without a type, and each needs a list: write returns on that step")
        case Form():
            if (found := of.item()) is None:
                raise _NoPart("it is not a list")
            return found
        case Mapped():
            return of.item
        case Either():
            return Either(tuple(map(item_of, of.options)))


def allows(of: Type, kind: str) -> bool:
    """Return whether a value of the type may have a JSON type."""
    if isinstance(of, Form):
        return of.allows(kind)
    if isinstance(of, Either):
        return any(allows(option, kind) for option in of.options)
    return kind == ("array" if isinstance(of, Mapped) else "string")


def misfit(of: Type, value: object) -> str:
    """Return why a value does not have the type; empty if it may have it."""
    if isinstance(of, Either):
        told = [misfit(option, value) for option in of.options]
        return "" if "" in told else told[0]
    if not isinstance(of, Form) or of.fits(value):
        return ""
    return f"{shown(value)} does not fit {shown(of.resolved().schema):.200}"


@dataclass(frozen=True, slots=True, eq=False)
class Scope:
    """The steps of a plan or block, and what they may refer to."""

    steps: tuple[AnyStep, ...]
    cards: Sequence[Form | None] | None = None
    """The types of the outputs of the pool's workers; `None` if the pool is not known."""
    is_workflow: bool = False
    """Whether the plan has any key of workflows."""
    outer: "Scope | None" = None
    """The scope of the plan around the block, at the step that is the block; `None` in the plan itself."""
    place: str = ""
    """The number of the block with a dot."""
    names: Mapping[str, Type] = field(default_factory=dict)
    """The parameters of a saved plan, the items of the maps around, and `previous` in a loop."""
    depth: int = 0
    """The number of blocks around the steps, within their saved plan."""
    types: list[Type] = field(default_factory=list)
    """The types of the steps so far. Their number is the index of the step that is checked; after the last
    step, the condition of a loop is checked."""

    def check(self) -> Type:
        """Check all steps, and return the type of the answer; raise `PlanInvalid`."""
        for index, step in enumerate(self.steps):
            try:
                self.types.append(self._type_of_step(index, step))
            except PlanInvalid as error:
                error.step = index  # the plan, around all blocks, sets it last
                raise
        found = tuple(self.types[index] for index in answers_of(self.steps))
        return found[0] if len(found) == 1 else Either(found)

    def _type_of_step(self, index: int, step: AnyStep) -> Type:
        for number in step.access:
            if not 0 <= number < index:
                self._fail("forward_access", forward_access(index, number))
        if step.outer and self.outer is None:
            self._fail("bad_access", 'lists "outer", and is in no block: leave it out')
        if step.previous and self.outer is not None and PREVIOUS not in self.names:
            told = 'is in no loop: write "outer", and "previous" on the list of the block'
            self._fail("no_previous", f'lists "previous", and {told}')
        if step.when is not None:
            root = step.when.reference.root
            if step.each is not None and root in {"item", "index", step.item_name} - self.names.keys():
                told = f"has the condition {self._told(step.when.reference)} on its own items"
                self._fail("bad_condition", f"{told}: give the each to a block, and put this step into it")
            self._check_condition(step.when)
        own = self._type_of_one(step) if step.each is None else self._type_of_map(index, step)
        if step.otherwise is None:
            return own
        if not 0 <= step.otherwise < index:
            self._fail("bad_condition", f"has else {step.otherwise}, which is not an earlier step")
        return Either((own, self.types[step.otherwise]))

    def _type_of_map(self, index: int, step: AnyStep) -> Type:
        of, elements = self._item(step), own_elements(self.steps, index)
        names = {**self.names, "item": of, "index": Form.of({"type": "integer"})}
        names |= {step.item_name: of} if step.item_name else {}
        types = [_one(of) if elements.get(number) is False else of for number, of in enumerate(self.types)]
        return Mapped(replace(self, names=names, types=types)._type_of_one(step))  # noqa: SLF001 - own class

    def _type_of_one(self, step: AnyStep) -> Type:
        """Check one execution of a step, and return the type of its output."""
        if isinstance(step, Step):
            references = references_in(step.subtask, self.names)
            if self.is_workflow:  # unknown names with a dot are references too
                references += [each for each in named_in(step.subtask) if each.path]
            for reference in references:
                self._type_of(reference, in_subtask=True)
            if step.returns is not None:
                return Form.of(step.returns)
            if self.cards is None:
                return ANY
            return self.cards[step.worker] if step.worker < len(self.cards) else None
        if step.plan:
            return self._type_of_plan(step)
        if self.depth >= MOST_DEPTH:
            self._fail("bad_block", f"nests blocks deeper than {MOST_DEPTH}: make a plan of its parts")
        within = self._within(step, self.depth + 1)
        if step.until is None:
            return within.check()
        # A turn may refer to the output of the turn before, whose type is known only after the steps.
        of = replace(within, names={**self.names, PREVIOUS: ANY}, types=[]).check()
        exact = replace(within, names={**self.names, PREVIOUS: of})
        of = exact.check()
        exact._check_condition(step.until)  # noqa: SLF001 - of the same class
        return of

    def _within(self, step: Block, depth: int) -> "Scope":
        return replace(self, steps=step.steps, outer=self, place=f"{self._name}.", types=[], depth=depth)

    def _type_of_plan(self, step: Block) -> Type:
        """Check the arguments and the steps of a saved plan; only its parameters have names there."""
        parameters, args = step.parameters or {}, step.args or {}
        for name, value in args.items():
            inside = references_in(shown(value), self.names)
            for reference in inside:
                self._type_of(reference)
            fault = "" if inside or name not in parameters else misfit(Form.of(parameters[name]), value)
            if fault:
                self._fail(
                    "bad_args", f"gives plan {step.plan} a wrong value for {name}: the argument {fault}"
                )
        if not step.steps:  # it is written out later
            return ANY
        names = {name: Form.of(schema) for name, schema in parameters.items()}
        return replace(self._within(step, 0), names=names, is_workflow=True).check()

    def _item(self, step: AnyStep) -> Type:
        """Return the type of the items of a map."""
        if isinstance(step.each, tuple):
            if inside := references_in(shown(step.each), self.names):
                told = "write one reference as each, or put the reference into the subtask"
                self._fail("bad_each", f"has {self._told(inside[0])} in a literal list: {told}")
            return Form.of({"enum": list(step.each)})
        if (reference := each_of(step)) is None:
            return Form.of({"type": "integer"})
        of = self._type_of(reference)
        if isinstance(of, Form) and allows(of, "integer"):
            return ANY if allows(of, "array") else Form.of({"type": "integer"})
        try:
            return item_of(of)
        except _NoPart as error:
            self._fail("bad_each", f"has each {self._told(reference)}: {error}")

    def _check_condition(self, condition: Condition) -> None:
        reference, tests = condition.reference, condition.tests
        of, told = self._type_of(reference), self._told(reference)
        if of is None and not (reference.root == PREVIOUS and tests.keys() == {"exists"}):
            why = "the output is text without a type: write returns on that step"
            self._fail("bad_condition", f"has a condition on {told}: {why}")
        for name in {"less", "more"} & tests.keys():
            if not allows(of, "number") and not allows(of, "integer"):
                self._fail("bad_condition", f"compares {told} with {name}: it is not a number")
        faults = [misfit(of, value) for value in condition.options or ()]
        if faults and all(faults):
            self._fail("bad_condition", f"has a condition on {told} that never holds: {faults[0]}")

    def _type_of(self, reference: Reference, *, in_subtask: bool = False) -> Type:
        """Return the type of what a step refers to; raise `PlanInvalid` if it may not refer to it."""
        root, path = reference
        if isinstance(root, int):
            if not 0 <= root < len(self.types):
                self._refuse(reference, ", which is not an earlier step")
            of = self.types[root]
        elif root == OUTER:
            of, path = self._type_outside(reference, in_subtask=in_subtask), path[1:]
        elif root in self.names:
            of = self.names[root]
        else:
            where = _OUT_OF_PLACE.get(root, "a name that nothing has")
            self._refuse(reference, f", {where}: correct it, or write \\{{{{ for literal braces")
        try:
            for key in path:
                of = part(of, key)
        except _NoPart as error:
            self._refuse(reference, f": {error}")
        return of

    def _type_outside(self, reference: Reference, *, in_subtask: bool) -> Type:
        """Return the type of the step to which `outer` refers."""
        outer, number = self.outer, reference.outer
        if outer is None:
            self._refuse(reference, ", and is in no block")
        if number is None:
            told = "write a number, as in {{outer.0}}; the names of items need no outer"
            self._refuse(reference, f": {told}")
        at = len(outer.types)
        if number >= at:
            self._refuse(reference, ", which is not a step before the block")
        if in_subtask and number not in outer.steps[at].access:
            told = "is not on the access list of its block: add the step to the list"
            self._refuse(reference, f", which {told}")
        return outer.types[number]

    def _refuse(self, reference: Reference, why: str) -> NoReturn:
        self._fail("bad_reference", f"refers to {self._told(reference)}{why}")

    @property
    def _name(self) -> str:
        """The number of the step that is checked, for people."""
        at = len(self.types)
        return f"{self.place}{name_of(self.steps[at], at)}"

    def _told(self, reference: Reference) -> str:
        """Return a reference as the text of the plan writes it, with ids in place of indices."""
        outer = None if self.outer is None else partial(_label, self.outer.steps)
        return renumbered(str(reference), partial(_label, self.steps), outer)

    def _fail(self, code: PlanInvalidCode, told: str) -> NoReturn:
        is_step = len(self.types) < len(self.steps)
        who = f"step {self._name}" if is_step else f"until of step {self.place.removesuffix('.')}"
        raise PlanInvalid(code, f"{who} {told}")


def _label(steps: Sequence[AnyStep], number: int) -> int:
    return label_of(steps[number], number) if 0 <= number < len(steps) else number


_OUT_OF_PLACE = dict.fromkeys(("item", "index"), "outside of a step with each") | {
    PREVIOUS: "outside of a loop"
}


def _one(of: Type) -> Type:
    """Return the type of what an item sees of a map over the same list: its own element."""
    if isinstance(of, Either):
        return Either(tuple(map(_one, of.options)))
    return of.item if isinstance(of, Mapped) else of


def chain_of(steps: Sequence[AnyStep], number: int) -> tuple[str, ...]:
    """Return the references by which the items of a map come from the first list, through other maps."""
    if (reference := each_of(steps[number])) is None:
        return (f"step {number}",)
    if (source := source_of(steps, number)) is None:
        return (str(reference),)
    return (*chain_of(steps, source), *([str(reference)] if reference.path else []))


def source_of(steps: Sequence[AnyStep], number: int) -> int | None:
    """Return the map over whose items a map is; `None` for a map over another list."""
    reference = each_of(steps[number])
    if reference is None or not isinstance(reference.root, int) or steps[reference.root].each is None:
        return None
    return None if reference.path and reference.path[0].isdecimal() else reference.root


def own_elements(steps: Sequence[AnyStep], number: int) -> dict[int, bool]:
    """Return the maps over the list of a map of which an item sees its own elements.

    Each has whether an item may have several of them: those that came from it.
    """
    if steps[number].each is None:
        return {}
    own, found = chain_of(steps, number), dict[int, bool]()
    for seen in depends_on(inner_of(steps[number])):
        if seen < number and steps[seen].each is not None:
            other = chain_of(steps, seen)
            if own[: len(other)] == other or other[: len(own)] == own:
                found[seen] = len(other) > len(own)
    return found


def label_of(step: AnyStep, index: int) -> int:
    """Return the number of a step as workers see it: its label, or its index."""
    return index if step.label is None else step.label


def name_of(step: AnyStep, index: int) -> str:
    """Return the index of a step as text, followed by the planner's number if that is different."""
    return str(index) if step.label in (None, index) else f"{index} (id {step.label})"


def forward_access(step: int, seen: int) -> str:
    """Return what is wrong with a step that lists a step which is not before it."""
    allowed = f"write [] or numbers from 0 to {step - 1}" if step else "write [] for the first step"
    if seen == step:
        return f"lists itself, but may list only earlier steps: {allowed}"
    if seen < 0:
        return f"lists {seen}, but steps are numbered from 0: {allowed}"
    return f"lists step {seen}, which is not an earlier step: {allowed}"


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


class Outline:
    """All steps: first those of the plan, in order, and then those of blocks."""

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
            seen, previous, inside = set[Path](), False, path
            if isinstance(step, Step):
                seen, previous = self._shown(path, step)
            else:
                seen, inside = {(*path, index) for index in answers_of(step.steps)}, (*path, len(step.steps))
            seen.update(self._reached(inside, inside_of(step)))
            for length in range(1, len(path) + 1):  # items and conditions reach all steps inside
                seen.update(self._reached(path[:length], waits_of(self._steps[path[:length]])))
            if step.otherwise is not None:
                seen.add((*path[:-1], step.otherwise))
            reached = frozenset(numbers[each] for each in seen if each in numbers)
            found.append(Place(path, step, reached, previous))
        return tuple(found)

    def _reached(self, path: Path, references: Iterable[Reference]) -> Iterator[Path]:
        """Yield the paths of the steps to which references of a step lead."""
        for reference in references:
            if isinstance(reference.root, int):
                yield (*path[:-1], reference.root)
            elif reference.outer is not None and len(path) > 1:
                yield (*path[:-2], reference.outer)
            elif reference.root == PREVIOUS:
                yield from self._turn_before(path)

    def _turn_before(self, path: Path) -> set[Path]:
        """Return the paths of the steps of the innermost loop around a step; none outside of loops."""
        for length in range(len(path) - 1, 0, -1):
            loop = self._steps[path[:length]]
            if isinstance(loop, Block) and loop.until is not None:
                return {(*path[:length], index) for index in range(len(loop.steps))}
        return set()

    def _shown(self, path: Path, step: AnyStep) -> tuple[set[Path], bool]:
        """Return what an access list shows, and whether it shows the previous round."""
        shown, shows_round = {(*path[:-1], index) for index in step.access}, False
        if step.previous:
            before = self._turn_before(path)
            shown, shows_round = shown | before, not before
        if step.outer and len(path) > 1:
            more, shows = self._shown(path[:-1], self._steps[path[:-1]])
            shown, shows_round = shown | more, shows_round or shows
        return shown, shows_round
