"""JSON schemas of outputs: the short form, what nothing can satisfy, and the check of a value.

Schemas come from models and from outside. So a check has a maximum number of steps, it opens no URL, and it
runs no regular expression: `pattern`, `patternProperties` and `format` are not checked.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from threading import local
from typing import Any, NamedTuple

from podium.errors import PlanInvalid, PlanInvalidCode

TYPES = ("string", "integer", "number", "boolean", "object", "array", "null")
"""The names of types in JSON schemas."""
MOST_CHARS = 20_000
"""Maximum length of a schema as JSON, in characters."""
MOST_STEPS = 100_000
"""Maximum number of keywords that are applied to a value."""
_MOST_DEPTH = 32
"""Maximum nesting of a schema."""
_DISTINCT = frozenset(
    ("properties", "items", "prefixItems", "enum", "const", "anyOf", "oneOf", "allOf", "not", "if", "$ref")
)
"""Keywords by which a valid JSON schema is one, and not a short form with fields of these names."""
_BOUNDS = {
    "number": (("minimum", "maximum"), ("exclusiveMinimum", "exclusiveMaximum")),
    "integer": (("minimum", "maximum"), ("exclusiveMinimum", "exclusiveMaximum")),
    "string": (("minLength", "maxLength"),),
    "array": (("minItems", "maxItems"),),
    "object": (("minProperties", "maxProperties"),),
}
_SKIPPED = ("pattern", "patternProperties")
_OF_PATTERNS = ("additionalProperties", "unevaluatedProperties")
"""Keywords whose meaning depends on `patternProperties`."""


class NotChecked(Exception):
    """A value was not checked; the argument says what its schema does."""


class _NoSchema(Exception):
    """A schema is invalid; the argument says why."""


class _TooComplex(Exception):
    """A schema needs too many steps for a value."""


class Form(NamedTuple):
    """A schema, which may be a part of a larger one, to which its references lead."""

    schema: Any
    root: Any

    @classmethod
    def of(cls, schema: Any) -> "Form":
        """Return the form of a whole schema."""
        return cls(schema, schema)

    def resolved(self) -> "Form":
        """Return the form to which `$ref` leads; the form itself without one."""
        form = self
        for _ in range(_MOST_DEPTH):
            target = form.schema.get("$ref") if isinstance(form.schema, Mapping) else None
            if not isinstance(target, str) or not target.startswith("#"):
                break
            form = Form(_at(form.root, target), form.root)
        return form

    @property
    def parts(self) -> "tuple[Form, ...]":
        """The alternatives of the form, or the form itself without alternatives."""
        form = self.resolved()
        if not isinstance(form.schema, Mapping):
            return (form,)
        found = [Form(each, form.root) for key in ("anyOf", "oneOf") for each in form.schema.get(key) or ()]
        whole = [Form(each, form.root) for each in form.schema.get("allOf") or ()]
        return (*([] if found else [form]), *found, *whole)

    def item(self) -> "Form | None":
        """Return the form of an item, if the value may be a list; else `None`."""
        return self._joined(map(_item, self.parts))

    def field(self, key: str) -> "Form | None":
        """Return the form of a part of the value by its key or position; `None` if there is no such part."""
        return self._joined(_field(part, key) for part in self.parts)

    def _joined(self, forms: "Iterable[Form | None]") -> "Form | None":
        found = [form for form in forms if form is not None]
        if len(found) < 2:
            return found[0] if found else None
        return Form({"anyOf": [form.schema for form in found]}, self.root)

    def allows(self, kind: str) -> bool:
        """Return whether a value of a JSON type may have the form."""
        return any(kind in _types(part.schema) for part in map(Form.resolved, self.parts))

    def fits(self, value: Any) -> bool:
        """Return whether a value has the form, or it cannot be checked."""
        try:
            return not fault_of(self.schema, self.root, value)
        except NotChecked:
            return True


ANY = Form.of({})
"""The form of a value of which nothing is known."""


def _at(root: Any, pointer: str) -> Any:
    """Return the part of a schema at a JSON pointer; a part that accepts all if there is none."""
    for key in pointer.lstrip("#").split("/")[1:]:
        name = key.replace("~1", "/").replace("~0", "~")
        if isinstance(root, Mapping) and name in root:
            root = root[name]
        elif isinstance(root, list) and name.isdecimal() and int(name) < len(root):
            root = root[int(name)]
        else:
            return {}
    return root


def _types(schema: Any) -> Sequence[str]:
    """Return the JSON types of the values that a schema may accept."""
    if not isinstance(schema, Mapping):
        return TYPES if schema else ()
    known = schema.get("type")
    if known is None and "enum" in schema:
        known = [_type_of(value) for value in schema["enum"]]
    if known is None and ("properties" in schema or "required" in schema):
        known = "object"
    names = [known] if isinstance(known, str) else TYPES if known is None else known
    return (*names, "integer") if "number" in names else names


def _type_of(value: Any) -> str:
    kinds = {
        str: "string",
        bool: "boolean",
        int: "integer",
        float: "number",
        list: "array",
        type(None): "null",
    }
    return kinds.get(type(value), "object")


def _item(form: Form) -> Form | None:
    form = form.resolved()
    if not isinstance(form.schema, Mapping) or "array" not in _types(form.schema):
        return None
    return Form(form.schema.get("items", {}), form.root)


def _field(form: Form, key: str) -> Form | None:
    form = form.resolved()
    schema = form.schema
    if not isinstance(schema, Mapping):
        return form if schema else None
    kinds = _types(schema)
    if "object" in kinds:
        fields = schema.get("properties", {})
        if key in fields:
            return Form(fields[key], form.root)
        others = schema.get("additionalProperties", not fields)
        if others:
            return Form(others if isinstance(others, Mapping) else {}, form.root)
    if "array" in kinds and key.isdecimal():
        first = schema.get("prefixItems", [])
        return Form(first[int(key)] if int(key) < len(first) else schema.get("items", {}), form.root)
    return None


def check_schema(given: Any, what: str = "returns", code: PlanInvalidCode = "bad_returns") -> dict[str, Any]:
    """Return the JSON schema that is given, also in its short form.

    In the short form, an object has the type of each field, as in `{"file": "string", "line?": "integer"}`
    (`?`: may be left out), a list has the type of its items, as in `["string"]`, and `ok|bad` is a choice.

    Args:
        given: the schema.
        what: what has it, for people.
        code: the code of an error.

    Raises:
        PlanInvalid: it is neither, it is too long, or nothing can satisfy it.
    """
    try:
        text = json.dumps(given)
    except (TypeError, ValueError, RecursionError):
        raise PlanInvalid(code, f"{what} is {given!r:.60}: write a JSON schema") from None
    try:
        schema: dict[str, Any] = _checked(text)
    except _NoSchema as error:
        raise PlanInvalid(code, f"{what} {error}") from None
    return schema


@lru_cache(maxsize=512)
def _checked(text: str) -> Any:
    if len(text) > MOST_CHARS:
        raise _NoSchema(f"has {len(text):,} characters: write at most {MOST_CHARS:,}")
    schema = _read(json.loads(text), 0)
    if _is_impossible(Form.of(schema), frozenset()):
        raise _NoSchema(f"is {text:.200}, which no output can satisfy: correct it")
    return schema


def _read(given: Any, depth: int) -> Any:
    """Return a schema from a schema or its short form."""
    if depth > _MOST_DEPTH:
        raise _NoSchema(f"is nested deeper than {_MOST_DEPTH}")
    if isinstance(given, str):
        return _word(given)
    if isinstance(given, list):
        if len(given) != 1:
            told = 'a list has one entry, the type of its items, as in ["string"]'
            raise _NoSchema(f"has the list {json.dumps(given):.60}: {told}")
        return {"type": "array", "items": _read(given[0], depth + 1)}
    if not isinstance(given, dict):
        told = 'write a JSON schema, or fields as in {"verdict": "ok|bad"}'
        raise _NoSchema(f"has {json.dumps(given):.60}: {told}")
    fault, is_type = _fault(given), given.keys() == {"type"} and given["type"] in TYPES
    if not fault and (is_type or not _DISTINCT.isdisjoint(given)):
        return given
    try:
        return _fields(given, depth)
    except _NoSchema:
        if not fault:
            return given
        if fault != _NO_SCHEMA and {"type", "properties", "items"} & given.keys():
            raise _NoSchema(f"is an invalid JSON schema: {fault}") from None
        raise


_NO_SCHEMA = "it has other keys"


def _fault(given: dict[str, Any]) -> str:
    """Return why an object is not a JSON schema; empty if it is one."""
    from jsonschema.exceptions import SchemaError  # noqa: PLC0415 - jsonschema is slow to import
    from jsonschema.validators import Draft202012Validator  # noqa: PLC0415

    if not given or given.keys() - _keywords():
        return _NO_SCHEMA
    try:
        Draft202012Validator.check_schema(given)
    except SchemaError as error:
        return f"{error.message:.200}"
    except RecursionError:
        return "it is nested too deeply"
    return ""


@lru_cache(maxsize=1)
def _keywords() -> frozenset[str]:
    from jsonschema.validators import Draft202012Validator  # noqa: PLC0415 - jsonschema is slow to import

    notes = ("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "format")
    names = ("$schema", "$id", "$defs", "definitions", "$comment", "$anchor", "then", "else", *notes)
    return frozenset((*Draft202012Validator.VALIDATORS, *names))


def _word(word: str) -> dict[str, Any]:
    options = [option.strip() for option in word.split("|")]
    if len(options) == 1:
        if options[0] in TYPES:
            return {"type": options[0]}
        near = get_close_matches(options[0].lower(), TYPES, n=1)
        rather = f"did you mean {near[0]!r}?" if near else f"the types are {', '.join(TYPES)}"
        raise _NoSchema(f"has the unknown word {word!r:.60}: {rather}")
    if set(options) <= {*TYPES}:
        schema = json.dumps({"type": options})
        raise _NoSchema(f"has {word!r:.60}, a choice of words: write {schema} for types")
    if "" in options or len(set(options)) < len(options):
        raise _NoSchema(f"has {word!r:.60}: write different words between |")
    return {"type": "string", "enum": options}


def _fields(given: dict[str, Any], depth: int) -> dict[str, Any]:
    fields = {name.removesuffix("?"): _read(form, depth + 1) for name, form in given.items()}
    if len(fields) < len(given) or "" in fields:
        raise _NoSchema(f"has two fields of one name: {', '.join(given):.100}")
    needed = [name for name in given if not name.endswith("?")]
    return {"type": "object", "properties": fields, "required": needed}


def _is_impossible(form: Form, met: frozenset[int]) -> bool:
    """Return whether no value can satisfy a form, as far as can be seen; `met` has the forms around it."""
    form = form.resolved()
    schema = form.schema
    if not isinstance(schema, Mapping):
        return not schema
    if id(schema) in met:
        return True  # only an endless value could satisfy it
    met |= {id(schema)}
    if "enum" in schema or "const" in schema:
        return not any(form.fits(value) for value in schema.get("enum", [schema.get("const")]))
    some = [schema[key] for key in ("anyOf", "oneOf") if key in schema]
    if any(all(_is_impossible(Form(each, form.root), met) for each in options) for options in some):
        return True
    if any(_is_impossible(Form(each, form.root), met) for each in schema.get("allOf", ())):
        return True
    kinds = set(_types(schema)).intersection(*map(_types, schema.get("allOf", ())))
    return schema.get("not") in ({}, True) or all(_lacks_values(form, kind, met) for kind in kinds)


def _lacks_values(form: Form, kind: str, met: frozenset[int]) -> bool:
    """Return whether no value of a JSON type can satisfy a form."""
    schema = form.schema
    if any(
        schema.get(low, 0) > schema[high]
        for low, high in _BOUNDS.get(kind, ())
        if high in schema and low in schema
    ):
        return True
    if kind == "array":
        return schema.get("minItems", 0) > 0 and _is_impossible(Form(schema.get("items", {}), form.root), met)
    if kind == "object":
        fields, closed = schema.get("properties", {}), schema.get("additionalProperties") is False
        for name in schema.get("required", ()):
            if name in fields and _is_impossible(Form(fields[name], form.root), met):
                return True
            if name not in fields and closed and "patternProperties" not in schema:
                return True
    return False


def fault_of(schema: Any, root: Any, value: Any, most_steps: int = MOST_STEPS) -> str:
    """Return why a value does not fit a schema, which may be a part of `root`; empty if it fits.

    Args:
        schema: the schema.
        root: the schema of which it is a part.
        value: the value.
        most_steps: maximum number of keywords that are applied.

    Raises:
        NotChecked: the schema needs too many steps, or has a reference that cannot be resolved.
    """
    from jsonschema.exceptions import best_match  # noqa: PLC0415 - jsonschema is slow to import
    from referencing.exceptions import Unresolvable  # noqa: PLC0415

    try:
        found = best_match(_validator(root, most_steps).descend(value, schema))
    except (_TooComplex, RecursionError, Unresolvable) as error:
        why = {_TooComplex: "needs too many steps", RecursionError: "is nested too deeply"}
        raise NotChecked(why.get(type(error), "has a reference that cannot be resolved")) from error
    return "" if found is None else f"{found.json_path}: {found.message:.300}"


class _Left(local):
    """The steps that the validation in this thread may still take."""

    steps = 0


_left = _Left()


def _validator(root: Any, most_steps: int) -> Any:
    """Return a validator for one value, with a limited number of steps."""
    from jsonschema.validators import Draft202012Validator, validator_for  # noqa: PLC0415
    from referencing import Registry  # noqa: PLC0415

    kind: Any = validator_for(root, default=Draft202012Validator)
    has_patterns = '"patternProperties"' in json.dumps(root)
    _left.steps = most_steps
    return _bounded(kind, (*_SKIPPED, *(_OF_PATTERNS if has_patterns else ())))(root, registry=Registry())


@lru_cache(maxsize=32)  # to make a class takes milliseconds
def _bounded(kind: Any, skipped: tuple[str, ...]) -> Any:
    """Return the class of validators that skip some keywords, and count the others."""
    from jsonschema.validators import extend  # noqa: PLC0415 - jsonschema is slow to import

    def counted(check: Callable[..., Any]) -> Callable[..., Iterator[Any]]:
        def run(*arguments: Any) -> Iterator[Any]:
            _left.steps -= 1
            if _left.steps < 0:
                raise _TooComplex
            yield from check(*arguments) or ()

        return run

    checks = {name: counted(check) for name, check in kind.VALIDATORS.items() if name not in skipped}
    return extend(kind, {**checks, **dict.fromkeys(skipped, lambda *_: ())})  # type: ignore[no-untyped-call]
