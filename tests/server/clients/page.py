"""The blocks of `docs/server.md`."""

import re
from pathlib import Path

_PAGE = Path(__file__).parents[3] / "docs" / "server.md"


def blocks(heading: str) -> list[str]:
    """Return the blocks of text under a heading of the page."""
    section = _PAGE.read_text().partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"```text\n(.*?)```", section, re.DOTALL)
