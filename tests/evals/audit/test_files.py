"""Files of all kinds: bad rows, documents, compressed files, traces in pieces."""

import json
from hashlib import sha256
from pathlib import Path

import pytest
from evals.audit import exports
from evals.audit.exports import Made, lines

from podium.errors import ConfigError
from podium_evals.audit import Report, audit

ROWS = [exports.langsmith(Made(id=f"c{n}", trace=f"t{n // 2}", at=float(n))) for n in range(6)]


def figures(report: Report) -> tuple[int, int, int]:
    return report.queries, report.total.calls, report.total.input_tokens


def test_bad_rows_are_counted_and_named(tmp_path: Path) -> None:
    """The first of them with line and reason; the others are read."""
    bad = [
        "{",
        '["a", 3]',
        '{"hello": 1}',
        '{"id": "", "run_type": "llm"}',
        "nonsense",
        "[" * 100_000,
        json.dumps(exports.langsmith_step(id="x", child_runs=7)),
    ]
    path = lines(tmp_path / "export.jsonl", [ROWS[0], *bad, "", *ROWS[1:]])
    report = audit([path])
    assert figures(report) == (3, 6, 6000)
    (source,) = report.sources
    assert (source.bad_rows, len(source.problems), source.rows) == (8, 5, {"langsmith": 6})
    assert source.problems[0].startswith("line 2: no JSON: Expecting property name")
    assert source.problems[1:4] == [
        "line 3, item 1: the item is not an object",
        "line 3, item 2: the item is not an object",
        "line 4: no run, span, request or response; it has 'hello'",
    ]
    assert source.problems[4] == "line 5: the run has no id"


def test_fields_of_other_types_do_not_end_it(tmp_path: Path) -> None:
    """Each field of a row is replaced by values of other types; the row is read, or is bad."""
    made = [
        exports.langsmith(Made()),
        exports.current(Made()),
        exports.pair(Made()),
        exports.batch_output(Made()),
    ]
    odd = [None, -1, [3], {"a": []}, 1e400, "\ud800"]
    rows = [row | {key: value} for row in made for key in row for value in odd]
    path = lines(tmp_path / "odd.jsonl", [json.dumps(row) for row in [*rows, *ROWS]])
    report = audit([path])
    assert report.total.calls >= 6
    assert report.total.cost >= 0


@pytest.mark.parametrize("indent", [None, 1])
def test_arrays_and_documents(tmp_path: Path, indent: int | None) -> None:
    """APIs return a list in an object; people save arrays, on one line or many; OTLP has a day of spans."""
    path = tmp_path / "export.json"
    runs = (ROWS, {"runs": ROWS, "cursors": {}}, {"object": "list", "data": ROWS})
    spans = [exports.current(Made(id=f"c{n}", at=float(n))) for n in range(4)]
    whole = exports.resource(*spans)
    documents = (whole, [whole], spans, [exports.resource(span) for span in spans])
    for values, told in ((runs, (3, 6, 6000)), (documents, (1, 4, 4000))):
        for value in values:
            path.write_text(json.dumps(value, indent=indent))
            assert figures(audit([path])) == told


def test_a_document_that_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "export.json"
    path.write_text(json.dumps(ROWS)[:-200])
    report = audit([path])
    assert report.total.calls == 5
    assert report.sources[0].problems[0].startswith("after item 5: the rest cannot be read: ")


def test_a_document_that_is_nested_too_deeply(tmp_path: Path) -> None:
    """It is not read to its end, which would take minutes."""
    path = tmp_path / "deep.json"
    path.write_text("[" * 200_000)
    with pytest.raises(ConfigError, match="nested too deeply"):
        audit([path])


@pytest.mark.long
def test_compressed_files(tmp_path: Path) -> None:
    """With gzip; a file that ends early is read up to there."""
    path = lines(tmp_path / "export.jsonl.gz", ROWS)
    assert figures(audit([path])) == (3, 6, 6000)
    many = [row | {"note": sha256(str(n).encode()).hexdigest()} for n in range(500) for row in ROWS]
    whole = lines(tmp_path / "many.jsonl.gz", many).read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    report = audit([path])
    assert report.total.calls == 6
    assert report.sources[0].problems[0].startswith("the end: the file ends early: ")


