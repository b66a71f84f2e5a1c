"""Plans, and the names of workers."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from difflib import get_close_matches
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Self
from unicodedata import category, is_normalized, name as unicode_name, normalize

from podium.errors import ConfigError, PlanInvalid, PlanInvalidCode, QueryError
from podium.types.messages import Message, read_message, storable
from podium.types.schemas import Form
from podium.types.scope import Outline, Place, Scope, label_of, name_of
from podium.types.steps import (
    PREVIOUS,
    AnyStep,
    Block,
    Step,
    answers_of,
    branches,
    calls_in,
    count_of,
    depends_on,
    reaching,
    rules_of,
    step_from_json,
    step_to_json,
    with_workers,
)

if TYPE_CHECKING:
    from pydantic_core import SchemaValidator

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


def accepts(pattern: str | None, text: str, name: str) -> bool:
    """Return whether a text matches `accept` of a worker somewhere. White space around the text is ignored.

    Raises:
        ConfigError: the pattern is not a regular expression whose time is linear.
    """
    return pattern is None or _matcher(pattern, name).isinstance_python(storable(text).strip())


@lru_cache(maxsize=1024)
def _matcher(pattern: str, name: str) -> "SchemaValidator":
    """Return pydantic's matcher, whose time is linear: a model can write texts for which `re` needs years."""
    from pydantic_core import SchemaError, SchemaValidator, core_schema  # noqa: PLC0415 - most cards need none

    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern))
    except SchemaError as error:
        why = str(error).strip().splitlines()[-1].strip().removeprefix("error: ")
        told = f"accept of worker {name!r} is {pattern!r:.80}: it must be a regular expression"
        raise ConfigError(f"{told} whose time is linear: {why}") from error


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
_KEYS = ("schema", "query", "planner", "name", "parameters", "args", "answer", "steps")


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

    A plan without steps means "keep the previous answer" and is valid only after the first round, unless it
    has an `answer` of its own.

    Raises:
        PlanInvalid: an access list names a later step, or the numbers of the steps are not distinct.
        QueryError: the query is not a conversation of `Message`.
    """

    steps: tuple[AnyStep, ...]
    query: tuple[Message, ...] = field(default=(), compare=False, repr=False)
    """The conversation that the plan answers, which its workers see; empty if unknown."""
    why: str = field(default="", compare=False, repr=False)
    """The plan's author, its reason, and the problems of earlier plans; empty if unknown."""
    planner: PlannedBy | None = field(default=None, compare=False, repr=False)
    """The planner that wrote the plan, if `Conductor.plan` returned it. A run of the plan names this
    planner; if it is the fallback planner, the run is `partial`."""
    notes: tuple[str, ...] = field(default=(), compare=False, repr=False)
    """What was ignored in the text of the plan, such as unknown keys."""
    name: str = field(default="", compare=False)
    """The name of the saved plan; empty for other plans."""
    parameters: Mapping[str, Any] | None = None
    """The JSON schemas of the parameters of a saved plan, to which its steps refer by name."""
    args: Mapping[str, Any] | None = None
    """The values of the parameters."""
    answer: str | None = None
    """The answer, if the planner wrote it in place of steps; see `TurnPlanner`."""

    is_workflow: bool = field(init=False, compare=False, repr=False)
    """Whether a step has a key of workflows, such as `each`."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", tuple(self.steps))
        is_plain = all(step.is_plain for step in self.steps) and self.parameters is None
        object.__setattr__(self, "is_workflow", not is_plain)
        object.__setattr__(self, "query", _conversation(self.query))
        _check_labels(self.steps)
        self.check_types(None)
        last = branches(self.steps) if self.is_workflow else ()
        if len(last) == 1 and self.steps[-1].otherwise is None:
            told = "the last step has a condition and no else, so there may be no answer"
            raise PlanInvalid("bad_condition", f"{told}: write else, or a step after it", step=last[0])

    @property
    def calls(self) -> tuple[Step, ...]:
        """All steps that call workers, also inside of blocks, in order."""
        return tuple(calls_in(self.steps)) if self.is_workflow else self.steps  # type: ignore[return-value]

    @property
    def outline(self) -> tuple[Place, ...]:
        """All steps, first those of the plan in order, and then those of blocks."""
        return Outline(self.steps).places()

    def with_step(self, path: Sequence[int], step: AnyStep) -> Self:
        """Return the plan with another step at a path of its outline."""

        def changed(steps: Sequence[AnyStep], path: Sequence[int]) -> tuple[AnyStep, ...]:
            at, new = path[0], step
            if len(path) > 1:
                around = steps[at]
                assert isinstance(around, Block)
                new = replace(around, steps=changed(around.steps, path[1:]))
            return (*steps[:at], new, *steps[at + 1 :])

        return replace(self, steps=changed(self.steps, path))

    @property
    def answers(self) -> tuple[int, ...]:
        """The indices of the steps that may give the answer: the last, or the row of branches at the end."""
        return tuple(answers_of(self.steps))

    @property
    def labels(self) -> tuple[int, ...]:
        """The number of each step as workers see it: the planner's number, or the index."""
        return tuple(label_of(step, index) for index, step in enumerate(self.steps))

    def numbered(self, index: int) -> str:
        """Return the index of a step as text, followed by the planner's number if that is different."""
        return name_of(self.steps[index], index) if index < len(self.steps) else str(index)

    @property
    def needed(self) -> frozenset[int]:
        """The steps that may give the answer, and those that they depend on. Of others, only actions run."""
        return self.reaching(*self.answers)

    def reaching(self, *steps: int) -> frozenset[int]:
        """Return these steps and all steps that they depend on."""
        return reaching(self.steps, steps)

    @property
    def layers(self) -> tuple[tuple[int, ...], ...]:
        """Steps grouped by the longest chain of steps before them; steps of one layer are independent."""
        levels: list[int] = []
        for step in self.steps:
            levels.append(1 + max((levels[seen] for seen in depends_on(step)), default=-1))
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
        if len(self.calls) > most_steps:
            message = f"the plan has {len(self.calls)} steps; Limits.plan_steps allows {most_steps}"
            raise PlanInvalid("too_many_steps", message)
        for index, step in enumerate(self.steps):
            for call in calls_in([step]):
                if call.worker >= workers:
                    message = f"step {index} names worker {call.worker}; the workers are 0 to {workers - 1}"
                    raise PlanInvalid("unknown_worker", message, step=index)
            if step.previous and not previous:
                raise PlanInvalid("no_previous", no_previous(index), step=index)

    def check_types(self, forms: Sequence[Form | None] | None) -> None:
        """Check references and conditions against the types of the workers' outputs, `None` for text.

        Without `forms`, the types of the outputs of workers are not known.

        Raises:
            PlanInvalid: a step refers to a part of an output that does not exist, or whose type is not known.
        """
        names = {name: Form.of(schema) for name, schema in (self.parameters or {}).items()}
        Scope(self.steps, forms, is_workflow=self.is_workflow, names=names).check()

    def check_sizes(self, items: int, turns: int) -> None:
        """Raise `PlanInvalid` if a literal list, or the turns of a loop, are more than the limits allow."""
        for place in self.outline if self.is_workflow else ():
            step, size = place.step, 0 if isinstance(place.step.each, str) else count_of(place.step.each)
            most = (step.most or 0) if isinstance(step, Block) else 0
            if size > items or most > turns:
                told = f"has {size:,} items; Limits.items allows {items:,}"
                told = f"has most {most}; Limits.turns allows {turns}" if most > turns else told
                code: PlanInvalidCode = "bad_block" if most > turns else "bad_each"
                raise PlanInvalid(code, f"step {place.name} {told}", step=place.path[0])

    def renumbered(self, workers: Sequence[int]) -> Self:
        """Return the plan with worker `i` replaced by `workers[i]`."""
        steps = with_workers(self.steps, workers)
        return self if steps == self.steps else replace(self, steps=steps)

    def to_json(self, workers: Sequence[str] | None = None) -> dict[str, Any]:
        """Return the plan as plain JSON data, with the version of its schema.

        Args:
            workers: names of the workers, in the pool's order, written in place of their numbers;
                `podium run --plan` reads both. `None` writes the numbers, which `from_json` reads.
        """
        query = {"query": [m.to_wire() for m in self.query]} if self.query else {}
        planner = {} if self.planner is None else {"planner": asdict(self.planner)}
        saved = {"name": self.name or None, "parameters": self.parameters, "args": self.args}
        told = {key: value for key, value in (saved | {"answer": self.answer}).items() if value is not None}
        steps = [step_to_json(step, workers) for step in self.steps]
        return {"schema": SCHEMA, **query, **planner, **told, "steps": steps}

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
        if unknown := [str(key) for key in data if key not in _KEYS]:
            raise PlanInvalid("unknown_key", f"the plan has the unknown key {unknown[0]!r:.60}: leave it out")
        if "steps" not in data:
            raise PlanInvalid("missing_field", "the plan lacks steps: write a list of steps")
        rows, query = data["steps"], data.get("query", [])
        for name, value in (("steps", rows), ("query", query)):
            if not isinstance(value, list):
                raise PlanInvalid("bad_shape", f"the plan's {name} must be a list, not {value!r:.60}")
        steps = tuple(step_from_json(row, index) for index, row in enumerate(rows))
        query = tuple(read_message(message) for message in query)
        saved = {key: data[key] for key in ("name", "parameters", "args") if key in data}
        for key, value in saved.items():
            if not isinstance(value, str if key == "name" else dict):
                raise PlanInvalid("bad_shape", f"the plan's {key} is {value!r:.60}: leave it out")
        answer = data.get("answer")
        if answer is not None and (steps or not isinstance(answer, str)):
            raise PlanInvalid("bad_shape", "the plan's answer must be text, in place of its steps")
        return cls(steps, query, planner=_planner_from_json(data.get("planner")), answer=answer, **saved)

    def to_mermaid(self, workers: Sequence[str] | None = None, actions: Collection[int] = ()) -> str:
        """Return the plan as a mermaid flowchart.

        Args:
            workers: names of the workers, in the pool's order; `None` shows their numbers.
            actions: indices of the steps that are actions, which are marked.
        """
        lines = ["flowchart TD", *_drawn(self.steps, "s", 1, workers, actions)]
        lines += [f"    s{index} --> answer([answer])" for index in self.answers]
        return "\n".join(lines) + "\n"


