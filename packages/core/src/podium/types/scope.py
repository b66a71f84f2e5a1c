"""What the steps of a plan may refer to, the types of these values, and which data reaches which step.

Checked before anything is paid.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, NoReturn

from podium.errors import PlanInvalid, PlanInvalidCode
from podium.types.references import Condition, Reference, named_in, parts_of, reference_of
from podium.types.schemas import ANY, Form
from podium.types.steps import OUTER, PREVIOUS, AnyStep, Block, Step, branches, depends_on, inner_of, waits_of

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
                raise _NoPart(f"its output has no {key!r}")
            return found
        case Mapped() if key.isdecimal():
            return of.item
        case Mapped():
            inner = part(of.item, key)
            if is_list(inner):
                return Mapped(item_of(inner))
            return Mapped(ANY if allows(inner, "array") else inner)  # lists are joined, other values are not
        case Either():
            return Either(tuple(part(option, key) for option in of.options))


def item_of(of: Type) -> Type:
    """Return the type of the items of a list."""
    match of:
        case None:
            raise _NoPart("it is text without a type, and each needs a list: write returns on that step")
        case Form():
            if (found := of.item()) is None:
                raise _NoPart("its output is not a list")
            return found
        case Mapped():
            return of.item
        case Either():
            return Either(tuple(map(item_of, of.options)))


def is_list(of: Type) -> bool:
    """Return whether a value of the type is a list for certain."""
    match of:
        case Form():
            kinds = ("string", "integer", "number", "boolean", "object", "null")
            return of.allows("array") and not any(map(of.allows, kinds))
        case Either():
            return all(map(is_list, of.options))
    return isinstance(of, Mapped)


def allows(of: Type, kind: str) -> bool:
    """Return whether a value of the type may have a JSON type."""
    match of:
        case Form():
            return of.allows(kind)
        case Either():
            return any(allows(option, kind) for option in of.options)
    return kind == ("array" if isinstance(of, Mapped) else "string")


def misfit(of: Type, value: object) -> str:
    """Return why a value does not have the type; empty if it may have it."""
    match of:
        case Form():
            return of.misfit(value)
        case Either():
            told = [misfit(option, value) for option in of.options]
            return "" if "" in told else told[0]
    return ""


@dataclass(frozen=True, slots=True, eq=False)
class Scope:
    """The steps of a plan or block, and what they may refer to."""

    steps: tuple[AnyStep, ...]
    cards: Sequence[Form | None] | None = None
    """The types of the outputs of the pool's workers; `None` if the pool is not known."""
    is_workflow: bool = False
    """Whether the plan has any key of workflows."""
    block: Block | None = None
    outer: "Scope | None" = None
    """The scope of the plan around the block."""
    top: int | None = None
    """The index of the step of the whole plan in which the block is."""
    place: str = ""
    names: Mapping[str, Type] = field(default_factory=dict)
    """The items of the maps around, and `previous` in a loop."""
    types: list[Type] = field(default_factory=list)
    """The types of the steps so far."""

    def check(self) -> Type:
        """Check all steps, and return the type of the answer; raise `PlanInvalid`."""
        for index, step in enumerate(self.steps):
            try:
                self._check_step(index, step)
            except PlanInvalid as error:
                top = index if self.top is None else self.top
                error.step = top
                raise
        return self.answer

    @property
    def answer(self) -> Type:
        """The type of the last step, or of all steps of the row with conditions at the end."""
        row = branches(self.steps) or [len(self.steps) - 1]
        found = tuple(self.types[index] for index in row)
        return found[0] if len(found) == 1 else Either(found)

    def _check_step(self, index: int, step: AnyStep) -> None:
        for number in step.access:
            if not 0 <= number < index:
                self._fail("forward_access", index, forward_access(self._name(index), index, number))
        if step.outer and self.block is None:
            self._fail("bad_access", index, 'lists "outer", and is in no block: leave it out')
        if step.previous and self.block is not None and "previous" not in self.names:
            told = (
                'lists "previous", and is in no loop: write "outer", and "previous" on the list of the block'
            )
            self._fail("no_previous", index, told)
        inner = dict(self.names)
        if step.when is not None:
            self._check_condition(index, step.when)
        if step.each is not None:
            of = self._item(index, step)
            inner |= {"item": of, "index": Form.of({"type": "integer"})}
            inner |= {step.item_name: of} if step.item_name else {}
        if step.each is None:
            own = self._inside(index, step, inner)
        else:
            elements = own_elements(self.steps, index)
            types = [_seen(of, is_several=elements.get(number)) for number, of in enumerate(self.types)]
            own = Mapped(replace(self, types=types)._inside(index, step, inner))  # noqa: SLF001 - of the same class
        if step.otherwise is not None:
            if not 0 <= step.otherwise < index:
                self._fail("bad_condition", index, f"has else {step.otherwise}, which is not an earlier step")
            own = Either((own, self.types[step.otherwise]))
        self.types.append(own)

    def _inside(self, index: int, step: AnyStep, names: Mapping[str, Type]) -> Type:
        """Check one execution of a step, and return the type of its output."""
        if isinstance(step, Step):
            inside = replace(self, names=names)
            for reference in _references(step.subtask, names, is_workflow=self.is_workflow):
                inside.type_of(index, reference, in_subtask=True)
            if step.returns is not None:
                return Form.of(step.returns)
            if self.cards is None:
                return ANY
            return self.cards[step.worker] if step.worker < len(self.cards) else None
        if self.depth >= MOST_DEPTH:
            self._fail("bad_block", index, f"nests blocks deeper than {MOST_DEPTH}: make a plan of its parts")
        top = index if self.top is None else self.top
        place = f"{self._name(index)}."
        within = replace(self, steps=step.steps, block=step, outer=self, top=top, place=place, types=[])
        if step.until is None:
            return replace(within, names=names).check()
        # A turn may refer to the output of the turn before, whose type is known only after the steps.
        loose = replace(within, names={**names, "previous": ANY})
        of = loose.check()
        exact = replace(within, names={**names, "previous": of}, types=[])
        of = exact.check()
        exact._check_condition(len(step.steps), step.until)  # noqa: SLF001 - of the same class
        return of

    @property
    def depth(self) -> int:
        """The number of blocks around the steps."""
        return 0 if self.outer is None else 1 + self.outer.depth

    def _item(self, index: int, step: AnyStep) -> Type:
        """Return the type of the items of a map."""
        if isinstance(step.each, int):
            return Form.of({"type": "integer"})
        if not isinstance(step.each, str):
            return Form.of({"enum": list(step.each or ())})
        reference = reference_of(step.each)
        assert reference is not None
        of = self.type_of(index, reference)
        if isinstance(of, Form) and allows(of, "integer"):
            return ANY if allows(of, "array") else Form.of({"type": "integer"})
        try:
            return item_of(of)
        except _NoPart as error:
            self._fail("bad_each", index, f"has each {self._told(reference)}: {error.args[0]}")

    def _check_condition(self, index: int, condition: Condition) -> None:
        reference, tests = condition.reference, condition.tests
        of = self.type_of(index, reference)
        if of is None and not (reference.root == PREVIOUS and tests.keys() == {"exists"}):
            told = "the output is text without a type: write returns on that step"
            self._fail("bad_condition", index, f"has a condition on {self._told(reference)}: {told}")
        for name in {"less", "more"} & tests.keys():
            if not allows(of, "number") and not allows(of, "integer"):
                told = f"compares {self._told(reference)} with {name}: it is not a number"
                self._fail("bad_condition", index, told)
        options = [tests["is"]] if "is" in tests else tests.get("in", [])
        faults = [misfit(of, value) for value in options]
        if faults and all(faults):
            told = f"has a condition on {self._told(reference)} that never holds: {faults[0]}"
            self._fail("bad_condition", index, told)

    def type_of(self, index: int, reference: Reference, *, in_subtask: bool = False) -> Type:
        """Return the type of what a step refers to; raise `PlanInvalid` if it may not refer to it."""
        root, path = reference
        if isinstance(root, int):
            of = self._type_of_step(
                index, reference, root, self.steps[index : index + 1] if in_subtask else ()
            )
        elif root == OUTER:
            of, path = self._type_outside(index, reference, in_subtask=in_subtask)
        elif root in self.names:
            of = self.names[root]
        else:
            self._fail(
                "bad_reference", index, f"refers to {self._told(reference)}, {_out_of_place(str(root))}"
            )
        try:
            for key in path:
                of = part(of, key)
        except _NoPart as error:
            self._fail("bad_reference", index, f"refers to {self._told(reference)}: {error.args[0]}")
        return of

    def _type_of_step(self, index: int, reference: Reference, number: int, seeing: Sequence[AnyStep]) -> Type:
        where = f"refers to {self._told(reference)}, which is not"
        if not 0 <= number < index:
            self._fail("bad_reference", index, f"{where} an earlier step")
        if any(number not in step.access for step in seeing):
            self._fail("bad_reference", index, f"{where} on its access list: add the step to the list")
        return self.types[number]

    def _type_outside(
        self, index: int, reference: Reference, *, in_subtask: bool
    ) -> tuple[Type, tuple[str, ...]]:
        """Return the type of the step to which `outer` refers, and the rest of the path."""
        where, path = f"refers to {self._told(reference)}", reference.path
        if self.outer is None or self.block is None:
            self._fail("bad_reference", index, f"{where}, and is in no block")
        if not path or not path[0].isdecimal():
            self._fail(
                "bad_reference",
                index,
                f"{where}: write a number, as in {{{{outer.0}}}}; the names of items need no outer",
            )
        number = int(path[0])
        if number >= len(self.outer.types):
            self._fail("bad_reference", index, f"{where}, which is not a step before the block")
        if in_subtask and number not in self.block.access:
            told = f"{where}, which is not on the access list of its block: add the step to the list"
            self._fail("bad_reference", index, told)
        return self.outer.types[number], path[1:]

    def _name(self, index: int) -> str:
        label = self.steps[index].label if index < len(self.steps) else None
        return f"{self.place}{index}" + ("" if label in (None, index) else f" (id {label})")

    def _told(self, reference: Reference) -> str:
        """Return a reference as the text of the plan writes it, with ids in place of indices."""
        root, path = reference
        if isinstance(root, int) and 0 <= root < len(self.steps):
            label = self.steps[root].label
            return str(Reference(root if label is None else label, path))
        if root == OUTER and self.outer is not None and path and path[0].isdecimal():
            number = int(path[0])
            label = self.outer.steps[number].label if number < len(self.outer.steps) else None
            return str(Reference(root, (str(number if label is None else label), *path[1:])))
        return str(reference)

    def _fail(self, code: PlanInvalidCode, index: int, told: str) -> NoReturn:
        if index == len(self.steps):  # the condition of a loop
            raise PlanInvalid(code, f"until of step {self.place.rstrip('.')} {told}")
        raise PlanInvalid(code, told if told.startswith("step ") else f"step {self._name(index)} {told}")


