"""`podium init`: write a commented `podium.toml` to start from."""

import json
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

import anyio
import typer

from podium.cli.screen import reporting
from podium.config.source import why_unwritable
from podium.errors import ConfigError, PodiumError, WorkerError
from podium.workers.openai.endpoint import Endpoint
from podium.workers.openai.models import ListedModel, choose_model, list_models, rank_models
from podium.workers.openai.providers import COMPATIBLE, find_provider, provider_of_owner

SECONDS = 10.0
"""Timeout for all lists of models together, in seconds."""
_MOST = 3
"""Maximum number of models that become workers."""
_OTHERS = 12
"""Maximum number of further models that the file names."""
_UNPRICED = "no price is known, so a limit on cost cannot hold: write the `price` of each worker"
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
    """Write a commented podium.toml, with the newest models.

    With the preset `providers`, the command lists the models of each endpoint whose key is in the
    environment, and writes the newest into the file. With the preset `server`, it lists the models of the
    server at --base-url, and writes up to three as workers; no key is needed. OPENAI_BASE_URL,
    ANTHROPIC_BASE_URL, GEMINI_BASE_URL and SAKANA_BASE_URL replace the URLs of presets that use these
    providers.
    """
    with reporting() as screen:
        is_server = preset == "server"
        if not is_server and (base_url is not None or key_env is not None):
            raise ConfigError(
                "--base-url and --key-env need --preset server: add this option, or "
                "leave out --base-url and --key-env"
            )
        if path.is_dir():
            path /= "podium.toml"
        if path.exists() and not force:
            raise ConfigError(f"{path} already exists: overwrite it with --force")
        text = (files("podium") / "config" / "presets" / f"{preset}.toml").read_text(encoding="utf-8")
        if is_server:
            text, told = _find_server(base_url, key_env).fill(text, offline=offline)
        else:
            text, told = _of_providers(text, asks=preset == "providers" and not offline)
        try:
            with path.open("w" if force else "x", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise ConfigError(f"{path} cannot be written: {why_unwritable(error)}") from error
        for line in told:
            screen.note(f"podium: {line}")
        screen.note(f"podium: wrote {path}; read its first lines, then run `podium check`")


def _of_providers(preset: str, *, asks: bool) -> tuple[str, list[str]]:
    """Return a preset with the URLs of the environment and with models, and a line for each.

    An endpoint whose key is in `NAME_API_KEY` takes its URL from `NAME_BASE_URL`; a URL without a path gets
    the path of the preset's URL. If any endpoint has a model, endpoints without one are commented out, with
    their workers.
    """
    told = list[str]()
    for name, table in tomllib.loads(preset).get("endpoints", {}).items():
        provider = table.get("key_env", "").removesuffix("_API_KEY")
        given = os.environ.get(f"{provider}_BASE_URL", "").strip()
        if provider and given:
            url = _checked(f"{provider}_BASE_URL", given, urlsplit(table["base_url"]).path)
            preset = preset.replace(_line(table["base_url"]), _line(url))
            told.append(f"{name}: URL {url} from the environment")
    if not asks:
        return preset, told
    if told:
        told.append("for several models of one server: `podium init --preset server --base-url URL`")
    whole = tomllib.loads(preset)
    chosen = anyio.run(_choose_all, whole["endpoints"])
    for name, (model, problem) in chosen.items():
        told.append(f"{name}: {model or f'no model found ({problem}): write one into the file'}")
    able = (name for name, worker in whole["workers"].items() if chosen[worker["endpoint"]][0])
    if planner := next(able, None):
        models = {name: model for name, (model, _) in chosen.items()}
        blocks = re.split(r"^(?=\[)", preset, flags=re.MULTILINE)
        preset = "".join(_filled(block, models, planner) for block in blocks)
    return preset, told


async def _choose_all(endpoints: Mapping[str, Mapping[str, str]]) -> dict[str, tuple[str | None, str]]:
    """Return the newest model of each endpoint, or `None` and why there is none."""
    found: dict[str, tuple[str | None, str]] = dict.fromkeys(endpoints, (None, ""))

    async def choose(name: str) -> None:
        found[name] = await _choose(endpoints[name])

    async with anyio.create_task_group() as asking:
        for name in endpoints:
            asking.start_soon(choose, name)
    return found


async def _choose(endpoint: Mapping[str, str]) -> tuple[str | None, str]:
    key, provider = os.environ.get(endpoint["key_env"], "").strip(), find_provider(endpoint["provider"])
    if not key:
        return None, f"{endpoint['key_env']} is not set"
    header = provider.list_key_header
    headers = {**provider.list_headers, **({header: key} if header else {})}
    url = endpoint["base_url"]
    try:
        asked = Endpoint(url, api_key=key, provider=provider, headers=headers)
        listed = await list_models(asked, deadline=anyio.current_time() + SECONDS)
    except PodiumError as error:
        return None, str(error)
    return choose_model(listed, url), "it lists no chat model"


def _filled(block: str, models: Mapping[str, str | None], planner: str) -> str:
    """Return a table of the preset with its model; commented out if its endpoint has no model."""
    tables = tomllib.loads(block)
    if "planner" in tables:
        return re.sub(r'^worker = "\w+"', f'worker = "{planner}"', block, flags=re.MULTILINE)
    for name, table in (tables.get("endpoints") or tables.get("workers") or {}).items():
        if (model := models[table.get("endpoint", name)]) is None:
            return re.sub(r"^(?=[^#\n])", "# ", block, flags=re.MULTILINE)
        return re.sub(r"^model = .*$", f'model = "{model}"', block, flags=re.MULTILINE)
    return block


def _checked(source: str, given: str, path: str) -> str:
    """Return a URL from an option or a variable, with `path` if it has none."""
    try:
        url = Endpoint(given).base_url
    except ConfigError as error:
        raise ConfigError(f"{source} is invalid: {error}") from error
    return url if urlsplit(url).path else url + path


def _line(url: str) -> str:
    return f"base_url = {json.dumps(url, ensure_ascii=False)}\n"


def _find_server(base_url: str | None, key_env: str | None) -> "Server":
    """Return the server of the options, or of the environment.

    `OPENAI_API_KEY` is used only with the URL of `OPENAI_BASE_URL`, so that it is sent to no other server.
    """
    given = (base_url if base_url is not None else os.environ.get("OPENAI_BASE_URL", "")).strip()
    if not given:
        raise ConfigError(
            "the preset 'server' needs the URL of the server: write it as in --base-url "
            "http://localhost:8000/v1, or set OPENAI_BASE_URL"
        )
    source = "OPENAI_BASE_URL" if base_url is None else "--base-url"
    url = _checked(source, given if "://" in given else f"http://{given}", "/v1")
    if key_env is None and base_url is None and os.environ.get("OPENAI_API_KEY", "").strip():
        key_env = "OPENAI_API_KEY"
    if key_env is not None and not re.fullmatch("[A-Z_][A-Z0-9_]*", key_env):  # not quoted: it may be a key
        raise ConfigError(
            "--key-env is not the name of an environment variable: write one, never the key itself"
        )
    key = None if key_env is None else os.environ.get(key_env, "").strip()
    if key == "":
        raise ConfigError(
            f"the environment variable {key_env} is not set: set it to the key, or leave out --key-env"
        )
    return Server(url, key_env, key)


@dataclass(frozen=True, slots=True)
class Server:
    """The server of the preset."""

    base_url: str
    key_env: str | None
    """The environment variable with its key; `None` if no key is sent."""
    key: str | None

    def fill(self, preset: str, *, offline: bool) -> tuple[str, list[str]]:
        """Return the preset with the server and its models, unless `offline`, and a line for each."""
        listed = [] if offline else anyio.run(self._listed)
        found = provider_of_owner(model.owner for model in listed)
        text = preset.replace('"http://localhost:8000/v1"', json.dumps(self.base_url))
        text = text.replace(f'"{COMPATIBLE}"', json.dumps(found), 1)
        if self.key_env is not None:
            written = f"key_env = {json.dumps(self.key_env)}   #"
            text = text.replace('# key_env = "SERVER_API_KEY"   #', written)
        models = rank_models(listed)
        if listed and not models:
            names = ", ".join(model.name for model in listed[:_OTHERS])
            told = f"{self.base_url} lists no model for chat, only {names}: load a chat model there"
            raise ConfigError(told)
        named = [f"model {model.name}" for model in models[:_MOST]]
        lines = [f"URL {self.base_url}", *named, _UNPRICED]
        return _with_workers(text, models) if models else text, lines

    async def _listed(self) -> Sequence[ListedModel]:
        try:
            endpoint = Endpoint(self.base_url, api_key=self.key, provider=COMPATIBLE)
            listed = await list_models(endpoint, deadline=anyio.current_time() + SECONDS)
        except WorkerError as error:
            told = f"the server does not list its models: {error}; {self._remedy(error)}"
            raise ConfigError(told) from error
        if not listed:
            raise ConfigError(
                f"{self.base_url} lists no models: load a model there, or write the file with --offline"
            )
        return listed

    def _remedy(self, error: WorkerError) -> str:
        match error.status:
            case 401 | 403 if self.key_env is None:
                return "name the environment variable with its key, as in --key-env SERVER_API_KEY"
            case 401 | 403:
                return f"check the key in {self.key_env}"
            case 404:
                return "check the path of the URL, which often ends in /v1"
            case _:
                return "start the server, correct the URL, or write the file without models with --offline"


def _with_workers(text: str, models: Sequence[ListedModel]) -> str:
    """Return the preset with a worker for each model; one model keeps the two workers of the preset."""
    sections = re.split(r"^(?=\[)", text, flags=re.MULTILINE)
    if len(models) == 1:
        filled = text.replace('"CHOOSE-A-MODEL"', json.dumps(models[0].name))
        return re.sub(r"^(model = .*)$", rf"\1{_window(models[0])}", filled, flags=re.MULTILINE)
    at = [number for number, section in enumerate(sections) if section.startswith("[workers.")]
    price = next(line for line in sections[at[0]].splitlines() if "price = " in line)
    workers, names = [], list[str]()
    for place, model in enumerate(models[:_MOST]):
        names.append(_name(model.name, names))
        workers.append(
            f"[workers.{names[-1]}]\n"
            'endpoint = "server"\n'
            f"model = {json.dumps(model.name)}{_window(model)}\n"
            f'description = "{_description(place, models)}"\n{price}\n\n'
        )
    others = [model.name for model in models[_MOST : _MOST + _OTHERS]]
    if others:
        more = ", …" if len(models) > _MOST + _OTHERS else ""
        workers.append(f"# Other models of the server: {', '.join(others)}{more}\n\n")
    sections[at[0] : at[-1] + 1] = workers
    return "".join(sections).replace('worker = "solver"', f'worker = "{names[0]}"')


def _window(model: ListedModel) -> str:
    return f"\ncontext_window = {model.context_window}" if model.context_window else ""


def _description(place: int, models: Sequence[ListedModel]) -> str:
    if place == 0:
        return "Strong general reasoning, mathematics, code and writing."
    if models[place].size < models[0].size:
        return "Fast answers to simple questions, short texts."
    return "General questions and writing."


def _name(model: str, taken: Sequence[str]) -> str:
    """Return a name for the worker of a model, which TOML can have without quotes."""
    name = re.sub(r"[^a-z0-9]+", "-", model.rsplit("/", 1)[-1].lower()).strip("-")[:40] or "model"
    return name if name not in taken else f"{name}-{len(taken) + 1}"
