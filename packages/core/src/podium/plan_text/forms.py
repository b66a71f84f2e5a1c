"""Reads plans in forms of other planners: tasks with dependencies, lists of tool calls, numbered calls."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from podium.errors import PlanSyntaxError
from podium.plan_text.fields import FIELDS, Field, Roster, check_length, field_key, is_row, plan_object
from podium.plan_text.ids import ID_KEYS
from podium.plan_text.literals import CALL_END, THOUGHT, LiteralReader, Node, Unfinished, Word, value_of
from podium.plan_text.tasks import Task, fail, read_tasks
from podium.types.plan import Plan
from podium.types.references import compact, is_object, read_json

_WORKERS = (
    "agent agentid agentname assignee assignedto assignedagent workername model modelname tool toolname"
)
_SUBTASKS = "task taskdescription description instruction instructions prompt"
_ACCESS = "dependson dependencies depends deps requires"
_ARGUMENTS = frozenset(("arguments", "args", "parameters", "input"))
_OTHERS: Mapping[str, Field] = {
    **dict.fromkeys(_WORKERS.split(), "worker"),
    **dict.fromkeys((*_SUBTASKS.split(), *_ARGUMENTS), "subtask"),
    **dict.fromkeys(_ACCESS.split(), "access"),
}
"""Further names of a step's fields, as `field_key` returns them."""
_CALLED = frozenset(("name", "function"))
"""Keys of the worker of a call. In a step with another key for its worker, `name` is an id."""
_IDS = ID_KEYS | {"title", "name", "taskname"}

_ANCHOR = re.compile(
    rf"<(?P<close>/?){THOUGHT}>"
    r"|^[ \t>*-]*+(?P<number>[0-9]{1,6})[.)][ \t]++(?P<name>[^\s()\[\]{}\"'`=,:;]{1,80})(?=\()"
    r"|(?=[\[{]\s*+(?>(?:\{\s*+)?)[\"'“‘]?[^\W\d][\w -]{0,40}+[\"'”’]?\s*+[:：])",
    re.IGNORECASE | re.MULTILINE,
)
_THOUGHT_ENDS = re.compile(rf"</{THOUGHT}>", re.IGNORECASE)
_LIKE_A_TASK = re.compile(r"[\"“](?:agent|assignee|tasks?|depends_?on|arguments)[\"”]\s*+:", re.IGNORECASE)
_ROW_START = re.compile(r"[\W\d_]*+(?>(?:steps?|tasks?|plan|json)[\W\d_]*+)?", re.IGNORECASE)
_NEXT_CALL = re.compile(r"\n[ \t>*-]*+[0-9]{1,6}[.)][ \t]++[^\s()]{1,80}\(")
_CALL_END = re.compile(CALL_END)
_DOLLAR = re.compile(r"\$(?:\{([0-9]{1,6})\}|([0-9]{1,6})(?![0-9]|[.,][0-9]))")


class _Call(NamedTuple):
    """A numbered call, as in `2. search("…", site="$1")`."""

    start: int
    number: int
    name: str
    plain: list[Node]
    named: dict[str, Node]


def read_form(text: str, roster: Roster) -> Plan | None:
    """Read a plan in another form; `None` if the text has none.

    Raises:
        PlanSyntaxError: the plan is incomplete, or there are two.
        PlanInvalid: the plan breaks a rule.
    """
    finder = _Finder(text, roster)
    try:
        calls, objects = finder.find()
    except PlanSyntaxError as error:
        if error.code == "too_tangled":
            return None
        raise
    if not calls and not objects:
        return None
    roster.notes.clear()
    check_length(len(calls or objects), roster, (calls or objects)[0].start)
    numbers = {call.number for call in calls}
    tasks = [_task_of_call(call, place, numbers, roster) for place, call in enumerate(calls)]
    tasks += [_task_of(node, place) for place, node in enumerate(objects)]
    keys = dict.fromkeys(
        key for node in objects for key in _fields_of(node) if _field_of(key) or key in _CALLED
    )
    form = f"objects with {', '.join(keys)}" if keys else "numbered calls"
    return read_tasks(tasks, roster, form=form, join=finder.join)


