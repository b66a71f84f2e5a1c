"""The items of maps and the turns of blocks, which are made while a round runs."""

import json
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from podium.errors import LimitExceeded
from podium.execution.graph import DependencyGraph
from podium.execution.node import Batch, Ending, Expansion, Frame, Lineage, StepNode, Unmet, Value
from podium.types.outcome import CONDITION, NO_BRANCH, Outcome, Problem, StepStatus
from podium.types.references import BadValue, compact, reference_of, with_values
from podium.types.schemas import Form
from podium.types.scope import chain_of, misfit, own_elements, source_of
from podium.types.steps import Block, calls_in, inner_of, uses_index

NOT_NEEDED = Problem("enough", "enough other items of the map are ok")


def expand(graph: DependencyGraph, node: StepNode) -> None:
    """Begin the items of a map, or the turns of a block; raise `Unmet` if it cannot run."""
    graph.begin(node)
    node.expansion = Items(graph, node) if node.step.each is not None else Turns(graph, node)
    graph.wake(node)


class Item(NamedTuple):
    """An item of a list."""

    lineage: Lineage
    position: tuple[int, ...]
    value: Value | None
    """`None` for an item without an output, which is skipped."""
    source: StepNode | None = None
    """The item of another map from which it came."""


class Items(Expansion):
    """The executions of a map, one for each item of its list."""

    def __init__(self, graph: DependencyGraph, node: StepNode) -> None:
        super().__init__(node)
        self._graph = graph
        steps, self.inner = node.frame.steps, inner_of(node.step)
        self.chain = chain_of(steps, node.number)
        self._own = own_elements(steps, node.number)
        self._uses_index = uses_index(self.inner)
        self._inbox: deque[Item] = deque()
        self._arrived = 0
        self._elements: dict[Lineage, list[StepNode]] = {}
        """By the beginnings of their lineages."""
        self._open: Counter[Lineage] = Counter()
        """By the beginnings of their lineages: the items that have not ended."""
        self._gaps: list[Item] = []
        """Items of another map that may have been lists, and failed."""
        self._is_joined = False
        self._waits = 0
        """Number of items that wait for elements of other maps."""
        self._acts = any(graph.acts(call) for call in calls_in([self.inner]))
        self._list: StepNode | None = None
        """The step whose output is the list; `None` for other lists."""
        number = source_of(steps, node.number)
        self.source = None if number is None else node.frame.nodes[number]
        self._keeps_order = self._uses_index and len(self.chain) > 1
        self._next = 0
        self._whole = 0
        """Number of items that are `ok` and complete, which `enough` counts."""
        if self.source is None or self.source.stand_in is not None:
            self.source = None
            self._read_list()
        else:
            self.source.need_items()
            children = () if self.source.expansion is None else self.source.expansion.children
            for child in sorted(children, key=lambda each: each.order):  # others are to come
                if child.outcome is not None:
                    self.follow(child)

    def _read_list(self) -> None:
        """Take the items of a list that is known."""
        each = self.node.step.each
        found = Value(each if isinstance(each, int) else list(each or ()))
        if isinstance(each, str):
            reference = reference_of(each)
            assert reference is not None
            target, found = self.node.target(reference), self.node.value_of(reference)
            self._list = None if target is None else target[0]
        data, told = found.data, f"each is {each}" if isinstance(each, str) else "each"
        if isinstance(data, int) and not isinstance(data, bool) and data >= 0:
            self._check_size(data)
            data = list(range(data))
        if not isinstance(data, list):
            shown = json.dumps(data, ensure_ascii=False)
            raise Unmet("failed", Problem("bad_list", f"{told}, which is {shown:.80}: it must be a list"))
        self._check_size(len(data))
        for position, item in enumerate(data):
            is_gap = item is None and found.levels > 0
            value = None if is_gap else Value(item, max(found.levels - 1, 0))
            self._arrive(Item(((self.chain[0], position),), (position,), value))

    def _check_size(self, items: int) -> None:
        most = self._graph.limits.items
        if items > most:
            told = f"the list has {items:,} items, and Limits.items allows {most:,}: raise it"
            raise Unmet("failed", Problem("bad_list", told))

    def follow(self, child: StepNode) -> None:
        """Take an item of the other map, which has ended."""
        each = self.node.step.each
        reference = reference_of(each) if isinstance(each, str) else None
        assert reference is not None
        positions = tuple(position for _, position in child.lineage)
        if not child.is_good:
            item = Item(child.lineage, positions, None, child)
            self._gaps.append(item) if reference.path else self._arrive(item)
            return
        value = child.value
        try:
            value = value.part(reference.path, reference)
        except BadValue as error:
            self.node.unmet = "failed", Problem(error.code, f"in item {child.name}, {error}")
            return
        if not (reference.path and isinstance(value.data, list)):
            self._arrive(Item(child.lineage, positions, value, child))
            return
        self._is_joined = True
        for position, data in enumerate(value.data):
            lineage = (*child.lineage, (str(reference), position))
            self._arrive(Item(lineage, (*positions, position), Value(data), child))

    def _arrive(self, item: Item) -> None:
        self._arrived += 1
        for begin in _beginnings(item.lineage):
            self._open[begin] += 1
        self._inbox.append(item)
        self._graph.due[self.node] = None

    def advance(self) -> Sequence[StepNode]:  # noqa: D102 - see the base class
        if self.source is not None and self.source.stand_in is not None:  # skipped: else has the list
            self.source = None
            self._read_list()
        self._check_size(self._arrived)
        if self._has_source_ended and not self._is_joined:
            gaps, self._gaps = self._gaps, []
            for gap in gaps:
                self._arrive(gap)
        made, batch = list[StepNode](), Batch(self.node)
        for item in self._taken():
            made += [] if (node := self._made(item)) is None else [node]
        batch.nodes = made
        for node in made:
            node.batch = batch if self.source is None or self._is_joined else self.node.batch
        return made

    def _taken(self) -> Iterator[Item]:
        """Yield the items that have arrived; in the list's order, if the items depend on their position."""
        if not self._keeps_order:
            while self._inbox:
                yield self._inbox.popleft()
        elif self._has_source_ended:
            arrived = sorted(self._inbox, key=lambda each: each.position)
            self._inbox.clear()
            yield from arrived

    @property
    def _has_source_ended(self) -> bool:
        return self.source is None or self.source.outcome is not None

    def _made(self, item: Item) -> StepNode | None:
        """Return the node of an item; `None` if an element that it sees is not known yet."""
        elements: dict[int, StepNode] = {}
        for number, is_several in self._own.items():
            element = self._element(number, item, is_several=is_several)
            if element is None:
                return None
            elements[number] = element
        node, step, graph = self.node, self.node.step, self._graph
        index = Value(self._next if self._keeps_order else item.position[-1])
        self._next += 1
        names = dict(node.names)
        if item.value is not None:
            names |= {"item": item.value, "index": index}
            names |= {step.item_name: item.value} if step.item_name else {}
        place = ".".join(map(str, item.position))
        path = f"{node.name}({place})" if isinstance(step.each, int) else f"{node.name}[{place}]"
        child = graph.add(
            self.inner,
            node.frame,
            node.number,
            path=path,
            parent=self,
            names=names,
            lineage=item.lineage,
            order=(*node.order, *item.position),
            elements=elements,
            origin=item.source or self._list,
        )
        if item.value is None:
            child.unmet = _why_skipped(item.source or self._list)
        self.children.append(child)
        self.left += 1
        for begin in _beginnings(item.lineage):
            self._elements.setdefault(begin, []).append(child)
        graph.touch(node, item.lineage)
        return child

    def _element(self, number: int, item: Item, *, is_several: bool) -> StepNode | None:
        """Return what an item sees of another map; `None` if it must wait, and is taken again later."""
        other = self.node.frame.nodes[number]
        expansion = other.expansion
        other.need_items()
        if other.stand_in is not None or (not isinstance(expansion, Items) and other.outcome is not None):
            return other
        wanted = item.lineage
        if isinstance(expansion, Items):
            if is_several:
                if expansion.is_settled(wanted) or other.outcome is not None:
                    return _view(other, expansion._elements.get(wanted, []))  # noqa: SLF001 - of the same class
            else:
                wanted = tuple(each for each in wanted if each[0] in expansion.chain)
                found = expansion._elements.get(wanted, [])  # noqa: SLF001 - of the same class
                own = [each for each in found if each.lineage == wanted]
                if own or other.outcome is not None:
                    return own[0] if own else other
        self._waits += 1
        self._graph.wait_for(other, wanted, partial(self._again, item))
        return None

    def _again(self, item: Item) -> None:
        """Take an item again, because an element that it sees may be known now."""
        self._waits -= 1
        self._inbox.append(item)
        self._graph.due[self.node] = None

    def is_settled(self, lineage: Lineage) -> bool:
        """Return whether all items that came from an item are known and have ended."""
        source = None if self.source is None else self.source.expansion
        if isinstance(source, Items) and not source.is_settled(lineage):
            return False
        return not self._open[lineage] and (self.source is None or source is not None)

    def ended(self, child: StepNode) -> None:  # noqa: D102 - see the base class
        super().ended(child)
        self._whole += child.is_good and _problem(child) is None
        for follower in self.node.followers:
            if isinstance(follower.expansion, Items) and follower.expansion.source is self.node:
                follower.expansion.follow(child)
        for begin in _beginnings(child.lineage):
            self._open[begin] -= 1
        self._graph.touch(self.node, child.lineage)

    def unneeded(self) -> Iterable[StepNode]:  # noqa: D102 - see the base class
        least = self.node.step.enough
        if least is None or self._acts or self._whole < least:
            return ()
        return [each for each in self.children if each.outcome is None]

    def ending(self) -> Ending | None:  # noqa: D102 - see the base class
        if self.left or self._inbox or self._waits or not self._has_source_ended:
            return None
        source = self.source
        if source is not None and not source.is_good:
            try:
                source.value  # noqa: B018 - raises why there is none
            except Unmet as unmet:
                return Ending(unmet.status, unmet.problem)
        return self._ending()

    def _ending(self) -> Ending:
        self.children.sort(key=lambda each: each.order)
        good = [each for each in self.children if each.is_good]
        bad = [each for each in self.children if not each.is_good and not _is_neutral(each)]
        least, count = self.node.step.enough, len(self.children)
        if least is not None and self._whole < least:
            told = f"{self._whole} of {count} items are ok, and enough is {least}"
            causes = told_items(bad)
            return Ending("failed", Problem("too_few", f"{told}: {causes}" if causes else told))
        if self.children and not good and not bad:
            return Ending("skipped", Problem(CONDITION, "all items were skipped"))
        if bad and not good:
            follow = all(each.outcome is not None and each.outcome.follows for each in bad)
            code = "dependency" if follow else _code(bad, "items")
            return Ending("failed", Problem(code, f"no item of {count} is ok: {told_items(bad)}"))
        problem = None
        short = [each for each in good if _problem(each) is not None]
        lost = None if self.source is None or not self._is_joined else _problem(self.source)
        if least is None and (bad or short or lost):
            lacks = [f"{len(bad)} of {count} items have no output: {told_items(bad)}"] if bad else []
            lacks += [f"{len(short)} of {count} items are incomplete: {told_items(short)}"] if short else []
            lacks += [f"its list is incomplete: {lost.message}"] if lost else []
            problem = Problem("items", "; ".join(lacks))
        return Ending("ok", problem, compact(self.value.data))

    @property
    def value(self) -> Value:  # noqa: D102 - see the base class
        found = [each.value if each.is_good else None for each in self.children]
        levels = [each.levels for each in found if each is not None]
        return Value([None if each is None else each.data for each in found], 1 + max(levels, default=0))

    @property
    def is_whole(self) -> bool:  # noqa: D102 - see the base class
        return all(each.is_whole for each in self.children if each.is_good)

    def replaces(self, old: StepNode, new: StepNode) -> None:  # noqa: D102 - see the base class
        super().replaces(old, new)
        for begin in _beginnings(old.lineage):
            found = self._elements[begin]
            found[found.index(old)] = new


