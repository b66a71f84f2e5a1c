"""`podium init`: a config to start from."""

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from podium.config import load_config
from podium.errors import ConfigError

Podium = Callable[..., Result]


def test_presets_make_a_conductor(podium: Podium, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With their keys set, the presets make conductors."""
    for variable in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "SAKANA_API_KEY"):
        monkeypatch.setenv(variable, "sk-0123456789")
    for preset in ("providers", "vllm", "fugu", "offline"):
        path = tmp_path / f"{preset}.toml"
        podium("init", "--offline", "--preset", preset, str(path))
        assert load_config(path).conductor().pool


def test_the_preset_of_a_trained_conductor(podium: Podium, tmp_path: Path) -> None:
    """It needs podium-train, which is not installed here; the error says how to install it."""
    path = tmp_path / "podium.toml"
    assert podium("init", "--preset", "conductor", str(path)).exit_code == 0
    with pytest.raises(ConfigError, match=r"'conductor' needs podium-train, which is not installed: .*train"):
        load_config(path)


def test_unwritable_path_is_told(podium: Podium, tmp_path: Path) -> None:
    """A path that cannot be written is no traceback."""
    result = podium("init", "--offline", str(tmp_path / "missing" / "podium.toml"))
    assert result.exit_code == 2
    assert "cannot be written" in result.stderr
