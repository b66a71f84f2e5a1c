"""The offline workers: calculator, documents, gather, join, vote."""

import contextlib
import os
import re
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, strategies as st

from podium import Conductor, Message, RulePlanner
from podium.errors import ConfigError, WorkerRefused, WorkerUnavailable
from podium.workers import (
    Calculator,
    Documents,
    Gather,
    Join,
    Request,
    StepInput,
    VisibleStep,
    Vote,
    Worker,
    complete,
)

pytestmark = pytest.mark.anyio
_PIECES = (
    *("17", "1,234.5", "0.5", "9" * 20, "+", "-", " * ", "/", "^", "%", "(", ")", ",", ".", " of ", "²", "√"),
    *("that ", "sqrt(", "pi", "ln(", "plus ", "percent ", "add ", " to ", " by ", "discount ", " mod "),
)
_EQUAL = {"b.md": "The ledger counts.", "a.md": "The ledger counts.", "c.md": "The ledger counts."}
_SHOWN = (
    VisibleStep(0, "What is\n3 + 4?", "3 + 4 = 7"),
    VisibleStep(2, "Find *it*", "[a.md:1]\n\n# It\n\n> text\n"),
)


async def ask(worker: Worker, subtask: str, *visible: VisibleStep) -> str:
    step_input = StepInput(subtask, visible)
    return (await complete(worker, Request(messages=(Message("user", subtask),), step_input=step_input))).text


@pytest.mark.parametrize(
    ("subtask", "answer"),
    [
        ("sqrt(2) * 3", "sqrt(2) * 3 ≈ 4.24264068712"),
        ("-2**2", "-2^2 = -4"),
        ("round(2.5) + abs(-1.5)", "round(2.5) + abs(-1.5) = 4.5"),
        ("What is 17.5% of 2,340?", "17.5% of 2,340 = 409.5"),
        ("what is 3 plus 4 minus 2 times 5", "3 + 4 - 2 * 5 = -3"),
        ("Multiply 6 by 7, then subtract 5 from 12.", "6 * 7 = 42\n12 - 5 = 7"),
        ("5² + 3 − 2 ÷ 4 × 2", "5^2 + 3 - 2 / 4 * 2 = 27"),
        ("What is 3+4 (see 5 * 6)?\n- 7 - 1", "3+4 = 7\n5 * 6 = 30\n7 - 1 = 6"),
        ("What is 12 * 4 eggs?", "12 * 4 = 48"),
        ("17 - 5 是多少？", "17 - 5 = 12"),
    ],
)
async def test_arithmetic_is_worked_out(subtask: str, answer: str) -> None:
    assert await ask(Calculator(), subtask) == answer


@pytest.mark.parametrize(
    ("output", "number"),
    [("15% of 80 = 12\n17 * 23 = 391", "391"), ("It is -391.", "(-391)"), ("x ≈ 391", "391")],
)
async def test_the_result_is_that_of_the_step_before(output: str, number: str) -> None:
    told = f"{number} * 2 = {'-' if '-' in number else ''}782"
    assert await ask(Calculator(), "multiply the result by 2", VisibleStep(0, "x", output)) == told
    for odd in ("between 3 and 5", "At 10:30.", "x = 5 km"):
        with pytest.raises(WorkerRefused, match="no arithmetic"):
            await ask(Calculator(), "multiply the result by 2", VisibleStep(0, "x", odd))


@pytest.mark.parametrize(
    ("subtask", "reason"),
    [
        ("0**-1", "no finite value"),
        ("9**9**9", "too large"),
        ("2 * (3 + 4", "brackets"),
        ("1+" * 5000 + "1", "too long"),
        ("1 " * 10_000, "more than 16,384 characters"),
    ],
)
async def test_what_cannot_be_computed_is_refused(subtask: str, reason: str) -> None:
    with anyio.fail_after(10), pytest.raises(WorkerRefused, match=reason):
        await ask(Calculator(), subtask)


