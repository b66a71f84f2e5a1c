"""What `as_worker` of each host needs: cards, and tools as workers."""

import json
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Context, Decimal
from enum import Enum
from math import isfinite
from typing import Any, TypedDict
from uuid import UUID

from jsonschema import ValidationError
from jsonschema.exceptions import SchemaError, best_match
from jsonschema.validators import Draft202012Validator, validator_for
from pydantic import BaseModel
from referencing import Registry

from podium.aio.loops import connections_per_loop
from podium.conductor import Conductor
from podium.errors import ConfigError, WorkerRefused, unknown_options
from podium.hosts.errors import HostErrorReader, worker_errors
from podium.hosts.results import with_lack
from podium.prompts.prompt import filled_object, filling, mentioned, object_in
from podium.types import Completion
from podium.types.messages import storable
from podium.types.references import is_object
from podium.workers import Card, Price, Request, StepInput, Worker, step_input_of
from podium.workers.openai.models import with_known_facts
from podium.workers.worker import Memory


class CardOptions(TypedDict, total=False):
    """Keyword arguments of `as_worker` for the worker's card: a whole card, or parts of it."""

    card: Card | None
    """The card of the worker; by default (`None`) it is created from the object and the parts below."""
    name: str | None
    """The worker's name in plans; by default (`None`) the object's own name."""
    description: str | None
    """The worker's skills; by default (`None`) the object's own description."""
    price: Price | None
    """The price of the worker's tokens.

    By default (`None`), Podium looks up the price if the object is a model with the endpoint URL of a known
    provider; otherwise the price is unknown.
    """
    labels: Iterable[str]
    """Properties that rules of a policy refer to; none by default."""
    memory: Memory
    """What of the conversation the worker is shown: see `podium.workers.worker.Memory`; by default all."""
    parts: Iterable[str]
    """Content parts of questions that it accepts besides text: `image_url`, `input_audio`, `file`; by default
    those that the host knows of."""
    returns: Mapping[str, Any] | None
    """A JSON schema of the worker's outputs: see `Card.returns`; by default (`None`) any text."""


class ConductorFace(ABC):
    """An object of a host that has a conductor; each call of the object is a run of this conductor.

    An adapter registers its classes with `@ConductorFace.register`. `as_worker` then puts
    the conductor itself into the pool, so its steps share the limits of the outer run.
    """

    @property
    @abstractmethod
    def conductor(self) -> Conductor:
        """The conductor of the object."""


def said_acts(thing: object) -> bool | None:
    """Return what a host's object says about `Worker.acts`; `None` if it says nothing."""
    if isinstance(thing, ConductorFace):
        return thing.conductor.acts
    said = getattr(thing, "acts", None)
    return said if isinstance(said, bool) else None


class CardMaker:
    """Creates the card of a host's object from the arguments of `as_worker`.

    Args:
        options: the arguments of `as_worker`.

    Raises:
        ConfigError: `card` is given together with other options, or `labels` is a single text.
        TypeError: an option is not in `CardOptions`.
    """

    def __init__(self, options: CardOptions) -> None:
        if told := unknown_options("as_worker", options, CardOptions.__annotations__):
            raise TypeError(told)
        labels = options.get("labels") or ()
        if isinstance(labels, str):
            raise ConfigError(f"labels are {labels!r}: give a set of texts")
        self._options = options
        self._labels = frozenset(labels)
        given = (name for name, value in options.items() if value is not None and name != "labels")
        self._given = [*given, *self._labels]
        if options.get("card") is not None and len(self._given) > 1:
            raise ConfigError(
                "pass either a card, or a name, description, price and labels: set them on the card"
            )

    def podium_worker(self, thing: object, *, acts: bool | None = None) -> Worker | None:
        """Return `thing` if it is a worker, or its conductor if it is a `ConductorFace`.

        Args:
            thing: the object.
            acts: the argument of `as_worker`.

        Returns:
            `None` if `thing` is another object of the host.

        Raises:
            ConfigError: the worker has its own card and `acts`, and card options or `acts` are given.
        """
        worker = thing.conductor if isinstance(thing, ConductorFace) else thing
        if not isinstance(worker, Worker):
            return None
        if self._given:
            told = f"{type(worker).__name__} {worker.card.name!r} already has a card"
            raise ConfigError(f"{told}: set its name, description, price and labels where it is created")
        if acts is not None:
            raise ConfigError(f"{worker.card.name!r} is a worker of Podium: set `acts` where it is created")
        return worker

    def card(  # noqa: PLR0913 - one parameter for each fact of an object
        self,
        *,
        name: str,
        description: str = "",
        context_window: int | None = None,
        parts: frozenset[str] = frozenset(),
        concurrency: int | None = None,
        model: str = "",
        base_url: str = "",
    ) -> Card:
        """Return the given card, or a card from the given parts and the object's properties.

        If the endpoint's URL belongs to a known provider, a missing price or context window is looked up,
        as for a `ChatWorker`. The method also calls `podium.aio.connections_per_loop`, so that HTTP clients
        in objects of the host have separate connections for each event loop.

        Args:
            name: the object's own name; unprintable characters become spaces.
            description: the object's own description; line breaks become spaces.
            context_window: see `Card`.
            parts: content parts that it accepts in addition to text.
            concurrency: maximum number of calls at the same time.
            model: the model's name on its server.
            base_url: the URL of the model's endpoint; empty if unknown.

        Raises:
            ConfigError: the object has no name and no name is given, or the given name is invalid.
        """
        connections_per_loop()
        said, words = self._options.get("name"), self._options.get("description")
        card = self._options.get("card") or Card(
            name=_printable(name) if said is None else said,
            description=_one_line(description) if words is None else words,
            price=self._options.get("price"),
            labels=self._labels,
            context_window=context_window,
            parts=parts.union(self._options.get("parts") or ()),
            concurrency=concurrency,
            memory=self._options.get("memory", "all"),
            returns=self._options.get("returns"),
        )
        return with_known_facts(card, base_url, model) if base_url and model else card


