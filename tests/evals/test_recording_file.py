"""Recordings: as files, found by content, selected, scored, and refused if they are something else."""

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from podium.usage import Usage
from podium.workers import Price, PriceTier
from podium_evals.errors import RecordingInvalid
from podium_evals.recorded import (
    DatedPrice,
    PriceTable,
    Provenance,
    Question,
    Recording,
    Recordings,
    Sample,
    content_key,
    read_recordings,
    recorded_pool,
    write_recordings,
)

SKY = Question(id="sky", kind="colours", level="easy", text="What colour is\nthe sky?", expected="blue")
SEA = Question(id="sea", kind="colours", text="¿De qué color es el mar? 🌊", split_key="water")
SHORT = Price(input=1.0, output=4.0, cached_input=0.1)
LONG = replace(SHORT, tiers=(PriceTier(above=1000, price=Price(input=2.0, output=8.0)),))
BLUE = Sample(text="blue", score=1.0, usage=Usage(3, 40, reasoning_tokens=30), latency_s=0.5)
AZUL = Sample(text="azul", score=0.25, usage=Usage(5, 6, estimated=True), asked_on=date(2026, 11, 22))
WHOLE = Recordings(
    [
        Recording(SKY, "a", (BLUE,)),
        Recording(SKY, "b", (Sample(text="", score=0.0), Sample(text="grey"))),
        Recording(SEA, "a", (AZUL,)),
    ],
    Provenance(source="here", revision="r1", licence="CC0-1.0", citation="Us 2026"),
    prices=PriceTable(
        DatedPrice(worker="a", as_of=date(2026, 11, day), price=price, source="the worker's card")
        for day, price in ((22, LONG), (23, SHORT))
    ),
)


@pytest.mark.parametrize("name", ["r.jsonl", "r.jsonl.gz"])
def test_what_is_written_is_read(tmp_path: Path, name: str) -> None:
    write_recordings(WHOLE, tmp_path / name)
    read = read_recordings(tmp_path / name)
    assert (list(read), read.provenance) == (list(WHOLE), WHOLE.provenance)
    assert list(read.prices) == list(WHOLE.prices)
    for part in (read.only(["a"]), read.where(lambda question: question.kind == "colours")):
        assert recorded_pool(part)[0].card.price == SHORT
    first = read.prices.at(read.workers[0], date(2026, 11, 22))
    assert first is not None
    assert first.price == LONG


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no line has the type"),
        ("no JSON\n", "cannot be read"),
        ('{"type": "other"}\n', "the type 'other' is unknown"),
        ('{"type": "recording", "version": 9}\n', "version 9"),
        ('{"type": "recording", "version": 1}\n', "line 1 is not a row of a recording: it lacks"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(text)
    with pytest.raises(RecordingInvalid, match=told):
        read_recordings(path)


def test_lines_that_are_cut_or_lost(tmp_path: Path) -> None:
    """One that a kill cut is left out; a file without a question of a sample is not read in part."""
    path = tmp_path / "r.jsonl"
    write_recordings(WHOLE, path)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines)[:-5])
    assert list(read_recordings(path)) == list(WHOLE)[:-1]
    path.write_text("".join(line for line in lines if '"question", "id": "sea"' not in line))
    with pytest.raises(RecordingInvalid, match="a question that is missing"):
        read_recordings(path)


RED = Question(id="q/red", kind="colours", text="What colour is a ripe tomato?")
AZURE = Question(id="q/blue", kind="colours", text="What colour is the sky?")
TWO = Question(id="q/two", kind="numbers", text="What is 1 + 1?")
MADE = Recordings(
    [
        Recording(RED, "a", (Sample(text="red", score=1.0), Sample(text="pink", score=0.5))),
        Recording(RED, "b", (Sample(text="RED", score=1.0),)),
        Recording(AZURE, "a", (Sample(text="blue", score=1.0),)),
        Recording(TWO, "b", (Sample(text="2", score=1.0),)),
        Recording(TWO, "a", (Sample(text="3", score=0.0),)),
    ]
)
"""Three questions, of which `b` was not asked one."""


def test_a_question_is_found_by_its_content() -> None:
    """Line ends, outer spaces and forms of Unicode do not count; inner spaces do, as in a grid."""
    sky = "What colour is the sky?"
    for text in (sky, f"  {sky}\r\n", f"\n{sky}   \n"):
        assert MADE.find(text) is AZURE
    assert MADE.find("What colour is  the sky?") is None
    assert content_key("caf\u00e9") == content_key("cafe\u0301")


def test_only_what_all_workers_were_asked() -> None:
    """A comparison is fair on common questions only."""
    assert (MADE.only(["a", "b"]).questions, MADE.only(["a"]).questions) == ((RED, TWO), (RED, AZURE, TWO))
    for names, told in ((["a", "c"], "'c'"), ([], "at least one")):
        with pytest.raises(RecordingInvalid, match=told):
            MADE.only(names)


def test_an_answer_that_some_worker_gave_has_its_score() -> None:
    """So the answers of reducers are scored; an answer that nobody gave is not guessed at."""
    assert [MADE.score(RED, answer) for answer in (" pink\n", "  ", "crimson")] == [0.5, 0.0, None]
