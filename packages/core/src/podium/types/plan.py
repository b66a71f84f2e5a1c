r"""Plans, their steps, and the names of workers.

References in subtasks: `{{n}}` stands for the output of step n, `{{name}}` for a named text of the run.

A backslash before two braces, `\{{`, makes them literal. Double braces around other text are literal. Double
braces around a name are literal too, if the run has no text with this name.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from difflib import get_close_matches
from typing import Any, NamedTuple, Self, TypeGuard
from unicodedata import category, is_normalized, name as unicode_name, normalize

from podium.errors import ConfigError, PlanInvalid, PlanInvalidCode, QueryError
from podium.types.messages import Message, read_message

_FOUND = re.compile(
    r"(?P<escape>\\\{\{)"
    r"|\{\{\s{0,9}(?P<step>[+-]?[0-9]{1,18})\s{0,9}\}\}"
    # `{{1`, `{{1, 2}}`, `{{1.output}}`, `{{step 1}}`, `{{output_of_step_1}}`: meant as references
    r"|(?P<malformed>\{\{\s{0,9}(?:(?:the|of|steps?|outputs?|results?)[\s_#:.\[($-]{0,3}){0,5}[#+-]?[0-9]"
    r"[^{}]{0,20}\}{0,2})"
    r"|\{\{\s{0,9}(?P<name>[a-z_][a-z0-9_]{0,63})\s{0,9}\}\}",
    re.IGNORECASE,
)


class TextName(NamedTuple):
    """A reference to a named text of the run."""

    name: str


Reference = int | TextName
"""A reference: the number of a step, or the name of a text."""


def references_in(subtask: str) -> tuple[int, ...]:
    """Return the steps that a subtask refers to, sorted, each once."""
    return tuple(sorted({part for part in parts_of(subtask) if isinstance(part, int)}))


def parts_of(subtask: str, names: Collection[str] = ()) -> Iterator[str | Reference]:
    """Yield the parts of a subtask: literal texts and references."""
    end = 0
    for found in _FOUND.finditer(subtask) if "{{" in subtask else ():
        name = found["name"]
        if found["malformed"] is not None or (name is not None and name not in names):
            continue
        if found.start() > end:
            yield subtask[end : found.start()]
        yield "{{" if found["escape"] else int(found["step"]) if name is None else TextName(name)
        end = found.end()
    if end < len(subtask):
        yield subtask[end:]


def malformed_reference(subtask: str) -> str:
    """Return the first malformed reference; empty if there is none."""
    found = _FOUND.finditer(subtask) if "{{" in subtask else ()
    return next((one["malformed"] for one in found if one["malformed"] is not None), "")


def names_in(subtask: str) -> tuple[str, ...]:
    """Return the names in double braces in a subtask, each once, in order."""
    found = _FOUND.finditer(subtask) if "{{" in subtask else ()
    return tuple(dict.fromkeys(one["name"] for one in found if one["name"] is not None))


def renumbered(subtask: str, new: Callable[[int], int]) -> str:
    """Return the subtask with `new` applied to the numbers of its references."""
    if "{{" not in subtask:
        return subtask
    return _FOUND.sub(lambda found: f"{{{{{new(int(found[2]))}}}}}" if found[2] else found[0], subtask)


def literal(text: str) -> str:
    """Escape the double braces in `text`, so that a subtask contains no references."""
    if "{{" not in text:
        return text
    return _FOUND.sub(lambda found: found[0] if found["name"] else "\\" + found[0], text)


def bad_reference(step: str, reference: str) -> str:
    """Return the error message for an invalid reference."""
    if reference.lstrip("+-").isdecimal():
        fault = f"{step} refers to {{{{{reference}}}}}, which is not on its access list"
        return f"{fault}: add the step to the list, or write \\{{{{ for literal braces"
    fault = f"{step} contains {reference!r}, which is not a valid reference"
    return f"{fault}: write {{{{n}}}} for the output of step n, or \\{{{{ for literal braces"


MOST_CHARS = 100
"""Maximum characters of a name or label."""
_EAST_ASIAN = {"CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO"}
"""Scripts that are written together, and together with Latin letters."""
_LETTERS = ("Lu", "Ll", "Lt", "Lo")
"""Unicode categories; the first word of the Unicode name of such a letter is its script."""
_INVISIBLE = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"
    + "".join(map(chr, (*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))
)
"""Characters without a width that `str.isprintable` accepts: fillers and variation selectors."""


def check_name(text: str, what: str) -> str:
    """Return a name or label, or raise `ConfigError`; `what` names it, as in "a worker's name"."""
    if fault := _fault(text):
        raise ConfigError(f"{what} is {text[:MOST_CHARS]!r}: {fault}")
    return text


def _fault(text: str) -> str:
    if not text or text != text.strip():
        return "write at least one character, and no spaces at the ends"
    if not text.isprintable() or not _INVISIBLE.isdisjoint(text):
        return "use printable characters, without control characters and characters of no width"
    if len(text) > MOST_CHARS:
        return f"write at most {MOST_CHARS} characters"
    if text.isascii():
        return ""
    if not is_normalized("NFC", text):
        return f"write it in the Unicode form NFC, as {normalize('NFC', text)!r}"
    return _mixture(text)


def _mixture(text: str) -> str:
    letters = [char for char in normalize("NFKC", text) if category(char) in _LETTERS]
    found = {unicode_name(letter, "UNKNOWN").partition(" ")[0] for letter in letters}
    if len(found) < 2 or (found & _EAST_ASIAN and found <= {*_EAST_ASIAN, "LATIN"}):
        return ""
    return f"its letters are of several scripts ({', '.join(sorted(found))}): use one script"


def folded(text: str) -> str:
    """Return a form that is equal for names that differ only in case or Unicode form."""
    return normalize("NFKC", normalize("NFKC", text).casefold())


def check_unlike(names: Iterable[str], what: str) -> None:
    """Raise `ConfigError` if two of the names are equal after NFKC and case folding."""
    met: dict[str, str] = {}
    for each in names:
        if (before := met.setdefault(folded(each), each)) != each:
            raise ConfigError(f"the {what} {before!r} and {each!r} differ only in case or form: rename one")


def nearest(word: str, known: Iterable[str]) -> str:
    """Return the known name that is most similar to `word`; empty if none is similar."""
    forms = {folded(each): each for each in known}
    close = get_close_matches(folded(word), forms, n=1)
    return forms[close[0]] if close else ""


SCHEMA = 1
"""Version of a plan's JSON form; increased when older readers would misread it."""
PREVIOUS = "previous"
"""The entry of an access list that means all steps of the previous round."""