class _Finder:
    """Finds the plan in a text: numbered calls, or the objects of tasks and calls."""

    def __init__(self, text: str, roster: Roster) -> None:
        self._text, self._roster = text, roster
        self._literals = LiteralReader()
        self._literals.load(text, 0)
        self._forget()

    def _forget(self) -> None:
        self.join: int | None = None
        """The position of `join()`, which ends numbered calls."""
        self.calls, self.are_calls = list[_Call](), False
        self._ends = set[int]()
        self._lists, self._objects = dict[str, list[list[Node]]](), list[Node]()
        self._is_native = self._is_like = False
        self._bad_call: PlanSyntaxError | None = None
        self._bad_object: PlanSyntaxError | None = None

    def find(self) -> tuple[Sequence[_Call], Sequence[Node]]:
        """Return the calls or the objects of the plan; none if the text has no plan in another form."""
        position = 0
        while anchor := _ANCHOR.search(self._text, position):
            position = max(anchor.end(), anchor.start() + 1)
            if anchor["close"] is None:
                position = self._read(anchor, position)
            elif anchor["close"]:
                self._forget()
            else:
                ending = _THOUGHT_ENDS.search(self._text, position)
                position = ending.end() if ending else len(self._text)
        lists = [found for each in self._lists.values() for found in each]
        if self._is_native:
            return (), ()
        if self.are_calls and self._bad_call:
            raise self._bad_call
        if self._bad_object and (lists or self._objects or self._is_like):
            raise self._bad_object
        numbers = {call.number for call in self.calls} | self._ends
        if self.are_calls and max(numbers) - min(1, *numbers) >= len(numbers):
            message = (
                "calls are missing or cannot be read: write each on its own line, and number them from 1"
            )
            raise PlanSyntaxError(
                "bad_value", message, position=self.calls[0].start if self.calls else self.join or 0
            )
        if self.are_calls + len(lists) + bool(self._objects) > 1:
            message = "the steps are in several lists or forms: write all steps in one list"
            raise PlanSyntaxError("two_plans", message, position=len(self._text))
        return (self.calls, ()) if self.are_calls else ((), [*lists, self._objects][0])

    def _read(self, anchor: re.Match[str], after: int) -> int:
        """Read the call, object or list at `anchor`, and return the position after it."""
        start = anchor.start()
        try:
            if anchor["number"]:
                return self._read_call(anchor, after)
            node, end = self._literals.read(start)
        except Unfinished as unfinished:
            message = "the text ends inside the plan: write a complete, shorter plan"
            if anchor["number"]:
                message = f"call {anchor['number']} has no end: write it on one line, with texts in quotes"
            error = PlanSyntaxError("truncated", message, position=len(self._text))
            reached = unfinished.reached
        except PlanSyntaxError as failure:
            if failure.code == "too_tangled":
                raise
            error, reached = failure, failure.position
        else:
            self._take(node, start, end)
            return end
        if anchor["number"]:
            self._bad_call = self._bad_call or error
        else:
            self._bad_object = self._bad_object or error
            self._is_like |= _LIKE_A_TASK.search(self._text, start, reached) is not None
        self._literals.spend(start, reached - start)
        return after

    def _read_call(self, anchor: re.Match[str], after: int) -> int:
        name, is_known = anchor["name"], bool(self._roster.named(anchor["name"]))
        is_known = is_known or name in self._roster.refused
        is_join = name.lower() == "join" and not is_known
        self.are_calls |= is_known or is_join
        plain, named, end = self._literals.read_call(after)
        has_end = _CALL_END.match(self._text, end) and not _NEXT_CALL.search(self._text, after, end)
        if self.join is not None or not has_end:
            fault = "has other text on its line" if self.join is None else "is after join()"
            message = f"call {anchor['number']} {fault}: write each call on its own line, and join() last"
            raise PlanSyntaxError("bad_value", message, position=anchor.start("number"))
        if is_join:
            self.join = anchor.start("number")
            self._ends.add(int(anchor["number"]))
        else:
            self.calls.append(_Call(anchor.start("number"), int(anchor["number"]), name, plain, named))
        return end

    def _take(self, node: Node, start: int, end: int) -> None:
        """Take the objects of a literal; a list that is written again counts once."""
        items = node.value if isinstance(node.value, list) else [node]
        if lists := list(_lists_in(node)):
            self._lists[self._text[start:end]] = lists
        elif _is_task(node, may_be_call=False):
            line = self._text.rfind("\n", 0, start) + 1
            is_start = _ROW_START.fullmatch(self._text[line:start].rpartition("}")[2]) is not None
            self._objects.append(node)
            self._is_native |= not is_start  # a step in the middle of a sentence is not read
        else:
            objects = [item for item in items if isinstance(item.value, dict)]
            self._is_native |= any(plan_object(item) or is_row(item, after_row=False) for item in objects)


def call_in(text: str, roster: Roster) -> int | None:
    """Return the position of the first numbered call of a worker; `None` if there is none."""
    finder = _Finder(text, roster)
    if _NEXT_CALL.search(f"\n{text}"):
        with suppress(PlanSyntaxError):
            finder.find()
    return finder.calls[0].start if finder.calls and finder.are_calls else None


def holds_task(node: Node) -> bool:
    """Return whether an object is a step, or has steps, in a form that is not one of the three spellings."""
    return _is_task(node) or any(True for _ in _lists_in(node))