def _drawn(
    steps: Sequence[AnyStep], prefix: str, depth: int, workers: Sequence[str] | None, actions: Collection[int]
) -> Iterator[str]:
    """Yield the lines of a flowchart for steps; a block is a subgraph."""
    pad = "    " * depth
    for index, step in enumerate(steps):
        name, shown = f"{prefix}{index}", name_of(step, index)
        if isinstance(step, Block):
            yield f'{pad}subgraph {name}["{_label(" ".join([shown + ":", *rules_of(step)]))}"]'
            yield from _drawn(step.steps, f"{name}_", depth + 1, workers, ())
            yield f"{pad}end"
        else:
            who = f"worker {step.worker}" if workers is None else workers[step.worker]
            who += " (action)" if index in actions else ""
            subtask = step.subtask if len(step.subtask) <= 60 else step.subtask[:59] + "…"
            some = "".join(f"<br/>{_label(rule)}" for rule in rules_of(step))
            yield f'{pad}{name}["{shown}: {_label(who)}<br/>{_label(subtask)}{some}"]'
        yield from (f"{pad}{prefix}{seen} --> {name}" for seen in step.access)
        waited = sorted(depends_on(step) - {*step.access})
        yield from (f"{pad}{prefix}{seen} -.-> {name}" for seen in waited)
        if step.previous and depth == 1:
            yield f"{pad}before([the previous round]) --> {name}"


