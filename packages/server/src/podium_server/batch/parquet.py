"""Writes the lines of a batch as a Parquet file."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from podium.errors import ConfigError
from podium.installing import install_hint
from podium_server.batch.line_json import json_text
from podium_server.batch.output import rows

_AT_ONCE = 1000
"""Rows in memory at the same time."""


def check_installed() -> None:
    """Raise `ConfigError` if pyarrow is not installed."""
    try:
        import pyarrow as pa  # noqa: F401, PLC0415 - an extra
    except ImportError as error:
        told = "a Parquet file needs pyarrow, which is not installed"
        raise ConfigError(f"{told}: {install_hint('server[parquet]')}") from error


def write_results(source: Path, target: Path) -> None:
    """Write results as Parquet, in columns; values without a fixed form are JSON text."""
    _write((_result(row) for row in rows(source)), target, _RESULT)


def write_failures(source: Path, target: Path) -> None:
    """Write failures as Parquet: the input line as JSON text, and why it failed."""
    _write((_failure(row) for row in rows(source)), target, _FAILURE)


_RESULT: Mapping[str, str] = {
    "id": "string",
    "line": "int64",
    "run_id": "string",
    "status": "string",
    "answer": "string",
    "problem_code": "string",
    "problem_message": "string",
    "input_tokens": "int64",
    "output_tokens": "int64",
    "cached_tokens": "int64",
    "reasoning_tokens": "int64",
    "orchestration_input_tokens": "int64",
    "orchestration_output_tokens": "int64",
    "orchestration_cached_tokens": "int64",
    "estimated": "bool_",
    "cost": "float64",
    "seconds": "float64",
    "http_status": "int64",
    "body": "string",
}
_FAILURE: Mapping[str, str] = {
    "line": "int64",
    "run_id": "string",
    "status": "string",
    "code": "string",
    "message": "string",
    "input": "string",
}


def _result(row: Mapping[str, Any]) -> dict[str, Any]:
    state, response = row.get("podium", row), row.get("response") or {}
    body = response.get("body")
    usage = row.get("usage") or (body or {}).get("usage") or {}
    problem = row.get("problem") or row.get("error") or (body or {}).get("error") or {}
    return {
        **{name: state[name] for name in ("line", "run_id", "status", "cost", "seconds")},
        "id": row.get("custom_id", row["id"]),
        "answer": row.get("answer"),
        "problem_code": problem.get("code"),
        "problem_message": problem.get("message"),
        **_usage(usage),
        "http_status": response.get("status_code"),
        "body": None if body is None else json_text(body),
    }


def _usage(usage: Mapping[str, Any]) -> dict[str, Any]:
    """Return the counts of tokens, from the form of Podium, of chat completions or of the Responses API."""
    read = usage.get("prompt_tokens_details") or usage.get("input_tokens_details") or usage
    written = usage.get("completion_tokens_details") or usage.get("output_tokens_details") or usage
    cached = read.get("orchestration_input_cached_tokens", usage.get("orchestration_cached_tokens"))
    return {
        "input_tokens": usage.get("input_tokens", usage.get("prompt_tokens")),
        "output_tokens": usage.get("output_tokens", usage.get("completion_tokens")),
        "cached_tokens": read.get("cached_tokens"),
        "reasoning_tokens": written.get("reasoning_tokens"),
        "orchestration_input_tokens": read.get("orchestration_input_tokens"),
        "orchestration_output_tokens": written.get("orchestration_output_tokens"),
        "orchestration_cached_tokens": cached,
        "estimated": usage.get("estimated"),
    }


def _failure(row: Mapping[str, Any]) -> dict[str, Any]:
    given = {key: row[key] for key in row if key != "failure"}
    return {**row["failure"], "input": json_text(given)}


def _write(source: Iterator[dict[str, Any]], target: Path, columns: Mapping[str, str]) -> None:
    import pyarrow as pa  # noqa: PLC0415 - an extra
    from pyarrow import parquet  # noqa: PLC0415 - an extra

    schema = pa.schema([(name, getattr(pa, kind)()) for name, kind in columns.items()])
    new = target.with_name(f"{target.name}.new")
    with parquet.ParquetWriter(new, schema) as writer:
        for some in _chunks(source):
            writer.write_table(pa.Table.from_pylist([_storable(row) for row in some], schema=schema))
    new.replace(target)


def _storable(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with the code in place of half of a surrogate pair, which Parquet cannot store."""
    return {
        name: each.encode("utf-8", "backslashreplace").decode() if isinstance(each, str) else each
        for name, each in row.items()
    }


def _chunks(source: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    left = iter(source)
    while some := list(islice(left, _AT_ONCE)):
        yield some
