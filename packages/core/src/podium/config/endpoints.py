"""The endpoints and the remote workers of a config."""

import os
from collections.abc import Mapping

from podium.a2a import AgentWorker, RemoteAgent
from podium.config.files import KeyPath
from podium.config.sections import A2aSection, EndpointSection, McpSection
from podium.config.source import Source
from podium.errors import ConfigError
from podium.mcp import McpServer, Stdio, StreamableHttp
from podium.workers.openai.endpoint import Endpoint


def read_variable(source: Source, where: KeyPath, name: str, use: str, remedy: str) -> str:
    """Return the value of an environment variable.

    Args:
        source: the config that names it.
        where: the key that names it.
        name: its name.
        use: the purpose of the variable, as a part of the error message.
        remedy: the value to set, or another way to correct the config, as a part of the error message.

    Raises:
        ConfigError: the variable is not set or is empty.
    """
    value = os.environ.get(name, "").strip()
    if not value:
        unset = f"the environment variable {name} is not set, and {use}"
        raise ConfigError(source.told(where, f"{unset}: run `export {name}=...` {remedy}"))
    return value


class Endpoints:
    """Builds each endpoint once, so that its workers share its connections.

    Args:
        sections: the tables `[endpoints.NAME]`, by name.
        source: the text of the config.
        key_remedy: what to do if the environment has no key, for the message of the error.
    """

    def __init__(self, sections: Mapping[str, EndpointSection], source: Source, key_remedy: str) -> None:
        self._sections = sections
        self._source = source
        self._key_remedy = key_remedy
        self._built: dict[str, Endpoint] = {}

    def get(self, name: str) -> Endpoint:
        """Return the endpoint of `[endpoints.NAME]`, the same object each time.

        Raises:
            ConfigError: the environment variable of the key is not set, or the URL is invalid.
        """
        if name not in self._built:
            section = self._sections[name]
            key = None if section.key_env is None else self._key(name, section.key_env)
            with self._source.at("endpoints", name):
                self._built[name] = Endpoint(
                    section.base_url, api_key=key, provider=section.provider, timeouts=section.timeouts
                )
        return self._built[name]

    def _key(self, name: str, variable: str) -> str:
        use = f"[endpoints.{name}] reads its key from it"
        return read_variable(self._source, ("endpoints", name, "key_env"), variable, use, self._key_remedy)


def make_mcp_server(name: str, section: McpSection, source: Source) -> McpServer:
    """Return the MCP server of `[workers.NAME]` without starting it.

    Raises:
        ConfigError: a named environment variable is not set, or the command or URL is invalid.
    """
    variables = {variable: variable for variable in section.env_from}
    given = _values(name, "env_from", variables, source)
    headers = _values(name, "headers_env", section.headers_env, source)
    with source.at("workers", name):
        transport: Stdio | StreamableHttp
        if section.url is None:
            folder = source.path.parent if section.folder is None else source.near(section.folder)
            env = {**section.env, **given}
            transport = Stdio(section.command or "", section.args, env=env, folder=folder)
        else:
            transport = StreamableHttp(section.url, {**section.headers, **headers})
        return McpServer(name, transport, seconds=section.seconds, labels=section.labels, price=section.price)


def make_agent_worker(name: str, section: A2aSection, source: Source) -> AgentWorker:
    """Request the card of the A2A agent of `[workers.NAME]`, and return the agent as a worker.

    Raises:
        ConfigError: a named environment variable is not set, or the URL is invalid.
        WorkerError: the agent's card cannot be read.
    """
    headers = _values(name, "headers_env", section.headers_env, source)
    with source.at("workers", name):
        agent = RemoteAgent(section.url, headers={**section.headers, **headers}, seconds=section.seconds)
        return agent.worker_sync(
            acts=section.acts,
            name=name,
            description=section.description,
            price=section.price,
            labels=section.labels,
        )


def _values(name: str, key: str, variables: Mapping[str, str], source: Source) -> dict[str, str]:
    """Return the values of environment variables, with the keys of `variables`."""
    use = f"[workers.{name}] needs it"
    remedy = "with the value, or remove the worker"
    return {
        given: read_variable(source, ("workers", name, key), variable, use, remedy)
        for given, variable in variables.items()
    }
