"""The offline workers: calculator, documents, gather."""

import contextlib
import os
import sys
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podium.errors import ConfigError, WorkerRefused, WorkerUnavailable
from podium.messages import Completion, Message
from podium.workers.calculator import Calculator
from podium.workers.documents import Documents
from podium.workers.gather import Gather
from podium.workers.worker import FREE, Brief, Request, Shown, Worker, complete

pytestmark = pytest.mark.anyio


async def ask(worker: Worker, subtask: str, *visible: Shown) -> str:
    """Return what `worker` answers to a subtask."""
    brief = Brief(subtask, visible)
    return (await complete(worker, Request(messages=(Message("user", subtask),), brief=brief))).text


@pytest.mark.parametrize(
    ("subtask", "answer"),
    [
        ("17 * 23 + 4", "17 * 23 + 4 = 395"),
        ("What is (12.5 - 3)^2?", "(12.5 - 3) ^ 2 = 90.25"),
        ("sqrt(2) * pi", "sqrt(2) * pi ≈ 4.44288293816"),
        ("0.1 + 0.2", "0.1 + 0.2 = 0.3"),
        ("1/3", "1 / 3 = 1/3 ≈ 0.333333333333"),
        ("2^-1", "2 ^ (-1) = 0.5"),
        ("-2^2", "-2 ^ 2 = -4"),
        ("2^3^2", "2 ^ 3 ^ 2 = 512"),
        ("(2^3)^2", "(2 ^ 3) ^ 2 = 64"),
        ("10 - (4 - 5)", "10 - (4 - 5) = 11"),
        ("17 % 5", "17 mod 5 = 2"),
        ("log10(1000)", "log10(1000) = 3"),
        ("max(3, 9, 2) - min(3,9,2)", "max(3, 9, 2) - min(3, 9, 2) = 7"),
        ("10^400 / 3", "10 ^ 400 / 3 ≈ 3.33333333333e+399"),
        ("5!", "factorial(5) = 120"),
        ("round(2.5) + floor(-1.5)", "round(2.5) + floor(-1.5) = 1"),
        ("1e3 + 1", "1e3 + 1 = 1001"),
        ("-7 mod 3", "-7 mod 3 = 2"),
        ("27^(1/3) + cbrt(-27)", "27 ^ (1 / 3) + cbrt(-27) ≈ 0"),
    ],
)
async def test_expressions_are_worked_out(subtask: str, answer: str) -> None:
    """An expression in signs is answered as understood, with its value, exact where possible."""
    assert await ask(Calculator(), subtask) == answer


@pytest.mark.parametrize(
    ("subtask", "answer"),
    [
        ("What is 17% of 2,340?", "17% of 2340 = 397.8"),
        ("340 plus 12 percent", "340 + 12% = 380.8"),
        ("a 15% discount on 80", "15% of 80 = 12\n80 - 15% = 68"),
        ("an 80 euro jacket with 15% off", "80 - 15% = 68"),
        ("20% tip on $45", "20% of 45 = 9\n45 + 20% = 54"),
        ("what percent of 80 is 20?", "20 as a percentage of 80 = 25%"),
        ("20 is what percent of 80", "20 as a percentage of 80 = 25%"),
        ("increase 200 by 10%", "200 + 10% = 220"),
        ("1000 * (1 + 5%)^3", "1000 * (1 + 5%) ^ 3 = 1157.625"),
        ("12% + 3%", "12% + 3% = 0.15"),
    ],
)
async def test_percentages(subtask: str, answer: str) -> None:
    """A percentage is taken of what people mean it to be of."""
    assert await ask(Calculator(), subtask) == answer


