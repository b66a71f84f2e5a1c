"""`podium init`: writes a commented `podium.toml` to start from."""

import os
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Literal

import typer

from podium.cli.base_urls import use_base_urls
from podium.cli.model_proposals import Proposal, propose_models
from podium.cli.screen import Screen, reporting
from podium.errors import ConfigError

Preset = Literal["providers", "vllm", "fugu", "offline"]


def init(
    path: Annotated[Path, typer.Argument(help="Where to write it.")] = Path("podium.toml"),
    *,
    preset: Annotated[
        Preset,
        typer.Option(
            help="providers: OpenAI, Anthropic and Gemini; vllm: one server of yours; "
            "fugu: a hosted conductor; offline: no model at all."
        ),
    ] = "providers",
    offline: Annotated[bool, typer.Option("--offline", help="Ask no endpoint for its models.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file that is there.")] = False,
) -> None:
    """Write a commented podium.toml to start from.

    For the preset `providers`, each endpoint whose key is in the environment is asked for its
    models, and the newest is proposed. OPENAI_BASE_URL, ANTHROPIC_BASE_URL, GEMINI_BASE_URL and
    SAKANA_BASE_URL replace the URLs of the preset.
    """
    with reporting() as screen:
        _write(screen, preset, path, offline=offline, force=force)


def _write(screen: Screen, preset: Preset, path: Path, *, offline: bool, force: bool) -> None:
    """Write the preset to `path`.

    Raises:
        ConfigError: the file exists and `force` is not given, it cannot be written, or a base URL in
            the environment is wrong.
    """
    text = (files("podium") / "config" / "presets" / f"{preset}.toml").read_text(encoding="utf-8")
    if path.is_dir():
        path /= "podium.toml"
    if path.exists() and not force:
        raise ConfigError(f"{path} is there already: write it anew with --force")
    text, urls = use_base_urls(text, os.environ)
    proposals: list[Proposal] = []
    if preset == "providers" and not offline:
        text, proposals = propose_models(text)
    try:
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise ConfigError(f"{path} is there already: write it anew with --force") from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error}") from error
    for name, url in urls.items():
        screen.note(f"podium: {name}: its URL is {url}, as the environment says")
    for proposal in proposals:
        found = proposal.model or f"no model proposed ({proposal.problem}): look it up"
        screen.note(f"podium: {proposal.endpoint}: {found}")
    screen.note(f"podium: wrote {path}; read its first lines, then run `podium check`")
