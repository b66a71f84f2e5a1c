"""`podium demo`: from question to answer with nothing but this machine."""

import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

Podium = Callable[..., Result]


def test_demo_shows_all_there_is(podium: Podium, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plan, steps, answer with its source, and the line for real models."""
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    (tmp_path / "page.md").write_text("# Access\n\nAn access list decides what a step is shown.\n")
    result = podium("demo", "--folder", str(tmp_path))
    assert result.exit_code == 0
    assert "✓ 0 calculator" in result.stdout
    assert "Steps 0 and 1 ran in parallel" in result.stdout
    assert "409.5" in result.stdout
    assert "[page.md:" in result.stdout
    *_, key, init, _, server, _, run = result.stdout.splitlines()
    assert "export the key" in key
    assert init.endswith("podium init --preset providers")
    assert server.endswith("podium init --preset server --base-url http://localhost:8000/v1")
    assert "podium run 'What is 17.5%" in run


def test_demo_needs_no_folder(podium: Podium, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Installed anywhere, it searches pages that come with it."""
    monkeypatch.chdir(tmp_path)
    result = podium("demo")
    assert result.exit_code == 0
    assert "[plans.md:" in result.stdout


def test_command_that_is_not_on_the_path(
    podium: Podium, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lines for real models start the program with its own Python."""
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    said = podium("demo").stdout
    assert f"  {shlex.quote(sys.executable)} -m podium init --preset providers\n" in said
    assert f"  {shlex.quote(sys.executable)} -m podium run 'What" in said


def test_own_question_and_folder(podium: Podium, tmp_path: Path) -> None:
    """The user's question is answered from the user's folder."""
    (tmp_path / "cats.txt").write_text("The cat of the house is called Minka.\n")
    result = podium("demo", "What is 6 * 7, and what is the cat called?", "--folder", str(tmp_path))
    assert "Minka" in result.stdout
    assert "42" in result.stdout


def test_missing_folder_is_told(podium: Podium, tmp_path: Path) -> None:
    """A folder that is not there is told with the option that names another."""
    result = podium("demo", "--folder", str(tmp_path / "none"))
    assert result.exit_code == 2
    assert "--folder" in result.stderr
