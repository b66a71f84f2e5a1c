"""Puts the models of one server into the preset `server`: its workers, its planner, its request format."""

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit

import anyio

from podium.errors import ConfigError, WorkerError
from podium.workers.openai.endpoint import Endpoint
from podium.workers.openai.model_list import ListedModel, list_models, rank_models
from podium.workers.openai.providers import COMPATIBLE, provider_of_owner

SECONDS = 10.0
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
