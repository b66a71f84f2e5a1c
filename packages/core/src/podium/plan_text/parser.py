"""Finds the plan in the text of a planner."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from podium.errors import PlanError, PlanInvalid, PlanSyntaxError
from podium.plan_text.fields import (
    FIELDS,
    Field,
    Roster,
    field_key,
    is_row,
    plan_object,
    plan_of,
    read_columns,
    read_object,
    read_row,
)
from podium.plan_text.forms import call_in, holds_task, read_form
from podium.plan_text.ids import StepIds
from podium.plan_text.literals import THOUGHT, LiteralReader, Node, Unfinished
from podium.types.plan import Plan
from podium.types.steps import AnyStep


class LabelledList(NamedTuple):
    """A list, the field that its label names, the position of the label, and the position after the list."""

    field: Field
    node: Node
    start: int
    end: int


def choose_lists(lists: Sequence[LabelledList]) -> Mapping[Field, Node] | None:
    """Return the last set of three consecutive lists, one for each field; `None` if a field has no list."""
    # Of two sets that share a list, the one with equal lengths counts, or else the one with smaller gaps.
    sets = [i for i in range(len(lists) - 2) if len({one.field for one in lists[i : i + 3]}) == 3]
    sets.sort(key=lambda i: _looseness(lists[i : i + 3]))
    taken: set[int] = set()
    starts: list[int] = []
    for i in sets:
        if taken.isdisjoint((i, i + 1, i + 2)):
            taken.update((i, i + 1, i + 2))
            starts.append(i)
    starts.sort()
    chosen = {one.field: one.node for i in starts[-1:] for one in lists[i : i + 3]}
    if _fit(chosen):
        return chosen
    latest = {one.field: one.node for one in lists}
    return latest if _fit(latest) or (len(latest) == 3 and not chosen) else chosen or None


def _looseness(found: Sequence[LabelledList]) -> tuple[bool, int]:
    """Return the sort key of a set of three lists; the smaller key is preferred."""
    gap = found[1].start - found[0].end + found[2].start - found[1].end
    return not _fit({one.field: one.node for one in found}), gap


def _fit(found: Mapping[Field, Node]) -> bool:
    """Return whether these are three lists of equal length."""
    lengths = {len(node.value) if isinstance(node.value, list) else -1 for node in found.values()}
    return len(found) == 3 and len(lengths) == 1 and -1 not in lengths


MAX_CHARS = 256 * 1024
"""Maximum length of a plan's text, in characters."""

_ANCHOR = re.compile(
    r"[<{`mwsaMWSA](?i:"  # a set of first characters makes the search fast
    r"(?<=<)(?P<think>/?" + THOUGHT + r">)"
    r"|(?P<object>(?<=\{))"
    r"|(?P<fence>(?<=`)``)"
    r"|(?<=[a-z])(?<![a-z0-9].)(?P<label>(?:(?<=m)odel|(?<=w)orker)[_ ]?ids?|(?<=w)orkers?|(?<=s)ub_?tasks?"
    r"|(?<=a)ccess(?:[_ ]?lists?)?)(?!\w)"
    r"[\s\u00a0\u3000\"'`*]*+(?>(?:(?P<sign>:=|[:=：＝])[\s\u00a0\u3000\"'`*]*+"
    r"(?>(?:list\[[\w\[\], |]{0,40}\][ \t]*+=\s*+)?)(?>(?:(?:python|json|text)\s++)?))?))",
    re.ASCII,
)
_THOUGHT_ENDS = re.compile(rf"</{THOUGHT}>", re.IGNORECASE)
_ROW_MARKS = r"[\s\ufeff\u200b,;\[\]()*>`#.:=–—-]*+"
_ROW_START = re.compile(
    rf"{_ROW_MARKS}(?>(?:(?:steps?|rows?|plan|json)(?![^\W\d]))?)\s*+(?>(?:[0-9]{{1,3}}(?!\d))?){_ROW_MARKS}",
    re.IGNORECASE,
)
_LIKE_A_PLAN = re.compile(r"\{[\s\"'“”]*+(?:plan|steps|worker|model_?id|sub_?task|access)", re.IGNORECASE)
_MIN_GROWTH = 64
"""Minimum number of characters between two attempts to read an unfinished literal."""

_NONE: Mapping[str, str] = {}