def _seen(of: Type, *, is_several: bool | None) -> Type:
    """Return the type of what an item sees of a step: of a map over the same list, its own element."""
    if is_several is not False:
        return of
    match of:
        case Mapped():
            return of.item
        case Either():
            return Either(tuple(_seen(option, is_several=is_several) for option in of.options))
    return of


def chain_of(steps: Sequence[AnyStep], number: int) -> tuple[str, ...]:
    """Return the references by which the items of a map come from the first list, through other maps."""
    each = steps[number].each
    reference = reference_of(each) if isinstance(each, str) else None
    if reference is None:
        return (f"step {number}",)
    if (source := source_of(steps, number)) is None:
        return (str(reference),)
    return (*chain_of(steps, source), *([str(reference)] if reference.path else []))


def source_of(steps: Sequence[AnyStep], number: int) -> int | None:
    """Return the map over whose items a map is; `None` for a map over another list."""
    each = steps[number].each
    reference = reference_of(each) if isinstance(each, str) else None
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


def _references(subtask: str, names: Mapping[str, Type], *, is_workflow: bool) -> list[Reference]:
    """Return what a subtask refers to; in a workflow, unknown names with a dot are references too."""
    found = [each for each in parts_of(subtask, names) if isinstance(each, Reference)]
    dotted = [each for each in named_in(subtask) if each.path and each not in found]
    return found + dotted if is_workflow else found


def _out_of_place(name: str) -> str:
    where = {"item": "outside of a step with each", "index": "outside of a step with each"}
    where["previous"] = "outside of a loop"
    unknown = "a name that nothing has"
    return f"{where.get(name, unknown)}: correct it, or write \\{{{{ for literal braces"


def forward_access(name: str, step: int, seen: int) -> str:
    """Return the error message for a step that lists a step which is not before it."""
    allowed = f"write [] or numbers from 0 to {step - 1}" if step else "write [] for the first step"
    if seen == step:
        return f"step {name} lists itself, but may list only earlier steps: {allowed}"
    if seen < 0:
        return f"step {name} lists {seen}, but steps are numbered from 0: {allowed}"
    return f"step {name} lists step {seen}, which is not an earlier step: {allowed}"


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