class Turns(Expansion):
    """The turns of a block: one, or those of a loop."""

    def __init__(self, graph: DependencyGraph, node: StepNode) -> None:
        super().__init__(node)
        self._graph = graph
        self.frame: Frame | None = None
        """The current turn."""
        self.turn = 0
        self._names = node.names if not self._block.plan else self._arguments(self._block)

    def _arguments(self, block: Block) -> Mapping[str, Value]:
        """Return the values of the parameters of a saved plan; raise `Unmet` if one is wrong."""
        node, found = self.node, dict[str, Value]()
        for name, given in (block.args or {}).items():
            value = with_values(given, node.names, lambda reference: node.value_of(reference).data)
            if fault := misfit(Form.of((block.parameters or {})[name]), value):
                told = f"plan {block.plan} has a wrong value for {name}: the argument {fault}"
                raise Unmet("failed", Problem("bad_args", f"{told}: refer to a value of this type"))
            found[name] = Value(value)
        return found

    def advance(self) -> Sequence[StepNode]:  # noqa: D102 - see the base class
        if self.left or (self.frame is not None and self._judged() is not None):
            return ()
        node, block, before = self.node, self._block, self.frame
        self.turn += 1
        is_loop = block.until is not None
        self.frame = Frame(
            block.steps,
            node,
            f"{node.name}({self.turn})." if is_loop else f"{node.name}.",
            is_loop or node.frame.in_loop,
            before if is_loop else node.frame.before,
        )
        made = [
            self._graph.add(
                step,
                self.frame,
                number,
                path=f"{self.frame.prefix}{number}",
                parent=self,
                names=self._names,
                order=node.order,
            )
            for number, step in enumerate(block.steps)
        ]
        self._graph.end_unseen(self.frame, () if block.until is None else [block.until.reference])
        self.children += made
        self.left = len(made)
        batch = Batch(node, made) if self.turn > 1 else node.batch
        for each in made:
            each.batch = batch
        return made

    @property
    def _block(self) -> Block:
        assert isinstance(self.node.step, Block)
        return self.node.step

    def ending(self) -> Ending | None:  # noqa: D102 - see the base class
        return None if self.left or self.frame is None else self._judged()

    def _judged(self) -> Ending | None:
        """Return how the block ends after its turn; `None` if another turn follows."""
        assert self.frame is not None
        answer, block = self.frame.answer, self._block
        if not answer.is_good:
            return self._without(answer)
        text = answer.outcome.text if answer.outcome is not None else ""
        holds = True
        if block.until is not None:
            judge = StepNode(-1, block, frame=self.frame, number=len(block.steps), names=self._names)
            try:
                holds = block.until.holds(judge.value_of(block.until.reference, may_lack=True).data)
            except (Unmet, BadValue) as error:
                return Ending("failed", Problem("turn", f"turn {self.turn} failed: until: {error}"))
        if holds:
            return Ending("ok", _problem(answer), text)
        if self.turn < (block.most or 1):
            return None
        told = f"{block.until} does not hold after {self.turn} turns"
        return Ending("ok", Problem("not_converged", told), text)

    def _without(self, answer: StepNode) -> Ending:
        """Return how the block ends if its turn has no output."""
        is_loop = self._block.until is not None
        if answer.is_dropped and not is_loop:
            return Ending("skipped", Problem(NO_BRANCH, "no branch of the block ran"))
        told = "no branch of it ran" if answer.is_dropped else told_items(self._causes(answer))
        if is_loop:
            return Ending("failed", Problem("turn", f"turn {self.turn} failed: {told}"))
        return Ending("failed", Problem(_code([answer]), told))

    def _causes(self, answer: StepNode) -> Sequence[StepNode]:
        """Return the steps of the turn that failed on their own, or the step that is its answer."""
        assert self.frame is not None
        ended = [(each, each.outcome) for each in self.frame.nodes if each.outcome is not None]
        failed = [each for each, end in ended if end.status == "failed" and not end.follows]
        return failed or [answer]

    @property
    def value(self) -> Value:  # noqa: D102 - see the base class
        assert self.frame is not None
        return self.frame.answer.value

    @property
    def is_whole(self) -> bool:  # noqa: D102 - see the base class
        return self.frame is not None and self.frame.answer.is_whole