@dataclass(frozen=True, slots=True)
class Step:
    """One subtask, its worker, and the earlier steps that the worker sees."""

    worker: int
    """Number of the worker in its pool, from 0."""
    subtask: str
    """The task of the worker, in natural language. `{{n}}` stands for the output of step n, which must
    be on the access list; `\\{{` is a literal `{{`."""
    access: tuple[int, ...] = ()
    """Indices of the earlier steps whose subtask and output the worker sees; sorted, without duplicates."""
    enough: int | None = None
    """Number of steps of the access list that must be `ok` before this step starts; the worker sees only
    these steps.

    `None` means all steps of the access list. (The length of the access list is stored as `None`.)
    """
    previous: bool = False
    """Whether the worker also sees the subtasks and outputs of all steps of the previous round."""
    label: int | None = field(default=None, compare=False)
    """The number that the planner gave the step.

    Workers see this number; with `None`, they see the index. Events, outcomes, approvals and edits always use
    the index.
    """

    def __post_init__(self) -> None:
        if not all(map(_is_number, (self.worker, *self.access))):
            message = f"worker {self.worker!r}, access {self.access!r}: write integers, counted from 0"
            raise PlanInvalid("bad_access" if _is_number(self.worker) else "bad_worker", message)
        if self.worker < 0:
            raise PlanInvalid("bad_worker", f"worker {self.worker} is negative: workers count from 0")
        if not self.subtask.strip():
            raise PlanInvalid("empty_subtask", "the subtask of a step is empty: write the worker's task")
        object.__setattr__(self, "access", tuple(sorted(set(self.access))))
        if self.enough is not None:
            if not _is_number(self.enough) or not 1 <= self.enough <= len(self.access):
                raise PlanInvalid("bad_enough", _wrong_enough(self.enough, len(self.access)))
            if self.enough == len(self.access):
                object.__setattr__(self, "enough", None)
        self._check_references()

    def _check_references(self) -> None:
        if wrong := malformed_reference(self.subtask):
            raise PlanInvalid("bad_reference", bad_reference("a step", wrong))
        for number in self.references:
            if number not in self.access:
                raise PlanInvalid("bad_reference", bad_reference("a step", str(number)))
        if self.references and self.enough is not None:
            told = "a step whose subtask refers to outputs waits for all steps on its access list"
            raise PlanInvalid("bad_enough", f"{told}: leave out enough")

    @property
    def references(self) -> tuple[int, ...]:
        """The indices of the steps that the subtask names as `{{n}}`, sorted; all are on the access list."""
        return references_in(self.subtask)

    @property
    def access_list(self) -> list[int | str]:
        """The access list as in plan text: `"previous"` if the step sees the previous round, then indices."""
        return [PREVIOUS, *self.access] if self.previous else list(self.access)

    @property
    def least(self) -> int:
        """How many steps of the access list must be `ok` before this step starts."""
        return len(self.access) if self.enough is None else self.enough


