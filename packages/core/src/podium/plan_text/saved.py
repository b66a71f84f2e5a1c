"""Saved plans: steps with a name and declared parameters, and plans that use them."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from re import compile as pattern
from typing import Any, Final

from podium.errors import PlanInvalid
from podium.plan_text.fields import Roster, node_of, read_row
from podium.plan_text.ids import StepIds
from podium.types.plan import Plan, nearest
from podium.types.references import RESERVED, references_in, shown, with_values
from podium.types.schemas import Form, check_schema
from podium.types.scope import misfit
from podium.types.steps import AnyStep, Block

_PLAN = pattern(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_NAME = pattern(r"[a-z_][a-z0-9_]{0,63}")
REQUIRED: Final = object()
"""The default of a parameter that has none."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a saved plan."""

    type: Any = "string"
    """A JSON schema, or its short form, as in `"string"`, `["string"]` and `"fast|thorough"`."""
    default: Any = REQUIRED
    """The value without an argument; without a default, the argument is required."""
    description: str = ""
    where: str = field(default="", compare=False, repr=False)
    """The file and the line where it is declared; empty without a file."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "type", check_schema(self.type, "its type", "bad_args"))

    @property
    def short(self) -> Any:
        """The type in its short form, if it has one."""
        return _short(self.type)

    @property
    def form(self) -> Form:
        """The form of its values."""
        return Form.of(self.type)


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedPlan:
    """A plan with a name and declared parameters.

    Its steps name workers, so it fits each pool that has these. In the steps, `{{name}}` stands for the value
    of a parameter.

    Raises:
        PlanInvalid: the name, type or default of a parameter is invalid, or a step is.
    """

    name: str
    steps: tuple[Mapping[str, Any], ...]
    """The steps as in plan text of the spelling `json`, with the names of workers."""
    description: str = ""
    when_to_use: str = ""
    """When a planner should use the plan."""
    parameters: Mapping[str, Parameter] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not _PLAN.fullmatch(self.name):
            told = "write at most 64 letters, digits, - and _"
            raise PlanInvalid("bad_args", f"the name of the plan is {self.name!r:.80}: {told}")
        for name, parameter in self.parameters.items():
            if name in RESERVED or not _NAME.fullmatch(name):
                told = "write at most 64 small letters, digits and _, and no reserved name"
                raise self._invalid(f"has the parameter {name!r:.60}: {told} ({', '.join(sorted(RESERVED))})")
            if parameter.default is not REQUIRED and (fault := misfit(parameter.form, parameter.default)):
                raise self._invalid(f"has a wrong value for {name}: the default {fault}")
        self.within({}, sorted(_named(self.steps, "worker")))

    def _invalid(self, told: str, name: str = "") -> PlanInvalid:
        """Return the error of an argument; `name` is its parameter."""
        where = self.parameters[name].where if name else ""
        return PlanInvalid("bad_args", f"plan {self.name} {told}" + (f" ({where})" if where else ""))

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of the arguments."""
        properties = {
            name: each.type
            | ({"description": each.description} if each.description else {})
            | ({} if each.default is REQUIRED else {"default": each.default})
            for name, each in self.parameters.items()
        }
        shape = {"type": "object", "properties": properties, "required": self._required}
        return {**shape, "additionalProperties": False}

    @property
    def _required(self) -> list[str]:
        return [name for name, each in self.parameters.items() if each.default is REQUIRED]

    def arguments(self, given: Mapping[str, Any], *, may_refer: bool = False) -> dict[str, Any]:
        """Return the values of all parameters.

        Args:
            given: the arguments, by the names of the parameters.
            may_refer: whether texts may have references, whose values are checked when they are known.

        Raises:
            PlanInvalid: an argument is unknown, missing, or has the wrong type (`bad_args`).
        """
        for name in given:
            if name not in self.parameters:
                near = nearest(name, self.parameters)
                rather = f"did you mean {near!r}?" if near else f"it has {_listed(self.parameters)}"
                raise self._invalid(f"has no parameter {name!r:.60}: {rather}", near)
        found = {name: given.get(name, each.default) for name, each in self.parameters.items()}
        for name, value in found.items():
            if value is REQUIRED:
                raise self._invalid(
                    f"needs a value for {name} ({shown(self.parameters[name].short)}): give it", name
                )
            if name in given and not (may_refer and "{{" in shown(value)):
                self._check(name, value)
        return found

    def read_arguments(self, texts: Mapping[str, str]) -> dict[str, Any]:
        """Return the values of all parameters from texts, each read by the type of its parameter.

        A value of a parameter that may be a text is a text, and other values are JSON.

        Raises:
            PlanInvalid: see `arguments`.
        """
        given: dict[str, Any] = {}
        for name, text in texts.items():
            parameter = self.parameters.get(name)
            given[name] = text
            if parameter is not None and not parameter.form.allows("string"):
                try:
                    given[name] = json.loads(text)
                except ValueError:
                    self._check(name, text)
        return self.arguments(given)

    def arguments_of(self, question: str) -> dict[str, Any]:
        """Return the values of all parameters from a question.

        It is a JSON object with the arguments, or the text of the one parameter without a default.

        Raises:
            PlanInvalid: see `arguments`.
        """
        try:
            data = json.loads(question)
        except ValueError:
            data = None
        if isinstance(data, dict):
            return self.arguments(data)
        if len(self._required) > 1:
            raise self._invalid(f"needs values for {_listed(self._required)}: write a JSON object with them")
        only = self._required or (list(self.parameters) if len(self.parameters) == 1 else [])
        return self.read_arguments(dict.fromkeys(only, question))

    def _check(self, name: str, value: Any) -> None:
        if fault := misfit(self.parameters[name].form, value):
            told = f"has a wrong value for {name}: the argument {fault}: give a value of this type"
            raise self._invalid(told, name)

    @property
    def uses(self) -> frozenset[str]:
        """The names of the saved plans that its steps name."""
        return frozenset(_named(self.steps, "plan"))

    def within(self, args: Mapping[str, Any], workers: Sequence[str]) -> Block:
        """Return the plan as a step of another plan, for a pool with these workers.

        Saved plans in it are not written out.

        Raises:
            PlanInvalid: a step is invalid, or the pool lacks its worker.
        """
        roster, ids = Roster.strict(workers), StepIds()
        schemas = {name: each.type for name, each in self.parameters.items()}
        try:
            steps = tuple(read_row(node_of(row), roster, ids) for row in self.steps)
            Plan(tuple(replace(step, outer=False) for step in steps), parameters=schemas)
        except PlanInvalid as error:
            raise PlanInvalid(error.code, f"plan {self.name}: {error}", step=error.step) from None
        return Block(steps=steps, plan=self.name, parameters=schemas, args={**args})

    def plan(self, args: Mapping[str, Any], workers: Sequence[str]) -> Plan:
        """Return the plan by itself, for a pool with these workers; saved plans in it are not written out.

        Raises:
            PlanInvalid: see `within`; or a step lists `"outer"`, and no plan is around it.
        """
        own = self.within(args, workers)
        if seeing := [index for index, step in enumerate(own.steps) if step.outer]:
            told = 'lists "outer", and no plan is around it: name the plan in a step of another plan'
            raise PlanInvalid("bad_access", f"plan {self.name}: step {seeing[0]} {told}", step=seeing[0])
        return Plan(own.steps, name=self.name, parameters=own.parameters, args=own.args)


