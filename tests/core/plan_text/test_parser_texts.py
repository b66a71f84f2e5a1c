"""Reads the folder of plan texts, good and bad, one file each."""

import json
from pathlib import Path
from typing import Any

import pytest

from podium.errors import PlanError, PlanInvalid
from podium.plan_text import PlanReader, parse_plan
from podium.types import Plan, Step

TEXTS = Path(__file__).parent / "texts"
VALID = sorted((TEXTS / "valid").glob("*.json"))
INVALID = sorted((TEXTS / "invalid").glob("*.json"))


def load(path: Path) -> tuple[str, dict[str, Any]]:
    """Return a text and what is said about it; texts that UTF-8 cannot hold are in the JSON."""
    told = json.loads(path.read_bytes())
    if "text" in told:
        return told["text"] * told.get("repeat", 1), told
    return path.with_suffix(".txt").read_bytes().decode(), told


def settings(told: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments a text is to be read with."""
    return {"workers": told["workers"], "max_steps": told.get("max_steps", 5)}


def expected(told: dict[str, Any]) -> Plan:
    """Return the plan a text is to give."""
    return Plan(tuple(Step(s["worker"], s["subtask"], tuple(s["access"])) for s in told["plan"]["steps"]))


def test_readable_texts_give_their_plans() -> None:
    """Also a text that arrives character by character: its rows are the first steps."""
    wrong = []
    for path in VALID:
        text, told = load(path)
        reader, plan = PlanReader(**settings(told)), expected(told)
        early = tuple(step for char in text for step in reader.feed(char))
        if (
            not parse_plan(text, **settings(told)) == reader.close() == plan
            or plan.steps[: len(early)] != early
        ):
            wrong.append(path.stem)
    assert wrong == []


def test_bad_texts_give_their_errors() -> None:
    """What is ambiguous, broken or against the rules is an error of the expected kind, at its place."""
    wrong = {}
    for path in INVALID:
        text, told = load(path)
        with pytest.raises(PlanError) as caught:
            parse_plan(text, **settings(told))
        error = caught.value
        assert error.position is not None, path.stem
        found = {
            "type": type(error).__name__,
            "code": error.code,
            "step": error.step if isinstance(error, PlanInvalid) else None,
            "at": text[error.position :][:12],
        }
        if found != told["error"]:
            wrong[path.stem] = str(error)
    assert wrong == {}


def test_every_text_has_its_other_half() -> None:
    """No text lies about that no test reads."""
    for path in TEXTS.glob("*/*.txt"):
        assert path.with_suffix(".json").exists(), path.name
    assert len(VALID) + len(INVALID) >= 90