@dataclass(frozen=True, slots=True)
class PlannedBy:
    """The planner that wrote a plan."""

    name: str
    """The planner's name; `user` if the caller wrote or changed the plan."""
    why: str = ""
    """Why the planner chose this plan, if it gives a reason.

    For a plan of the fallback planner that the caller passed to `run`: why the conductor's first planner
    wrote no plan.
    """
    is_fallback: bool = False
    """Whether it is the fallback planner."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps in order; the output of the last step is the answer.

    A plan without steps means "keep the previous answer" and is valid only after the first round.

    Raises:
        PlanInvalid: an access list names a later step, or the numbers of the steps are not distinct.
        QueryError: the query is not a conversation of `Message`.
    """

    steps: tuple[Step, ...]
    query: tuple[Message, ...] = field(default=(), compare=False, repr=False)
    """The conversation that the plan answers, which its workers see; empty if unknown."""
    why: str = field(default="", compare=False, repr=False)
    """The plan's author, its reason, and the problems of earlier plans; empty if unknown."""
    planner: PlannedBy | None = field(default=None, compare=False, repr=False)
    """The planner that wrote the plan, if `Conductor.plan` returned it. A run of the plan names this
    planner; if it is the fallback planner, the run is `partial`."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", tuple(self.steps))
        object.__setattr__(self, "query", _conversation(self.query))
        self._check_labels()
        for index, step in enumerate(self.steps):
            if step.access and not 0 <= step.access[0] <= step.access[-1] < index:
                wrong = next(seen for seen in step.access if not 0 <= seen < index)
                raise PlanInvalid("forward_access", forward_access(index, wrong), step=index)

    def _check_labels(self) -> None:
        labels = [step.label for step in self.steps if step.label is not None]
        if not labels:
            return
        for index, label in enumerate(step.label for step in self.steps):
            if label is None or label in labels[:index]:
                fault = "has no label" if label is None else f"has the label {label} of an earlier step"
                message = f"step {index} {fault}: give every step its own label, or give no step a label"
                raise PlanInvalid("bad_id", message, step=index)

    @property
    def labels(self) -> tuple[int, ...]:
        """The number of each step as workers see it: the planner's number, or the index."""
        return tuple(label_of(step, index) for index, step in enumerate(self.steps))

    def numbered(self, index: int) -> str:
        """Return the index of a step as text, followed by the planner's number if that is different."""
        label = self.steps[index].label if index < len(self.steps) else None
        return str(index) if label in (None, index) else f"{index} (id {label})"

    @property
    def needed(self) -> frozenset[int]:
        """The last step and all steps that it depends on. Of the other steps, only actions run."""
        return self.reaching(len(self.steps) - 1) if self.steps else frozenset()

    def reaching(self, *steps: int) -> frozenset[int]:
        """Return these steps and all steps that they depend on."""
        found = set(steps)
        for index in range(max(steps, default=-1), -1, -1):  # a step depends only on earlier steps
            if index in found:
                found.update(self.steps[index].access)
        return frozenset(found)

    @property
    def layers(self) -> tuple[tuple[int, ...], ...]:
        """Steps grouped by the longest chain of steps before them; steps of one layer are independent."""
        levels: list[int] = []
        for step in self.steps:
            levels.append(1 + max((levels[seen] for seen in step.access), default=-1))
        return tuple(
            tuple(i for i, level in enumerate(levels) if level == wanted)
            for wanted in range(max(levels, default=-1) + 1)
        )

    def fit(self, workers: int, most_steps: int, *, previous: bool = False) -> None:
        """Check that a pool can run the plan.

        Args:
            workers: the number of workers.
            most_steps: maximum number of steps.
            previous: whether there is a previous round, which access lists may name.

        Raises:
            PlanInvalid: the plan has no steps or too many, or names a worker or a round that does not exist.
        """
        if not self.steps:
            raise PlanInvalid("nothing_to_keep", "the plan has no steps, and there is no answer to keep")
        if len(self.steps) > most_steps:
            message = f"the plan has {len(self.steps)} steps; Limits.plan_steps allows {most_steps}"
            raise PlanInvalid("too_many_steps", message)
        for index, step in enumerate(self.steps):
            if step.worker >= workers:
                message = f"step {index} names worker {step.worker}; the workers are 0 to {workers - 1}"
                raise PlanInvalid("unknown_worker", message, step=index)
            if step.previous and not previous:
                raise PlanInvalid("no_previous", no_previous(index), step=index)

    def renumbered(self, workers: Sequence[int]) -> Self:
        """Return the plan with worker `i` replaced by `workers[i]`."""
        if all(workers[step.worker] == step.worker for step in self.steps):
            return self
        return replace(self, steps=tuple(replace(step, worker=workers[step.worker]) for step in self.steps))

    def to_json(self, workers: Sequence[str] | None = None) -> dict[str, Any]:
        """Return the plan as plain JSON data, with the version of its schema.

        Args:
            workers: names of the workers, in the pool's order, written in place of their numbers;
                `podium run --plan` reads both. `None` writes the numbers, which `from_json` reads.
        """
        query = {"query": [m.to_wire() for m in self.query]} if self.query else {}
        planner = {} if self.planner is None else {"planner": asdict(self.planner)}
        steps = [_step_to_json(step) for step in self.steps]
        if workers is not None:
            steps = [{**step, "worker": workers[step["worker"]]} for step in steps]
        return {"schema": SCHEMA, **query, **planner, "steps": steps}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read a plan that `to_json` returned. Use `parse_plan` for plans that a model or a person wrote.

        Raises:
            PlanInvalid: the plan has another schema, lacks a field, or breaks a rule.
            QueryError: an entry of its query is not a chat message.
        """
        if data.get("schema") != SCHEMA:
            raise PlanInvalid(
                "unknown_schema", f"plan schema {data.get('schema')!r}: this version reads {SCHEMA}"
            )
        if "steps" not in data:
            raise PlanInvalid("missing_field", "the plan lacks steps: write a list of steps")
        rows, query = data["steps"], data.get("query", [])
        for name, value in (("steps", rows), ("query", query)):
            if not isinstance(value, list):
                raise PlanInvalid("bad_shape", f"the plan's {name} must be a list, not {value!r:.60}")
        steps = tuple(_step_from_json(row, index) for index, row in enumerate(rows))
        query = tuple(read_message(message) for message in query)
        return cls(steps, query, planner=_planner_from_json(data.get("planner")))

    def to_mermaid(self, workers: Sequence[str] | None = None, actions: Collection[int] = ()) -> str:
        """Return the plan as a mermaid flowchart.

        Args:
            workers: names of the workers, in the pool's order; `None` shows their numbers.
            actions: indices of the steps that are actions, which are marked.
        """
        lines = ["flowchart TD"]
        for index, step in enumerate(self.steps):
            who = f"worker {step.worker}" if workers is None else workers[step.worker]
            who += " (action)" if index in actions else ""
            subtask = step.subtask if len(step.subtask) <= 60 else step.subtask[:59] + "…"
            some = "" if step.enough is None else f"<br/>after {step.enough} of {len(step.access)}"
            lines.append(f'    s{index}["{self.numbered(index)}: {_label(who)}<br/>{_label(subtask)}{some}"]')
            lines += [f"    s{seen} --> s{index}" for seen in step.access]
            if step.previous:
                lines.append(f"    before([the previous round]) --> s{index}")
        if self.steps:
            lines.append(f"    s{len(self.steps) - 1} --> answer([answer])")
        return "\n".join(lines) + "\n"


def _conversation(query: object) -> tuple[Message, ...]:
    """Return the messages of a plan's query; `None` from untyped code means none."""
    if query is None:
        return ()
    messages = tuple(query) if isinstance(query, Sequence) and not isinstance(query, str) else (query,)
    if all(isinstance(message, Message) for message in messages):
        return messages
    form = "write a conversation, as in (Message('user', 'What is it?'),)"
    raise QueryError(f"the query of a plan is {query!r:.60}: {form}")