def parse_plan(
    text: str,
    *,
    workers: int | Sequence[str],
    max_steps: int = 32,
    previous: bool = True,
    strict: bool = False,
) -> Plan:
    """Read the plan in `text`.

    Args:
        text: a plan in any of the three spellings, with or without other text around it.
        workers: the number of workers, or their names in the pool's order. With names,
            steps may use the number or the name of their worker.
        max_steps: maximum number of steps; in a run, `Limits.plan_steps`.
        previous: whether there is a previous round, which access lists may name.
        strict: whether unknown keys of steps are errors, as in files; otherwise they are ignored, and
            `Plan.notes` names them.

    Returns:
        The plan; a plan without steps means "keep the previous answer".

    Raises:
        PlanSyntaxError: the text contains no readable plan.
        PlanInvalid: the plan breaks a rule.
    """
    reader = PlanReader(workers=workers, max_steps=max_steps, previous=previous, strict=strict)
    return reader.close(text)


class PlanReader:
    """Reads a plan from text that arrives in pieces.

    Args:
        workers: the number of workers, or their names in the pool's order.
        max_steps: maximum number of steps; in a run, `Limits.plan_steps`.
        previous: whether there is a previous round, which access lists may name.
        refused: names of further workers that no plan may have, each with the reason. None by default.
        strict: whether unknown keys of steps are errors; see `parse_plan`.
    """

    def __init__(
        self,
        *,
        workers: int | Sequence[str],
        max_steps: int = 32,
        previous: bool = True,
        refused: Mapping[str, str] = _NONE,
        strict: bool = False,
    ) -> None:
        names = () if isinstance(workers, int) else tuple(workers)
        size = workers if isinstance(workers, int) else len(names)
        self.previous = previous
        """Whether there is a previous round, which access lists may name."""
        self._whole: list[str] = []
        self._roster = Roster(size, names, max_steps, previous, refused, strict, [], text=self._whole)
        self._literals = LiteralReader()
        self._arrived: list[str] = []
        self._size = 0
        self._brace = False
        self._waiting = 0
        self._position = 0
        self._rows: list[AnyStep] = []
        self._starts: list[int] = []
        self._ids = StepIds()
        self._fences = [_Fence(0)]
        self._is_fenced = False
        self._object_end = 0
        self._after_row = False
        self._lists: list[LabelledList] = []
        self._object: Node | None = None
        self._failure: PlanError | None = None
        self._row_failure: PlanError | None = None
        self._other_form: int | None = None
        self._in_thought = False

    def feed(self, chunk: str) -> list[AnyStep]:
        """Add a piece of text and return the steps that it completes.

        Only rows can be complete before the end of the text.

        Raises:
            PlanSyntaxError: the text is too long, or has too many brackets and quotes.
        """
        known = len(self._rows)
        self._take(chunk)
        self._brace = self._brace or "}" in chunk
        # A row is complete when its brace and its line are. Each attempt reads an unfinished literal
        # from its start; the text must grow by a quarter between attempts, so the total time is linear.
        if self._brace and "\n" in chunk:
            unread = self._size - self._literals.offset
            if not self._waiting or unread > self._waiting * 5 // 4 + _MIN_GROWTH:
                self._scan(final=False)
        return self._rows[known:]

    def close(self, rest: str = "") -> Plan:
        """Add the last piece of text and return the plan.

        Raises:
            PlanSyntaxError: the text contains no readable plan.
            PlanInvalid: the plan breaks a rule.
        """
        plan = self._close(rest)
        if len(plan.calls) > self._roster.max_steps:
            allowed = f"the maximum is {self._roster.max_steps} (Limits.plan_steps or Policy.steps)"
            message = f"the plan has {len(plan.calls)} steps, also in blocks; {allowed}: merge steps"
            raise PlanInvalid("too_many_steps", message)
        notes = tuple(dict.fromkeys(self._roster.notes))
        return replace(plan, notes=notes) if notes else plan

    def _close(self, rest: str) -> Plan:
        self._take(rest)
        self._scan(final=True)
        self._end_fence()
        columns = choose_lists(self._lists)
        if self._rows or columns or self._object:
            self._refuse_other_form(is_free=bool(columns))
        if self._rows:
            if columns or self._object:
                message = "the text has rows and another plan: write one plan, in one spelling"
                raise PlanSyntaxError("two_plans", message, position=self._object_end)
            if self._row_failure:
                raise self._row_failure
            if any(fence.is_plan for fence in self._fences) and len(self._rows) > len(self._fences):
                message = "the text has rows of two plans, in different code fences: write one plan"
                raise PlanSyntaxError("two_plans", message, position=self._object_end)
            return plan_of(self._rows, self._starts)
        if columns:
            return read_columns(columns, self._roster)
        try:
            if self._object:
                return read_object(self._object, self._roster)
            raise self._failure or self._nothing_found()
        except PlanError as error:
            failure = error
        plan = None if self._roster.is_strict else read_form("".join(self._whole), self._roster)
        if plan is None:
            raise failure
        return plan

    def _refuse_other_form(self, *, is_free: bool) -> None:
        """Raise `PlanSyntaxError` for a step in a form that is not read beside the plan.

        Calls in the text around lists (`is_free`) are prose.
        """
        start = self._other_form
        if start is None and not is_free:
            start = call_in("".join(self._whole), self._roster)
        if start is not None:
            raise _other_form(start)

    def _nothing_found(self) -> PlanSyntaxError:
        if self._lists:
            missing = " and ".join(sorted(set(FIELDS.values()) - {found.field for found in self._lists}))
            message = f"the plan lacks the list for {missing}: write all three, one entry per step in each"
            return PlanSyntaxError("missing_list", message, position=self._lists[-1].end)
        if self._in_thought:
            message = "the reasoning is not closed: write </think>, and the plan after it"
        else:
            message = "the text has no plan: write its steps, each with worker, subtask and access"
        return PlanSyntaxError("no_plan", message, position=self._size)

    def _take(self, chunk: str) -> None:
        taken = chunk[: MAX_CHARS - self._size]
        self._arrived.append(taken)
        self._whole.append(taken)
        self._size += len(taken)
        if len(taken) < len(chunk):
            self._scan(final=False)
            message = f"the plan's text is longer than {MAX_CHARS:,} characters: write a shorter plan"
            raise PlanSyntaxError("too_long", message, position=MAX_CHARS)

    def _scan(self, *, final: bool) -> None:
        """Read the text so far: complete lines, or with `final` all of it."""
        text = "".join(self._arrived)
        literals = self._literals
        literals.load(text if final else text[: text.rfind("\n") + 1], literals.offset)
        position = self._read_on(final=final)
        # The whole line is kept: its beginning decides whether a row may start in it.
        line = text.rfind("\n", 0, position) + 1
        self._arrived = [text[line:]]
        self._position = position - line
        literals.offset += line
        self._waiting = len(literals.text) - line
        self._brace = "}" in text[len(literals.text) :]

    def _read_on(self, *, final: bool) -> int:
        """Continue to read where the last scan stopped, and return the position where this scan stops."""
        literals, position = self._literals, self._position
        while True:
            if self._in_thought:
                ending = _THOUGHT_ENDS.search(literals.text, position)
                if ending is None:
                    return len(literals.text)
                self._in_thought, position = False, ending.end()
            anchor = _ANCHOR.search(literals.text, position)
            if anchor is None or (anchor.end() == len(literals.text) and not final):
                return anchor.start() if anchor else len(literals.text)
            start, effort = anchor.start(), literals.effort
            try:
                position = reached = self._read_at(anchor)
            except Unfinished as unfinished:
                if not final:
                    literals.effort = effort
                    return start
                message = "the text ends inside the plan: write a complete, shorter plan"
                self._note_at(anchor, PlanSyntaxError("truncated", message, position=self._size))
                position, reached = anchor.end(), unfinished.reached
            except PlanSyntaxError as error:
                if error.code == "too_tangled":
                    raise
                self._note_at(anchor, error)
                position, reached = anchor.end(), error.position - literals.offset
            literals.spend(start, reached - start)

    def _read_at(self, anchor: re.Match[str]) -> int:
        """Read the tag, object or list at `anchor` and return the position after it."""
        literals, start, end = self._literals, anchor.start(), anchor.end()
        if anchor["think"]:
            if anchor["think"][0] == "/":
                self._forget_thoughts()
            else:
                self._in_thought = True
        elif anchor["fence"]:
            self._is_fenced = bool(self._rows)
        elif anchor["object"] is not None:
            node, end = literals.read(start)
            self._take_object(node, start, end)
        elif anchor["sign"] and literals.text[end : end + 1] in ("[", "("):
            node, end = literals.read(end)
            field = FIELDS[field_key(literals.text[start : anchor.end("label")])]
            self._lists.append(LabelledList(field, node, literals.offset + start, literals.offset + end))
        return end

    def _take_object(self, node: Node, start: int, end: int) -> None:
        at_row_start = self._at_row_start(start)
        self._object_end = self._literals.offset + end
        self._after_row = False
        holder = plan_object(node)
        if holder is not None:
            self._object = holder
            self._lists.clear()
        elif is_row(node, after_row=at_row_start and bool(self._rows)):
            self._after_row = True
            self._take_row(node, at_row_start=at_row_start)
        elif at_row_start and holds_task(node):
            self._other_form = node.start if self._other_form is None else self._other_form
            self._block_rows(_other_form(node.start))

    def _take_row(self, node: Node, *, at_row_start: bool) -> None:
        if not at_row_start:
            message = "a step starts in the middle of a line: write every row on its own line"
            error = PlanSyntaxError("bad_value", message, position=node.start)
            self._failure = self._failure or error
            if self._rows:
                self._block_rows(error)
        elif self._row_failure:
            self._failure = self._failure or self._row_failure
        else:
            if self._is_fenced:
                self._end_fence()
                self._fences.append(_Fence(len(self._rows)))
                self._is_fenced = False
            self._add_rows(self._fences[-1].take(node, self._rows, self._roster))

    def _end_fence(self) -> None:
        """Discard the rows of the last fence if they are the whole plan again; else add those held back."""
        fence = self._fences[-1]
        if fence.held and len(fence.held) == len(self._rows):
            self._fences.pop()
        else:
            self._add_rows(fence.held)
            first = self._rows[fence.start : fence.start + 1]
            fence.is_plan = (
                fence.is_plan and self._ids.latest is None and not any(step.access for step in first)
            )

    def _add_rows(self, nodes: Sequence[Node]) -> None:
        for node in () if self._row_failure else nodes:
            try:
                self._rows.append(read_row(node, self._roster, self._ids))
                self._starts.append(node.start)
            except PlanInvalid as error:
                self._failure = error
                self._block_rows(error)
                break

    def _at_row_start(self, start: int) -> bool:
        text, known = self._literals.text, self._object_end - self._literals.offset
        line = text.rfind("\n", max(known, 0), start) + 1
        if not line and known > 0 and not self._after_row:
            return False
        return _ROW_START.fullmatch(text, line or max(known, 0), start) is not None

    def _note_at(self, anchor: re.Match[str], error: PlanSyntaxError) -> None:
        """Keep the error of the text at `anchor`, if that text looks like a plan."""
        is_object = anchor["object"] is not None
        like_a_plan = is_object and _LIKE_A_PLAN.match(self._literals.text, anchor.start()) is not None
        if anchor["label"] or like_a_plan:
            self._failure = error
        # the numbers of later rows would be wrong, or they may be parts of the truncated object
        if is_object and (self._at_row_start(anchor.start()) or (like_a_plan and error.code == "truncated")):
            self._block_rows(error)

    def _block_rows(self, error: PlanError) -> None:
        """Accept no more rows; the first error is kept."""
        self._row_failure = self._row_failure or error

    def _forget_thoughts(self) -> None:
        """Discard the text before a closing tag without an opening tag: it is reasoning."""
        if self._rows:
            message = "the reasoning contains a row: write rows only after it"
            self._block_rows(PlanSyntaxError("rows_in_reasoning", message, position=self._object_end))
        else:
            self._lists.clear()
            self._ids = StepIds()
            self._object = self._failure = self._row_failure = self._other_form = None


def _other_form(position: int) -> PlanSyntaxError:
    told = "a step is in another form than the plan"
    message = f'{told}: write it as the others, as in {{"worker": …, "subtask": …, "access": …}}'
    return PlanSyntaxError("two_plans", message, position=position)


class _Fence:
    """The rows of a code fence, which begins after `start` rows."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.held: list[Node] = []
        """The rows so far, if they repeat the rows before the fence."""
        self.is_plan = bool(start)
        """Whether the rows are a plan without the rows before them."""
        self._is_again = bool(start)
        self._count = 0
        self._ids = StepIds()

    def take(self, node: Node, before: Sequence[AnyStep], roster: Roster) -> list[Node]:
        """Take the next row after the steps `before`, and return the rows that are further steps."""
        if self.is_plan:
            try:
                step = read_row(node, roster, self._ids)
            except PlanInvalid:
                self.is_plan = self._is_again = False
            else:
                self._is_again = self._is_again and before[self._count : self._count + 1] == [step]
        self._count += 1
        self.held.append(node)
        if self._is_again:
            return []
        rows, self.held = self.held, []
        return rows