def test_byte_order_marks(tmp_path: Path) -> None:
    """Windows writes one before UTF-8; UTF-16 is refused with a hint."""
    path = lines(tmp_path / "export.jsonl", ROWS)
    text = path.read_text()
    path.write_text(text, encoding="utf-8-sig")
    assert figures(audit([path])) == (3, 6, 6000)
    path.write_text(text, encoding="utf-16")
    with pytest.raises(ConfigError, match="UTF-16: save it as UTF-8"):
        audit([path])


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b" \n\n", "is empty"),
        (b"PAR1\x00\x00", "a Parquet file"),
        (b"\x1f\x8bnot gzip at all", "cannot be read"),
        (b"[]", "the document: the document has no runs"),
        (b"a,b,c\n1,2,3\n", "no model call was found"),
        (b'{"resourceMetrics": []}\n', "readable rows: 1"),
        (b"\x00\xff\xfe\x00\n" * 5, "the line is not UTF-8"),
    ],
)
def test_files_without_calls(tmp_path: Path, content: bytes, told: str) -> None:
    path = tmp_path / "export.bin"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=told):
        audit([path])


def test_spans_in_any_order_and_in_several_files(tmp_path: Path) -> None:
    """The order of rows and files does not change a figure."""
    rows = [
        exports.langsmith_step(),
        *(exports.langsmith(Made(id=f"c{n}", parent="root", at=n)) for n in range(4)),
    ]
    whole = audit([lines(tmp_path / "whole.jsonl", rows)])
    shuffled = [rows[n] for n in (3, 1, 4, 0, 2)]
    halves = [lines(tmp_path / "1.jsonl", shuffled[:2]), lines(tmp_path / "2.jsonl", shuffled[2:])]
    parts = audit(halves)
    told = (parts.total, parts.latency, parts.expensive, parts.models, parts.steps, parts.findings)
    assert told == (whole.total, whole.latency, whole.expensive, whole.models, whole.steps, whole.findings)
    assert whole.latency.p50 == pytest.approx(5.0)


def test_duplicates_count_once(tmp_path: Path) -> None:
    """Exporters send a span again after a timeout; the record with an end completes the one without."""
    started = exports.langsmith(Made(seconds=None, read=None, written=None))
    done = exports.langsmith(Made())
    for rows in ([started, done, done], [done, done, started]):
        report = audit([lines(tmp_path / "export.jsonl", rows)])
        assert figures(report) == (1, 1, 1000)
        assert report.doubts["duplicates"] == 1
        assert report.findings == ()


def test_bad_spans_of_a_line(tmp_path: Path) -> None:
    """A line of OTLP has many spans; the others are read."""
    good = exports.current(Made())
    line = exports.resource(good, {"traceId": "t1"}, 7, good | {"spanId": "c2"})
    broken = {"resourceSpans": [{"scopeSpans": {"spans": []}}]}
    report = audit([lines(tmp_path / "export.jsonl", [line, broken])])
    assert (report.total.calls, report.sources[0].rows) == (2, {"otlp": 2})
    assert report.sources[0].problems == [
        "line 1, span 2: no run, span, request or response; it has 'traceId'",
        "line 1, span 3: the span is not an object",
        "line 2: scopeSpans is not a list of objects",
    ]


def test_a_large_document_on_one_line(tmp_path: Path) -> None:
    """It is read in pieces, too."""
    text = "word " * 50_000
    spans = [
        exports.current(Made(id=f"c{n}", prompt=({"role": "user", "content": f"{n} {text}"},)))
        for n in range(8)
    ]
    path = tmp_path / "export.json"
    path.write_text(json.dumps(exports.resource(*spans)))
    assert path.stat().st_size > 2**20
    assert figures(audit([path])) == (1, 8, 8000)
