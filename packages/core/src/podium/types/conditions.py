"""Conditions on typed outputs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

from podium.errors import PlanInvalid
from podium.types.references import ABSENT, BadValue, Reference, reference_of, written

OPERATORS = ("is", "in", "not", "less", "more", "exists")
"""The tests of a condition; all of them must hold."""


def same(one: Any, other: Any) -> bool:
    """Return whether two JSON values are equal: 1 equals 1.0, and neither `"1"` nor `true`."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return bool(one == other)


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on a typed output. It holds if all its tests hold.

    Raises:
        PlanInvalid: there is no test, a test is unknown, or its operand has the wrong type.
    """

    ref: str
    """The reference to the value that is tested, as in `{{0.verdict}}`."""
    tests: dict[str, Any]
    """The operand of each operator: `is` and `not` have a value, `in` a list, `less` and `more` a number,
    `exists` true or false."""

    def __post_init__(self) -> None:
        written = 'as in {"ref": "{{0.verdict}}", "is": "bad"}'
        if reference_of(self.ref) is None:
            raise PlanInvalid("bad_condition", f"ref is {self.ref!r:.60}: write one reference, {written}")
        if not self.tests:
            raise PlanInvalid(
                "bad_condition", f"the condition on {self.ref} has no test: write one, {written}"
            )
        for operator, operand in self.tests.items():
            if wanted := _wrong_operand(operator, operand):
                raise PlanInvalid("bad_condition", f"{operator} is {operand!r:.60}: write {wanted}")

    @property
    def reference(self) -> Reference:
        """The value that is tested."""
        found = reference_of(self.ref)
        assert found is not None
        return found

    def holds(self, value: Any) -> bool:
        """Return whether the condition holds for a value, or for `ABSENT` in place of one.

        Raises:
            BadValue: there is no value, or it has the wrong type for a test.
        """
        tests = dict(self.tests)
        exists = value is not ABSENT
        if tests.pop("exists", exists) is not exists:
            return False
        if tests and not exists:
            raise BadValue(f"{self.ref} leads to nothing")
        return all(self._passes(name, operand, value) for name, operand in tests.items())

    def _passes(self, name: str, operand: Any, value: Any) -> bool:
        if name in ("less", "more"):
            if not _is_quantity(value):
                raise BadValue(f"{self.ref} is {written(value)!r:.60}, and {name} compares numbers")
            return bool(value < operand if name == "less" else value > operand)
        if name == "in":
            return any(same(value, one) for one in operand)
        return same(value, operand) is (name == "is")

    def __str__(self) -> str:
        return f"{self.ref} {', '.join(f'{name} {operand!r}' for name, operand in self.tests.items())}"

    def to_json(self) -> dict[str, Any]:
        """Return the condition as in plan text."""
        return {"ref": self.ref, **self.tests}


def _wrong_operand(operator: str, operand: object) -> str:
    """Return what to write in place of an operand; empty if it is valid."""
    if operator not in OPERATORS:
        return f"one of the tests {', '.join(OPERATORS)}"
    if operator == "in" and not isinstance(operand, list):
        return "a list of values"
    if operator in ("less", "more") and not _is_quantity(operand):
        return "a number"
    return "true or false" if operator == "exists" and not isinstance(operand, bool) else ""


def _is_quantity(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def condition_from_json(value: object) -> Condition | None:
    """Read a condition as in plan text; `None` for `None`; raise `PlanInvalid` for other data."""
    if value is None:
        return None
    if not isinstance(value, Mapping) or not isinstance(value.get("ref"), str):
        told = 'write an object, as in {"ref": "{{0.verdict}}", "is": "bad"}'
        raise PlanInvalid("bad_condition", f"a condition is {value!r:.60}: {told}")
    return Condition(value["ref"], {str(key): each for key, each in value.items() if key != "ref"})
