"""Counts phrases that are hard to read in the documentation and in the sources.

`words.json` has the number of phrases in each file. A higher number is an error. `python -m scripts.words
--lower` writes the lower numbers.
"""

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
BASELINE = Path(__file__).with_suffix(".json")
FILES = (
    "README.md",
    "AGENTS.md",
    "CHANGELOG.md",
    "docs/**/*.md",
    "packages/*/README.md",
    "packages/*/src/**/*.py",
)
GENERATED = ROOT / "docs/reference"
PHRASES = (
    r"c[ao]mes? to",
    r"whom(?:ever)?",
    r"who(?:ever| is)",
    r"take[sn]? up(?! to)",
    r"be it",
    r"that of",
    r"will do",
    r"anew",
    r"amid",
    r"lest",
    r"to no end",
    r"(?<!there )(?:is|are) no (?!longer|limit)\w+",
    r"as it (?:stands|came)",
    r"go(?:es)? on",
    r"what (?:came|comes|goes|stands)",
    r"what is (?:asked|told|wanted|said)",
    r"what it (?:holds|says|takes)",
    r"do(?:es)? as",
    r"passed over",
    r"where (?:there (?:is|are)|nothing)",
    r"stand(?:s|ing)? (?:in(?! for)|there|beside)",
)
_PATTERN = re.compile(rf"\b(?:{'|'.join(PHRASES)})\b", re.IGNORECASE)


def count(text: str) -> int:
    """Return the number of phrases in a text."""
    return len(_PATTERN.findall(" ".join(text.split())))


def counts(root: Path = ROOT) -> dict[str, int]:
    """Return the number of phrases in each file that has any."""
    files = sorted(
        {file for pattern in FILES for file in root.glob(pattern) if GENERATED not in file.parents}
    )
    found = {file.relative_to(root).as_posix(): count(file.read_text(encoding="utf-8")) for file in files}
    return {name: number for name, number in found.items() if number}


def complaints(now: Mapping[str, int], baseline: Mapping[str, int]) -> Iterator[str]:
    """Yield one line for each file with more phrases than the baseline allows."""
    for name, number in now.items():
        if number > (allowed := baseline.get(name, 0)):
            told = f"{name} has {number} phrases that are hard to read, {allowed} are allowed:"
            yield f"{told} {', '.join(_found(name))}"


def _found(name: str) -> list[str]:
    text = (ROOT / name).read_text(encoding="utf-8")
    return sorted({phrase.lower() for phrase in _PATTERN.findall(" ".join(text.split()))})


def main(arguments: list[str]) -> int:
    """Compare the files with the baseline; with `--lower`, lower the baseline."""
    baseline, now = json.loads(BASELINE.read_text(encoding="utf-8")), counts()
    wrong = list(complaints(now, baseline))
    if wrong:
        print("\n".join(wrong))
    elif "--lower" in arguments:
        BASELINE.write_text(json.dumps(now, indent=2) + "\n", encoding="utf-8")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
