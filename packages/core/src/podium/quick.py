"""Frozen dataclasses that are made at the cost of others. It knows none of them.

A frozen dataclass writes its fields by `object.__setattr__`, each at the cost of ten
assignments, and what is made anew for each call has a hundred of them.
"""

from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from typing import Any, TypeVar, cast

_Kind = TypeVar("_Kind", bound=type[Any])


def quick(kind: _Kind) -> _Kind:
    """Give a frozen dataclass of slots an `__init__` that does the same by plain assignments.

    What is made is of a class that can be written to until its fields are set: that one adds
    no slots, so that what is of it can become of the other.
    """
    writable = {"__setattr__": object.__setattr__, "__delattr__": object.__delattr__}
    thawed = type(kind.__name__, (kind,), {"__slots__": (), "__module__": kind.__module__, **writable})
    slow: Callable[..., None] = kind.__init__
    known: dict[str, Any] = {"_kind": kind, "_thawed": thawed, "_slow": slow, "_none": MISSING}
    known["_become"] = object.__dict__["__class__"].__set__
    taken = [each for each in fields(kind) if each.init]
    for each in taken:
        has_factory = each.default_factory is not MISSING
        known[f"default_{each.name}"] = each.default_factory if has_factory else each.default
    lines = [
        f"def __init__({_parameters(taken)}):",
        "if self.__class__ is not _kind:",  # one made of it, which may have other slots
        f"    return _slow(self, {', '.join(f'{each.name}={_value(each)}' for each in taken)})",
        "_become(self, _thawed)",
        *[f"self.{each.name} = {_value(each)}" for each in taken],
        "self.__class__ = _kind",
        "self.__post_init__()" if hasattr(kind, "__post_init__") else "",
    ]
    exec("\n    ".join(lines), known)  # noqa: S102 - as `dataclass` does, of nothing but names of fields
    init = cast("Callable[..., None]", known["__init__"])
    init.__annotations__, init.__qualname__ = slow.__annotations__, slow.__qualname__
    type.__setattr__(kind, "__init__", init)
    return kind


def _parameters(taken: list[Field[Any]]) -> str:
    named = [_parameter(each) for each in taken if each.kw_only]
    return ", ".join(
        ["self", *[_parameter(each) for each in taken if not each.kw_only], *(["*", *named] if named else [])]
    )


def _parameter(each: Field[Any]) -> str:
    if each.default_factory is not MISSING:
        return f"{each.name}=_none"
    return each.name if each.default is MISSING else f"{each.name}=default_{each.name}"


def _value(each: Field[Any]) -> str:
    if each.default_factory is MISSING:
        return each.name
    return f"default_{each.name}() if {each.name} is _none else {each.name}"