FOREIGN = """
Who wrote the journal? | on 2024-01-15 at 10:30 | version 1.2.3 | __import__('os').system('true')
Jan 5 + 3 | 3/4/2026 + 5 | 15% of 2026-03-31 | What is 2026–11–24?
file_2026-11-24 | 10:30 minus 9:15 | 4:30 p.m. - 2 | version 2.1 minus version 2.0 | Call 555-123-4567.
What is 007-2? | 5 km + 300 m | 3 + 2 million | Buy 3 - 4 bolts | What is 2/3 of 90?
5 apples + 3 * 4 | 3 + 4 dogs - 2 | $5 + €3 |
"""


async def test_no_number_comes_of_other_digits() -> None:
    for subtask in FOREIGN.replace("\n", " | ").split("|"):
        with pytest.raises(WorkerRefused, match="no arithmetic found"):
            await ask(Calculator(), subtask.strip())


_NUMBERS = st.integers(0, 99).map(str)
_EXPRESSIONS = st.recursive(
    _NUMBERS,
    lambda inner: st.tuples(inner, st.sampled_from("+-*"), inner).map(lambda parts: f"({' '.join(parts)})"),
    max_leaves=12,
)


@given(expression=_EXPRESSIONS)
def test_brackets_and_signs_bind_as_in_python(expression: str) -> None:
    if " " in expression:
        answer = anyio.run(ask, Calculator(), expression)
        shown, _, value = answer.rpartition(" = ")
        assert int(value) == eval(expression) == eval(shown)  # noqa: S307 - our own digits and signs


@given(text=st.lists(st.sampled_from(_PIECES) | st.text(max_size=5), max_size=40).map("".join))
def test_any_text_is_worked_out_or_refused(text: str) -> None:
    with contextlib.suppress(WorkerRefused):
        assert anyio.run(ask, Calculator(), text, VisibleStep(0, "x", "= 7"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "guide.md").write_text(
        "# Guide\n\nWelcome.\n\n## Refunds\n\nA discount is granted to regular customers.\n"
        "Refunds take ten days.\n\n```\n# no heading\n```\n\n## Travel\n\nTrains leave at noon.\n",
        encoding="utf-8",
    )
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "deep" / "er" / "notes.TXT").write_text("Der Preis: Gebühren für Straßen.\n", "utf-8")
    (tmp_path / "猫.md").write_text("# 動物\n\n黒猫が庭で寝ている。\n", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("files", "question", "passages"),
    [
        (_EQUAL, "ledger", tuple(f"[{name}.md:1]\n\nThe ledger counts." for name in "ab")),
        ({"a.txt": b"\xef\xbb\xbfzebra caf\xe9"}, "zebra", ("[a.txt:1]\n\nzebra caf\ufffd",)),
        *(({}, question, ()) for question in ("zebra unicorn", "", "\x00\ud800")),
    ],
)
async def test_documents_answer_with_passages_and_sources(
    folder: Path, files: dict[str, str | bytes], question: str, passages: tuple[str, ...]
) -> None:
    """Word for word, the best first, at most `top`; or the answer says that there is none."""
    for name, content in files.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    answer = await ask(Documents(folder, top=2), question)
    told, *found = re.split(r"\n\n(?=\[)", answer)
    assert told.startswith("Retrieved from" if passages else "No passage found")
    assert len(found) == len(passages)
    assert all(map(str.startswith, found, passages))


async def test_passages_end_between_lines(tmp_path: Path) -> None:
    lines = [f"Line {number} speaks of topic{number} and of nothing else at all." for number in range(1, 401)]
    (tmp_path / "long.txt").write_text("\n".join(lines) + "\n" + "x" * 50_000)
    head, text = (await ask(Documents(tmp_path), "topic200")).split("\n\n")[1:3]
    assert lines[199] in text
    assert len(text) < 2_000
    first = int(head.removeprefix("[long.txt:").removesuffix("]"))
    assert text.splitlines()[0] == lines[first - 1]


async def test_changes_are_seen(tmp_path: Path) -> None:
    worker, zoo = Documents(tmp_path), tmp_path / "zoo.md"
    for text in ("A zebra lives here.", "A big zebra lives there."):
        zoo.write_text(text)
        assert text in await ask(worker, "zebra")
    zoo.unlink()
    assert (await ask(worker, "zebra")).startswith("No passage")


