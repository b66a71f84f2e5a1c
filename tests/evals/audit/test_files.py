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
        json.dumps(exports.langsmith_step(id="x", child_runs=[ROWS[0]])),
    ]
    path = lines(tmp_path / "export.jsonl", [ROWS[0], *bad, "", *ROWS[1:]])
    report = audit([path])
    assert figures(report) == (3, 6, 6000)
    (source,) = report.sources
    assert (source.bad_rows, len(source.problems), source.rows) == (8, 5, {"langsmith": 6})
    assert source.problems[0].startswith("line 2: no JSON: Expecting property name")
    assert source.problems[1:] == [
        "line 3, item 1: it is not an object",
        "line 3, item 2: it is not an object",
        "line 4: no run, span, request or response; it has 'hello'",
        "line 5: the run has no id",
    ]


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


@pytest.mark.long
def test_compressed_and_marked_files(tmp_path: Path) -> None:
    """With gzip; a file that ends early is read up to there; Windows writes a mark before UTF-8."""
    path = lines(tmp_path / "export.jsonl", ROWS)
    path.write_text(path.read_text(), encoding="utf-8-sig")
    assert figures(audit([path])) == (3, 6, 6000)
    path = lines(tmp_path / "export.jsonl.gz", ROWS)
    assert figures(audit([path])) == (3, 6, 6000)
    many = [row | {"note": sha256(str(n).encode()).hexdigest()} for n in range(500) for row in ROWS]
    whole = lines(tmp_path / "many.jsonl.gz", many).read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    report = audit([path])
    assert report.total.calls == 6
    assert report.sources[0].problems[0].startswith("the end: the file ends early: ")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b" \n\n", "is empty"),
        (b"\x1f\x8bnot gzip at all", "cannot be read"),
        (b"[]", "readable rows: 0; unreadable rows: 0"),
        (b'[\n{"id": "a"},\n', "no JSON: Expecting value"),
        (b"hello", "no JSON: Expecting value"),
        (b'{"id": "a", "run_type": nothing}', "no JSON: Expecting value"),
        (b'{"id": "a", "run_type": "ll', "the line is cut: Unterminated string"),
        (b"[" * 200_000, "nested too deeply"),
        (b"a,b,c\n1,2,3\n", "no model call was found"),
        (b'{"resourceMetrics": []}\n', "it has 'resourceMetrics'"),
        (b'{"resourceSpans": [{"scopeSpans": [{"spans": [7]}]}]}', "spans 1: it is not an object"),
        (b"\x00\xff\xfe\x00\n" * 5, "the line is not UTF-8"),
    ],
)
def test_files_without_calls(tmp_path: Path, content: bytes, told: str) -> None:
    path = tmp_path / "export.bin"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=told):
        audit([path])


def test_duplicates_count_once(tmp_path: Path) -> None:
    """Exporters send a span again after a timeout; the record with an end completes the one without."""
    started = exports.langsmith(Made(seconds=None, read=None, written=None))
    done = exports.langsmith(Made())
    for rows in ([started, done, done], [done, done, started]):
        report = audit([lines(tmp_path / "export.jsonl", rows)])
        assert (figures(report), report.doubts["duplicates"], report.findings) == ((1, 1, 1000), 1, ())
