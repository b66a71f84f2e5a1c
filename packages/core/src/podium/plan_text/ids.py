"""The numbers of a plan's steps, as its text writes them."""

import re
from collections.abc import Sequence
from typing import NoReturn
from unicodedata import normalize

from podium.errors import PlanInvalid, PlanInvalidCode
from podium.plan_text.literals import Node, Word
from podium.types.references import renumbered
from podium.types.scope import forward_access

ID_KEYS = frozenset(
    (
        *("id", "idx", "index", "step", "number", "num", "no", "nr", "order", "position", "seq", "sequence"),
        *("stepid", "stepidx", "stepindex", "stepno", "stepnr", "stepnum", "stepnumber"),
        *("taskid", "taskindex", "tasknumber", "subtaskid", "subtaskindex", "subtasknumber", "nodeid"),
    )
)
"""Keys of ids, as `field_key` returns them."""

_LIKE_AN_ID = re.compile(r"(?!worker|model|agent).+(?:id|idx|index|number|num|no|nr|order|position|seq)")
"""Other keys that may be meant as ids, as `field_key` returns them."""
_NUMBER = re.compile(
    r"(?:(?:s|step|t|task|no|nr)[.:]?[ _#-]{0,2}|#[ ]?)?([+-]?[0-9]{1,18})(?:\.0*)?[):]?",
    re.IGNORECASE,
)
_LIKE_A_NUMBER = re.compile(
    r"\W*(?:(?:s|step|t|task|no|nr)\b[\W_]*)?[0-9]|(?:\S*[0-9]\S*|true|false)\Z", re.IGNORECASE
)
"""Matches ids that look like a number but are not one."""
_MOST_CHARS = 200
"""Number of characters of an id that are read."""
_SHOWN = 40
"""Maximum number of ids in an error message."""


class StepIds:
    """The steps of a plan or block that were read, the last of which is being read, and their ids.

    All steps have an id under the same key, or none; access lists name them.

    Args:
        outer: the steps of the plan around a block.
    """

    def __init__(self, outer: "StepIds | None" = None) -> None:
        self.outer = outer
        self.own = -1
        """The index of the last step."""
        self._keys: set[str] = set()
        self._positions: dict[int, int] = {}
        self._names: dict[str, int] = {}
        """Steps by ids without digits; -1 for an id of two steps."""

    @property
    def name(self) -> str:
        """The number of the last step for people, as in `2`, or `2.0` in a block."""
        return str(self.own) if self.outer is None else f"{self.outer.name}.{self.own}"

    def fault(self, code: PlanInvalidCode, position: int, message: str) -> PlanInvalid:
        """Return the error of the last step."""
        top = self
        while top.outer is not None:
            top = top.outer
        return PlanInvalid(code, message, step=top.own, position=position)

    def fail(self, code: PlanInvalidCode, position: int, fault: str) -> NoReturn:
        """Raise `PlanInvalid` for the last step."""
        raise self.fault(code, position, f"step {self.name} {fault}")

    def begin(self) -> None:
        """Begin the next step."""
        self.own += 1

    def add(self, fields: Sequence[tuple[str, Node]], start: int) -> None:
        """Add the id of the last step: the keys of its object, as `field_key` returns them, and its start."""
        ids = list[tuple[str, int, int]]()
        for key, node in fields:
            number = step_number(node)
            if key in ID_KEYS and number is not None:
                ids.append((key, node.start, number))
            elif key in ID_KEYS and isinstance(node.value, str) and _LIKE_A_NUMBER.match(_normal(node.value)):
                # access lists could not name it
                told = f"has the {key} {node.value!r:.60}, which is not a whole number"
                self.fail("bad_id", node.start, f"{told}: give every step a different number")
            elif key in ID_KEYS and isinstance(node.value, str) and not isinstance(node.value, Word):
                name = node.value.strip().lower()
                self._names[name] = self.own if self._names.get(name, self.own) == self.own else -1
        keys, numbers = {key for key, _, _ in ids}, {number for _, _, number in ids}
        for key, node in () if keys else fields:
            if key not in ID_KEYS and _LIKE_AN_ID.fullmatch(key) and step_number(node) is not None:
                told = f"has a number under {key!r}, which may be its id"
                rather = f'write the numbers of steps under "id", or leave {key!r} out'
                self.fail("bad_id", node.start, f"{told}: {rather}")
        if fault := self._fault(keys, numbers):
            told = f"{fault}: give every step a different number, under the same key"
            self.fail("bad_id", ids[0][1] if ids else start, told)
        self._positions |= dict.fromkeys(numbers, self.own)
        self._keys = self._keys & keys if self.own else keys

    @property
    def latest(self) -> int | None:
        """The id of the last step; `None` if steps have no ids."""
        return next(reversed(self._positions), None)

    def _fault(self, keys: set[str], numbers: set[int]) -> str:
        """Return what is wrong with the ids of the next step; empty if they are valid."""
        if len(numbers) > 1:
            return f"has two ids, {' and '.join(map(str, sorted(numbers)))}"
        if self.own and keys and not self._keys:
            return "has an id, and earlier steps have none"
        if self._keys and not keys:
            return "has no id, and earlier steps have one"
        if self._keys and not keys & self._keys:
            return f"has its id under {min(keys)!r}, and earlier steps have theirs under {min(self._keys)!r}"
        taken = [number for number in numbers if number in self._positions]
        return f"has the id {taken[0]} of an earlier step" if taken else ""

    def position(self, number: int, at: int) -> int:
        """Return the position of an earlier step to which the last step refers, at `at` in the text."""
        found = self.find(number)
        if found is None:
            told = forward_access(self.own, number)
            if self._positions:
                *earlier, last = self._positions
                known = (
                    f" or ids of earlier steps ({', '.join(map(str, earlier[:_SHOWN]))})" if earlier else ""
                )
                told = f"(id {last}) lists {number}, which is not the id of an earlier step: write []{known}"
            self.fail("forward_access", at, told)
        return found

    def named(self, name: str) -> int | None:
        """Return the position of an earlier step by its id in small letters, or `None`."""
        found = self._names.get(name, -1)
        return found if 0 <= found < self.own else None

    def renumbered(self, text: str, at: int) -> str:
        """Return a text with the positions of steps in its references, which the last step has at `at`."""
        outer = self.outer
        around = None if outer is None else lambda number: outer.position(number, at)
        return renumbered(text, lambda number: self.position(number, at), around)

    def any_position(self, number: int) -> int:
        """Return the position of any step by its number; -1 if there is no such step."""
        return self._positions.get(number, -1) if self._positions else number

    def find(self, number: int) -> int | None:
        """Return the position of an earlier step by its number; `None` if there is no such step."""
        found = self._positions.get(number, -1) if self._positions else number
        return found if 0 <= found < self.own else None


def step_number(node: Node) -> int | None:
    """Return an id, or an entry of an access list, as a number (`"step 1"`, `"#1"`, `1.0`, …), or `None`."""
    value = node.value
    if not isinstance(value, str):
        return value if isinstance(value, int) else None
    found = _NUMBER.fullmatch(_normal(value))
    return int(found[1]) if found else None


def _normal(text: str) -> str:
    """Return the beginning of a text, with full-width digits and signs replaced by ASCII."""
    return normalize("NFKC", text.strip()[:_MOST_CHARS]).strip()
