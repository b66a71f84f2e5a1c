"""Measures all parts, and writes the page."""

import argparse
from pathlib import Path

import anyio
from rich.console import Console

from benchmarks.evidence.measuring import PARTS, Measured, measure
from benchmarks.evidence.page import write_page
from benchmarks.evidence.recordings import read_public
from podium_evals.recorded import Recordings

DATA = Path("data")
PAGE = Path("docs/evidence-results.md")


async def measure_all(data: Path, console: Console) -> list[Measured]:
    """Measure all parts. All files are read before minutes are spent."""
    read = dict[tuple[str, str], Recordings]()
    for part in PARTS:
        if (part.recording, part.pool) not in read:
            read[part.recording, part.pool] = read_public(part.recording, part.pool, data)
    found = []
    for number, part in enumerate(PARTS, 1):
        with console.status(f"{number} of {len(PARTS)}: {part.name}"):
            found.append(await measure(part, read[part.recording, part.pool]))
        console.print(f"{number} of {len(PARTS)}: {part.name}")
    return found


def main() -> None:
    """Write the page, its picture and its file of figures."""
    parser = argparse.ArgumentParser(description="Writes the page of results on recorded answers.")
    parser.add_argument("--data", type=Path, default=DATA, help="folder with the recordings")
    parser.add_argument("--out", type=Path, default=PAGE, help="the page")
    options = parser.parse_args()
    write_page(anyio.run(measure_all, options.data, Console(stderr=True)), options.out)


if __name__ == "__main__":
    main()