@pytest.mark.parametrize(
    ("subtask", "answer"),
    [
        ("what is 3 plus 4 minus 2 times 5", "3 + 4 - 2 * 5 = -3"),
        ("8 squared plus the square root of 16", "8 ^ 2 + sqrt(16) = 68"),
        ("2 to the power of 10", "2 ^ 10 = 1024"),
        ("the sum of 3, 4 and 5", "3 + 4 + 5 = 12"),
        ("the average of 3, 4 and 5 times 2", "(3 + 4 + 5) / 3 * 2 = 8"),
        ("average of 100,200,300", "(100 + 200 + 300) / 3 = 200"),
        ("the difference between 10 and 3", "10 - 3 = 7"),
        ("how many eggs is 3 dozen", "3 dozen = 36"),
        ("3 million / 4", "3 million / 4 = 750000"),
        ("two hundred and fifty plus twenty-five", "250 + 25 = 275"),
        ("subtract 5 apples from 12 apples", "12 - 5 = 7"),
        ("multiply 6 by 7", "6 * 7 = 42"),
        ("240 km divided by 3 hours", "240 / 3 = 80"),
        ("half of 80 plus 2", "80 / 2 + 2 = 42"),
        ("1/4 of 80", "1/4 of 80 = 20"),
        ("Sum 3, 4 and 5", "3 + 4 + 5 = 12"),
        ("the greatest common divisor of 12 and 18", "gcd(12, 18) = 6"),
    ],
)
async def test_words(subtask: str, answer: str) -> None:
    """Arithmetic in plain English is read as people mean it."""
    assert await ask(Calculator(), subtask) == answer


@pytest.mark.parametrize(
    ("subtask", "answer"),
    [
        ("$3.50 × 12", "3.50 * 12 = 42"),
        ("5² + √9 − 2 ÷ 4", "5 ^ 2 + sqrt(9) - 2 / 4 = 27.5"),
        ("What's ½ of 9?", "0.5 of 9 = 4.5"),
        ("３＋４", "3 + 4 = 7"),
        ("17 * 3 是多少？", "17 * 3 = 51"),
    ],
)
async def test_unicode(subtask: str, answer: str) -> None:
    """Typographic signs mean what their plain ones do."""
    assert await ask(Calculator(), subtask) == answer


async def test_several_expressions() -> None:
    """Each expression of a subtask has its line, one without a value among them."""
    answer = await ask(Calculator(), "What is 3+4? And 5*6? And 1/0?")
    assert answer == "3 + 4 = 7\n5 * 6 = 30\n1 / 0 is not worked out: division by zero"


async def test_that_refers_to_the_expression_before() -> None:
    """Within a subtask "that" is the expression before it."""
    assert (
        await ask(Calculator(), "Divide 100 by 8, then add 2 to that") == "100 / 8 = 12.5\n100 / 8 + 2 = 14.5"
    )


@pytest.mark.parametrize(
    "output", ["17 * 23 = 391", "15% of 80 = 12\n17 * 23 = 391", "The answer is 391.", "x ≈ 391"]
)
async def test_that_refers_to_the_step_before(output: str) -> None:
    """The result of the last visible step can be gone on from."""
    assert await ask(Calculator(), "multiply the result by 2", Shown(0, "17 * 23", output)) == "391 * 2 = 782"


async def test_that_needs_something_before() -> None:
    """Without a step before it "that" is no number, and neither is one of several."""
    with pytest.raises(WorkerRefused, match="no arithmetic"):
        await ask(Calculator(), "multiply that by 2")
    with pytest.raises(WorkerRefused, match="no arithmetic"):
        await ask(Calculator(), "multiply that by 2", Shown(0, "x", "between 3 and 5"))


@pytest.mark.parametrize(
    "subtask",
    [
        "",
        "Who wrote the journal?",
        "the years 2019-2021",
        "read pages 3-5 of the book",
        "on 2024-01-15 at 10:30",
        "version 1.2.3",
        "a 24/7 service for gpt-4",
        "The report of 2020 covers 3 companies",
        "__import__('os').system('true')",
        "\x00\ud800 \U0001f600",
    ],
)
async def test_no_arithmetic_is_refused(subtask: str) -> None:
    """A subtask without arithmetic is refused, and told how to write it."""
    with pytest.raises(WorkerRefused, match="no arithmetic found"):
        await ask(Calculator(), subtask)


