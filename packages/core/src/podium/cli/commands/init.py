"""`podium init`: writes a commented `podium.toml` to start from."""

from importlib.resources import files
from pathlib import Path

from podium.cli.screen import Screen
from podium.errors import ConfigError


def write_preset(screen: Screen, preset: str, path: Path, *, force: bool) -> None:
    """Write the preset of that name to `path`, over what is there only with `force`.

    Raises:
        ConfigError: there is a file already, or it cannot be written.
    """
    text = (files("podium") / "config" / "presets" / f"{preset}.toml").read_text(encoding="utf-8")
    if path.is_dir():
        path /= "podium.toml"
    try:
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise ConfigError(f"{path} is there already: write it anew with --force") from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error}") from error
    screen.note(f"podium: wrote {path}; read its first lines, then run `podium check`")
