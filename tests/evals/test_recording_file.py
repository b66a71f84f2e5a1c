"""Recordings as files: written, read, and refused where they are something else."""

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
    read_recordings,
    recorded_pool,
    write_recordings,
)

SKY = Question(id="sky", kind="colours", level="easy", text="What colour is\nthe sky?", expected="blue")
SEA = Question(id="sea", kind="colours", text="¿De qué color es el mar? 🌊", split_key="water")
SHORT = Price(input=1.0, output=4.0, cached_input=0.1)
LONG = replace(SHORT, tiers=(PriceTier(above=1000, price=Price(input=2.0, output=8.0)),))
WHOLE = Recordings(
    [
        Recording(
            SKY,
            "a",
            (Sample(text="blue", score=1.0, usage=Usage(3, 40, reasoning_tokens=30), latency_s=0.5),),
        ),
        Recording(SKY, "b", (Sample(text="", score=0.0), Sample(text="grey"))),
        Recording(
            SEA,
            "a",
            (
                Sample(
                    text="azul", score=0.25, usage=Usage(5, 6, estimated=True), asked_on=date(2026, 11, 22)
                ),
            ),
        ),
    ],
    Provenance(source="here", revision="r1", licence="CC0-1.0", citation="Us 2026"),
    prices=PriceTable(
        [
            DatedPrice(worker="a", as_of=date(2026, 11, 22), price=LONG, source="the worker's card"),
            DatedPrice(worker="a", as_of=date(2026, 11, 23), price=SHORT, source="the worker's card"),
        ]
    ),
)


@pytest.mark.parametrize("name", ["r.jsonl", "r.jsonl.gz"])
def test_what_is_written_is_read(tmp_path: Path, name: str) -> None:
    write_recordings(WHOLE, tmp_path / name)
    read = read_recordings(tmp_path / name)
    assert list(read) == list(WHOLE)
    assert read.provenance == WHOLE.provenance
    assert list(read.prices) == list(WHOLE.prices)
    for part in (read.only(["a"]), read.where(lambda question: question.kind == "colours")):
        assert recorded_pool(part)[0].card.price == SHORT
    first = read.prices.at(read.workers[0], date(2026, 11, 22))
    assert first is not None
    assert first.price == LONG
    lines = tmp_path / "other.jsonl"
    head = tmp_path / "head.jsonl"
    write_recordings(Recordings([]), head)
    lines.write_text(
        head.read_text()
        + '{"type": "price", "worker": "a", "as_of": "2026-11-22", "source": "", "price": {}}\n'
    )
    with pytest.raises(RecordingInvalid, match="line 2 is not a row of a recording: it lacks"):
        read_recordings(lines)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no line has the type"),
        ("no JSON\n", "cannot be read"),
        ('{"type": "other"}\n', "the type 'other' is unknown"),
        ('{"type": "recording", "version": 9}\n', "version 9"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(text)
    with pytest.raises(RecordingInvalid, match=told):
        read_recordings(path)


def test_samples_need_their_question(tmp_path: Path) -> None:
    """A file whose lines were lost is not read in part."""
    path = tmp_path / "r.jsonl"
    write_recordings(WHOLE, path)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if '"question", "id": "sea"' not in line))
    with pytest.raises(RecordingInvalid, match="a question that is missing"):
        read_recordings(path)


def test_a_line_that_was_cut_is_left_out(tmp_path: Path) -> None:
    """As by a kill while it was written."""
    path = tmp_path / "r.jsonl"
    write_recordings(WHOLE, path)
    path.write_bytes(path.read_bytes()[:-5])
    assert list(read_recordings(path)) == list(WHOLE)[:-1]