@pytest.mark.parametrize(
    ("subtask", "reason"),
    [
        ("1/0", "division by zero"),
        ("0**-1", "division by zero"),
        ("5 mod 0", "division by zero"),
        ("9**9**9", "too large"),
        ("2^99999999", "too large"),
        ("2.5^9999.5", "too large"),
        ("999999!", "too large"),
        ("3!!!!", "too large"),
        ("sqrt(-1)", "no square root"),
        ("(-8)^(1/3)", "not defined"),
        ("log10(0)", "not defined"),
        ("2.5!", "whole number"),
        ("gcd(1.5, 2)", "whole numbers"),
        ("1+" * 5000 + "1", "more than 200 operations"),
        ("(" * 5000 + "1+1" + ")" * 5000, "nested more than 32"),
        ("2^" * 5000 + "2", "nested more than 32"),
        ("3 + " + "-" * 5000 + "1", "nested more than 32"),
        ("9" * 10_000 + " + 1", "more than 300 digits"),
        ("sum of " + "1, " * 4000, "more than 1000 numbers"),
        ("1 " * 10_000, "more than 16,384 characters"),
    ],
)
async def test_what_goes_too_far_is_refused(subtask: str, reason: str) -> None:
    """What has no value or is too large to work out is refused at once, with the reason."""
    with anyio.fail_after(10), pytest.raises(WorkerRefused, match=reason):
        await ask(Calculator(), subtask)


_NUMBERS = st.integers(0, 99).map(str)
_EXPRESSIONS = st.recursive(
    _NUMBERS,
    lambda inner: st.tuples(inner, st.sampled_from("+-*"), inner).map(lambda parts: f"({' '.join(parts)})"),
    max_leaves=12,
)


@given(expression=_EXPRESSIONS)
@settings(max_examples=100, deadline=None)
def test_brackets_and_signs_bind_as_in_python(expression: str) -> None:
    """An expression has the value it has elsewhere, and so has the expression as it was understood."""
    if " " in expression:
        answer = anyio.run(ask, Calculator(), expression)
        shown, _, value = answer.rpartition(" = ")
        assert int(value) == eval(expression) == eval(shown)  # noqa: S307 - our own digits and signs


_PIECES = (
    *(
        "17",
        "1,234.5",
        "0.5",
        "9" * 20,
        "+",
        "-",
        " * ",
        "/",
        "^",
        "%",
        "!",
        "(",
        ")",
        ",",
        ".",
        " of ",
        " and ",
        "²",
    ),
    *(
        "sum of ",
        "that ",
        "sqrt ",
        "plus ",
        "percent ",
        "add ",
        " to ",
        " by ",
        "discount ",
        "dozen ",
        "half of ",
        "is ",
    ),
)


@given(text=st.lists(st.sampled_from(_PIECES) | st.text(max_size=5), max_size=40).map("".join))
@settings(max_examples=200, deadline=None)
def test_any_text_is_worked_out_or_refused(text: str) -> None:
    """No text makes the calculator raise anything but a refusal."""
    with contextlib.suppress(WorkerRefused):
        assert anyio.run(ask, Calculator(), text, Shown(0, "x", "= 7"))


async def test_offline_workers_stream_and_cost_nothing(tmp_path: Path) -> None:
    """Where someone reads along, the text comes before the completion; the price is none."""
    for worker in (Calculator("sums"), Documents(tmp_path), Gather()):
        brief = Brief("1 + 1", (Shown(0, "x", "y"),))
        request = Request(messages=(Message("user", "1 + 1"),), brief=brief, stream=True)
        pieces = [piece async for piece in worker.call(request)]
        assert isinstance(pieces[-1], Completion)
        assert pieces[:-1] == [pieces[-1].text]
        assert worker.card.price == FREE
        assert worker.card.description


