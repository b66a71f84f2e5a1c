r"""Finds the plan in what a planner wrote.

Three spellings are read, wherever they stand in the text: labelled lists, as in the RL
Conductor (arXiv 2512.04388, figure 2), one JSON object with `steps`, or rows of one JSON
object each. Text around them is passed over, and so is what a model thought aloud in
`<think>` blocks. Of lists or objects written more than once, the last whole set counts;
rows count from the first, since their steps may already be running.

`PlanReader` takes the text as it arrives; `parse_plan` is the same reader fed once. It
knows no pool, only how many workers there are or what they are called.
"""

import re
from collections.abc import Sequence

from podium.errors import PlanError, PlanInvalid, PlanSyntaxError
from podium.plan_text.fields import (
    FIELDS,
    Roster,
    field_key,
    is_row,
    plan_object,
    read_columns,
    read_object,
    read_row,
)
from podium.plan_text.labelled_lists import LabelledList, choose_lists
from podium.plan_text.literal_reader import LiteralReader, Node, Unfinished
from podium.plan_text.step_ids import StepIds
from podium.types.plan import Plan, Step

MAX_CHARS = 256 * 1024
"""Longest plan text that is read, in characters."""

_ANCHOR = re.compile(
    r"[<{mwsaMWSA](?i:"  # a plain set of first characters passes over the rest of the text fast
    r"(?<=<)(?P<think>/?(?:think|thinking|thought|reasoning)>)"
    r"|(?P<object>(?<=\{))"
    r"|(?<=[a-z])(?<![a-z0-9].)(?P<label>(?:(?<=m)odel|(?<=w)orker)[_ ]?ids?|(?<=w)orkers?|(?<=s)ub_?tasks?"
    r"|(?<=a)ccess(?:[_ ]?lists?)?)(?!\w)"
    r"[\s\u00a0\u3000\"'`*]*+(?>(?:(?P<sign>:=|[:=：＝])[\s\u00a0\u3000\"'`*]*+"
    r"(?>(?:list\[[\w\[\], |]{0,40}\][ \t]*+=\s*+)?)(?>(?:(?:python|json|text)\s++)?))?))",
    re.ASCII,
)
_THOUGHT_ENDS = re.compile(r"</(?:think|thinking|thought|reasoning)>", re.IGNORECASE)
_ROW_MARKS = r"[\s\ufeff\u200b,;\[\]()*>`#.:=–—-]*+"
_ROW_START = re.compile(
    rf"{_ROW_MARKS}(?>(?:(?:steps?|rows?|plan|json)(?![^\W\d]))?)\s*+(?>(?:[0-9]{{1,3}}(?!\d))?){_ROW_MARKS}",
    re.IGNORECASE,
)
_LIKE_A_PLAN = re.compile(r"\{[\s\"'“”]*+(?:plan|steps|worker|model_?id|sub_?task|access)", re.IGNORECASE)
_MIN_GROWTH = 64
"""Fewest characters between two attempts at one unfinished literal."""


def parse_plan(
    text: str, *, workers: int | Sequence[str], max_steps: int = 32, previous: bool = True
) -> Plan:
    """Read the plan in `text`.

    Args:
        text: what a planner wrote: any of the three spellings, prose around it allowed.
        workers: how many workers there are, or their names in the pool's order; with
            names, steps may name their worker instead of numbering it.
        max_steps: most steps the plan may have; in a run, `Limits.plan_steps`.
        previous: whether there is a round before, which access lists may name.

    Returns:
        The plan; one of no steps where the text says to keep the previous answer.

    Raises:
        PlanSyntaxError: no plan can be read from the text.
        PlanInvalid: a plan was read and breaks a rule.
    """
    return PlanReader(workers=workers, max_steps=max_steps, previous=previous).close(text)


