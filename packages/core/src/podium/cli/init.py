"""`podium init`: write a `podium.toml` to start from, with the models of keys and servers that it finds."""

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Literal, NamedTuple
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
LOCAL = {8000: "vLLM", 11434: "Ollama", 8080: "llama.cpp"}
"""The ports of this machine at which a server of models is looked for."""
_LOOK_SECONDS = 2.0
_MOST = 3
"""Maximum number of models of a server that become workers."""
_OTHERS = 12
"""Maximum number of further models that the file names."""
_UNPRICED = "no price is known, so a limit on cost cannot hold: write the `price` of each worker"
_NO_MODEL = "CHOOSE-A-MODEL"
Preset = Literal["providers", "server", "vllm", "conductor", "fugu", "offline"]


def init(
    path: Annotated[Path, typer.Argument(help="The file to write.")] = Path("podium.toml"),
    *,
    preset: Annotated[
        Preset | None,
        typer.Option(
            help="providers: OpenAI, Anthropic and Gemini; server: any server with OpenAI's API; "
            "vllm: your own vLLM server; conductor: a conductor that you trained; fugu: a hosted conductor; "
            "offline: no model. Default: the providers whose keys are set, else a server on this machine.",
            show_default=False,
        ),
    ] = None,
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
    """Write a podium.toml, with the newest models.

    Without a preset, the command lists the models of each provider whose key is in the environment, or else
    of a server on this machine (vLLM, Ollama or llama.cpp), and writes the newest or largest into the file.
    With the preset `server`, it lists the models of the server at --base-url; no key is needed.
    OPENAI_BASE_URL, ANTHROPIC_BASE_URL, GEMINI_BASE_URL and SAKANA_BASE_URL replace the URLs of these
    providers.
    """
    with reporting() as screen:
        if preset != "server" and (base_url is not None or key_env is not None):
            raise ConfigError(
                "--base-url and --key-env need --preset server: add this option, or "
                "leave out --base-url and --key-env"
            )
        if path.is_dir():
            path /= "podium.toml"
        if path.exists() and not force:
            raise ConfigError(f"{path} already exists: overwrite it with --force")
        if preset == "server":
            sources = [_find_server(base_url, key_env).source(offline=offline)]
        elif preset in (None, "providers"):
            sources = anyio.run(partial(_found, looks_here=preset is None, offline=offline))
        else:
            sources = []
        if sources:
            text, told = _text_of(sources), [line for source in sources for line in source.told]
        else:
            assert preset is not None
            text, told = _of_file(preset)
        try:
            with path.open("w" if force else "x", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise ConfigError(f"{path} cannot be written: {why_unwritable(error)}") from error
        for line in told:
            screen.note(f"podium: {line}")
        screen.note(
            f"podium: wrote {path}; `podium check` calls each worker once, and says what a run may cost"
        )


class _Worker(NamedTuple):
    """A worker to write."""

    name: str
    model: str
    description: str
    window: int = 0
    """Its context window in tokens; 0 if it is unknown."""


@dataclass(frozen=True, slots=True)
class _Source:
    """An endpoint to write, with its workers."""

    name: str
    base_url: str
    provider: str
    key_env: str | None
    workers: Sequence[_Worker]
    is_usable: bool = True
    """Whether a model was found; else the lines are comments."""
    told: Sequence[str] = ()
    """What to say about it."""
    others: str = ""
    """Names of further models."""
    is_slow: bool = False

    def written(self, line: str) -> str:
        """Return a line, as a comment if no model was found."""
        return line if self.is_usable else f"# {line}"

    def endpoint(self) -> str:
        """Return its line in `[endpoints]`."""
        keys = [("base_url", self.base_url), ("provider", self.provider), ("key_env", self.key_env)]
        pairs = [f"{name} = {_toml(value)}" for name, value in keys if value is not None]
        pairs += ["timeouts = { first_byte = 300, total = 900 }"] if self.is_slow else []
        return f"{self.name} = {{ {', '.join(pairs)} }}"

    def worker(self, worker: _Worker) -> str:
        """Return the line of a worker in `[workers]`."""
        keys = [("endpoint", self.name), ("model", worker.model), ("description", worker.description)]
        pairs = [f"{name} = {_toml(value)}" for name, value in keys]
        pairs += [f"context_window = {worker.window}"] if worker.window else []
        return f"{worker.name} = {{ {', '.join(pairs)} }}"


def _toml(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _text_of(sources: Sequence[_Source]) -> str:
    """Return the text of the file."""
    lines = ["# Written by `podium init`. Keys stay in the environment.", "[endpoints]"]
    lines += [source.written(source.endpoint()) for source in sources]
    lines += ["", "[workers]   # the planner chooses by the descriptions: write what each is good at"]
    for source in sources:
        lines += [source.written(source.worker(worker)) for worker in source.workers]
        lines += [f"# {source.others}"] if source.others else []
    planner = next(source.workers[0].name for source in sources if source.is_usable)
    lines += ["", "[planner]", f'worker = "{planner}"   # its model writes the plans']
    lines += [
        "",
        "[limits]",
        "seconds = 900",
        "# cost = 0.50   # USD of a run; needs the price of each worker",
    ]
    return "\n".join(lines) + "\n"


class _Provider(NamedTuple):
    """A provider whose key may be in the environment."""

    name: str
    base_url: str
    worker: str
    description: str

    @property
    def variable(self) -> str:
        """The beginning of the names of its variables."""
        return self.name.upper()


_PROVIDERS = (
    _Provider(
        "openai", "https://api.openai.com/v1", "gpt", "Strong general reasoning, mathematics and code."
    ),
    _Provider(
        "anthropic",
        "https://api.anthropic.com/v1",
        "claude",
        "Careful writing, code review and long documents.",
    ),
    _Provider(
        "gemini",
        "https://generativelanguage.googleapis.com/v1beta/openai",
        "gemini",
        "Science, mathematics and very long contexts.",
    ),
)


async def _found(*, looks_here: bool, offline: bool) -> list[_Source]:
    """Return the providers whose keys are set, or else, if `looks_here`, a server on this machine.

    With `offline`, return all providers, without models.

    Raises:
        ConfigError: nothing was found.
    """
    keyed = [each for each in _PROVIDERS if os.environ.get(f"{each.variable}_API_KEY", "").strip()]
    bare = [_source_of(each) for each in _PROVIDERS]  # also checks the URLs of the environment
    if offline:
        return bare
    found: dict[str, _Source] = {}

    async def ask(provider: _Provider) -> None:
        found[provider.name] = await _asked(provider)

    async with anyio.create_task_group() as asking:
        for each in keyed:
            asking.start_soon(ask, each)
    sources = [found[each.name] for each in keyed]
    if any(source.is_usable for source in sources):
        return sources
    problems = [source.told[-1] for source in sources]
    if looks_here and (local := await find_local()) is not None:
        url, models = local
        return [replace(_of_models(url, None, models), told=[*problems, f"URL {url}, found on this machine"])]
    variables = ", ".join(f"{each.variable}_API_KEY" for each in _PROVIDERS)
    why = "; ".join(problems) or f"no key of a provider is set ({variables})"
    here = ", ".join(f"{name} at port {port}" for port, name in LOCAL.items())
    looked = f", and no server with models was found on this machine ({here})" if looks_here else ""
    raise ConfigError(
        f"{why}{looked}: set a key, name a server with `--preset server --base-url URL`, write a file to "
        "complete with --offline, or use no model with `--preset offline`"
    )


def _source_of(provider: _Provider) -> _Source:
    """Return a provider without models, with the URL of the environment if there is one.

    A URL without a path gets the path of the provider's URL.
    """
    variable, url, told = f"{provider.variable}_BASE_URL", provider.base_url, []
    if given := os.environ.get(variable, "").strip():
        url = _checked(variable, given, urlsplit(url).path)
        told = [f"{provider.name}: URL {url} from the environment"]
    worker = _Worker(provider.worker, _NO_MODEL, provider.description)
    return _Source(provider.name, url, provider.name, f"{provider.variable}_API_KEY", [worker], told=told)


async def _asked(provider: _Provider) -> _Source:
    """Return a provider with its newest model, or without one and with the reason."""
    source, row = _source_of(provider), find_provider(provider.name)
    key = os.environ[f"{provider.variable}_API_KEY"].strip()
    headers = {**row.list_headers, **({row.list_key_header: key} if row.list_key_header else {})}
    problem = "it lists no chat model"
    try:
        endpoint = Endpoint(source.base_url, api_key=key, provider=row, headers=headers)
        listed = await list_models(endpoint, deadline=anyio.current_time() + SECONDS)
        model = choose_model(listed, source.base_url)
    except PodiumError as error:
        model, problem = None, str(error)
    if model is None:
        told = f"{provider.name}: no model found ({problem})"
        return replace(source, is_usable=False, told=[*source.told, told])
    worker = _Worker(provider.worker, model, provider.description)
    return replace(source, workers=[worker], told=[*source.told, f"{provider.name}: {model}"])


async def find_local() -> tuple[str, Sequence[ListedModel]] | None:
    """Return the URL and the models of the first server on this machine that lists a chat model."""
    for port in LOCAL:
        url = f"http://localhost:{port}/v1"
        try:
            endpoint = Endpoint(url, provider=COMPATIBLE)
            listed = await list_models(endpoint, deadline=anyio.current_time() + _LOOK_SECONDS)
        except PodiumError:  # nothing is there, or something else
            continue
        if rank_models(listed):
            return url, listed
    return None


def _of_file(preset: Preset) -> tuple[str, list[str]]:
    """Return the text of a preset, with the URL of its provider in the environment, and a line for it."""
    text = (files("podium") / "config" / "presets" / f"{preset}.toml").read_text(encoding="utf-8")
    told = list[str]()
    for url, key in re.findall(
        r'^base_url = "(.+)"$(?:\n(?!\[).*)*?\nkey_env = "(\w+)_API_KEY"', text, re.MULTILINE
    ):
        if given := os.environ.get(f"{key}_BASE_URL", "").strip():
            new = _checked(f"{key}_BASE_URL", given, urlsplit(url).path)
            text = text.replace(f'base_url = "{url}"', f"base_url = {_toml(new)}")
            told.append(f"URL {new} from the environment")
    return text, told


def _checked(source: str, given: str, path: str) -> str:
    """Return a URL from an option or a variable, with `path` if it has none."""
    try:
        url = Endpoint(given).base_url
    except ConfigError as error:
        raise ConfigError(f"{source} is invalid: {error}") from error
    return url if urlsplit(url).path else url + path


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

    def source(self, *, offline: bool) -> _Source:
        """Return the endpoint with the models of the server; with `offline`, with the place for one."""
        listed = [ListedModel(_NO_MODEL, 0.0)] if offline else anyio.run(self._listed)
        if not rank_models(listed):
            names = ", ".join(model.name for model in listed[:_OTHERS])
            told = f"{self.base_url} lists no model for chat, only {names}: load a chat model there"
            raise ConfigError(told)
        return _of_models(self.base_url, self.key_env, listed)

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


def _of_models(base_url: str, key_env: str | None, listed: Sequence[ListedModel]) -> _Source:
    """Return a server with its largest models as workers; one model becomes two workers."""
    provider, models = provider_of_owner(model.owner for model in listed), rank_models(listed)
    workers = list[_Worker]()
    if len(models) == 1:
        told = ("Solves problems step by step, writes and explains.", "Checks a solution, and corrects it.")
        for name, description in zip(("solver", "checker"), told, strict=True):
            workers.append(_Worker(name, models[0].name, description, models[0].context_window or 0))
    else:
        for place, model in enumerate(models[:_MOST]):
            name = _name(model.name, [worker.name for worker in workers])
            workers.append(_Worker(name, model.name, _description(place, models), model.context_window or 0))
    others = [model.name for model in models[_MOST : _MOST + _OTHERS]]
    more = ", …" if len(models) > _MOST + _OTHERS else ""
    return _Source(
        "server",
        base_url,
        provider,
        key_env,
        workers,
        told=[f"URL {base_url}", *(f"model {model.name}" for model in models[:_MOST]), _UNPRICED],
        others=f"Other models of the server: {', '.join(others)}{more}" if others else "",
        is_slow=True,
    )


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
