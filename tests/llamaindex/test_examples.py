"""The examples for LlamaIndex do what they say, against a server on loopback."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from servers.chat_server import Call, ChatServer, Reply, says

from podium import Plan, Step
from podium.plan_text import write_plan

pytestmark = pytest.mark.long

EXAMPLES = Path(__file__).parents[2] / "examples" / "llamaindex"
QUESTION = (
    "How many calls does a step have by default, and does our contract with the model provider "
    "cover them for 1,500 steps a day?"
)
GUIDE = "a worker that was unavailable, timed out or broke off is called again after a random wait"
FOLDER = "what the contract with the model provider covers a day"


def _facts(text: str) -> str:
    """Say what of the two silos stands in a text, and whether it is told that something is missing."""
    known = {
        "three calls": "A step has three calls.",
        "4500": "That is 4500.",
        "5,000 calls": "The contract covers 5,000 calls a day.",
        "has no output": "What the contract covers could not be found out.",
    }
    said = [fact for part, fact in known.items() if part in text.replace("4,500", "4500")]
    return " ".join(said) or "I do not know."


def _model(call: Call) -> Reply:
    """Plan, ask sub-questions, choose, read and write, as each engine's prompts ask for it."""
    text = "\n".join(str(message["content"]) for message in call.body["messages"])
    if "You are the conductor" in text:
        return says(call, write_plan(_plan_for(text), "rows"), usage=_usage(text))
    if "in json markdown that when composed" in text:
        tools = {"guides": GUIDE, "folder": FOLDER}
        asked = [{"sub_question": question, "tool_name": tool} for tool, question in tools.items()]
        return says(call, f"```json\n{json.dumps({'items': asked})}\n```", usage=_usage(text))
    if "Some choices are given below" in text:
        several = "no more than" in text or "top choices" in text
        chosen = [{"choice": 1, "reason": "x"}, {"choice": 2, "reason": "y"}][: 2 if several else 1]
        return says(call, json.dumps(chosen), usage=_usage(text))
    return says(call, _facts(text), usage=_usage(text))


def _usage(text: str) -> dict[str, int]:
    """Count a prompt's tokens as about four characters each, and an answer's as ten."""
    return {"prompt_tokens": len(text) // 4, "completion_tokens": 10, "total_tokens": len(text) // 4 + 10}


def _plan_for(task: str) -> Plan:
    if "poet" in task:
        return Plan((Step(0, "Write a haiku: three calls."), Step(1, "Judge it.", (0,))))
    if "calculator" in task:
        return Plan((Step(0, GUIDE), Step(2, FOLDER), Step(3, "1,500 * 3"), Step(4, "Write it.", (0, 1, 2))))
    return Plan((Step(0, GUIDE), Step(1, FOLDER), Step(2, "Write it.", (0, 1))))


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer(_model).in_thread() as server:
        yield server


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    contract = "# Contract with the model provider\n\nIt covers 5,000 calls a day.\n"
    (tmp_path / "contract.md").write_text(contract)
    (tmp_path / "lunch.md").write_text("# Lunch\n\nSoup on Monday, stew on Tuesday.\n")
    return tmp_path


def _run(script: str, *arguments: str, answers: str = "") -> str:
    words = [sys.executable, str(EXAMPLES / script), *arguments]
    done = subprocess.run(words, input=answers, capture_output=True, text=True, timeout=55, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_question_for_two_silos_and_a_calculator(server: ChatServer, folder: Path) -> None:
    """The answer has all three, and names the documents it is made of."""
    out = _run("ask.py", server.url, "any", str(folder), QUESTION)
    assert "A step has three calls. That is 4500. The contract covers 5,000 calls a day." in out
    assert "limits.md: found by step [0]" in out
    assert "contract.md: found by step [1]" in out
    assert "lunch.md" not in out
    assert "step 2 calculator: ok: 1,500 * 3" in out
    assert len(server.calls) == 2


def _arms(table: str) -> dict[str, tuple[int, int, str]]:
    """Read a table of the comparison: calls, tokens and answer of each engine."""
    read = {}
    for line in table.splitlines():
        name, rest = line[:40].strip(), line[40:].split(None, 3)
        if len(rest) == 4 and rest[0].isdigit():
            read[name] = (int(rest[0]), int(rest[1]), rest[3])
    return read


def test_the_comparison(server: ChatServer, folder: Path) -> None:
    """Who needs how many calls, who finds both halves, and who says it when one cannot be had."""
    out = _run("compare.py", server.url, "any", str(folder), QUESTION)
    whole, broken = (_arms(part) for part in out.split("one silo out of order"))
    ours, same = "conductor, retrievers as workers", "conductor, the same engines as workers"
    sub, one = "SubQuestionQueryEngine", "RouterQueryEngine, one choice"
    several = "RouterQueryEngine, several choices"
    made = {name: calls for name, (calls, _, _) in whole.items()}
    assert made == {ours: 2, same: 4, sub: 4, one: 2, several: 4}
    both = "A step has three calls. The contract covers 5,000 calls a day."
    assert [whole[name][2] for name in (ours, same, sub)] == [both] * 3
    assert whole[one][2] != both  # it asks one silo
    counted = 2 + sum(calls for calls, _, _ in (*whole.values(), *broken.values()))
    assert len(server.calls) in (counted, counted + 1)  # the call that the router that raised left behind
    for name in (ours, same):
        answer = broken[name][2]
        assert answer.startswith("A step has three calls. What the contract covers could not be found out.")
        assert "(Not complete: the answer was made without step 1 (folder)" in answer
        assert "the silo cannot be searched" in answer
    assert broken[sub][2] == "A step has three calls."  # it says nothing of what it has dropped
    assert broken[several][2].startswith("raises ConnectionError")


def test_a_workflow_asks_before_it_spends(server: ChatServer, tmp_path: Path) -> None:
    asked = ("approve.py", server.url, "any", "monday", "A haiku, please.", "--journal", str(tmp_path / "db"))
    out = _run(*asked, answers="n\n")
    assert "0. poet: Write a haiku: three calls.\n1. judge: Judge it. (shown step 0)\n" in out
    assert ("was refused" in out, len(server.calls)) == (True, 1)
