"""Reports for people and programs: nothing of the export can act in them."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from evals.audit import exports
from evals.audit.exports import Made, lines
from typer.testing import Result

from podium_evals.audit import Report, audit

Podium = Callable[..., Result]

SCRIPT = '<script>alert("x")</script><img src=x onerror=alert(1)>'
KEY = "sk-proj-abcdefghijklmnop0123456789"
CONTROL = "\x1b]0;owned\x07\x1b[31m\x00\x9b"
MARKS = "| a | b |\n# no title\n[link](https://example.org) ![p](http://example.org/p.png) `x` @all"


def hostile() -> list[exports.Json]:
    """Return runs and spans with something bad in each text that a report shows."""
    rows = []
    for number, bad in enumerate((SCRIPT, KEY, CONTROL, MARKS)):
        call = Made(
            trace=f"{bad}{number}",
            id=bad,
            model=f"model {bad}",
            step=bad,
            error=f"Error{number}",
            prompt=({"role": "user", "content": f"{bad} and more"},),
        )
        rows += [exports.langsmith(call) | {"error": f"{bad}: wrong"}, exports.current(call)]
        rows.append(exports.pair(call) | {"service_tier": bad})
        rows.append({"custom_id": "c", "why": bad})
    return rows


@pytest.fixture
def report(tmp_path: Path) -> Report:
    rows = [*hostile(), f"no json {SCRIPT} {KEY} {CONTROL}"]
    return audit([lines(tmp_path / "a<b>&'c'.jsonl", rows)])


def test_no_secrets_and_no_control_characters(report: Report, tmp_path: Path, podium: Podium) -> None:
    """In no form of the report, although prompts, names, ids and errors have them."""
    drawn = podium("audit", "costs", str(next(tmp_path.glob("*.jsonl"))))
    assert drawn.exit_code == 3
    for text in (drawn.stdout, drawn.stderr, json.dumps(report.as_json())):
        assert KEY not in text
        assert KEY[:20] not in text
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", text)
        assert "\\u001b" not in text
    assert "[secret]" in "".join(drawn.stdout.split())


def test_what_is_unknown_is_said(tmp_path: Path, podium: Podium) -> None:
    calls = [
        exports.pair(Made(id="a", model="our-own")),
        exports.current(
            Made(id="b", trace="t2", error="Timeout", read=None, written=None, cached=0, reasoning=0)
        ),
        exports.pair(Made(id="c", trace="t3")),
        exports.pair(Made(id="c", trace="t3")),
        exports.chat_body(Made(id="d")) | {"usage": None, "service_tier": "flex"},
    ]
    text = " ".join(
        podium("audit", "costs", str(lines(tmp_path / "export.jsonl", [*calls, "{"]))).stdout.split()
    )
    for told in (
        "Rows that could not be read, and are missing in all figures: 1.",
        "missing in all sums of costs: 2.",
        "Successful calls without tokens in the export: 1.",
        "Failed calls without tokens, counted as not billed (a timeout may be billed): 1.",
        "Calls without a prompt in the export; their repeats and loops cannot be found: 1.",
        "Repeated records of spans, which are not counted twice: 1.",
        "Calls of the service tier flex, at the prices of the standard tier: 1.",
        "+ 2 unknown",
    ):
        assert told in text, told
