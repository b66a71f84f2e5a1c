"""The example of a migration: the hand-wired graph and the conducted one do the same job."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from servers.chat_server import Call, ChatServer, Reply, says

pytestmark = [pytest.mark.long, pytest.mark.anyio]

COMPARE = Path(__file__).parents[2] / "examples" / "langgraph_migration" / "compare.py"
WRONG = "def format_amount(cents): return f'{cents // 100}.{cents % 100}'"
RIGHT = "def format_amount(cents): return f'{cents / 100:.2f}'"
SLUG = "def slug(name): return '-'.join(name.lower().split())"


def _row(worker: int, subtask: str, *access: int) -> str:
    return json.dumps({"worker": worker, "subtask": subtask, "access": access})


HANDBOOK, TICKETS, CODER, REVIEWER, WRITER = range(5)
ALL = [
    _row(HANDBOOK, "Look up how amounts and refunds are written in reports."),
    _row(TICKETS, "Look up reports of refunds in the CSV export."),
    _row(CODER, "Write format_amount(cents) by the rules.", 0),
    _row(REVIEWER, "Review format_amount by the rules: APPROVED or REVISE.", 0, 2),
    _row(CODER, "Write format_amount anew as the review says; if it is approved, repeat it.", 0, 2, 3),
    _row(WRITER, "Answer with the rule, the ticket and the function, with sources.", 0, 1, 4),
]
CODE = [
    _row(CODER, "Write slug(name)."),
    _row(REVIEWER, "Review slug: APPROVED or REVISE.", 0),
    _row(CODER, "Write slug anew as the review says; if it is approved, repeat it.", 0, 1),
    _row(WRITER, "Answer with the function.", 2),
]
LOOK_UP = [
    _row(HANDBOOK, "Is a CSV export of ninety days ago still there?"),
    _row(TICKETS, "Has anybody asked for an export of ninety days ago?"),
    _row(WRITER, "Answer from both, with sources.", 0, 1),
]


def model(call: Call) -> Reply:
    """Answer as the model of a role would: by what it is shown, so that what is not shown is missed."""
    shown = "\n".join(str(message["content"]) for message in call.body["messages"])
    text = _ROLES[call.body["model"]](shown)
    usage = {"prompt_tokens": len(shown) // 4, "completion_tokens": len(text) // 4 or 1}
    return says(call, text, usage={**usage, "total_tokens": sum(usage.values())}, delay=0.05)


def _lead(shown: str) -> str:
    about = "all" if "format_amount" in shown else "code" if "slug(" in shown else "documents"
    if "THE WORKERS" in shown:
        return "\n".join({"all": ALL, "code": CODE, "documents": LOOK_UP}[about])
    return json.dumps({"handbook": about != "code", "tickets": about != "code", "code": about != "documents"})


def _coder(shown: str) -> str:
    if "to be paid: " in shown:
        return json.dumps({"total": round(float(shown.split("to be paid: ")[1].split(maxsplit=1)[0]) * 100)})
    return (RIGHT if "REVISE:" in shown else WRONG) if "format_amount" in shown else SLUG


def _reviewer(shown: str) -> str:
    if "paying somebody" in shown:
        return json.dumps({"enough": "minus sign" in shown, "query": "refund amounts below zero"})
    return "REVISE: a refund of 5 cents becomes 0.-5." if WRONG in shown else "APPROVED."


def _writer(shown: str) -> str:
    if "note to accounting" in shown:
        return f"Answered from [{shown.split('there are ')[1].split(' cents', maxsplit=1)[0]}]"
    known = {RIGHT: "[function]", SLUG: "[slug]", "T-118": "[T-118]", "minus sign": "[Refunds]"}
    known |= {"T-130": "[T-130]", "for ninety days.": "[Exports]"}
    return "Answered from " + " ".join(name for part, name in known.items() if part in shown)


_ROLES = {"lead": _lead, "coder": _coder, "reviewer": _reviewer, "writer": _writer}


def test_both_graphs_do_the_job_and_what_each_took_is_printed() -> None:
    """Both answers rest on the same facts; the calls are those that the server saw."""
    with ChatServer(model).in_thread() as server:
        command = [sys.executable, str(COMPARE), server.url]
        done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
        calls = list(server.calls)
    assert done.returncode == 0, done.stderr
    names = ("hand-wired", "conducted")
    lines = [line.split() for line in done.stdout.splitlines() if line.startswith(names)]
    facts = [" ".join(words[words.index("Answered") + 2 :]) for words in lines]
    answers = ["[function] [T-118] [Refunds]", "[slug]", "[T-118] [T-130] [Exports]", "[Refunds]"]
    assert facts == [each for answer in [*answers, "[3 invoices of 56400]"] for each in (answer, answer)]
    took = [(int(made), int(lookups)) for _, made, lookups, *_ in lines]
    assert [words[0] for words in lines] == [*names] * 5
    assert took == [
        *((6, 2), (5, 2)),  # the second draft is not reviewed again
        *((4, 0), (5, 0)),  # the second draft is in the plan, though the first is approved
        *((2, 2), (2, 2)),
        *((3, 2), (3, 3)),  # the writer is shown the passages of one more look-up
        *((4, 0), (4, 0)),
    ]
    assert len(calls) == sum(made for made, _ in took)
    tokens = [int(words[3]) for words in lines]
    by_hand, conducted = tokens[6:8]
    assert by_hand < conducted <= 2 * by_hand