@pytest.mark.parametrize(("library", "module"), [("simpleeval", "arithmetic.exact"), ("bm25s", "ranking")])
async def test_a_missing_extra_is_named(
    library: str, module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its library a worker says what to install."""
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.delitem(sys.modules, f"podium.workers.{module}", raising=False)
    with pytest.raises(ConfigError, match=r"pip install 'podium\[offline\]'"):
        Calculator() if library == "simpleeval" else Documents(tmp_path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of documents."""
    (tmp_path / "guide.md").write_text(
        "# Guide\n\nWelcome.\n\n## Refunds\n\nA discount is granted to regular customers.\n"
        "Refunds take ten days.\n\n```\n# no heading\n```\n\n## Travel\n\nTrains leave at noon.\n",
        encoding="utf-8",
    )
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "deep" / "er" / "notes.TXT").write_text(
        "Der Preis: Gebühren für Straßen.\n", encoding="utf-8"
    )
    (tmp_path / "manual.rst").write_text(
        "Ledger\n======\n\nEvery ChatWorker books its tokens.\n", encoding="utf-8"
    )
    (tmp_path / "猫.md").write_text("# 動物\n\n黒猫が庭で寝ている。\n", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("question", "source", "passage"),
    [
        ("Which discounts are there?", "[guide.md:5] (Guide > Refunds)", "A discount is granted"),
        ("how long do REFUNDS take", "[guide.md:5] (Guide > Refunds)", "Refunds take ten days."),
        ("What do Gebuhren cost?", "[deep/er/notes.TXT:1]", "Der Preis: Gebühren für Straßen."),
        ("STRASSE GEBÜHREN", "[deep/er/notes.TXT:1]", "Gebühren"),
        ("what does a chat worker book", "[manual.rst:1] (Ledger)", "Every ChatWorker books its tokens."),
        ("猫", "[猫.md:1] (動物)", "黒猫が庭で寝ている。"),
        ("黒猫はどこですか", "[猫.md:1] (動物)", "黒猫が庭で寝ている。"),
    ],
)
async def test_documents_answer_with_passage_and_source(
    folder: Path, question: str, source: str, passage: str
) -> None:
    """The best passage comes first, word for word, under its file, line and headings."""
    answer = await ask(Documents(folder), question)
    assert answer.startswith(source)
    assert passage in answer


async def test_a_comment_in_a_code_block_is_no_heading(folder: Path) -> None:
    """Code blocks stay whole with the text they stand in."""
    answer = await ask(Documents(folder), "refunds")
    assert "```\n# no heading\n```" in answer


@pytest.mark.parametrize("question", ["zebra unicorn", "", "what is it", "\x00\ud800", "🦄"])
async def test_nothing_found_is_an_answer(folder: Path, question: str) -> None:
    """Where no passage speaks of it, the answer says so."""
    answer = await ask(Documents(folder), question)
    assert answer.startswith(f"No passage in '{folder.name}' speaks of")


async def test_an_empty_folder_has_no_passages(tmp_path: Path) -> None:
    """A folder without documents, and one of empty ones, are searched all the same."""
    (tmp_path / "empty.md").write_text("")
    (tmp_path / "heading.md").write_text("# Only a heading\n")
    assert (await ask(Documents(tmp_path), "heading")).startswith("No passage")


async def test_at_most_top_passages(tmp_path: Path) -> None:
    """The answer has at most as many passages as were asked for, equals in the order of their files."""
    for name in "dcba":
        (tmp_path / f"{name}.md").write_text("The ledger counts.\n")
    answer = await ask(Documents(tmp_path, top=2), "ledger")
    assert answer == "[a.md:1]\n\nThe ledger counts.\n\n[b.md:1]\n\nThe ledger counts."


async def test_long_texts_are_cut_between_lines(tmp_path: Path) -> None:
    """A passage stays short, knows its line, and begins with the last lines of the one before."""
    lines = [f"Line {number} speaks of topic{number} and of nothing else at all." for number in range(1, 401)]
    (tmp_path / "long.txt").write_text("\n".join(lines) + "\n" + "x" * 50_000)
    answer = await ask(Documents(tmp_path), "topic200")
    head, _, text = answer.split("\n\n")[0], "", answer.split("\n\n")[1]
    assert lines[199] in text
    assert len(text) < 2_000
    first = int(head.removeprefix("[long.txt:").removesuffix("]"))
    assert text.splitlines()[0] == lines[first - 1]