def written_out(plan: Plan, plans: Mapping[str, SavedPlan], workers: Sequence[str], *, depth: int) -> Plan:
    """Return the plan with the steps of the saved plans that it names.

    A plan of one step that names a saved plan becomes this saved plan.

    Args:
        plan: the plan.
        plans: the saved plans by name.
        workers: the names of the pool's workers.
        depth: the maximum nesting of saved plans, the plan itself included.

    Raises:
        PlanInvalid: a saved plan is unknown or nested too deeply, its arguments are wrong, or the pool lacks
            its worker.
    """
    if not any(isinstance(step, Block) for step in plan.steps):
        return plan

    def inner(steps: Iterable[AnyStep], level: int) -> tuple[AnyStep, ...]:
        return tuple(one(step, level) if isinstance(step, Block) else step for step in steps)

    def one(block: Block, level: int) -> Block:
        if not block.plan or block.steps:
            return replace(block, steps=inner(block.steps, level))
        try:
            saved = _known(block.plan, plans, level + 1, depth)
            own = saved.within(saved.arguments(block.args or {}, may_refer=True), workers)
            steps = inner(own.steps, level + 1)
        except PlanInvalid as error:
            told = f"line {block.line}: {error}" if block.line else str(error)
            raise PlanInvalid(error.code, told) from None
        return replace(block, steps=steps, parameters=own.parameters, args=own.args)

    match plan.steps:
        case (Block(plan=str(name), steps=(), each=None, when=None, access=()) as only,) if (
            name and not references_in(shown(only.args))
        ):
            own = one(only, 0)
            if not any(step.outer for step in own.steps):
                args = with_values(own.args, (), str)
                return replace(plan, steps=own.steps, name=name, parameters=own.parameters, args=args)
    return replace(plan, steps=inner(plan.steps, 1))


def _known(name: str, plans: Mapping[str, SavedPlan], level: int, depth: int) -> SavedPlan:
    """Return the saved plan that a step names, `level` deep; raise `PlanInvalid` if it may not."""
    if name not in plans:
        near = nearest(name, plans)
        rather = f"did you mean {near!r}?" if near else f"there are {_listed(plans)}"
        raise PlanInvalid("unknown_plan", f"there is no saved plan {name!r:.60}: {rather}")
    if level > depth:
        told = f"plan {name} is nested {level} deep, and Limits.depth allows {depth}: raise it"
        raise PlanInvalid("bad_block", told)
    return plans[name]


def _named(rows: Iterable[Any], key: str) -> Iterator[str]:
    """Yield the values of a key of steps, also inside of blocks."""
    for row in rows:
        if isinstance(row, Mapping):
            if isinstance(name := row.get(key), str):
                yield name
            inside = row.get("steps")
            yield from _named(inside if isinstance(inside, list | tuple) else (), key)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def _short(schema: Any) -> Any:
    """Return the short form of a simple schema; another schema as it is."""
    match schema:
        case {"type": str(kind), **others} if not others:
            return kind
        case {"type": "array", "items": items, **others} if not others:
            return [_short(items)]
        case {"type": "string", "enum": [*words], **others} if not others:
            return "|".join(words)
    return schema