async def test_files_that_are_passed_over(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    inside = tmp_path / "inside"
    outside.mkdir()
    (inside / ".hidden").mkdir(parents=True)
    (outside / "secret.md").write_text("zebra")
    (inside / "link.md").symlink_to(outside / "secret.md")
    (inside / "links").symlink_to(outside)
    (inside / "broken.md").symlink_to(inside / "nowhere.md")
    (inside / "loop.md").symlink_to(inside / "loop.md")
    (inside / ".hidden" / "a.md").write_text("zebra")
    (inside / ".a.md").write_text("zebra")
    (inside / "a.py").write_text("zebra")
    (inside / "binary.txt").write_bytes(b"zebra \0 zebra")
    (inside / "huge.txt").write_bytes(b"zebra " * 400_000)
    (inside / "folder.md").mkdir()
    os.mkfifo(inside / "pipe.md")
    with anyio.fail_after(10):
        assert (await ask(Documents(inside), "zebra")).startswith("No passage")


async def test_what_documents_cannot_be_made_of(tmp_path: Path) -> None:
    """No folder, or a senseless `top`; a folder that goes away fails the call."""
    with pytest.raises(ConfigError, match=r"folder .* does not exist"):
        Documents(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="top 0"):
        Documents(tmp_path, top=0)
    worker = Documents(tmp_path)
    tmp_path.rmdir()  # noqa: ASYNC240  (a test)
    with pytest.raises(WorkerUnavailable, match="cannot be read"):
        await ask(worker, "zebra")


@pytest.mark.parametrize(
    ("visible", "answer"),
    [
        (_SHOWN, "**What is 3 + 4?**\n\n3 + 4 = 7\n\n**Find \\*it\\***\n\n[a.md:1]\n\n# It\n\n> text"),
        ((VisibleStep(0, "x", " y\n"),), " y\n"),
        ((), None),
    ],
)
async def test_gather_joins_the_visible_steps(visible: tuple[VisibleStep, ...], answer: str | None) -> None:
    if answer is not None:
        assert await ask(Gather(), "gather", *visible) == answer
        return
    with pytest.raises(WorkerRefused, match="nothing to gather"):
        await ask(Gather(), "gather")


@pytest.mark.parametrize(
    ("worker", "subtask", "outputs", "answer"),
    [
        pytest.param(Join(), "Join.", ["b\n", "1.50"], "b\n\n1.50", id="outputs, word for word"),
        pytest.param(Join(), "Join.", ['["b", null, 1]'], "b\n\n1", id="the items of a map"),
        pytest.param(Join(), '{"b": 1.50}', ["x", "y"], '{"b": 1.50}', id="an object as subtask"),
        pytest.param(Join(), "[null]", ["x", "y"], None, id="nothing to join"),
        pytest.param(Vote(), "Vote.", ["b", " a", "a\n"], "a", id="votes of texts"),
        pytest.param(Vote(), '[true, 1, "1", 1.0]', [], "1", id="votes are JSON"),
        pytest.param(Vote(), '[{"b": [1, 2]}, {"b": [1.0, 2]}, "x"]', [], '{"b":[1,2]}', id="objects"),
        pytest.param(Vote(), "Vote.", [""], None, id="no vote"),
    ],
)
async def test_what_is_joined_and_elected(worker: Worker, subtask: str, outputs: Any, answer: Any) -> None:
    """A gap, and the null of a failed item, is neither a text nor a vote."""
    seen = [VisibleStep(n, "x", text, "" if text else "it failed") for n, text in enumerate(outputs)]
    if answer is not None:
        assert await ask(worker, subtask, *seen) == answer
        return
    with pytest.raises(WorkerRefused, match="nothing to join or to vote on"):
        await ask(worker, subtask, *seen)


async def test_a_run_that_finds_nothing_is_partial(folder: Path) -> None:
    result = await Conductor(RulePlanner(), [Documents(folder)]).run("Where is the zebra unicorn?")
    assert (result.status, result.answer[:10]) == ("partial", "No passage")
    assert "nothing was found" in result.problem.message
