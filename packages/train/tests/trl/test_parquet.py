"""The mix reads sources that are published as Parquet; pyarrow comes with the trainers."""

from pathlib import Path

import pyarrow as pa
import pytest
from mix import write_mix
from pyarrow import parquet
from test_mix import ROWS, files

from podium.errors import ConfigError

__all__ = ["files"]


def test_parquet_gives_the_same_questions_as_json_lines(
    files: dict[str, Path | None], tmp_path: Path
) -> None:
    """Lists and objects inside rows included; a file that is cut is named."""
    tables = {kind: tmp_path / f"{kind}.parquet" for kind in ("mmlu", "rlpr")}
    for kind, path in tables.items():
        parquet.write_table(pa.Table.from_pylist(ROWS[kind]), path)
    plain, packed = tmp_path / "plain.jsonl", tmp_path / "packed.jsonl"
    assert write_mix(files, plain, each=4, seed=42) == 16
    assert write_mix({**files, **tables}, packed, each=4, seed=42) == 16
    assert packed.read_bytes() == plain.read_bytes()
    tables["mmlu"].write_bytes(tables["mmlu"].read_bytes()[:-9])
    with pytest.raises(ConfigError, match=r"mmlu\.parquet cannot be read"):
        write_mix({**files, **tables}, tmp_path / "cut.jsonl", each=4, seed=42)
