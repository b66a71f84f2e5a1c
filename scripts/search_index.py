"""Changes the search index of the built site so that guides come before the Python reference.

The search of the site has no setting for this. It counts a word in a title three times, and the reference
has 2,000 titles. So the names of attributes and methods become the text of their class, not its docstring.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from scripts.reference_pages.public_names import ROOT

INDEX = ROOT / "site/build/search.json"
_PROSE = ("reference/podium-toml", "reference/command-line")
"""Pages of the reference which are for readers, as guides are."""
_MEMBER = 3
"""The level of the attributes and methods of a class."""


def guides_first(items: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the items of an index with one item for each class of the reference, without its docstrings."""
    found = list[dict[str, Any]]()
    named = dict[str, dict[str, Any]]()
    for item in items:
        place = item["location"]
        if not place.startswith("reference/") or place.startswith(_PROSE):
            found.append(item)
            continue
        owner = named.get(place.rpartition(".")[0])
        if item["level"] >= _MEMBER and owner is not None:
            owner["text"] += f" {item['title'].partition('<')[0].strip()}"
            continue
        named[place] = {**item, "text": "", "path": item["path"][:1]}
        found.append(named[place])
    return found


def change(index: Path) -> None:
    """Change the index in a file."""
    told = json.loads(index.read_text(encoding="utf-8"))
    told["items"] = guides_first(told["items"])
    index.write_text(json.dumps(told, ensure_ascii=False), encoding="utf-8")


if __name__ == "__main__":
    change(INDEX)
