"""Small files in the form of the published recordings, made here."""

import gzip
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

STRONG, WEAK = "strong", "weak"


def dice_row(index: int, *, level: str = "easy", strong: float = 1.0, weak: float = 0.0) -> dict[str, Any]:
    """Return a row of Reasoning Gym with three samples of two models."""
    return {
        "level": level,
        "category": "arithmetic",
        "dataset": "dice",
        "index": index,
        "question": f"What is {index} + {index}?",
        "answers": {STRONG: [[str(2 * index), strong]] * 3, WEAK: [["7", weak], ["", weak], ["8", weak]]},
    }


def write_packed(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    return path