def _is_number(value: object) -> TypeGuard[int]:
    """Return whether `value` is an `int` and not a `bool`."""
    return type(value) is int


def _planner_from_json(value: object) -> PlannedBy | None:
    match value:
        case None:
            return None
        case {"name": str(name), "why": str(why), "is_fallback": bool(is_fallback)}:
            return PlannedBy(name, why, is_fallback)
    told = 'write {"name": "…", "why": "…", "is_fallback": false}, or leave it out'
    raise PlanInvalid("bad_shape", f"the plan's planner is {value!r:.60}: {told}")


def _step_to_json(step: Step) -> dict[str, Any]:
    enough = {} if step.enough is None else {"enough": step.enough}
    label = {} if step.label is None else {"label": step.label}
    return {"worker": step.worker, "subtask": step.subtask, "access": step.access_list, **enough, **label}


def _step_from_json(row: object, index: int) -> Step:
    code: PlanInvalidCode = "bad_shape"
    if isinstance(row, Mapping):
        if not row.keys() >= {"worker", "subtask", "access"}:
            code = "missing_field"
        worker, subtask, access = row.get("worker"), row.get("subtask"), row.get("access")
        enough, label = row.get("enough"), row.get("label")
        if _is_number(worker) and isinstance(subtask, str) and isinstance(access, list):
            seen = tuple(filter(_is_number, access))
            previous = PREVIOUS in access
            others = [entry for entry in access if entry != PREVIOUS]
            has_numbers = all(value is None or _is_number(value) for value in (enough, label))
            if len(seen) == len(others) and has_numbers:
                return Step(worker, subtask, seen, enough, previous, label)
    message = f"step {index} must have an integer worker, a text subtask and an access list of integers"
    raise PlanInvalid(code, message, step=index)


