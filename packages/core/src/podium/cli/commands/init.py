"""`podium init`: write a commented `podium.toml` to start from."""

import json
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from ipaddress import ip_address
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


def use_base_urls(preset: str, environ: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Return a preset with the base URLs from the environment, and these URLs by endpoint.

    An endpoint whose key is in `NAME_API_KEY` takes its URL from `NAME_BASE_URL`. A URL without a path
    gets the path of the preset's URL.

    Args:
        preset: the text of a config.
        environ: the environment variables.

    Raises:
        ConfigError: a variable has an invalid URL.
    """
    urls = {}
    for name, table in tomllib.loads(preset).get("endpoints", {}).items():
        default, provider = table["base_url"], table.get("key_env", "").removesuffix("_API_KEY")
        given = environ.get(f"{provider}_BASE_URL", "").strip()
        if provider and given:
            urls[name] = _checked(f"{provider}_BASE_URL", given, urlsplit(default).path)
            preset = preset.replace(_line(default), _line(urls[name]))
    return preset, urls


def _checked(variable: str, given: str, path: str) -> str:
    try:
        url = Endpoint(given).base_url
    except ConfigError as error:
        raise ConfigError(f"{variable} is invalid: {error}") from error
    return url if urlsplit(url).path else url + path


def _line(url: str) -> str:
    return f"base_url = {json.dumps(url, ensure_ascii=False)}\n"


SECONDS = 10.0
"""Timeout for all lists of models together, in seconds."""
_BLOCK = re.compile(r"^(?=\[)", re.MULTILINE)
_MODEL = re.compile(r"^model = .*$", re.MULTILINE)
_WORKER = re.compile(r'^worker = "\w+"', re.MULTILINE)
_LINE = re.compile(r"^(?=[^#\n])", re.MULTILINE)


@dataclass(slots=True)
class Proposal:
    """An endpoint of a preset, and the model proposed for it."""

    endpoint: str
    base_url: str
    key_env: str
    model: str | None = None
    """`None` if no model was found."""
    problem: str = "not asked"
    """Why there is no model."""


def propose_models(preset: str, environ: Mapping[str, str] = os.environ) -> tuple[str, list[Proposal]]:
    """Return a preset with a model for each endpoint that lists chat models, and the proposals.

    The endpoints are asked concurrently. If any endpoint has a model, endpoints without a model are
    commented out, with their workers.

    Args:
        preset: the text of a config.
        environ: the environment variables.
    """
    whole = tomllib.loads(preset)
    tables = whole.get("endpoints", {})
    proposals = {name: Proposal(name, table["base_url"], table["key_env"]) for name, table in tables.items()}
    anyio.run(_ask_all, list(proposals.values()), tables, environ)
    able = (name for name, worker in whole["workers"].items() if proposals[worker["endpoint"]].model)
    planner = next(able, None)
    blocks = [_filled(block, proposals, planner) for block in _BLOCK.split(preset)]
    return "".join(blocks), list(proposals.values())


async def _ask_all(
    proposals: list[Proposal], tables: Mapping[str, Mapping[str, str]], environ: Mapping[str, str]
) -> None:
    async with anyio.create_task_group() as asking:
        for proposal in proposals:
            if key := environ.get(proposal.key_env, "").strip():
                asking.start_soon(_ask, proposal, tables[proposal.endpoint]["provider"], key)
            else:
                proposal.problem = f"{proposal.key_env} is not set"


async def _ask(proposal: Proposal, provider: str, key: str) -> None:
    row = find_provider(provider)
    headers = {**row.list_headers, **({row.key_header: key} if row.key_header else {})}
    try:
        endpoint = Endpoint(proposal.base_url, api_key=key, provider=row, headers=headers)
        listed = await list_models(endpoint, deadline=anyio.current_time() + SECONDS)
    except PodiumError as error:
        proposal.problem = str(error)
        return
    proposal.model = choose_model(listed, proposal.base_url)
    proposal.problem = "it lists no chat model"


def _filled(block: str, proposals: Mapping[str, Proposal], planner: str | None) -> str:
    """Return a table of the preset with its model; commented out if its endpoint has no model.

    Args:
        block: the text of the table, and of the comments after it.
        proposals: the proposals by endpoint.
        planner: the worker that plans; `None` if no model was found, which leaves the table unchanged.
    """
    tables = tomllib.loads(block)
    if planner is None:
        return block
    if "planner" in tables:
        return _WORKER.sub(f'worker = "{planner}"', block)
    for kind in ("endpoints", "workers"):
        for name, table in tables.get(kind, {}).items():
            proposal = proposals[table.get("endpoint", name)]
            if proposal.model is None:
                return _LINE.sub("# ", block)
            return _MODEL.sub(f'model = "{proposal.model}"', block)
    return block


"""Timeout for the list of models, in seconds."""
_MOST = 3
"""Maximum number of models that become workers."""
_OTHERS = 12
"""Maximum number of further models that the file names."""
_URL, _KEY = "OPENAI_BASE_URL", "OPENAI_API_KEY"
_VARIABLE = re.compile("[A-Z_][A-Z0-9_]*")
_SECTION = re.compile(r"^(?=\[)", re.MULTILINE)
_PRICE = re.compile(r"^price = ", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """The server of the preset."""

    base_url: str
    key_env: str | None
    """The environment variable with its key; `None` if no key is sent."""
    key: str | None

    def fill(self, preset: str, *, offline: bool) -> tuple[str, list[str]]:
        """Return the preset with the server and its models, and the models that became workers.

        Args:
            preset: the text of the preset `server`.
            offline: whether the server is not asked, so that no model is named.

        Raises:
            ConfigError: the server does not answer, or lists no models for chat.
        """
        listed = [] if offline else anyio.run(self._listed)
        found = provider_of_owner(model.owner for model in listed)
        text = preset.replace('"http://localhost:8000/v1"', json.dumps(self.base_url))
        text = text.replace(f'"{COMPATIBLE}"', json.dumps(found), 1)
        if self.key_env is not None:
            text = text.replace(
                '# key_env = "SERVER_API_KEY"   #', f"key_env = {json.dumps(self.key_env)}   #"
            )
        if not _is_own(self.base_url):
            text = _PRICE.sub("# price = ", text)
        models = rank_models(listed)
        if listed and not models:
            names = ", ".join(model.name for model in listed[:_OTHERS])
            raise ConfigError(
                f"{self.base_url} lists no model for chat, only {names}: load a chat model there"
            )
        return (
            (_with_workers(text, models), [model.name for model in models[:_MOST]]) if models else (text, [])
        )

    async def _listed(self) -> Sequence[ListedModel]:
        try:
            endpoint = Endpoint(self.base_url, api_key=self.key, provider=COMPATIBLE)
            listed = await list_models(endpoint, deadline=anyio.current_time() + SECONDS)
        except WorkerError as error:
            raise ConfigError(
                f"the server does not list its models: {error}; {self._remedy(error)}"
            ) from error
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


def find_server(base_url: str | None, key_env: str | None, environ: Mapping[str, str] = os.environ) -> Server:
    """Return the server of the options, or of the environment.

    `OPENAI_API_KEY` is used only with the URL of `OPENAI_BASE_URL`, so that it is sent to no other server.

    Args:
        base_url: the value of `--base-url`; `None` for the URL in `OPENAI_BASE_URL`.
        key_env: the value of `--key-env`.
        environ: the environment variables.

    Raises:
        ConfigError: there is no URL, the URL is invalid, or the variable of the key is not set.
    """
    given = (base_url if base_url is not None else environ.get(_URL, "")).strip()
    if not given:
        raise ConfigError(
            "the preset 'server' needs the URL of the server: write it as in --base-url "
            f"http://localhost:8000/v1, or set {_URL}"
        )
    try:
        url = Endpoint(given if "://" in given else f"http://{given}").base_url
    except ConfigError as error:
        raise ConfigError(f"{_URL if base_url is None else '--base-url'} is invalid: {error}") from error
    if key_env is None and base_url is None and environ.get(_KEY, "").strip():
        key_env = _KEY
    if key_env is not None and not _VARIABLE.fullmatch(
        key_env
    ):  # the error does not quote it: it may be a key
        raise ConfigError(
            "--key-env is not the name of an environment variable: write one, never the key itself"
        )
    key = None if key_env is None else environ.get(key_env, "").strip()
    if key == "":
        raise ConfigError(
            f"the environment variable {key_env} is not set: set it to the key, or leave out --key-env"
        )
    return Server(base_url=url if urlsplit(url).path else f"{url}/v1", key_env=key_env, key=key)


def _is_own(url: str) -> bool:
    """Return whether a host is this machine or in a private network, so that its models have no price."""
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_private
    except ValueError:
        return "." not in host or host.endswith((".local", ".internal", ".lan"))


def _with_workers(text: str, models: Sequence[ListedModel]) -> str:
    """Return the preset with a worker for each model; one model keeps the two workers of the preset."""
    sections = _SECTION.split(text)
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
    sizes = [model.size for model in models[:_MOST]]
    if place == 0:
        return "Strong general reasoning, mathematics, code and writing."
    is_smaller = sizes[place] and sizes[0] and sizes[place] < sizes[0]
    return (
        "Fast answers to simple questions, short texts." if is_smaller else "General questions and writing."
    )


def _name(model: str, taken: Sequence[str]) -> str:
    """Return a name for the worker of a model, which TOML can have without quotes."""
    name = re.sub(r"[^a-z0-9]+", "-", model.rsplit("/", 1)[-1].lower()).strip("-")[:40] or "model"
    return name if name not in taken else f"{name}-{len(taken) + 1}"


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
