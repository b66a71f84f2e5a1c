"""The tables of `docs/limits.md`, which list every field with its default."""

import re
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pytest

from podium import Limits, Retry

PAGE = Path(__file__).parents[3] / "docs" / "limits.md"
ROW = re.compile(r"^\| `(\w+)` \|.*\| ([^|]+) \|$", re.MULTILINE)
STARTS = {Limits: "| field | bounds |", Retry: "`Retry`, and `[retry]` in `podium.toml`, have these fields:"}


@pytest.mark.parametrize("record", STARTS, ids=lambda record: record.__name__)
def test_the_table_has_every_field_with_its_default(record: type[Any]) -> None:
    text = PAGE.read_text("utf-8").partition(STARTS[record])[2]
    table = text[text.index("| `") :].partition("\n\n")[0]
    told = [(name, default.strip()) for name, default in ROW.findall(table)]
    assert told == [(field.name, _told(field)) for field in fields(record)]


def _told(field: Any) -> str:
    value = field.default if field.default is not MISSING else field.default_factory()
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, frozenset | dict | tuple):
        return ", ".join(sorted(value)) or "none"
    return str(value).lower() if isinstance(value, bool) else str(value)
