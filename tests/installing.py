"""Installs a distribution of one module for a test, as pip would."""

import sys
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from podium.config import add_ons
from podium.config.add_ons import AddOn

Install = Callable[..., None]


def installer(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Return a function that installs `name` with entry points and the source of its module.

    Args:
        folder: where modules and metadata are put; it is on the path for as long as the patch holds.
        monkeypatch: undoes it.
    """
    folder.mkdir()
    monkeypatch.setattr(add_ons, "installed", lambda group: entry_points(group=group))  # not kept
    monkeypatch.syspath_prepend(str(folder))

    def install(name: str, announces: str, source: str) -> None:
        module = name.replace("-", "_")
        (folder / f"{module}.py").write_text(source)
        facts = folder / f"{module}-1.0.dist-info"
        facts.mkdir()
        (facts / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\nSummary: Toys.\n"
        )
        (facts / "entry_points.txt").write_text(announces)
        monkeypatch.delitem(sys.modules, module, raising=False)

    return install


def known_add_ons(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the project know two more packages, which are not installed."""
    summaries = {
        "perform": "Perform the plan on a stage.",
        "rehearse": "Answer a file.",
        "evals.perform": "Play.",
    }
    theatre = AddOn("podium-theatre", summaries, ("theatre", "rehearse"))
    train = AddOn("podium-train", {"teach": "Train a conductor model."}, ("train",))
    monkeypatch.setattr(add_ons, "ADD_ONS", (*add_ons.ADD_ONS, theatre, train))
