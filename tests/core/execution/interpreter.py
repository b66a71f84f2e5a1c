"""What a workflow should do, by its rules alone and one step after the other, to compare runs with."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from podium import Plan
from podium.types.references import Condition, Reference, parts_of, reference_of
from podium.types.scope import own_elements
from podium.types.steps import AnyStep, Block, branches, depends_on

Answer = Callable[[int, str, tuple[str, ...]], str | None]
"""The output of a worker for a subtask and the visible outputs, sorted; `None` if the worker fails."""
ABSENT = object()
"""What `previous` stands for in the first turn."""


class Gap(NamedTuple):
    """An item of a list without an output; `dropped` if that is no fault."""

    dropped: bool


class Listing(list[Any]):
    """The output of a map."""


class Untold(Exception):
    """The interpreter does not know what several elements of one item look like."""


class End(Exception):
    """Ends a step that cannot run."""

    def __init__(self, status: str, *, dropped: bool = False, absent: bool = False) -> None:
        super().__init__(status)
        self.status, self.dropped, self.absent = status, dropped, absent


@dataclass(frozen=True)
class Out:
    """How an execution ended."""

    status: str
    text: str = ""
    value: Any = None
    whole: bool = True
    """Whether all that is behind it ended well."""
    dropped: bool = False
    """Whether it drops out of access lists, because a condition skipped it, or it was not needed."""
    holds: bool | None = False
    """Whether its condition holds; `None` if its condition has failed."""
    items: "tuple[Out, ...]" = ()
    origin: Mapping[Any, Any] = field(default_factory=dict)
    """Of an item: by list and map, the position of the item or element from which it came; its `label`, and
    how often lists were joined before it (`joins`)."""


SKIPPED = Out("skipped", dropped=True)


@dataclass
class Frame:
    """A plan, or one turn of a block."""

    steps: Sequence[AnyStep]
    prefix: str = ""
    names: Mapping[str, Any] = field(default_factory=dict)
    around: Sequence[Out] = ()
    before: "Frame | None" = None
    outer: "Frame | None" = None
    own: Mapping[int, Out] = field(default_factory=dict)
    """If the block is an item: its own elements of maps of the plan around it."""
    outs: dict[int, Out] = field(default_factory=dict)

    @property
    def answer(self) -> Out:
        """The last branch at the end whose condition holds, else the last `else`; or the last step."""
        row = branches(self.steps) or [len(self.steps) - 1]
        held = [index for index in row if self.outs[index].holds]
        stood = [index for index in row if self.steps[index].otherwise is not None]
        out = self.outs[(held or stood or row)[-1]]
        is_doubtful = any(self.outs[index].holds is None for index in row if not held or index > held[-1])
        return replace(out, whole=False, dropped=False) if is_doubtful else out


class Interpreter:
    """Runs a plan. `cancelled` names items that were not needed, because enough others are ok."""

    def __init__(self, plan: Plan, answer: Answer, cancelled: Collection[str] = ()) -> None:
        self._answer, self._cancelled = answer, cancelled
        self.outs: dict[str, Out] = {}
        self.calls: list[tuple[str, int, str, tuple[str, ...]]] = []
        """Name, worker, subtask and visible outputs."""
        out = self._run(Frame(plan.steps))
        self.answer = out.text if out.status == "ok" else ""
        self.status = "failed" if out.status != "ok" else "ok" if out.whole else "partial"

    def _run(self, frame: Frame, also: Collection[int] = ()) -> Out:
        row = branches(frame.steps)
        needed = {*also, *(row or [len(frame.steps) - 1])}
        for index in reversed(range(len(frame.steps))):
            needed |= depends_on(frame.steps[index]) if index in needed else set()
        read = set(also).union(*(depends_on(frame.steps[index]) for index in needed))
        late = [index for index in row[:-1] if index not in read]  # they wait for later conditions
        for index in [each for each in range(len(frame.steps)) if each not in late] + late[::-1]:
            is_passed = index in late and any(frame.outs[each].holds for each in row if each > index)
            is_passed = is_passed and self._holds(frame, index)
            skips = is_passed or index not in needed
            out = SKIPPED if skips else self._step(frame, index)
            frame.outs[index] = self.outs[f"{frame.prefix}{index}"] = out
        return frame.answer

    def _holds(self, frame: Frame, index: int) -> bool:
        when = frame.steps[index].when
        try:
            return when is None or self._test(when, frame, [])
        except End:
            return False

    def _step(self, frame: Frame, index: int) -> Out:
        step, behind = frame.steps[index], list[Out]()
        holds: bool | None = None
        if f"{frame.prefix}{index}" in self._cancelled:
            return Out("cancelled", dropped=True)
        try:
            holds = step.when is None or self._test(step.when, frame, behind)
            run = self._execute if step.each is None else self._map
            out = run(frame, index, f"{frame.prefix}{index}", behind) if holds else SKIPPED
        except End as end:
            holds = None if holds is None and not end.dropped else holds or False
            out = Out(end.status, dropped=end.dropped)
        if out.dropped and step.otherwise is not None:
            out = frame.outs[step.otherwise]
        return replace(out, holds=holds, whole=_sound(out, *behind))

    def _test(self, condition: Condition, frame: Frame, behind: list[Out]) -> bool:
        try:
            value = self._value(condition.reference, frame, {}, frame.names, behind)
        except End as end:
            if not end.absent:
                raise
            value = ABSENT
        tests = dict(condition.tests)
        if tests.pop("exists", value is not ABSENT) != (value is not ABSENT):
            return False
        if tests and (value is ABSENT or ({"less", "more"} & tests.keys() and not _is_number(value))):
            raise End("failed")
        checks: dict[str, Callable[[Any], bool]] = {
            "is": lambda operand: _same(value, operand),
            "not": lambda operand: not _same(value, operand),
            "in": lambda operand: any(_same(value, each) for each in operand),
            "less": lambda operand: value < operand,
            "more": lambda operand: value > operand,
        }
        return all(checks[name](operand) for name, operand in tests.items())

    def _value(
        self, reference: Reference, frame: Frame, own: Mapping[int, Out], names: Any, behind: list[Out]
    ) -> Any:
        root, path = reference
        if root == "previous" and frame.before is None:
            return ABSENT
        if isinstance(root, int):
            out = own.get(root) or frame.outs[root]
        elif root == "outer" and frame.outer is not None:
            out, path = frame.own.get(int(path[0])) or frame.outer.outs[int(path[0])], path[1:]
        elif root == "previous" and frame.before is not None:
            out = frame.before.answer
        else:
            return _part(names[root], path)
        if out.status != "ok":
            raise End("skipped" if out.dropped else "failed", dropped=out.dropped)
        behind.append(out)
        return _part(out.value, path)

    def _execute(
        self,
        frame: Frame,
        index: int,
        name: str,
        behind: list[Out],
        own: Mapping[int, Out] | None = None,
        names: Mapping[str, Any] | None = None,
    ) -> Out:
        step, own, names = frame.steps[index], own or {}, names or frame.names
        filled = "" if isinstance(step, Block) else self._filled(step.subtask, frame, own, names, behind)
        inputs = [own.get(each) or frame.outs[each] for each in step.access]
        seen = [each for each in inputs if not each.dropped]
        if inputs and not any(each.status == "ok" for each in seen):
            raise End("skipped", dropped=not seen)
        seen += frame.around if step.outer else ()
        if step.previous and frame.before is not None:
            seen += [each for each in frame.before.outs.values() if each.status == "ok"]
        if isinstance(step, Block):
            out = self._block(step, frame, name, Frame((), "", names, seen, own=own))
            return replace(out, whole=_sound(out, *seen))
        texts = tuple(sorted(each.text for each in seen if each.status == "ok"))
        self.calls.append((name, step.worker, filled, texts))
        text = self._answer(step.worker, filled, texts)
        if text is None:
            return Out("failed")
        value = json.loads(text) if step.returns is not None else text
        return Out("ok", text, value, whole=_sound(*seen, *behind))

    def _block(self, block: Block, frame: Frame, name: str, base: Frame) -> Out:
        before, behind = frame.before if block.until is None else None, list[Out]()
        root = None if block.until is None else block.until.reference.root
        out = Out("failed")
        for turn in range(1, (block.most or 1) + 1):
            prefix = f"{name}." if block.until is None else f"{name}({turn})."
            inner = replace(base, steps=block.steps, prefix=prefix, before=before, outer=frame, outs={})
            out = replace(self._run(inner, [root] if isinstance(root, int) else ()), items=(), origin={})
            if block.until is None:
                return Out("failed") if out.status == "skipped" and not out.dropped else out
            try:
                is_met = self._test(block.until, inner, behind)
            except End:
                return Out("failed")
            if out.status != "ok":
                return Out("failed")
            out = replace(out, whole=_sound(out, *behind))
            if is_met:
                return out
            before = inner
        return replace(out, whole=False)

    def _map(self, frame: Frame, index: int, name: str, behind: list[Out]) -> Out:
        step, found = frame.steps[index], list[Out]()
        seen = [frame.outs[each] for each in step.access]
        of_map = _is_of_map(step, frame)
        entries, is_number = ([], False) if of_map else self._entries(step, frame, behind, index)
        _check_seen(step, frame, index)
        if of_map:
            entries, is_number = self._entries(step, frame, behind, index)
        for position, (item, origin) in enumerate(entries):
            label = origin.get("label", str(position))
            at = f"{name}({label})" if is_number else f"{name}[{label}]"
            mine = {each: _own(frame, each, origin) for each in step.access}
            own = {each: one for each, one in mine.items() if one is not None}
            names = {**frame.names, step.item_name or "item": item, "item": item, "index": position}
            out = Out("cancelled" if at in self._cancelled else "skipped", dropped=True)
            if isinstance(item, Gap):
                out = replace(out, dropped=item.dropped)
            elif at not in self._cancelled:
                try:
                    out = self._execute(frame, index, at, [], own, names)
                except End as end:
                    out = Out(end.status, dropped=end.dropped)
            self.outs[at] = out
            found.append(replace(out, origin={"joins": 0, **origin, "label": label, index: position}))
        ok = [each for each in found if each.status == "ok"]
        is_lost = any(each.status == "failed" for each in behind)
        if is_lost or (step.enough or 0) > sum(each.whole for each in ok):
            return Out("failed", items=tuple(found))
        faults = [each for each in found if each.status != "ok" and not each.dropped]
        if found and not ok:
            return Out("failed" if faults else "skipped", dropped=not faults, items=tuple(found))
        value = Listing(each.value if each.status == "ok" else Gap(each.dropped) for each in found)
        seen += frame.around if step.outer else ()
        whole = _sound(*ok, *behind, *seen, *(() if step.enough else faults))
        return Out("ok", dump(value), value, whole, items=tuple(found))

    def _entries(
        self, step: AnyStep, frame: Frame, behind: list[Out], index: int
    ) -> tuple[list[tuple[Any, Mapping[Any, Any]]], bool]:
        """Return the items with their origins, and whether they are repetitions."""
        if not isinstance(step.each, str):
            items = range(step.each) if isinstance(step.each, int) else step.each or ()
            return [(item, {}) for item in items], isinstance(step.each, int)
        reference = reference_of(step.each)
        assert reference is not None
        root, path = reference
        over = frame.outs[root] if isinstance(root, int) else None
        if over is not None and over.items and not (path and path[0].isdecimal()):
            behind.append(over)
            return _elements(over.items, path), False
        value = self._value(reference, frame, {}, frame.names, behind)
        is_number = _is_number(value)
        if (value < 0 or value != int(value)) if is_number else not isinstance(value, list):
            raise End("failed")
        items = range(int(value)) if is_number else value
        return [(item, {reference: position}) for position, item in enumerate(items)], False

    def _filled(
        self, subtask: str, frame: Frame, own: Mapping[int, Out], names: Mapping[str, Any], behind: list[Out]
    ) -> str:
        def value(reference: Reference) -> Any:
            return self._value(reference, frame, own, names, behind)

        if subtask.startswith("{"):
            with suppress(ValueError):
                return dump(_inside(json.loads(subtask), names, value))
        return "".join(_told(part, value) for part in parts_of(subtask, names))


def _check_seen(step: AnyStep, frame: Frame, index: int) -> None:
    """Raise `End` if what all items of a map need has no output."""
    own = own_elements(frame.steps, index)
    for each in () if isinstance(step, Block) else step.references:
        if frame.outs[each].status != "ok" and each not in own:
            is_dropped = frame.outs[each].dropped
            raise End("skipped" if is_dropped else "failed", dropped=is_dropped)
    seen = [frame.outs[each] for each in step.access]
    if seen and all(each.status != "ok" for each in seen) and not own:
        raise End("skipped", dropped=all(each.dropped for each in seen))


def _is_of_map(step: AnyStep, frame: Frame) -> bool:
    """Return whether the items of a map are those of another map."""
    reference = reference_of(step.each) if isinstance(step.each, str) else None
    if reference is None or not isinstance(reference.root, int):
        return False
    is_one = bool(reference.path) and reference.path[0].isdecimal()
    return frame.steps[reference.root].each is not None and not is_one


def _told(part: str | Reference, value: Callable[[Reference], Any]) -> str:
    found = part if isinstance(part, str) else value(part)
    if isinstance(part, Reference) and isinstance(part.root, int) and not part.path:
        return f"the output of step {part.root}"
    return found if isinstance(found, str) else "" if found is ABSENT else dump(found)


def _inside(data: Any, names: Collection[str], value: Callable[[Reference], Any]) -> Any:
    if isinstance(data, dict):
        return {key: _inside(each, names, value) for key, each in data.items()}
    if not isinstance(data, str):
        return [_inside(each, names, value) for each in data] if isinstance(data, list) else data
    parts = list(parts_of(data, names))
    if len(parts) == 1 and isinstance(parts[0], Reference):
        return value(parts[0])
    return "".join(_told(part, value) for part in parts)


def _sound(*outs: Out) -> bool:
    return all(each.whole and (each.status == "ok" or each.dropped) for each in outs)


def _part(value: Any, path: Sequence[str]) -> Any:
    for key in path:
        if isinstance(value, list) and key.isdecimal() and int(key) < len(value):
            value = value[int(key)]
        elif isinstance(value, Listing):
            value = Listing(each for each, _ in _joined([(each, {}) for each in value], key))
        elif isinstance(value, dict) and key in value:
            value = value[key]
        else:
            raise End("failed", absent=not isinstance(value, Gap))
    return value


def _joined(pairs: list[tuple[Any, Mapping[Any, Any]]], key: str) -> list[tuple[Any, Mapping[Any, Any]]]:
    """Return the parts of items, each with the origin of its item; lists are joined."""
    parts = [(each if isinstance(each, Gap) else _part(each, (key,)), origin) for each, origin in pairs]
    if not any(isinstance(part, list) for part, _ in parts):
        return parts
    found = []
    for part, origin in parts:
        for number, each in enumerate(part if isinstance(part, list) else []):
            label = f"{origin.get('label')}.{number}"
            found.append((each, {**origin, "label": label, "joins": origin.get("joins", 0) + 1}))
    return found


def _elements(items: Sequence[Out], path: Sequence[str]) -> list[tuple[Any, Mapping[Any, Any]]]:
    pairs = [(each.value if each.status == "ok" else Gap(each.dropped), each.origin) for each in items]
    for key in path:
        pairs = _joined(pairs, key)
    return pairs


def _own(frame: Frame, number: int, origin: Mapping[Any, Any]) -> Out | None:
    """Return the element of a map that belongs to an item; `None` for all of the step."""
    seen = frame.outs[number]
    if number in origin:
        return seen.items[origin[number]]
    if origin and not seen.items and isinstance(frame.steps[number].each, str) and seen.status == "ok":
        raise Untold
    common = [key for key in origin if seen.items and key in seen.items[0].origin]
    common = [key for key in common if key not in ("label", "joins")]
    if not common:
        return None
    before = frame.outs[common[-1]].items[0].origin["joins"] if isinstance(common[-1], int) else 0
    if seen.items[0].origin["joins"] > before:
        raise Untold
    return next(each for each in seen.items if each.origin[common[-1]] == origin[common[-1]])


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _same(first: Any, second: Any) -> bool:
    if isinstance(first, bool) or isinstance(second, bool):
        return first is second
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(_same, first, second))
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(_same(first[key], second[key]) for key in first)
    return bool(first == second)


def dump(value: Any) -> str:
    def plain(data: Any) -> Any:
        if data is ABSENT or isinstance(data, Gap):
            return None
        if isinstance(data, dict):
            return {key: plain(each) for key, each in data.items()}
        return [plain(each) for each in data] if isinstance(data, list) else data

    return json.dumps(plain(value), ensure_ascii=False, separators=(",", ":"))
