"""Keeps measured results in a folder, so that nothing is measured twice.

The key of kept answers is a digest of all that they depend on: the recorded answers, the setting, the arm,
and the source of both packages. After a change of the source, no kept answers are found.
"""

import json
import os
import shutil
from collections import defaultdict
from dataclasses import asdict, astuple
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

import podium
import podium_evals
from podium_evals.arms import Arm, Tallies, Tally
from podium_evals.results import Setting
from podium_evals.router import Tiers

_OF_CORE = (
    "hosted.py",
    "replay.py",
    "hosts",
    "mcp",
    "a2a",
    "config",
    "cli",
)  # answers do not depend on these
_OF_EVALS = (
    "audit",
    "commands.py",
    "evidence",
    "grading",
    "plans",
    "recording",
    "results",
    "tasks",
    "tuning",
)
_OF_COMPARISONS = ("bootstrap.py", "comparison.py")
_OF_ARMS = ("evaluation.py", "given.py", "wrapped_planner.py")  # comparisons, and planners of users
_OTHER_SOURCE = frozenset((*_OF_CORE, *_OF_EVALS, *_OF_COMPARISONS, *_OF_ARMS))
"""Files and folders on which answers do not depend."""
_TIERS = TypeAdapter(Tiers)


class KeptAnswers:
    """The tallies of arms and the tiers of routers in a folder, which is a cache.

    Args:
        folder: the folder; created if it is missing.
    """

    def __init__(self, folder: Path) -> None:
        self._root = folder
        self._folder = folder / source_digest()[:16]

    def read(self, fingerprint: str, setting: Setting, arm: Arm) -> Tallies | None:
        """Return the tallies of an arm; `None` if they are not kept, or their file is damaged."""
        try:
            kept = json.loads(self._path(fingerprint, setting, arm).read_text("utf-8"))
            of_query = {key: Tally(*values) for key, values in kept["of_query"].items()}
            tallies = Tallies(unrecorded=kept["unrecorded"], unfit=kept["unfit"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
        tallies.of_query = defaultdict(Tally, of_query)
        return tallies

    def write(self, fingerprint: str, setting: Setting, arm: Arm, tallies: Tallies) -> None:
        """Keep the tallies of an arm. A killed process leaves no partial file."""
        path = self._path(fingerprint, setting, arm)
        told = {
            "of_query": {key: astuple(tally) for key, tally in tallies.of_query.items()},
            "unrecorded": tallies.unrecorded,
            "unfit": tallies.unfit,
        }
        _replace(path, json.dumps(told).encode())

    def read_tiers(self, fingerprint: str, asked: object) -> Tiers | None:
        """Return tiers; `None` if they are not kept, or their file is damaged.

        Args:
            fingerprint: the fingerprint of the recordings.
            asked: the goals.
        """
        try:
            return _TIERS.validate_json(self._path_of_tiers(fingerprint, asked).read_bytes())
        except (OSError, ValueError):
            return None

    def write_tiers(self, fingerprint: str, asked: object, tiers: Tiers) -> None:
        """Keep tiers. A killed process leaves no partial file."""
        _replace(self._path_of_tiers(fingerprint, asked), _TIERS.dump_json(tiers))

    def _path_of_tiers(self, fingerprint: str, asked: object) -> Path:
        return self._named(["tiers", fingerprint, asked, _digest_of_comparisons()])

    def forget_others(self) -> None:
        """Delete the answers that other versions of the source have kept."""
        for other in self._root.iterdir():
            if other != self._folder and other.is_dir():
                shutil.rmtree(other)

    def _path(self, fingerprint: str, setting: Setting, arm: Arm) -> Path:
        asked = asdict(setting)
        del asked["processes"]  # the figures do not depend on it
        return self._named([fingerprint, asked, type(arm).__qualname__, arm.name])

    def _named(self, key: object) -> Path:
        return self._folder / f"{sha256(json.dumps(key).encode()).hexdigest()[:32]}.json"


def _replace(path: Path, content: bytes) -> None:
    """Write a file. A killed process leaves no partial file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    begun = path.with_suffix(f".{os.getpid()}")
    begun.write_bytes(content)
    begun.replace(path)


@cache
def source_digest() -> str:
    """Return the SHA-256 of all source that answers depend on, and of the versions of numerical packages."""
    digest = sha256(repr([version(name) for name in ("numpy", "scikit-learn", "scipy")]).encode())
    for package in (podium, podium_evals):
        root = _folder(package)
        for file in sorted(root.rglob("*")):
            path = file.relative_to(root)
            if file.suffix in (".py", ".toml") and _OTHER_SOURCE.isdisjoint(path.parts):
                digest.update(str(path).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


@cache
def _digest_of_comparisons() -> str:
    """Return the SHA-256 of the source of intervals. Tiers depend on this source, but answers do not."""
    root = _folder(podium_evals) / "statistics"
    return sha256(b"\0".join((root / name).read_bytes() for name in _OF_COMPARISONS)).hexdigest()


def _folder(package: Any) -> Path:
    return Path(package.__file__).parent