def _beginnings(lineage: Lineage) -> list[Lineage]:
    return [lineage[:length] for length in range(1, len(lineage) + 1)]


def _is_neutral(child: StepNode) -> bool:
    """Return whether an item without an output is not counted as failed: skipped, or not needed."""
    problem = None if child.outcome is None else child.outcome.problem
    return child.is_dropped or (problem is not None and problem.code == NOT_NEEDED.code)


def _why_skipped(source: StepNode | None) -> tuple[StepStatus, Problem]:
    """Return why an item without a value is skipped; it came from the item or the list `source`."""
    name = "its item" if source is None else f"its item, of step {source.name},"
    if source is not None and (_is_neutral(source) or source.is_whole):
        return "skipped", Problem(CONDITION, f"{name} was not needed, or was skipped")
    return "skipped", Problem("dependency", f"{name} has no output")


def _view(other: StepNode, elements: Sequence[StepNode]) -> StepNode:
    """Return several elements of a map as one ended step."""
    good = [each for each in elements if each.is_good]
    bad = [each for each in elements if not each.is_good and not _is_neutral(each)]
    view = StepNode(other.index, other.step, subtask=other.subtask, number=other.number, path=other.path)
    view.written = frozenset[str]().union(*(each.written for each in good))
    found = [each.value if each.is_good else None for each in elements]
    data = [None if each is None else each.data for each in found]
    view.known = Value(data, 1 + max((each.levels for each in found if each), default=0))
    status: StepStatus = "failed" if bad and not good else "ok"
    problem = Problem(_code(bad), told_items(bad)) if bad else None
    view.outcome = Outcome(
        round=0, step=other.index, worker="", status=status, text=compact(data), problem=problem
    )
    view.is_whole = problem is None and all(each.is_whole for each in good)
    return view