def label_of(step: Step, index: int) -> int:
    """Return the number of a step as workers see it: its label, or its index."""
    return index if step.label is None else step.label


def _wrong_enough(enough: object, inputs: int) -> str:
    """Return the error message for an `enough` that does not fit an access list of `inputs` steps."""
    if not inputs:
        return f"enough is {enough!r:.60}, and the access list is empty: leave out enough"
    return (
        f"enough is {enough!r:.60}: write a number from 1 to {inputs}, or leave it out to wait for all steps"
    )


def no_previous(step: int) -> str:
    """Return the error message for a step that lists `"previous"` without a previous round."""
    return f'step {step} lists "{PREVIOUS}", and there is no previous round with an output: leave it out'


def forward_access(step: int, seen: int) -> str:
    """Return the error message for a step that lists a step which is not before it."""
    allowed = f"write [] or numbers from 0 to {step - 1}" if step else "write [] for the first step"
    if seen == step:
        return f"step {step} lists itself, but may list only earlier steps: {allowed}"
    if seen < 0:
        return f"step {step} lists {seen}, but steps are numbered from 0: {allowed}"
    return f"step {step} lists step {seen}, which is not an earlier step: {allowed}"


def _label(text: str) -> str:
    """Escape text for a quoted mermaid label."""
    plain = " ".join(text.split())
    for mark in '#%"<>`':
        plain = plain.replace(mark, f"#{ord(mark)};")
    return plain
