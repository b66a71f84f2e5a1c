"""`podium init`: write a commented `podium.toml` to start from."""

import os
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Literal

import typer

from podium.cli.base_urls import use_base_urls
from podium.cli.model_proposals import Proposal, propose_models
from podium.cli.screen import reporting
from podium.cli.server_models import find_server
from podium.config.files import why_unwritable
from podium.errors import ConfigError

SERVER = "server"
Preset = Literal["providers", "server", "vllm", "conductor", "fugu", "offline"]


def init(
    path: Annotated[Path, typer.Argument(help="The file to write.")] = Path("podium.toml"),
    *,
    preset: Annotated[
        Preset,
        typer.Option(
            help="providers: OpenAI, Anthropic and Gemini; server: any server with OpenAI's API; "
            "vllm: your own vLLM server; conductor: a conductor that you trained; fugu: a hosted conductor; "
            "offline: no model."
        ),
    ] = "providers",
    base_url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="For the preset server: its URL. Default: $OPENAI_BASE_URL."),
    ] = None,
    key_env: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="For the preset server: the variable that holds its key, if any."),
    ] = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="Do not ask endpoints for their models.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Write a commented podium.toml to start from.

    With the preset `providers`, the command lists the models of each endpoint whose key is in the
    environment, and writes the newest into the file. With the preset `server`, it lists the models of the
    server at --base-url, and writes up to three as workers; no key is needed. OPENAI_BASE_URL,
    ANTHROPIC_BASE_URL, GEMINI_BASE_URL and SAKANA_BASE_URL replace the URLs of presets that use these
    providers.
    """
    with reporting() as screen:
        if preset != SERVER and (base_url is not None or key_env is not None):
            raise ConfigError(
                f"--base-url and --key-env need --preset {SERVER}: add this option, or "
                f"leave out --base-url and --key-env"
            )
        if path.is_dir():
            path /= "podium.toml"
        if path.exists() and not force:
            raise ConfigError(f"{path} already exists: overwrite it with --force")
        text = (files("podium") / "config" / "presets" / f"{preset}.toml").read_text(encoding="utf-8")
        if preset == SERVER:
            server = find_server(base_url, key_env)
            text, models = server.fill(text, offline=offline)
            told = [f"URL {server.base_url}", *(f"model {model}" for model in models)]
        else:
            text, told = _of_providers(text, asks=preset == "providers" and not offline)
        _write(path, text, force=force)
        for line in told:
            screen.note(f"podium: {line}")
        screen.note(f"podium: wrote {path}; read its first lines, then run `podium check`")


def _of_providers(text: str, *, asks: bool) -> tuple[str, list[str]]:
    """Return a preset with URLs and models, and a line for each.

    Args:
        text: the preset.
        asks: whether the endpoints are asked for their models.

    Raises:
        ConfigError: a base URL in the environment is invalid.
    """
    text, urls = use_base_urls(text, os.environ)
    proposals: list[Proposal] = []
    if asks:
        text, proposals = propose_models(text)
    told = [f"{name}: URL {url} from the environment" for name, url in urls.items()]
    if asks and urls:
        told.append(f"for several models of one server: `podium init --preset {SERVER} --base-url URL`")
    for each in proposals:
        found = each.model or f"no model found ({each.problem}): write one into the file"
        told.append(f"{each.endpoint}: {found}")
    return text, told


def _write(path: Path, text: str, *, force: bool) -> None:
    """Write the file.

    Raises:
        ConfigError: the file exists and `force` is false, or it cannot be written.
    """
    try:
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise ConfigError(f"{path} already exists: overwrite it with --force") from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {why_unwritable(error)}") from error