class PlanReader:
    """Reads a plan out of text that is still arriving.

    Args:
        workers: how many workers there are, or their names in the pool's order.
        max_steps: most steps the plan may have; in a run, `Limits.plan_steps`.
        previous: whether there is a round before, which access lists may name.
    """

    def __init__(self, *, workers: int | Sequence[str], max_steps: int = 32, previous: bool = True) -> None:
        self._roster = Roster.of(workers, max_steps, previous=previous)
        self._literals = LiteralReader()
        self._arrived: list[str] = []
        self._size = 0
        self._brace = False
        self._waiting = 0
        self._position = 0
        self._rows: list[Step] = []
        self._ids = StepIds()
        self._object_end = 0
        self._after_row = False
        self._lists: list[LabelledList] = []
        self._object: Node | None = None
        self._failure: PlanError | None = None
        self._row_failure: PlanError | None = None
        self._in_thought = False

    def feed(self, chunk: str) -> list[Step]:
        """Take more text and return the steps it completed; only rows complete before the end.

        Raises:
            PlanSyntaxError: the text is too long or too tangled to hold a plan.
        """
        known = len(self._rows)
        self._take(chunk)
        self._brace = self._brace or "}" in chunk
        # Only a brace completes a row, and a row counts when its line does. A literal that
        # spans lines is read anew each time; letting the text grow by a quarter between
        # attempts keeps the sum of them linear.
        if self._brace and "\n" in chunk:
            unread = self._size - self._literals.offset
            if not self._waiting or unread > self._waiting * 5 // 4 + _MIN_GROWTH:
                self._scan(final=False)
        return self._rows[known:]

    def close(self, rest: str = "") -> Plan:
        """Return the plan, all of its text having arrived with `rest`.

        Raises:
            PlanSyntaxError: no plan can be read from the text.
            PlanInvalid: a plan was read and breaks a rule.
        """
        self._take(rest)
        self._scan(final=True)
        columns = choose_lists(self._lists)
        if self._rows:
            if columns or self._object:
                message = "the text holds rows and also another plan: write one plan, in one spelling"
                raise PlanSyntaxError("two_plans", message, position=self._object_end)
            if self._row_failure:
                raise self._row_failure
            return Plan(tuple(self._rows))
        if columns:
            return read_columns(columns, self._roster)
        if self._object:
            return read_object(self._object, self._roster)
        raise self._failure or self._nothing_found()

    def _nothing_found(self) -> PlanSyntaxError:
        if self._lists:
            missing = " and ".join(sorted(set(FIELDS.values()) - {found.field for found in self._lists}))
            message = f"the plan lacks the list for {missing}: write all three, one entry per step in each"
            return PlanSyntaxError("missing_list", message, position=self._lists[-1].end)
        if self._in_thought:
            message = "the reasoning never ends: close it with </think> and write the plan after it"
        else:
            message = "the text holds no plan: write its steps, each with worker, subtask and access"
        return PlanSyntaxError("no_plan", message, position=self._size)

    def _take(self, chunk: str) -> None:
        taken = chunk[: MAX_CHARS - self._size]
        self._arrived.append(taken)
        self._size += len(taken)
        if len(taken) < len(chunk):
            self._scan(final=False)
            message = f"a plan's text has at most {MAX_CHARS:,} characters: write a shorter one"
            raise PlanSyntaxError("too_long", message, position=MAX_CHARS)

    def _scan(self, *, final: bool) -> None:
        """Read what has arrived: whole lines, or all of it when it is `final`."""
        text = "".join(self._arrived)
        literals = self._literals
        literals.load(text if final else text[: text.rfind("\n") + 1], literals.offset)
        position = self._read_on(final=final)
        # The line is kept from its beginning, which tells whether a row may start in it.
        line = text.rfind("\n", 0, position) + 1
        self._arrived = [text[line:]]
        self._position = position - line
        literals.offset += line
        self._waiting = len(literals.text) - line
        self._brace = "}" in text[len(literals.text) :]

    def _read_on(self, *, final: bool) -> int:
        """Read from where the last scan stopped and return where this one does."""
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
                message = "the text ends in the middle of the plan: write it whole, and shorter"
                self._note_at(anchor, PlanSyntaxError("truncated", message, position=self._size))
                position, reached = anchor.end(), unfinished.reached
            except PlanSyntaxError as error:
                if error.code == "too_tangled":
                    raise
                self._note_at(anchor, error)
                position, reached = anchor.end(), error.position - literals.offset
            literals.spend(start, reached - start)

    def _read_at(self, anchor: re.Match[str]) -> int:
        """Read what stands at `anchor` and return the position after it."""
        literals, start, end = self._literals, anchor.start(), anchor.end()
        if anchor["think"]:
            if anchor["think"][0] == "/":
                self._forget_thoughts()
            else:
                self._in_thought = True
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

    def _take_row(self, node: Node, *, at_row_start: bool) -> None:
        if not at_row_start:
            message = "a step stands in the middle of a line: begin every row on a line of its own"
            error = PlanSyntaxError("bad_value", message, position=node.start)
            self._failure = self._failure or error
            if self._rows:
                self._block_rows(error)
        elif self._row_failure:
            self._failure = self._failure or self._row_failure
        else:
            try:
                self._rows.append(read_row(node, len(self._rows), self._roster, self._ids))
            except PlanInvalid as error:
                self._failure = error
                self._block_rows(error)

    def _at_row_start(self, start: int) -> bool:
        text, known = self._literals.text, self._object_end - self._literals.offset
        line = text.rfind("\n", max(known, 0), start) + 1
        if not line and known > 0 and not self._after_row:
            return False
        return _ROW_START.fullmatch(text, line or max(known, 0), start) is not None

    def _note_at(self, anchor: re.Match[str], error: PlanSyntaxError) -> None:
        """Remember why what stands at `anchor` cannot be read, if it was meant as a plan.

        A broken object where a row may start is a row lost: what follows would be numbered
        wrong. One that was cut off may hold rows that are no more than parts of it.
        """
        is_object = anchor["object"] is not None
        like_a_plan = is_object and _LIKE_A_PLAN.match(self._literals.text, anchor.start()) is not None
        if anchor["label"] or like_a_plan:
            self._failure = error
        if is_object and (self._at_row_start(anchor.start()) or (like_a_plan and error.code == "truncated")):
            self._block_rows(error)

    def _block_rows(self, error: PlanError) -> None:
        """Take no more rows; of several reasons the first is told."""
        self._row_failure = self._row_failure or error

    def _forget_thoughts(self) -> None:
        """What came before a closing tag alone was reasoning whose opening tag was not sent."""
        if self._rows:
            message = "a row stands in the reasoning: write rows only after it"
            self._block_rows(PlanSyntaxError("rows_in_reasoning", message, position=self._object_end))
        else:
            self._lists.clear()
            self._ids = StepIds()
            self._object = self._failure = self._row_failure = None