def _conversation(query: object) -> tuple[Message, ...]:
    """Return the messages of a plan's query; `None` from untyped code means none."""
    if query is None:
        return ()
    messages = tuple(query) if isinstance(query, Sequence) and not isinstance(query, str) else (query,)
    if all(isinstance(message, Message) for message in messages):
        return messages
    form = "write a conversation, as in (Message('user', 'What is it?'),)"
    raise QueryError(f"the query of a plan is {query!r:.60}: {form}")


def _planner_from_json(value: object) -> PlannedBy | None:
    match value:
        case None:
            return None
        case {"name": str(name), "why": str(why), "is_fallback": bool(is_fallback)}:
            return PlannedBy(name, why, is_fallback)
    told = 'write {"name": "…", "why": "…", "is_fallback": false}, or leave it out'
    raise PlanInvalid("bad_shape", f"the plan's planner is {value!r:.60}: {told}")


def no_previous(step: int) -> str:
    """Return the error message for a step that lists `"previous"` without a previous round."""
    return f'step {step} lists "{PREVIOUS}", and there is no previous round with an output: leave it out'


def _check_labels(steps: Sequence[AnyStep]) -> None:
    labels = [step.label for step in steps if step.label is not None]
    for index, label in enumerate(step.label for step in steps if labels):
        if label is None or label in labels[:index]:
            fault = "has no label" if label is None else f"has the label {label} of an earlier step"
            message = f"step {index} {fault}: give every step its own label, or give no step a label"
            raise PlanInvalid("bad_id", message, step=index)
    for step in steps:
        if isinstance(step, Block):
            _check_labels(step.steps)


def _label(text: str) -> str:
    """Escape text for a quoted mermaid label."""
    plain = " ".join(text.split())
    for mark in '#%"<>`':
        plain = plain.replace(mark, f"#{ord(mark)};")
    return plain


KEPT: Final = Plan(())
"""The plan that keeps the previous answer."""