def _lists_in(node: Node) -> Iterator[list[Node]]:
    """Yield the lists in a value that have tasks or calls."""
    if isinstance(node.value, list) and any(map(_is_task, node.value)):
        yield node.value
    elif isinstance(node.value, list | dict):
        for item in node.value if isinstance(node.value, list) else node.value.values():
            yield from _lists_in(item)


def _is_task(node: Node, *, may_be_call: bool = True) -> bool:
    """Return whether a value is a step in a form that is not one of the three spellings."""
    keys = {field_key(key) for key in _fields_of(node)}
    other, own = {_OTHERS.get(key) for key in keys}, {FIELDS.get(key) for key in keys}
    is_call = not keys.isdisjoint(_ARGUMENTS)
    if is_call and not may_be_call:
        return False
    has_worker = "worker" in other | own or (is_call and not keys.isdisjoint(_CALLED))
    is_own = own >= {"worker", "subtask", "access"} or other == {None}
    return has_worker and "subtask" in other | own and not is_own


def _fields_of(node: Node) -> dict[str, Node]:
    """Return the fields of an object, with those of its `function`; none of another value."""
    if not isinstance(node.value, dict):
        return {}
    call = node.value.get("function")
    if call is None or not isinstance(call.value, dict) or "arguments" not in call.value:
        return node.value
    return {
        key: value for key, value in node.value.items() if key not in ("function", "type", "index")
    } | call.value


def _field_of(key: str) -> Field | None:
    return FIELDS.get(field_key(key)) or _OTHERS.get(field_key(key))


def _task_of(node: Node, place: int) -> Task:
    """Return the task of an object."""
    task, fields = Task(node.start, {}, []), _fields_of(node)
    if not fields:
        told = 'is not a step: write {"id": …, "agent": …, "task": …, "depends_on": […]}'
        fail("bad_shape", place, node.start, told)
    has_worker = "worker" in map(_field_of, fields)
    for key, value in fields.items():
        name, kind = field_key(key), _field_of(key)
        if name in _CALLED and not has_worker:
            kind = "worker"
        if kind in task.row:
            told = f"has {key!r:.60} beside another key for its {kind}: write one"
            fail("duplicate_field", place, value.start, told)
        if kind is None and name in _IDS:
            task.names.append(value)
        else:
            is_call = name in _ARGUMENTS
            task.row[kind or key] = Node(value.start, _written(value, place)) if is_call else value
    for kind, key in (("worker", "agent"), ("subtask", "task")):
        if kind not in task.row:
            fail("missing_field", place, node.start, f"has no {kind}: write it under {key!r}")
    return task


def _written(arguments: Node, place: int) -> str:
    """Return the arguments of a call as a subtask: a single text as it is, others as JSON."""
    try:
        data = value_of(arguments)
        is_json = isinstance(data, str) and data.lstrip().startswith("{")
        data = read_json(data) if is_json else {} if data is None else data
    except ValueError:
        told = "has arguments that are not JSON: write an object, with texts in quotes"
        fail("bad_subtask", place, arguments.start, told)
    if isinstance(data, dict):
        [text] = data.values() if len(data) == 1 else [None]
        data = text if isinstance(text, str) and text.strip() and not is_object(text) else compact(data)
    if not isinstance(data, str):
        fail("bad_subtask", place, arguments.start, 'has arguments without names: write {"name": value}')
    return data


def _task_of_call(call: _Call, place: int, numbers: set[int], roster: Roster) -> Task:
    """Return the task of a numbered call; `$n` in its texts refers to call n."""
    first, *more = call.plain or [Node(call.start, call.named)]
    texts = [each.value for node in more for each in (node.value if isinstance(node.value, list) else [node])]
    context = [text for text in texts if isinstance(text, str) and _DOLLAR.fullmatch(text)]
    if (call.plain and call.named) or context != texts:
        fail(
            "bad_subtask",
            place,
            first.start,
            'has several arguments: write each with its name, as in query="…"',
        )
    seen = list[Node]()

    def refer(found: re.Match[str]) -> str:
        number = int(found[1] or found[2])
        if number not in numbers and found[0] in context:
            fail("bad_access", place, first.start, f"refers to {found[0]}, which is not the number of a call")
        if number not in numbers:
            roster.notes.append(
                f"step {place} has {found[0]}, which is not the number of a call and stays text"
            )
            return found[0]
        seen.append(Node(first.start, number))
        return f"{{{{{number}}}}}"

    is_word = isinstance(first.value, Word) and not _DOLLAR.fullmatch(first.value)
    text = str(first.value) if isinstance(first.value, str) and not is_word else _written(first, place)
    text, *_ = [_DOLLAR.sub(refer, each) for each in (text, *context)]
    row = {"worker": Node(call.start, call.name), "subtask": Node(first.start, text)}
    return Task(call.start, {**row, "access": Node(first.start, seen)}, [Node(call.start, call.number)])
