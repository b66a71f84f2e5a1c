"""The saved plans of `examples/plans`, with scripted models: answers, calls, costs, and what goes wrong."""

import json
import shutil
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from servers.chat_server import Call, ChatServer, Reply, says, whole

from podium import Conductor, Result
from podium.config import load_config
from podium.errors import PlanForbidden
from podium.plan_text import SavedPlan

pytestmark = [pytest.mark.anyio, pytest.mark.long]

PLANS = Path(__file__).parents[2] / "examples" / "plans"
FAILS = object()
"""An answer that is an error of the server."""
STANDS = {"stands": True, "why": "It is so."}
FALLS = {"stands": False, "why": "It is not so."}
Script = dict[str, Any]
"""Answers, or iterators of them, by words of the subtask; the first that fits counts."""


class Desk:
    """A copy of the folder, whose models answer as scripted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.script: Script = {}
        self.prompts: list[str] = []
        """The prompts of all calls of models."""

    def reply(self, call: Call) -> Reply:
        """Answer as the script says, with a token for four characters."""
        prompt = str(call.body["messages"][-1]["content"])
        self.prompts.append(prompt)
        subtask = prompt.rpartition("Your part:\n")[2]
        answer = next((each for words, each in self.script.items() if words in subtask), FAILS)
        if isinstance(answer, list):
            answer = answer.pop(0)
        if answer is FAILS:
            return whole({"error": {"message": "no"}}, status=400)
        text = answer if isinstance(answer, str) else json.dumps(answer)
        usage = {"prompt_tokens": len(prompt) // 4, "completion_tokens": len(text) // 4 or 1}
        return says(call, text, usage={**usage, "total_tokens": sum(usage.values())})

    def conductor(self) -> Conductor:
        """Return the conductor of the file."""
        made = load_config(self.folder / "podium.toml").conductor()
        assert isinstance(made, Conductor)
        return made

    async def run(self, name: str, script: Script, **args: Any) -> Result:
        """Run a plan."""
        self.script = script
        async with self.conductor() as conductor:
            return await conductor.run(conductor.plans[name], args=args, run_id="one")

    async def decided(self, **decision: Any) -> Result:
        """Decide what the run waits for, and resume it twice."""
        async with self.conductor() as conductor:
            await conductor.decide("one", by="ann", **decision)
            await conductor.resume("one")
            return await conductor.resume("one")

    def edit(self, old: str, new: str) -> None:
        """Change the config."""
        path = self.folder / "podium.toml"
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    def without_tools(self) -> None:
        """Remove the server of the tools, which some plans need, and which takes time to start."""
        text = (self.folder / "podium.toml").read_text()
        begin = text.index("[workers.tools]")
        self.edit(text[begin : text.index("[journal]")], "")


@pytest.fixture
async def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Desk]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    folder = tmp_path / "plans"
    shutil.copytree(PLANS, folder, ignore=shutil.ignore_patterns("__pycache__"))
    desk = Desk(folder)
    async with ChatServer(desk.reply) as server:
        desk.edit("https://api.openai.com/v1", server.url)
        desk.edit("[planner]\n", '[journal]\npath = "runs.db"\n[planner]\n')
        desk.edit('command = "python"', f'command = "{sys.executable}"')
        yield desk


def check(result: Result, desk: Desk, status: str, answer: str, calls: int) -> None:
    """Check how a run ended, and that its cost is known."""
    assert (result.status, result.answer) == (status, answer), result.explain()
    assert len(desk.prompts) == calls
    assert result.cost is not None


def told(result: Result) -> str:
    return "" if result.problem is None else result.problem.message


def faults(*found: str) -> dict[str, Any]:
    return {"faults": [{"file": "a.py", "line": 3, "what": each, "when": "Always."} for each in found]}


REVIEW: Script = {
    "one angle only: correctness": faults("It divides by zero.", "It is slow."),
    "one angle only: safety": faults("It leaks a file."),
    "one angle only: consistency": faults(),
    "It is slow.": FALLS,
    "Try to prove the reviewer wrong.": STANDS,
    "Write the review": "The review.",
}


@pytest.mark.parametrize("fails", [False, True])
async def test_review(desk: Desk, *, fails: bool) -> None:
    """The writer sees the faults that most sceptics let stand; a sceptic that fails has no vote."""
    desk.without_tools()
    failing = {"Follow it line by line": FAILS, "Can the situation occur": STANDS, "Is it new": STANDS}
    result = await desk.run("review_change", (failing if fails else {}) | REVIEW, diff="+ x = 1 / n\n")
    check(result, desk, "partial" if fails else "ok", "The review.", 3 + 3 * 3 + 1)
    assert ("step 1[0.0].0[0]" in told(result)) is fails
    slow = ["It is slow."] if fails else []
    found = ("It divides by zero.", "It is slow.", "It leaks a file.")
    assert [each for each in found if each in desk.prompts[-1]] == [found[0], *slow, found[2]]


async def test_migration(desk: Desk) -> None:
    """Each file is changed until its check is green, at most three times."""
    for name in "abc":
        (desk.folder / f"{name}.py").write_text(f"{name} = 0\n")
    script: Script = {"Change the file b.py": [{"text": f"x = {number})"} for number in (1, 2, 3)]}
    script |= {"Change the file": {"text": "y = 1"}, "Report on a migration": "The report."}
    result = await desk.run("migrate_files", script, pattern="[abc].py", change="0 becomes 1")
    check(result, desk, "partial", "The report.", 6)
    assert [(desk.folder / f"{name}.py").read_text() for name in "abc"] == ["y = 1", "x = 3)", "y = 1"]
    assert "unmatched ')'" in desk.prompts[-1]
    assert "1[1]" in told(result)
    assert any("what the report names: b.py:1: unmatched ')'" in prompt for prompt in desk.prompts)


CLAIMS = ["Heat pumps reach a factor of 3.1.", "A heat pump costs 30,000 euros.", "Radiators need heat."]
RESEARCH: Script = {
    "Name two to four angles": {"angles": ["heat pumps study", "factor of heat pumps", "costs"]},
    "Extract up to four claims": [
        {"claims": [{"claim": each, "source": "heat_pumps.md"}]} for each in CLAIMS
    ],
    f"{CLAIMS[1]}\n": FALLS,
    "Try to refute": STANDS,
    "Answer the question": "The answer.",
}
SEARCH = """[workers.sources]
endpoint = "models"
model = "SEARCH"
price = { input = 0, output = 0 }
"""


@pytest.mark.parametrize(
    ("fails", "status", "standing"),
    [(["evidence against"], "ok", [0, 2]), (["evidence against", "newer figures"], "partial", [0])],
)
async def test_research(desk: Desk, fails: list[str], status: str, standing: list[int]) -> None:
    """A sceptic whose search fails abstains, and three votes decide: two are too few."""
    desk.without_tools()
    desk.edit('[workers.sources]\ntype = "documents"\nfolder = "folders/sources"\n', SEARCH)
    script = dict.fromkeys((f"{CLAIMS[2]} {each}" for each in fails), FAILS)
    script |= {key: [*each] if isinstance(each, list) else each for key, each in RESEARCH.items()}
    result = await desk.run("research_question", script | {"": "A passage."}, question="Do they work?")
    assert (result.status, result.answer) == (status, "The answer."), result.explain()
    shown = desk.prompts[-1].partition("Your part:")[0]
    assert [number for number, claim in enumerate(CLAIMS) if claim in shown] == standing
    assert ("and enough is 3" in told(result)) is (status == "partial")
    sceptics = [prompt for prompt in desk.prompts if "Your part:\nTry to refute" in prompt]
    assert len(sceptics) <= len(CLAIMS) * 4
    assert all("A passage." in prompt for prompt in sceptics)


def message(kind: str) -> Script:
    return {
        "Sort this message": {"kind": kind, "order": "4711", "amount": 12.5},
        "Answer the customer": "Thirty days.",
        "What is the cause": "A solution.",
        "A colleague proposes": "An objection.",
        "Write the answer": "The answer of a team.",
        "Tell the customer": "You have it.",
    }


@pytest.mark.parametrize(
    ("kind", "answer", "calls"), [("simple", "Thirty days.", 2), ("hard", "The answer of a team.", 4)]
)
async def test_triage(desk: Desk, kind: str, answer: str, calls: int) -> None:
    """The branch of the kind answers, and the others are not called."""
    result = await desk.run("support_triage", message(kind), message="How long is an export kept?")
    check(result, desk, "ok", answer, calls)
    assert any("A CSV export is kept for thirty days" in prompt for prompt in desk.prompts)
    assert not (desk.folder / "refunds.txt").exists()


async def test_a_refund_waits_and_is_done_once(desk: Desk) -> None:
    """Nothing is refunded before the decision, and nothing twice after it."""
    waiting = await desk.run("support_triage", message("refund"), message="12.50 of order 4711, please.")
    assert (waiting.status, len(desk.prompts)) == ("waiting", 1)
    assert 'tools.refund {"amount": 12.5, "order": "4711"}' in told(waiting)
    assert not (desk.folder / "refunds.txt").exists()
    result = await desk.decided(approved=True, action=4)
    check(result, desk, "ok", "You have it.", 2)
    assert (desk.folder / "refunds.txt").read_text() == "4711 12.50\n"


def figures(name: str, *arithmetic: str) -> Mapping[str, Any]:
    ratios = [{"name": "Margin", "arithmetic": each, "source": f"{name}.md:3"} for each in arithmetic]
    return {"figures": [{"name": "Revenue", "value": "1", "source": f"{name}.md:3"}], "ratios": ratios}


async def test_filings(desk: Desk) -> None:
    """The calculator computes, the writer sees each result with its source, and the sections are joined."""
    desk.without_tools()
    script = {
        "copy the figures of Brightwell": figures("brightwell", "78 / 520 * 100"),
        "copy the figures of Northam": figures("northam", "9 / 90 * 100", "10 percent since 2026-01-01"),
        "Write the section on Brightwell": "# Brightwell",
        "Write the section on Northam": "# Northam",
    }
    args = {"companies": ["Brightwell", "Northam"], "quarter": "Q3 2026"}
    result = await desk.run("quarterly_filings", script, **args)
    check(result, desk, "partial", "# Brightwell\n\n# Northam", 4)
    northam = next(prompt for prompt in desk.prompts if "Write the section on Northam" in prompt)
    assert "Margin: 9 / 90 * 100 = 10 (from northam.md:3)" in northam
    assert "null" in northam
    assert "Brightwell" not in northam
    assert "0[1].2[1].0" in told(result)


async def test_silos(desk: Desk) -> None:
    """No model is shown texts of both departments, and a plan that breaks the rules is refused."""
    desk.without_tools()
    script = {"concerns people, roles": "Two of five.", "Answer the technical part": "Version 7."}
    question = "Who may use the new crane?"
    result = await desk.run("knowledge_silos", script, question=question)
    check(result, desk, "ok", "Personnel:\n\nTwo of five.\n\nTechnology:\n\nVersion 7.", 2)
    for text in ("licence", "lifts 40 tonnes"):
        assert sum(text in prompt for prompt in desk.prompts) == 1
    assert not any("Two of five." in prompt or "Version 7." in prompt for prompt in desk.prompts)
    assert {"personnel", "technical"} <= result.labels
    async with desk.conductor() as conductor:
        plan = conductor.plans["knowledge_silos"]
        steps = [dict(step) for step in plan.steps]
        steps[3]["access"] = [0, 1]
        broken = SavedPlan(name="broken", steps=tuple(steps), parameters=plan.parameters)
        with pytest.raises(PlanForbidden, match="engineer"):
            await conductor.run(broken, args={"question": question})
    assert len(desk.prompts) == 2
