"""`docs/configuration.md` has every code that an error or a problem can have, and no other."""

import ast
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest

from podium import errors
from podium.budget import Limits
from podium.execution import Retry

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/configuration.md").read_text(encoding="utf-8")
NODES = [
    node
    for file in sorted(ROOT.glob("packages/*/src/**/*.py"))
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
]


def listed() -> list[str]:
    """Return the codes of the page: the first cell of each row of a table of codes."""
    codes: list[str] = []
    is_codes = False
    for line in PAGE.splitlines():
        is_codes = line.startswith("| code |") or (is_codes and line.startswith("|"))
        if is_codes and (found := re.match(r"\| `(\w+)` \|", line)):
            codes.append(found[1])
    return codes


def codes_of_problems() -> Iterator[str]:
    """Yield the code of each `Problem("code", …)` of the sources, written there or named by a constant."""
    named: dict[str, str] = {}
    for node in NODES:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(text))):
                named |= {name: text} if name.isupper() else {}
    for node in NODES:
        match node:
            case ast.Call(func=ast.Name(id="Problem"), args=[ast.Constant(value=str(code)), *_]):
                yield code
            case ast.Call(func=ast.Name(id="Problem"), args=[ast.Name(id=name), *_]) if name in named:
                yield named[name]


def codes_of_errors() -> Iterator[str]:
    """Yield the code of each class of error, of all packages, and those that a class may be given."""
    for line in (line for node in NODES if isinstance(node, ast.ClassDef) for line in node.body):
        match line:
            case ast.Assign(targets=[ast.Name(id="code")], value=ast.Constant(value=str(code))):
                yield code
    for literal in (errors.PlanSyntaxCode, errors.PlanInvalidCode, errors.PlannerErrorCode):
        yield from get_args(literal)
    yield errors.PodiumError.code


def codes_of_requests() -> Iterator[object]:
    """Yield the codes of refused requests, of which the page explains those of the whole server."""
    for node in NODES:
        match node:
            case (
                ast.keyword(arg="code", value=value) | ast.Assign(targets=[ast.Name(id="code")], value=value)
            ):
                yield from (part.value for part in ast.walk(value) if isinstance(part, ast.Constant))


@pytest.mark.long
def test_the_page_has_every_code_once() -> None:
    found, has = sorted(listed()), {*codes_of_problems(), *codes_of_errors()}
    assert {"unseen", "planner_fallback", "waiting", "guardrail_tripped", "no_plan", "planner_limit"} <= has
    assert found == sorted({*has, *(code for code in codes_of_requests() if code in found)})


def test_the_settings_that_the_page_names_exist() -> None:
    """A code says which setting changes it, under the name that the setting has."""
    named = re.findall(r"`(Limits|Retry)\.(\w+)`", PAGE)
    known = {"Limits": {each.name for each in fields(Limits)}, "Retry": {each.name for each in fields(Retry)}}
    assert len(named) > 10
    assert [f"{owner}.{name}" for owner, name in named if name not in known[owner]] == []