def _problem(node: StepNode) -> Problem | None:
    """Return why a step that is `ok` is incomplete: on its own, or by its inputs."""
    outcome = node.outcome
    if outcome is None or node.is_whole:
        return None
    if outcome.problem is not None:
        return outcome.problem
    gone = [each for each in node.inputs if not each.is_good and not each.is_dropped]
    if gone and node.step.enough is None:
        return Problem(_code(gone), f"made without {told_items(gone)}")
    sources = [*node.inputs, *([] if node.origin is None else [node.origin])]
    found = filter(None, map(_problem, (each for each in sources if each.is_good)))
    return next(found, Problem("items", "it was made from incomplete outputs"))


_TOLD, _MOST_CHARS = 3, 160


def told_items(nodes: Sequence[StepNode]) -> str:
    """Return the names of steps with their problems, the first of many; of unknown actions the first."""
    unknown = [each for each in nodes if each.outcome is not None and each.outcome.action == "unknown"]
    told = []
    for node in unknown[:1]:
        alike = [f"step {each.name}" for each in unknown[1:_TOLD]]
        alike += [f"{len(unknown) - _TOLD} more"] if len(unknown) > _TOLD else []
        same = f"; likewise {', '.join(alike)}" if alike else ""
        told.append(f"step {node.name}: {node.outcome.problem.message}{same}")  # type: ignore[union-attr]
    nodes = [each for each in nodes if each not in unknown]
    for node in nodes[:_TOLD]:
        problem = _problem(node) if node.is_good else node.outcome.problem if node.outcome else None
        message = problem.message if problem is not None else "it has no output"
        short = message if len(message) <= _MOST_CHARS else message[:_MOST_CHARS] + "…"
        told.append(f"step {node.name}: {short}")
    more = f"; and {len(nodes) - _TOLD} more" if len(nodes) > _TOLD else ""
    return "; ".join(told) + more


def _code(nodes: Sequence[StepNode], otherwise: str = "") -> str:
    """Return `limit` if a step has this problem, else another code: by default the first code."""
    codes = [each.outcome.problem.code for each in nodes if each.outcome and each.outcome.problem]
    return LimitExceeded.code if LimitExceeded.code in codes else otherwise or (codes or ["missing"])[0]
