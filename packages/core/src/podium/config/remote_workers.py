"""Builds the remote workers of a config: MCP servers and A2A agents."""

from collections.abc import Mapping

from podium.a2a import AgentWorker, RemoteAgent
from podium.config.sections import A2aSection, McpSection
from podium.config.source import Source
from podium.config.variables import read_variable
from podium.mcp import McpServer, Stdio, StreamableHttp


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
