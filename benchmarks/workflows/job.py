"""The job of every arm: its steps, its prompts, its answers, and how long each answer takes.

A list of files; each is read and reviewed; every second review has a finding, which three sceptics doubt; a
report is written until it is complete, in three turns. The prompt of a call begins with its key in brackets.
Answers and delays depend on the key and the seed only, so that all arms get the same.
"""

import json
import re
from dataclasses import dataclass
from random import Random
from typing import Any

MODELS = ("lister", "reader", "reviewer", "sceptic", "writer")
QUESTION = "Which faults do our files have?"
SCEPTICS, ENOUGH, TURNS = 3, 2, 3
LIST = "[list all] List the files."
READ = "[read {path}] Read the file {path}, and say what it does."
REVIEW = "[review {path}] Look for faults in the file {path}, which was summarised like this: {note}"
DOUBT = "[doubt {path}.{index}] Try to refute this claim about the file {path}: {claim}"
WRITE = "[write {version}] Write the report, or improve the version before."
USD_IN, USD_OUT = 1.0, 4.0
"""Price of a million tokens."""
RETRY_AFTER = 1.0
"""Seconds that a refused call must wait."""
_KEY = re.compile(r"\[(list|read|review|doubt|write) ?([^\]\s]*)\]")
_REFUSED, _REFUSED_SECONDS = 0.05, 0.02
_LEAST, _MEAN, _MOST = 0.2, 0.4, 3.0
"""Seconds of an answer: at least, the mean of what is added, and at most."""
_TIMES = 2
"""A call is refused this often at most."""


def path_of(number: int) -> str:
    """Return the name of a file."""
    return f"f{number:05}"


def has_finding(path: str) -> bool:
    """Return whether the review of a file has a finding."""
    return int(path[1:]) % 2 == 0


def key_of(text: str) -> str:
    """Return the key of a call: the last one in its prompt."""
    kind, rest = _KEY.findall(text)[-1]
    return f"{kind} {rest}".strip()


def answer_of(key: str, files: int, seed: int = 0) -> dict[str, Any]:
    """Return the answer to a call."""
    kind, _, rest = key.partition(" ")
    note = "word " * Random(f"{seed} {key}").randint(30, 300)
    match kind:
        case "list":
            return {"files": [{"path": path_of(number)} for number in range(files)]}
        case "read":
            return {"path": rest, "note": note}
        case "review":
            return {"findings": [{"path": rest, "claim": note}] if has_finding(rest) else []}
        case "doubt":
            return {"real": Random(f"{seed} {key}").random() < 0.5, "why": note}
    version = int(rest or 0) + 1
    return {"version": version, "complete": version == TURNS, "report": note}


def text_of(key: str, files: int, seed: int = 0) -> str:
    """Return the answer to a call as JSON."""
    return json.dumps(answer_of(key, files, seed))


@dataclass(frozen=True, slots=True)
class Served:
    """How long a request takes, and whether it is refused with status 429."""

    seconds: float
    is_refused: bool = False


def served(key: str, times: int, seed: int) -> Served:
    """Return what happens to a request that comes after so many of the same key."""
    drawn = Random(f"{seed} {key} {times}")
    if times < _TIMES and drawn.random() < _REFUSED:
        return Served(_REFUSED_SECONDS, is_refused=True)
    return Served(min(_LEAST + drawn.expovariate(1 / _MEAN), _MOST))


def workflow() -> dict[str, Any]:
    """Return the job as a plan of Podium."""
    finding = {"path": "string", "claim": "string"}
    return {
        "schema": 1,
        "query": [{"role": "user", "content": QUESTION}],
        "steps": [
            _call(0, LIST, {"files": [{"path": "string"}]}),
            _call(
                1,
                READ.replace("{path}", "{{file.path}}"),
                {"path": "string", "note": "string"},
                each="{{0.files}}",
                **{"as": "file"},
            ),
            _call(
                2,
                REVIEW.replace("{path}", "{{read.path}}").replace("{note}", "{{read.note}}"),
                {"findings": [finding]},
                each="{{1}}",
                **{"as": "read"},
            ),
            {
                "each": "{{2.findings}}",
                "as": "finding",
                "access": [],
                "steps": [
                    _call(
                        3,
                        DOUBT.replace("{path}", "{{finding.path}}")
                        .replace("{claim}", "{{finding.claim}}")
                        .replace("{index}", "{{index}}"),
                        {"real": "boolean", "why": "string"},
                        each=SCEPTICS,
                        enough=ENOUGH,
                    )
                ],
            },
            {
                "steps": [
                    _call(
                        4,
                        WRITE.replace("{version}", "{{previous.version}}"),
                        {"version": "integer", "complete": "boolean", "report": "string"},
                        access=["outer", "previous"],
                    )
                ],
                "until": {"ref": "{{0.complete}}", "is": True},
                "most": TURNS,
                "access": [3],
            },
        ],
    }


def _call(worker: int, subtask: str, returns: object, **more: object) -> dict[str, Any]:
    return {"worker": worker, "subtask": subtask, "access": [], "returns": returns, **more}