def base_url_of(*clients: object) -> str:
    """Return the first base URL of SDK clients, or of the clients inside them; empty if none has one."""
    holders = [holder for client in clients for holder in (client, getattr(client, "_client", None))]
    urls = (getattr(holder, "base_url", None) for holder in holders)
    return next((str(url) for url in urls if url), "")


def _printable(name: str) -> str:
    clean = _one_line("".join(char if char.isprintable() else " " for char in name))
    if not clean:
        raise ConfigError("a worker needs a name: as_worker(..., name=...)")
    return clean


def _one_line(text: str) -> str:
    return " ".join(text.split())


_NUMBERS: Mapping[str, Callable[[str], float]] = {"integer": int, "number": float}
"""For each number type of JSON schema, the function that converts a text."""
_MESSAGE_CHARS = 300


class ToolWorker(Worker):
    """Calls a tool with arguments from the subtask.

    Args:
        schema: JSON schema of the tool's arguments: an object with `properties`. Unknown arguments are
            invalid unless the schema has `additionalProperties`. Remote references are not resolved.
        call: calls the tool with its arguments, and returns the output as text, or as a `Completion` if the
            tool called models that used tokens. `worker_errors` translates exceptions of `call`.
        card: the card of the tool; instructions for the subtask are added to its description.
        reader: recognises exceptions that only this host raises.
        model: the class with which the host validates the arguments; `None` if it does not. Actions are equal
            if the validated values are.

    Raises:
        ConfigError: `schema` is not a JSON schema.
    """

    uses_tokens = False
    reads_prose = False
    acts = True  # a tool may have side effects; hosts that know otherwise set it

    def __init__(
        self,
        schema: Mapping[str, Any],
        call: Callable[[dict[str, Any]], Awaitable[str | Completion]],
        *,
        card: Card,
        reader: HostErrorReader | None = None,
        model: type[BaseModel] | None = None,
    ) -> None:
        self._arguments: Mapping[str, Any] = schema.get("properties") or {}
        self._required = self._arguments.keys() & frozenset(schema.get("required") or ())
        self._validator = _validator(schema, sorted(self._required), card.name)
        self._text = self._text_argument()
        self._call = call
        self._reader = reader
        self._model = model
        rule = self._rule()
        if card.description.endswith(rule):  # a saved card already has the rule
            rule = ""
        self.card = replace(card, description=f"{card.description} {rule}".strip())

    async def call(self, request: Request) -> AsyncGenerator[str | Completion, None]:
        """Call the tool.

        Raises:
            WorkerRefused: the tool needs a JSON object and the subtask has none, or the arguments do
                not fit the tool's schema.
            WorkerError: the tool raised.
        """
        with worker_errors(self.card.name, reader=self._reader, has_run=lambda: True):
            given = self._read(step_input_of(request))
            output = await self._call(given)
        done = with_lack(output if isinstance(output, Completion) else Completion(storable(output)))
        if request.stream and done.text:
            yield done.text
        yield done

    def asked(self, step_input: StepInput) -> str:
        """Return the arguments as JSON: in the order of their names, and with the types of the schema."""
        with worker_errors(self.card.name):
            given = self._read(step_input)
        defaults = {name: kind["default"] for name, kind in self._arguments.items() if "default" in kind}
        return json.dumps(self._validated(defaults | given), sort_keys=True, ensure_ascii=False)

    def _validated(self, given: dict[str, Any]) -> dict[str, object]:
        """Return arguments in their canonical form: as given if the host's class refuses them."""
        values: dict[str, Any] = {}
        if self._model is not None:
            with suppress(ValueError):
                found = self._model.model_validate(given)
                values = {name: value for name, value in found if name in given}
        return {name: _canonical(values.get(name, value), value) for name, value in given.items()}

    def _text_argument(self) -> str | None:
        """Return the argument that gets a plain subtask; `None` if the tool needs a JSON object."""
        names = list(self._arguments) if len(self._arguments) == 1 else sorted(self._required)
        is_text = len(names) == 1 and self._arguments.get(names[0], {}).get("type") == "string"
        return names[0] if is_text else None

    def _rule(self) -> str:
        """Return the instructions for the subtask; empty if the subtask is simply the tool's text."""
        if not self._arguments:
            return "It takes no arguments."
        if self._text is None:
            return f"Its subtask is a JSON object of {self._described()}, and nothing else."
        if len(self._arguments) == 1:
            return ""
        return f'Its subtask is its "{self._text}", or a JSON object of {self._described()}.'

    def _read(self, step_input: StepInput) -> dict[str, Any]:
        """Return the tool's arguments."""
        if not self._arguments:
            return {}
        subtask, template = step_input.subtask, step_input.template or step_input.subtask
        # The template of the plan decides what is an argument, so a filled-in output cannot add arguments.
        if self._text is not None:
            return self._checked(object_in(subtask)) if is_object(template) else {self._text: subtask}
        arguments = filled_object(template, filling(step_input.visible, step_input.texts))
        if arguments is None and "{" not in mentioned(template, names=dict(step_input.texts)):
            arguments = object_in(subtask)
        if arguments is None:
            told = f"the arguments of tool {self.card.name!r} are {self._described()}"
            raise WorkerRefused(f"{told}: write the subtask as a JSON object with them")
        return self._checked(arguments)

    def _checked(self, arguments: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return arguments that fit the tool's schema."""
        typed = {name: self._typed(name, value) for name, value in (arguments or {}).items()}
        error = best_match(self._validator.iter_errors(typed))
        if error is not None:
            told = f"tool {self.card.name!r} got {_complaint(error)}"
            raise WorkerRefused(f"{told}: its arguments are {self._described()}")
        return typed

    def _typed(self, name: str, value: object) -> object:
        """Convert a text to a number if the argument is a number, because filled-in outputs are text."""
        kind = self._arguments.get(name, {}).get("type")
        if not isinstance(value, str) or kind not in _NUMBERS:
            return value
        try:
            number = _NUMBERS[kind](value)
            if isinstance(number, int) or isfinite(number):
                return number
        except ValueError:
            pass
        told = f"argument {name!r} of tool {self.card.name!r} must be of type {kind}, not {value[:80]!r}"
        raise WorkerRefused(f"{told}: write only the number; an earlier step must return nothing else")

    def _described(self) -> str:
        kinds = {name: kind.get("type", "any") for name, kind in self._arguments.items()}
        return ", ".join(f'"{name}" ({kind})' for name, kind in kinds.items()) or "nothing"


def hints_act(hints: Mapping[str, Any]) -> bool:
    """Return whether a tool acts, by MCP's annotations `readOnlyHint` and `idempotentHint`; true without."""
    return not (hints.get("readOnlyHint") or hints.get("idempotentHint"))


def _validator(schema: Mapping[str, Any], required: Sequence[str], name: str) -> Draft202012Validator:
    """Return the validator of a schema; unknown arguments are invalid unless the schema allows them."""
    whole = {"additionalProperties": False, **schema, "type": "object", "required": list(required)}
    kind: Any = validator_for(whole, default=Draft202012Validator)
    try:
        kind.check_schema(whole)
    except SchemaError as error:
        told = f"the JSON schema of the arguments of tool {name!r} is invalid: {error.message}"
        raise ConfigError(told) from error
    validator: Draft202012Validator = kind(whole, registry=Registry())  # the default registry opens URLs
    return validator


def _canonical(value: object, given: object) -> object:
    """Return a value as JSON that is equal for equal values; `given` for a type that JSON cannot show."""
    try:
        return _plain(value)
    except (TypeError, ArithmeticError):
        return given


def _plain(value: object) -> object:  # noqa: PLR0911 - one case for each type
    match value:
        case Enum():
            return _plain(value.value)
        case None | bool() | int() | str():
            return value
        case float():
            return int(value) if value.is_integer() else value
        case Decimal():
            return str(value.normalize(Context(prec=max(len(value.as_tuple().digits), 1))))
        case datetime():
            return (value if value.utcoffset() is None else value.astimezone(UTC)).isoformat()
        case date() | time() | UUID():
            return str(value)
        case BaseModel():
            return {name: _plain(item) for name, item in value}
        case dict() if all(isinstance(name, str) for name in value):
            return {name: _plain(item) for name, item in value.items()}
        case list() | tuple() | set() | frozenset():
            items = [_plain(item) for item in value]
            return sorted(items, key=json.dumps) if isinstance(value, set | frozenset) else items
    raise TypeError(type(value).__name__)


def _complaint(error: ValidationError) -> str:
    """Return what is wrong with the arguments, and where."""
    where = error.json_path.removeprefix("$.")
    told = error.message if len(error.message) <= _MESSAGE_CHARS else f"{error.message[:_MESSAGE_CHARS]}…"
    return f"wrong arguments: {told}" if where == "$" else f"a wrong argument {where!r}: {told}"