async def test_changes_are_seen(folder: Path) -> None:
    """A file that is new, changed or gone is so at the next call."""
    worker = Documents(folder)
    assert (await ask(worker, "zebra")).startswith("No passage")
    (folder / "zoo.md").write_text("A zebra lives here.\n")
    assert "A zebra lives here." in await ask(worker, "zebra")
    (folder / "zoo.md").write_text("A big zebra lives there.\n")
    assert "A big zebra lives there." in await ask(worker, "zebra")
    (folder / "zoo.md").unlink()
    assert (await ask(worker, "zebra")).startswith("No passage")


async def test_files_that_are_passed_over(tmp_path: Path) -> None:
    """Binary, huge, hidden and foreign files, links that lead out, and pipes are not read."""
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


async def test_a_link_within_the_folder_is_followed(tmp_path: Path) -> None:
    """A link to a file of the same folder is a document like any other."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "real.dat").write_text("A zebra.")
    (tmp_path / "link.md").symlink_to(tmp_path / "a" / "real.dat")
    assert (await ask(Documents(tmp_path), "zebra")).startswith("[link.md:1]")


async def test_bytes_that_are_no_utf8_are_replaced(tmp_path: Path) -> None:
    """A file in another encoding is read as far as that goes, a byte order mark left out."""
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfzebra caf\xe9")
    assert await ask(Documents(tmp_path), "zebra") == "[a.txt:1]\n\nzebra caf\N{REPLACEMENT CHARACTER}"


async def test_calls_at_the_same_time(folder: Path) -> None:
    """Calls that come before the folder was first read each get the answer."""
    worker, answers = Documents(folder), []

    async def search() -> None:
        answers.append(await ask(worker, "discount"))

    async with anyio.create_task_group() as group:
        for _ in range(8):
            group.start_soon(search)
    assert len(answers) == 8
    assert set(answers) == {await ask(worker, "discount")}


async def test_a_query_that_refers_back_searches_for_what_it_means(folder: Path) -> None:
    """The word "it" is what the visible steps were asked about."""
    answer = await ask(Documents(folder), "When does it leave?", Shown(0, "Are there trains?", "yes"))
    assert answer.startswith("[guide.md:14] (Guide > Travel)")


async def test_no_folder_is_a_config_error(tmp_path: Path) -> None:
    """A folder that does not exist, a file, and a senseless `top` are refused at once."""
    (tmp_path / "file.md").write_text("x")
    for wrong in (tmp_path / "nowhere", tmp_path / "file.md"):
        with pytest.raises(ConfigError, match="there is no folder"):
            Documents(wrong)
    with pytest.raises(ConfigError, match="top 0"):
        Documents(tmp_path, top=0)


async def test_a_folder_that_went_away(tmp_path: Path) -> None:
    """A folder that is gone by the time of a call is a failure of that call."""
    gone = tmp_path / "gone"
    gone.mkdir()
    worker = Documents(gone)
    gone.rmdir()
    with pytest.raises(WorkerUnavailable, match="cannot be read"):
        await ask(worker, "zebra")


async def test_names_and_descriptions_can_be_chosen(tmp_path: Path) -> None:
    """Two searches can stand in one pool, and say what they are for."""
    card = Documents(tmp_path, name="handbook", description="The handbook.").card
    assert (card.name, card.description) == ("handbook", "The handbook.")
    assert repr(tmp_path.name) in Documents(tmp_path).card.description


async def test_gather_joins_the_visible_steps() -> None:
    """Every output stands under its subtask, word for word."""
    shown = (Shown(0, "What is\n3 + 4?", "3 + 4 = 7"), Shown(2, "Find *it*", "[a.md:1]\n\n# It\n\n> text\n"))
    answer = await ask(Gather(), "gather", *shown)
    assert answer == "**What is 3 + 4?**\n\n3 + 4 = 7\n\n**Find \\*it\\***\n\n[a.md:1]\n\n# It\n\n> text"


async def test_gather_returns_a_single_output_as_it_is() -> None:
    """There is nothing to join with one step."""
    assert await ask(Gather("join"), "gather", Shown(0, "x", " y\n")) == " y\n"


async def test_gather_needs_a_visible_step() -> None:
    """Without a visible step there is nothing to gather."""
    with pytest.raises(WorkerRefused, match="nothing to gather"):
        await ask(Gather(), "gather")
