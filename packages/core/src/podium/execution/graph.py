"""The steps of a round and their dependencies."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, Unpack

from podium.budget.limits import Limits
from podium.errors import AnswerTooLong
from podium.execution.context import PreviousRound, RunContext
from podium.execution.node import NO_NAMES, Frame, Lineage, Place, StepNode, Unmet, Value
from podium.execution.retry import OnFailure
from podium.prompts.prompt import mentioned, told_task
from podium.run_state.actions import AGAIN
from podium.types.outcome import CONDITION, Problem
from podium.types.plan import Plan
from podium.types.references import BadValue, Reference, filled, parts_of
from podium.types.scope import label_of, own_elements, source_of
from podium.types.steps import (
    AnyStep,
    Step,
    branches,
    depends_on,
    positions,
    reaching,
    static_place,
    task_of,
    waits_of,
)
from podium.workers.worker import VisibleStep

SUPERSEDED = Problem("superseded", "the step's plan was replaced")
UNSEEN = Problem("unseen", "no later step depends on this step, and it is not the last")
ENOUGH = Problem("enough", "the steps that depend on this step have enough other inputs")
ABORTED = Problem("aborted", "another step failed, and on_failure is fail")

WAITING = "waiting"
"""Problem code: a plan or an action waits for approval, or a question for an answer."""

Verdict = Literal["wait", "start", "skip", "end", "stand", "abort"]

_ENDS = {"failed": "failed", "cancelled": "was cancelled", "skipped": "was skipped"}


class DependencyGraph:
    """The steps of a round, in the plan's order. Steps can be added before the plan is complete."""

    def __init__(
        self, context: RunContext, on_failure: OnFailure, places: Mapping[str, int] | None = None
    ) -> None:
        self._context = context
        self._on_failure = on_failure
        self._places = {} if places is None else {**places}
        """By path: the numbers of executions inside of maps and blocks, which a resumed run keeps."""
        self._next = 0
        self._root = Frame(())
        self._names: Mapping[str, Value] = NO_NAMES
        """The values of the parameters of the plan, if it is a saved plan."""
        self.states: list[StepNode] = self._root.nodes
        """The steps of the plan, in order."""
        self.parts: dict[int, StepNode] = {}
        """By number: the executions inside of maps and blocks, as they were made."""
        self.open_parts: dict[str, dict[StepNode, None]] = {}
        """The executions that have not called a worker, by the name of their step in the plan."""
        self.due: dict[StepNode, None] = {}
        """The maps and blocks that can continue."""
        self.recheck: list[StepNode] = []
        """The steps to decide on again, because a later branch was decided."""
        self._waiting: dict[StepNode, dict[Lineage, list[Callable[[], None]]]] = {}
        """By map and lineage: what takes the items again that wait for elements of the map."""
        self._superseded: list[StepNode] = []
        self.plan: Plan | None = None
        """The complete plan; `None` until it is known."""

    @property
    def limits(self) -> Limits:
        """The limits of the run."""
        return self._context.settings.limits

    def acts(self, step: Step) -> bool:
        """Return whether a call of a step is an action."""
        return self._context.settings.acts(step.worker)

    @property
    def last(self) -> StepNode | None:
        """The step that gives the answer, if the plan is complete and has one such step; else `None`."""
        if self.plan is None or not self.states or len(self.plan.answers) > 1:
            return None
        return None if self.states[-1].expands else self.states[-1]

    @property
    def all(self) -> list[StepNode]:
        """The steps, the items and turns, each in the plan's order, then the steps of a replaced plan."""
        parts = sorted(self.parts.values(), key=lambda each: positions(each.path))
        return [*self.states, *parts, *self._superseded]

    @property
    def live(self) -> list[StepNode]:
        """The plan's steps, and the items and turns."""
        return [*self.states, *self.parts.values()]

    def append(self, step: AnyStep) -> StepNode:
        """Add the next step of the plan and return its state."""
        self._root.steps = (*self._root.steps, step)
        return self.add(step, self._root, len(self.states), names=self._names)

    def add(self, step: AnyStep, frame: Frame, number: int, **place: Unpack[Place]) -> StepNode:
        """Add a step of a plan or block, or an item, and return its state."""
        path, settings = place.get("path", ""), self._context.settings
        index = self._index_of(path) if path else number
        following = max([1, *(other.following for other in self._superseded if other.index == index)])
        state = StepNode(index, step, following, frame=frame, number=number, **place)
        state.acts = not state.expands and settings.acts(state.call.worker)
        state.is_free = settings.asks_only(step)
        if state.parent is not None:
            state.reach = state.parent.node.reach
        if state.origin is not None:
            state.reach |= state.origin.written
        self._connect(state)
        state.subtask = task_of(step)
        if "{{" in state.subtask:
            labels = {seen: label_of(frame.steps[seen], seen) for seen in range(number)}
            state.subtask = told_task(
                step, labels, self._context.request.context, state.names, lambda each: state.named(each).data
            )
        if not place.get("lineage"):
            frame.nodes.append(state)
        if path:
            self.parts[index] = state
            self.open_parts.setdefault(static_place(path), {}).update({} if state.is_free else {state: None})
        return state

    def _index_of(self, path: str) -> int:
        if path not in self._places:
            if not self._next:
                first = 10 ** max(4, len(str(len(self.states))))  # so that no step of a plan has this number
                self._next = max([first, *(1 + each for each in self._places.values())])
            self._places[path], self._next = self._next, self._next + 1
        return self._places[path]

    def _connect(self, state: StepNode) -> None:
        """Make a step wait for the steps that it depends on."""
        step, steps = state.step, state.frame.steps
        if step.is_plain and not state.path:
            own, others = set[int](), set[int]()
        else:
            own = set(own_elements(steps, state.number)) if step.each is not None else set()
            source = source_of(steps, state.number) if step.each is not None else None
            own |= set() if source is None else {source}
            others = depends_on(step) - {*step.access}
        for seen in own:  # its items wait
            state.frame.nodes[seen].followers.append(state)
        for seen in step.access:
            if seen in own:
                continue
            before = state.seen(seen)
            state.inputs.append(before)
            before.dependents.append(state)
            state.blocked += before.outcome is None
            state.good += state.takes(before)
        needed = (
            others if step.otherwise is None else depends_on(replace(step, otherwise=None)) - {*step.access}
        )
        state.awaits = [state.seen(seen) for seen in needed - own]
        for seen in (others - own) | (own & {step.otherwise}):
            state.seen(seen).waiters.append(state)
        dropped = sum(each.is_dropped for each in state.inputs)
        state.least = min(state.least, len(state.inputs) - dropped)

    def take(self, plan: Plan) -> list[StepNode]:
        """Set the complete plan, and return the states of added steps that the plan does not have."""
        most, same = len(plan.steps) - self._context.last_step_differs, 0
        while same < min(len(self.states), most) and self.states[same].step == plan.steps[same]:
            same += 1
        others = self.states[same:]
        self._superseded += others
        del self.states[same:]
        self._root.steps = plan.steps[:same]
        self._names = {name: Value(value) for name, value in (plan.args or {}).items()}
        for step in plan.steps[same:]:
            self.append(step)
        self.plan = plan
        return others

    def begin(self, state: StepNode) -> None:
        """Take note of a map or block that begins."""
        self.due[state] = None
        self._close(state)

    def renew(self, state: StepNode) -> StepNode:
        """Put the same step in the place of a step whose worker turned out to act, after that has ended."""
        again = replace(
            state, acts=True, blocked=1 + state.blocked, visible=None, calls=[], scope=None, key="", exact=""
        )
        again.good = sum(again.takes(each) for each in again.inputs)
        if state.path:
            self.parts[state.index] = again
        if state.parent is not None:
            state.parent.replaces(state, again)
        if not state.lineage:
            state.frame.nodes[state.number] = again
        self._superseded.append(state)
        state.dependents, state.waiters, state.parent = [again], [], None
        return again

    def end_unseen(self, frame: Frame, references: Iterable[Reference] = ()) -> None:
        """Skip the steps of a frame that cannot reach its answer and do not act."""
        steps = frame.steps
        ends = [
            *(branches(steps) or [len(steps) - 1]),
            *(each.root for each in references if isinstance(each.root, int)),
        ]
        ends += self._context.settings.actions_in(steps)
        needed = reaching(steps, ends)
        for state in frame.nodes:
            if state.number not in needed and state.outcome is None:
                state.unmet = "skipped", UNSEEN

    def wait_for(self, other: StepNode, lineage: Lineage, again: Callable[[], None]) -> None:
        """Call `again` when elements of a map are known, or the map has ended."""
        self._waiting.setdefault(other, {}).setdefault(lineage, []).append(again)

    def touch(self, state: StepNode, lineage: Lineage) -> None:
        """Continue the items that wait for elements of a map with this lineage."""
        waiting = self._waiting.get(state)
        for length in range(1, len(lineage) + 1) if waiting else ():
            assert waiting is not None
            for again in waiting.pop(lineage[:length], ()):
                again()

    def wake(self, state: StepNode) -> None:
        """Continue all items that wait for elements of a map, which has begun or ended."""
        for waiting in self._waiting.pop(state, {}).values():
            for again in waiting:
                again()

    def _close(self, state: StepNode) -> None:
        if state.path:
            self.open_parts[static_place(state.path)].pop(state, None)

    def ended(self, state: StepNode) -> None:
        """Take note of the end of a step in the map or block around it, and in those that follow it."""
        self._close(state)
        self.wake(state)
        for follower in state.followers:
            if follower.expansion is not None:
                self.due[follower] = None
        if state.parent is not None:
            state.parent.ended(state)
            self.due[state.parent.node] = None
        if state.step.when is not None:
            self._recheck(state)

    def _recheck(self, state: StepNode) -> None:
        row = branches(state.frame.steps)
        if state.number in row:
            self.recheck += [state.frame.nodes[index] for index in row if index < state.number]

    def verdict(self, state: StepNode) -> Verdict:
        """Return what to do with a step, based on the steps that have ended."""
        if state.outcome is not None or state.reason is not None:
            return "wait"
        if state.unmet is not None:
            return "end"
        if state.visible is not None:
            return "wait"
        if (ruled := self._ruled(state)) is not None:
            return ruled
        if state.acts and state.step.previous and not self._before(state).is_whole:
            return "skip"
        return self._by_inputs(state)

    def _by_inputs(self, state: StepNode) -> Verdict:
        """Return what the steps on its access list say."""
        if state.good >= state.least or self._bridges(state):
            return "start"
        if state.good + state.blocked >= state.least or self.plan is None:
            return "wait"
        ends = [each.outcome for each in state.inputs]
        if self._on_failure == "fail" and any(end is not None and end.status != "ok" for end in ends):
            return "abort"
        return "wait" if state.blocked else "skip"

    def _ruled(self, state: StepNode) -> Verdict | None:
        """Return what the rules of workflows say; `None` if the inputs of the step decide."""
        if self.plan is None:
            waits = state.acts or state.asks or state.expands or state.step.when is not None
            return "wait" if waits or self._context.needs_plan(state.call) else None
        if not self.plan.is_workflow:
            return None
        try:
            if state.step.when is not None and (decided := self._decided(state)) is not None:
                return decided
            self._check_references(state)
        except Unmet as unmet:
            if unmet.status == "skipped" and (other := state.step.otherwise) is not None:
                return "wait" if state.frame.nodes[other].outcome is None else "stand"
            state.unmet = unmet.status, unmet.problem
            return "end"
        return "wait" if any(each.outcome is None for each in state.awaits) else None

    def _decided(self, state: StepNode) -> Verdict | None:
        """Return what the condition of a step says; `None` if it holds."""
        step = state.step
        assert step.when is not None
        if state.holds is None:
            target = state.target(step.when.reference)
            if target is not None and target[0].outcome is None:
                return "wait"
            try:
                state.holds = step.when.holds(state.value_of(step.when.reference, may_lack=True).data)
            except BadValue as error:
                raise Unmet("failed", Problem(error.code, f"its condition: {error}")) from error
            except Unmet as unmet:
                if unmet.status != "skipped" or step.otherwise is None:
                    raise
                state.holds = False
            self._recheck(state)
        if not state.holds:
            raise Unmet("skipped", Problem(CONDITION, f"its condition does not hold: {step.when}"))
        later = state.frame.later_branches(state)
        for each in later:
            if each.holds or (each.holds is None and each.outcome is not None):
                state.unmet = "skipped", Problem(CONDITION, f"a later branch, step {each.name}, runs")
                return "end"
        return "wait" if any(each.holds is None for each in later) else None

    def _check_references(self, state: StepNode) -> None:
        """Raise `Unmet` if what a step refers to, or all that it sees, has no output."""
        numbers = state.step.references if isinstance(state.step, Step) else ()
        named = [state.seen(number) for number in numbers]
        if state.step.each is not None:
            found = [state.target(reference) for reference in waits_of(state.step)]
            named += [target[0] for target in found if target is not None]
        for other in (each for each in named if each.outcome is not None and not each.is_good):
            other.value  # noqa: B018 - raises why there is none
        others = state.step.previous or state.step.outer or len(state.inputs) < len(state.step.access)
        if state.inputs and not others and all(each.is_dropped for each in state.inputs):
            raise Unmet("skipped", Problem(CONDITION, "all steps on its access list were skipped"))

    def _before(self, state: StepNode) -> PreviousRound:
        """Return what a step with "previous" on its access list sees: the turn or the round before."""
        if not state.frame.in_loop:
            return self._context.previous
        if (frame := state.frame.before) is None:
            return PreviousRound()
        good = [each for each in frame.nodes if each.is_good]
        visible = tuple(replace(each.as_shown(has_output=True), where="turn") for each in good)
        labels = frozenset[str]().union(*(each.written for each in good))
        return PreviousRound(visible, labels, frame.answer.is_whole)

    def _bridges(self, state: StepNode) -> bool:
        """Return whether a step runs with a note on its missing inputs."""
        step = state.step
        if self._on_failure != "note" or state.acts or state.blocked:
            return False
        numbers = step.references if isinstance(step, Step) else ()
        if not all(state.seen(number).is_good for number in numbers):
            return False
        sees_elements = len(state.inputs) < len(step.access)  # which the items of a map see
        return bool(state.good) or sees_elements or (step.previous and bool(self._before(state).visible))

    @property
    def able(self) -> set[int]:
        """The indices of the steps that have an output, or may get one without the failed steps."""
        able = set[int]()
        for state in self.states:
            inputs = [
                each
                for each in state.inputs
                if each.index in able and (each.outcome is None or state.takes(each))
            ]
            fewest = state.least
            if not state.acts:
                fewest = min(fewest, 0 if state.step.previous and self._before(state).visible else 1)
            named = state.step.references if isinstance(state.step, Step) else ()
            needed = {*named, *(each.index for each in state.awaits)}
            may_run = len(inputs) >= fewest and able.issuperset(needed)
            if state.is_good if state.outcome is not None else may_run:
                able.add(state.index)
        return able

    def lack(self, state: StepNode) -> Problem:
        """Return why a step is skipped: the steps that it depends on and that have no output."""
        inputs = state.inputs
        ended = [(each, each.outcome) for each in inputs if each.outcome is not None and not each.is_dropped]
        bad = [f"step {each.name} {_ENDS[end.status]}" for each, end in ended if end.status != "ok"]
        if not state.acts:
            return Problem("dependency", f"it lacks an input: {', '.join(bad)}")
        bad += [f"step {each.name} is incomplete" for each in inputs if each.is_good and not each.is_whole]
        if state.step.previous and not self._before(state).is_whole:
            bad.append("the previous round is incomplete")
        told = f"an action is carried out only from complete inputs: {', '.join(bad)}"
        kept = [each.name for each in self.states if any(each.lacks(seen.index) for seen in each.inputs)]
        if kept and any(each.outcome.reused for each in inputs if each.outcome):
            told += f"; to make step {', '.join(kept)} again, resume the run with refresh=True (--refresh)"
        return Problem("dependency", told)

    def is_whole(self, state: StepNode) -> bool:
        """Return whether the output of a step is complete, and was made from complete inputs."""
        outcome = state.outcome
        if outcome is None or outcome.status != "ok":
            return False
        if outcome.problem is not None and outcome.problem.code != AGAIN:
            return False
        if state.stand_in is not None:
            return state.stand_in.is_whole
        if state.expansion is not None and not state.expansion.is_whole:
            return False
        return self.has_whole_inputs(state)

    def has_whole_inputs(self, state: StepNode) -> bool:
        """Return whether all that a step sees is complete, and was made from complete inputs."""
        shown = state.inputs
        if state.shown is not None:
            shown = [each for each in state.inputs if each.index in state.shown]
        whole = not state.step.previous or self._before(state).is_whole
        if state.origin is not None:
            whole = whole and state.origin.is_whole
        if state.step.outer and state.frame.outer is not None:
            whole = whole and self.has_whole_inputs(state.frame.outer)
        return whole and len(shown) >= state.least and all(each.is_whole for each in shown)

    def show(self, state: StepNode, kept: Sequence[int] | None = None) -> None:
        """Set what a step that can start sees; with `enough`, the steps that ended first."""
        step, inputs = state.step, state.inputs
        good = inputs if kept is None else [each for each in inputs if each.index in kept]
        if kept is None and state.good < len(good):
            good = [each for each in good if state.takes(each)]
        if step.enough is not None and step.each is None and len(good) > step.enough:
            first = sorted(good, key=lambda each: each.rank)[: step.enough]
            good = [each for each in good if each in first]
        visible, outer = self.seen(state, good), state.frame.outer
        state.reach = state.reach | state.reads(waits_of(step))
        around = outer.labels if outer is not None and step.outer else frozenset[str]()
        before = self._before(state).labels if step.previous else frozenset[str]()
        parts = [each.written for each in good]
        state.labels = self._context.labels.union(before, around, state.reach, *parts)
        if isinstance(step, Step) and not state.expands:
            self._fill(state, step)
        self._check_length(state)
        state.visible = visible
        if len(good) < len(inputs):
            mapped = [each for each in map(state.seen, step.access) if each not in inputs]
            state.shown = tuple(each.index for each in (*good, *mapped))

    def _fill(self, state: StepNode, step: Step) -> None:
        """Replace references in a subtask by their values; raise `Unmet` if one leads to nothing."""
        if "{{" not in step.subtask or not (step.has_values or state.names or state.path):
            return
        reads_prose = self._context.settings.pool.workers[step.worker].reads_prose
        found = [part for part in parts_of(step.subtask, state.names) if isinstance(part, Reference)]
        values: dict[Reference, Any] = {}
        for reference in found:
            is_bare = isinstance(reference.root, int) and not reference.path
            if not is_bare or (not reads_prose and state.seen(int(reference.root)).is_typed):
                values[reference] = state.value_of(reference).data
        if values:
            state.labels |= state.reads(values)
            subtask = filled(step.subtask, values)
            if not subtask.strip():
                raise Unmet("failed", Problem("bad_value", "the subtask is empty with its values filled in"))
            state.step, state.template = (
                replace(step, subtask=subtask),
                filled(step.subtask, values, only_json=True),
            )
            labels = {seen: label_of(state.frame.steps[seen], seen) for seen in step.access}
            state.subtask = mentioned(state.call.subtask, labels, self._context.request.context)

    def _check_length(self, state: StepNode) -> None:
        """Raise `Unmet` if a list that a step sees is too long."""
        most = self.limits.output_chars
        for each in state.inputs:
            is_list = each.expansion is not None and each.step.each is not None
            if is_list and each.outcome and len(each.outcome.text) > most:
                told = f"the list of step {each.name} has {len(each.outcome.text):,} characters"
                told += f", and Limits.output_chars allows {most:,}: show it in parts, or raise it"
                raise Unmet("failed", Problem(AnswerTooLong.code, told))

    def seen(self, state: StepNode, good: Collection[StepNode]) -> tuple[VisibleStep, ...]:
        """Return what a step sees if `good` are the steps on its access list with an output."""
        if state.step.is_plain and not state.path:
            access: Collection[StepNode] = good if len(good) >= state.least else state.inputs
        else:
            some = [each for each in state.inputs if not each.is_dropped]
            access = good if len(good) >= state.least else some
        before = self._before(state).visible if state.step.previous else ()
        outer = state.frame.outer
        if state.step.outer and outer is not None:
            around = [each if each.where else replace(each, where="outer") for each in outer.visible or ()]
            before = (*before, *around)
        return (*before, *[each.as_shown(has_output=each in good) for each in access])

    @property
    def unwanted(self) -> Iterator[StepNode]:
        """The unfinished steps that no other step waits for, from the last to the first."""
        answers = () if self.plan is None else self.plan.answers
        for state in reversed(self.states):
            acts = self._context.settings.actions_in([state.step])
            if state.outcome is None and not (acts or state.is_wanted or state.index in answers):
                yield state
