"""Random valid workflows, and the answers of their workers, which are functions of what a worker reads."""

import json
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from core.execution.flows import as_json, block, call, plan_of, when
from core.execution.interpreter import Interpreter, Untold
from hypothesis import assume, reject, strategies as st

from podium import Plan
from podium.errors import PlanInvalid

FORM = {"ok": "boolean", "n": "integer", "tags": ["string"], "kind": "a|b", "note?": "string"}
MOST_CALLS = 60


def answer(worker: int, subtask: str, visible: tuple[str, ...], *, failing: int = 0) -> str | None:
    """Return what a worker makes of a subtask and the outputs that it sees; one in `failing` fails."""
    number = int.from_bytes(sha256(repr((worker, subtask, sorted(visible))).encode()).digest()[:8])
    if failing and number % failing == 0:
        return None
    if not subtask.removeprefix('{"').startswith("form"):
        return f"t{number % 10_000}"
    tags = [f"{letter}{number // 7 % 3}" for letter in "pqr"[: number // 11 % 4]]
    note = {"note": "seen"} if number // 13 % 2 else {}
    fields = {"ok": bool(number & 2), "n": number // 5 % 3, "tags": tags, "kind": "ab"[number & 1]}
    return as_json(fields | note)


@dataclass
class Scope:
    """What the steps of a plan or block may refer to."""

    depth: int
    names: dict[str, str] = field(default_factory=dict)
    """The kinds of the items around, and of `previous`: form, text, or any."""
    outer: dict[int, str] = field(default_factory=dict)
    """The kinds of the steps on the access list of the block."""
    kinds: list[str] = field(default_factory=list)


@dataclass
class Writer:
    draw: st.DrawFn
    enough: bool
    count: int = 0

    def one(self, *options: Any) -> Any:
        return self.draw(st.sampled_from(options))

    def once_in(self, times: int) -> bool:
        """Draw whether something is so, which it is once in some times."""
        return self.draw(st.integers(1, times)) == times

    def steps(self, scope: Scope, most: int, *, ends_in_form: bool = False) -> list[dict[str, Any]]:
        number = self.draw(st.integers(1 if scope.depth else 2, most))
        found = []
        for index in range(number):
            is_last = index == number - 1
            step, kind = self._step(scope, index, is_form=is_last and ends_in_form)
            found.append(step)
            scope.kinds.append(kind)
        return found

    def _step(self, scope: Scope, index: int, *, is_form: bool) -> tuple[dict[str, Any], str]:
        access = sorted(self.draw(st.sets(st.integers(0, index - 1), max_size=2))) if index else []
        keys: dict[str, Any] = {}
        names = dict(scope.names)
        if not is_form and self.once_in(2):
            each, item = self._each(scope, index)
            if each is not None:
                keys["each"], names = each, {**scope.names, "item": item, "index": "any"}
                if self.enough and self.once_in(3):
                    keys["enough"] = 1
        if not is_form and (condition := self._condition(scope, index)) is not None:
            keys["when"] = condition
            if index and self.once_in(3):
                keys["else"] = self.draw(st.integers(0, index - 1))
        if not is_form and scope.depth < 3 and self.count < 12 and self.once_in(3):
            step, kind = self._block(scope, access, names)
        else:
            step, kind = self._call(scope, access, names, is_form=is_form)
        if "each" in keys:
            kind = {"form": "forms", "text": "texts"}.get(kind, "any")
        if "else" in keys and scope.kinds[keys["else"]] != kind:
            kind = "any"
        return step | keys, kind

    def _each(self, scope: Scope, index: int) -> tuple[Any, str]:
        options: list[tuple[Any, str]] = [(["a", "b", "a"], "text")]
        options += [(each, "any") for each in (["a", None], 2, 0)]
        for number, kind in enumerate(scope.kinds[:index]):
            ref = f"{{{{{number}.tags}}}}"
            options += {
                "form": [(ref, "text"), (ref, "text"), (f"{{{{{number}.n}}}}", "any")],
                "forms": [(ref, "text"), (f"{{{{{number}}}}}", "form"), (f"{{{{{number}}}}}", "form")],
                "texts": [(f"{{{{{number}}}}}", "text")] * 2,
            }.get(kind, [])
        options += [("{{item.tags}}", "text")] if scope.names.get("item") == "form" else []
        options += [(f"{{{{outer.{n}.tags}}}}", "text") for n, kind in scope.outer.items() if kind == "form"]
        return self.one(*options)  # type: ignore[no-any-return]

    def _condition(self, scope: Scope, index: int) -> dict[str, Any] | None:
        if not self.once_in(3):
            return None
        forms = [f"{number}" for number, kind in enumerate(scope.kinds[:index]) if kind == "form"]
        forms += [name for name, kind in scope.names.items() if kind == "form" and name != "previous"]
        forms += [f"outer.{number}" for number, kind in scope.outer.items() if kind == "form"]
        if scope.names.get("previous") == "form" and self.once_in(2):
            return when("{{previous.ok}}", exists=self.once_in(2))
        if not forms:
            return None
        ref = self.one(*forms)
        path, tests = self.one(
            ("ok", {"is": True}),
            ("kind", {"is": "a"}),
            ("kind", {"not": "a"}),
            ("n", {"more": 0}),
            ("n", {"in": [0, 1]}),
            ("n", {"less": 2, "more": 0}),
            ("note", {"exists": True, "is": "seen"}),
            ("note", {"exists": False}),
        )
        return when(f"{{{{{ref}.{path}}}}}", **tests)

    def _call(
        self, scope: Scope, access: list[int], names: dict[str, str], *, is_form: bool
    ) -> tuple[dict[str, Any], str]:
        kind = "form" if is_form else self.one("form", "form", "text")
        self.count += 1
        refs = self._references(scope, access, names)
        subtask = f"{kind} {self.count % 9}" + "".join(f" {ref}" for ref in refs)
        if refs and self.once_in(4):
            full = [f"{ref}" for ref in refs if not ref.strip("{}").isdecimal()]
            subtask = json.dumps({kind: [self.count, *full]})
        shown: list[int | str] = [*access]
        if not access and scope.depth and self.once_in(2):
            shown = ["outer"]
        elif not access and "previous" in names and self.once_in(2):
            shown = ["previous"]
        step = call(subtask, *shown, worker=self.one(0, 1))
        return (step | {"returns": FORM}, kind) if kind == "form" else (step, kind)

    def _references(self, scope: Scope, access: list[int], names: dict[str, str]) -> list[str]:
        roots = [(f"{number}", scope.kinds[number]) for number in access]
        roots += [(f"outer.{number}", kind) for number, kind in scope.outer.items()]
        roots += list(names.items()) * 2
        options = []
        for root, kind in roots:
            fields = ("kind", "n", "tags") if kind in ("form", "forms") else ()
            options += [f"{{{{{root}}}}}", *(f"{{{{{root}.{name}}}}}" for name in fields)]
        return self.draw(st.lists(st.sampled_from(options), max_size=2)) if options else []

    def _block(self, scope: Scope, access: list[int], names: dict[str, str]) -> tuple[dict[str, Any], str]:
        is_loop = self.once_in(2)
        inner = Scope(scope.depth + 1, {**names}, {number: scope.kinds[number] for number in access})
        if is_loop:
            inner.names["previous"] = "form"
        steps = self.steps(inner, 3, ends_in_form=is_loop)
        shown: list[int | str] = [*access]
        if not access and scope.depth and self.once_in(2):
            shown = ["outer"]
        if not is_loop:
            return block(*steps, access=shown), "any" if "when" in steps[-1] else inner.kinds[-1]
        forms = [number for number, kind in enumerate(inner.kinds) if kind == "form"]
        until = when(f"{{{{{self.one(*forms)}.ok}}}}", **{"is": True})
        return block(*steps, access=shown, until=until, most=self.one(1, 2, 3)), "form"


@st.composite
def workflows(draw: st.DrawFn, *, failing: int = 0, enough: bool = False) -> list[dict[str, Any]]:
    steps = Writer(draw, enough).steps(Scope(0), 6)
    try:
        plan = plan_of(*steps)
        calls = len(expected(plan, failing=failing).calls)
    except (PlanInvalid, Untold):
        reject()
    assume(plan.is_workflow and calls <= MOST_CALLS)
    return steps


def expected(plan: Plan, *, failing: int = 0, cancelled: frozenset[str] = frozenset()) -> Interpreter:
    return Interpreter(plan, lambda *asked: answer(*asked, failing=failing), cancelled)
